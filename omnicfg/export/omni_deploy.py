"""``deploy.json``: the deploy language of vllm-omni as data; which keys there are, and who accepts them."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import importlib.util
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from omnicfg.export import source
from omnicfg.export.jsonable import jsonable
from omnicfg.export.omni_connectors import connector_entry_keys, connector_extra_keys, edge_keys
from omnicfg.export.omni_ignored import ignored, started_with
from omnicfg.export.omni_value_types import value_types

# The order in which omnicfg lists platforms; checked against the packages below vllm_omni/platforms.
PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")

# What a server accepts as session_mode of a pipeline with a duplex plugin (entrypoints/openai/api_server.py).
SESSION_MODES = ("turn", "duplex")

MODEL_RUNNERS = ("v1", "v2")


def export_deploy(version: str) -> dict[str, Any]:
    """The whole of ``deploy.json``.

    Raises:
        RuntimeError: where upstream has changed in a way that this exporter does not know.
    """
    from vllm_omni.config import stage_config
    from vllm_omni.config.stage_config import StageExecutionType

    return {
        "vllm_omni": version,
        "source": source.relative(str(stage_config.__file__)),
        "deploy_fields": _dataclass_fields(stage_config.DeployConfig),
        "stage_fields": _dataclass_fields(stage_config.StageDeployConfig),
        "duplex_session_fields": _dataclass_fields(stage_config.DuplexSessionRuntimeConfig),
        "pipeline_fields": _dataclass_fields(stage_config.PipelineConfig),
        "stage_pipeline_fields": _dataclass_fields(stage_config.StagePipelineConfig),
        "stage_reserved_keys": jsonable(stage_config._STAGE_RESERVED_KEYS),
        "deep_merge_keys": jsonable(stage_config._DEEP_MERGE_KEYS),
        "pipeline_wide_engine_fields": jsonable(stage_config.PIPELINE_WIDE_ENGINE_FIELDS),
        "execution_types": _execution_types(),
        "platforms": _platforms(),
        "model_runners": _model_runners(),
        "model_runner_v2_refused_on": _platforms_without_v2(),
        "session_modes": list(SESSION_MODES),
        "owners": (owners := _owners()),
        "value_types": {kind: value_types(StageExecutionType(kind), keys["stage"]) for kind, keys in owners.items()},
        "connectors": _connectors(),
        "connector_entry_keys": connector_entry_keys(),
        "connector_extra_keys": connector_extra_keys(),
        "edge_keys": edge_keys(),
        "engine_args": _engine_args(),
        "diffusion_args": _diffusion_args(),
        "diffusion_blocks": _diffusion_blocks(),
        "diffusion_choices": _diffusion_choices(),
        "diffusion_quantization": _diffusion_quantization(),
        "sampling_params": _sampling_params(),
        "diffusion_sampling_params": _diffusion_sampling_params(),
        "pooling_params": _pooling_params(),
    }


# --------------------------------------------------------------------------------------------------- fields
def _dataclass_fields(cls: type) -> list[dict[str, Any]]:
    """Name, type (as written), default and line of each field, in the order of the class.

    ``required`` stands in place of a default where there is none.
    """
    written = source.annotated_fields(cls)
    return [_field(field, written[field.name]) for field in dataclasses.fields(cls)]


def _field(field: dataclasses.Field[Any], written: source.Annotated) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": field.name, "type": written.type}
    if field.default is not dataclasses.MISSING:
        entry["default"] = _default(field.default)
    elif field.default_factory is not dataclasses.MISSING:
        entry["default"] = _default(field.default_factory())
    else:
        entry["required"] = True
    return entry | {"line": written.line, "file": written.file}


def _default(value: Any) -> Any:
    """A default as JSON: dataclasses as mappings, torch dtypes by name, pydantic fields by their default."""
    if type(value).__name__ == "FieldInfo":
        return _default(value.get_default(call_default_factory=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _default(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if type(value).__module__ == "torch":
        return str(value).removeprefix("torch.")
    return jsonable(value)


# ----------------------------------------------------------------------------------- execution and platforms
def _execution_types() -> dict[str, dict[str, Any]]:
    from vllm_omni.config import stage_config

    types: dict[str, dict[str, Any]] = {}
    for execution_type in stage_config.StageExecutionType:
        stage_type, worker_type = stage_config._resolve_execution_mode(execution_type)
        schedulers = {
            name: stage_config._scheduler_path(stage_config._resolve_scheduler(execution_type, asynchronous))
            for name, asynchronous in (("sync", False), ("async", True))
        }
        types[execution_type.value] = {
            "stage_type": stage_type.value,
            "worker_type": worker_type,
            "scheduler": schedulers,
        }
    return types


def _platforms() -> list[str]:
    import vllm_omni.platforms as package

    folders = {path.parent.name for path in Path(str(package.__file__)).parent.glob("*/__init__.py")}
    if folders != set(PLATFORMS):
        raise RuntimeError(f"vllm-omni has the platforms {sorted(folders)}, this exporter knows {sorted(PLATFORMS)}")
    return list(PLATFORMS)


def _model_runners() -> list[str]:
    """None before 0.30.0, whose deploy language is the first that chooses one."""
    from vllm_omni.config import stage_config

    field = source.annotated_fields(stage_config.DeployConfig).get("model_runner")
    if field is None:
        return []
    annotation = field.type
    if annotation != f"Literal[{', '.join(map(repr, MODEL_RUNNERS))}]":
        raise RuntimeError(f"model_runner is {annotation}, this exporter knows {MODEL_RUNNERS}")
    return list(MODEL_RUNNERS)


def _platforms_without_v2() -> list[str]:
    from vllm_omni.config import stage_config

    if not _model_runners():
        return []
    refused = []
    for platform in PLATFORMS:
        try:
            stage_config._apply_platform_overrides(stage_config.DeployConfig(model_runner="v2"), platform)
        except NotImplementedError:
            refused.append(platform)
    return refused


# --------------------------------------------------------------------------------------------------- owners
def _owners() -> dict[str, dict[str, list[str]]]:
    """Execution type → the stage keys, and the ``parallel_config`` keys, that the typed config accepts there.

    ``ignored`` are those of the stage keys that it accepts and then does nothing with.

    Each is asked of upstream's own check, one key at a time, so that aliases and exceptions come out as they
    are. The keys are those that reach the engine of a stage: its flat keys (but for the reserved ones),
    ``engine_args`` and ``engine_extras`` alike.
    """
    from vllm_omni.config.stage_config import StageExecutionType

    candidates = _candidate_keys()
    owners = {}
    for execution_type in StageExecutionType:
        accepted = sorted(key for key in candidates if _accepts(execution_type, key))
        owners[execution_type.value] = {
            "stage": accepted,
            "parallel_config": sorted(key for key in candidates if _accepts_parallel(execution_type, key)),
            "ignored": ignored(execution_type, accepted),
        }
    return owners


def _candidate_keys() -> set[str]:
    """Every name that the ownership checks could know."""
    from vllm.config import ParallelConfig
    from vllm_omni.config import omni_config, stage_config
    from vllm_omni.diffusion import data
    from vllm_omni.engine.arg_utils import OmniEngineArgs, OrchestratorArgs

    classes: Iterable[Any] = (
        OmniEngineArgs,
        OrchestratorArgs,
        ParallelConfig,
        stage_config.DeployConfig,
        stage_config.StageDeployConfig,
        stage_config.StagePipelineConfig,
        stage_config.StageConfig,
        data.OmniDiffusionConfig,
        data.DiffusionParallelConfig,
    )
    known = {field.name for cls in classes for field in dataclasses.fields(cls)}
    for name, value in vars(omni_config).items():
        if name.isupper() and isinstance(value, frozenset | tuple | dict):
            known |= {key for key in value if isinstance(key, str)}
        if isinstance(value, type) and dataclasses.is_dataclass(value):
            known |= {field.name for field in dataclasses.fields(value)}
    known |= source.function_strings(data.normalize_omni_diffusion_kwargs)
    return {key for key in known if key.isidentifier()}


def _accepts(execution_type: Any, key: str) -> bool:
    return _has_owner(execution_type, {key: None})


def _accepts_parallel(execution_type: Any, key: str) -> bool:
    return _has_owner(execution_type, {"parallel_config": {key: 1}})


def _has_owner(execution_type: Any, engine_extras: Mapping[str, Any]) -> bool:
    from vllm_omni.config import omni_config, stage_config

    topology = stage_config.StagePipelineConfig(stage_id=0, model_stage="probe", execution_type=execution_type)
    stage = stage_config.StageDeployConfig(stage_id=0, engine_extras=dict(engine_extras))
    try:
        omni_config._stage_engine_values(stage, topology)
    except ValueError as error:
        refusals = (
            "no structured config owner",
            "Unknown diffusion config field",
            "cannot consume shared engine",
        )
        if any(refusal in str(error) for refusal in refusals):
            return False
        raise
    return True


# ----------------------------------------------------------------------------------------------- connectors
def _connectors() -> dict[str, dict[str, bool]]:
    from vllm_omni.distributed.omni_connectors.factory import OmniConnectorFactory

    return {name: {"known": True} for name in sorted(OmniConnectorFactory.list_registered_connectors())}


# --------------------------------------------------------------------------------- engine and sampling params
def _engine_args() -> list[dict[str, Any]]:
    """The fields of OmniEngineArgs that vLLM's EngineArgs does not have."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm_omni.engine.arg_utils import OmniEngineArgs

    helps = _argument_helps(OmniEngineArgs.__doc__ or "")
    of_vllm = {field.name for field in dataclasses.fields(EngineArgs)}
    return [
        entry | {"help": helps.get(entry["name"])}
        for entry in _dataclass_fields(OmniEngineArgs)
        if entry["name"] not in of_vllm
    ]


def _argument_helps(docstring: str) -> dict[str, str]:
    """``name: text`` of a docstring's ``Args:`` section, continuation lines joined."""
    helps: dict[str, str] = {}
    lines = iter(docstring.partition("Args:")[2].splitlines())
    indent, name = None, None
    for line in lines:
        text = line.strip()
        if not text:
            continue
        depth = len(line) - len(line.lstrip())
        indent = depth if indent is None else indent
        if depth == indent and ":" in text:
            name, _, text = text.partition(":")
            helps[name] = text.strip()
        elif name is not None:
            helps[name] = f"{helps[name]} {text}".strip()
    return helps


def _diffusion_args() -> list[dict[str, Any]]:
    from vllm_omni.diffusion.data import OmniDiffusionConfig

    return _dataclass_fields(OmniDiffusionConfig)


def _diffusion_blocks() -> dict[str, list[str]]:
    """The settings of a diffusion stage that are mappings with closed keys, and these keys."""
    from vllm_omni.diffusion import data

    blocks = {
        "diffusion_attention_config": sorted(field.name for field in dataclasses.fields(data.AttentionConfig)),
        "diffusion_offload_config": _offload_keys(),
    }
    transport = getattr(data, "VideoOutputTransportConfig", None)  # since 0.30.0
    if transport is not None:
        blocks["video_output_transport"] = sorted(field.name for field in dataclasses.fields(transport))
    return {name: keys for name, keys in blocks.items() if keys}


def _offload_keys() -> list[str]:
    """The keys of ``diffusion_offload_config``, as the refusal of another one lists them; none before 0.30.0."""
    if importlib.util.find_spec("vllm_omni.diffusion.offloader.config") is None:
        return []
    from vllm_omni.diffusion.offloader.config import parse_diffusion_offload_config

    listed: list[str] = []
    try:
        parse_diffusion_offload_config({"probe": 1})
    except ValueError as error:
        listed = str(error).partition("choose from: ")[2].split(", ")
    if "mode" not in listed:
        raise RuntimeError("vllm-omni no longer says which keys diffusion_offload_config has")
    return sorted(listed)


# Checked when the stage's configuration is built, but annotated as text.
_CHOICES_BY_CHECK = {
    "ulysses_mode": ["strict", "advanced_uaa"],
    "vae_parallel_mode": ["tile", "spatial_shard_height", "spatial_shard_width"],
}


def _diffusion_choices() -> dict[str, list[str]]:
    """The settings of a diffusion stage that take one of a few words, and these words."""
    from vllm_omni.config import omni_config

    parallel = omni_config.OmniStageDiffusionParallelConfig
    for name, choices in _CHOICES_BY_CHECK.items():
        refused = [choice for choice in (*choices, "probe") if not _builds(parallel, {name: choice})]
        if refused != ["probe"]:
            raise RuntimeError(f"vllm-omni's choices of {name} are no longer {choices}")
    hints = typing.get_type_hints(omni_config._DiffusionConfigProjection)
    annotated = {
        name: [word for word in words if not _is_reserved(name, word)]
        for name, hint in hints.items()
        if (words := _words(hint))
    }
    return dict(sorted((annotated | _CHOICES_BY_CHECK).items()))


def _diffusion_quantization() -> dict[str, list[str]]:
    """The settings of a diffusion stage that name a quantization method, and the methods that are found by a name.

    A name is looked up in small letters with underscores, so that a method of vLLM's with a dash in it is never found.
    Some methods (``not_alone``) cannot be built from their name alone.
    """
    from vllm_omni.quantization import factory

    found = {factory._normalize_method_name(name) for name in factory._OVERRIDES}
    found |= {name for name in factory.QUANTIZATION_METHODS if name == factory._normalize_method_name(name)}
    settings = ("diffusion_quantization_config", "quantization", "quantization_config")
    if "fp8" not in found or not all(_is_refused({name: "probe"}) for name in settings):
        raise RuntimeError(f"vllm-omni's diffusion stages no longer look up {settings} among the methods")
    return {
        "settings": list(settings),
        "methods": sorted({*found, "none"}),
        "not_alone": sorted(name for name in found if _is_refused({"quantization": name}, TypeError)),
    }


def _is_refused(values: dict[str, Any], kind: type[Exception] = ValueError) -> bool:
    """Whether a diffusion stage with these settings is refused by this kind of error."""
    from vllm_omni.config.stage_config import StageExecutionType

    try:
        started_with(StageExecutionType.DIFFUSION, values)
    except Exception as error:  # noqa: BLE001  # such as a package that a method needs and that is not here
        return isinstance(error, kind)
    return False


def _is_reserved(name: str, word: str) -> bool:
    """Whether a word is only kept for later: it is among the choices, and refused."""
    from vllm_omni.config.stage_config import StageExecutionType

    try:
        started_with(StageExecutionType.DIFFUSION, {name: word})
    except (ValueError, TypeError, AttributeError) as error:
        return "not implemented" in str(error)
    return False


def _builds(cls: Any, values: dict[str, Any]) -> bool:
    try:
        cls(**values)
    except ValueError:
        return False
    return True


def _words(hint: Any) -> list[str]:
    """The words of a ``Literal`` or of an enumeration, alone or beside ``None``; nothing for what is open."""
    members = [member for member in (typing.get_args(hint) or (hint,)) if member is not type(None)]
    if typing.get_origin(hint) is typing.Literal:
        return [word for word in members if isinstance(word, str)]
    if len(members) != 1:
        return []
    if typing.get_origin(members[0]) is typing.Literal:
        return _words(members[0])
    is_enum = isinstance(members[0], type) and issubclass(members[0], enum.Enum)
    return [str(member.value) for member in members[0]] if is_enum else []


def _sampling_params() -> list[dict[str, Any]]:
    from vllm.sampling_params import SamplingParams

    return _struct_fields(SamplingParams)


def _pooling_params() -> list[dict[str, Any]]:
    from vllm.pooling_params import PoolingParams

    return _struct_fields(PoolingParams)


def _diffusion_sampling_params() -> list[dict[str, Any]]:
    from vllm_omni.inputs.data import OmniDiffusionSamplingParams

    return _dataclass_fields(OmniDiffusionSamplingParams)


def _struct_fields(cls: type) -> list[dict[str, Any]]:
    """The fields of a msgspec struct that its constructor takes; names with an underscore are its own."""
    msgspec = importlib.import_module("msgspec")  # comes with vLLM
    written = source.annotated_fields(cls)
    return [
        {"name": field.name, "type": written[field.name].type}
        | _struct_default(field, msgspec.NODEFAULT)
        | {"line": written[field.name].line, "file": written[field.name].file}
        for field in msgspec.structs.fields(cls)
        if not field.name.startswith("_")
    ]


def _struct_default(field: Any, nothing: object) -> dict[str, Any]:
    if field.default is not nothing:
        return {"default": _default(field.default)}
    if field.default_factory is not nothing:
        return {"default": _default(field.default_factory())}
    return {"required": True}
