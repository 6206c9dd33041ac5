"""``pipelines.json``: the topology of each pipeline that vllm-omni registers, and its lines in the source."""

from __future__ import annotations

import ast
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omnicfg.export import source
from omnicfg.export.jsonable import jsonable

# A resolver in the registry picks a topology from the checkpoint's config: key → (config class, the settings
# under which it picks another one). What it picks is asked, not assumed.
RESOLVERS: dict[str, tuple[str, tuple[Mapping[str, Any], ...]]] = {
    "qwen3_omni_moe": ("Qwen3OmniMoeConfig", ({"enable_audio_output": False},)),
}

# Resolvers that look at the machine, not at a config; on one without an accelerator they give the ordinary topology.
BY_MACHINE: frozenset[str] = frozenset({"cosyvoice3"})

# config.json's model_type is the registry key, and besides: key → model_type → what the rest of config.json
# must hold. From StageConfigFactory.try_infer_model_type; each is put to upstream's own detector below.
FURTHER_MODEL_TYPES: dict[str, dict[str, dict[str, str]]] = {
    "dreamzero": {
        "vla": {
            "action_head_cfg._target_": (
                "groot.vla.model.dreamzero.action_head.wan_flow_matching_action_tf.WANPolicyHead"
            ),
            "action_head_cfg.config.diffusion_model_cfg._target_": (
                "groot.vla.model.dreamzero.modules.wan_video_dit_action_casual_chunk.CausalWanModel"
            ),
        }
    }
}


def export_pipelines(version: str) -> dict[str, Any]:
    """The whole of ``pipelines.json``.

    Raises:
        RuntimeError: where upstream has changed in a way that this exporter does not know.
    """
    from vllm_omni.config.pipeline_registry import OMNI_PIPELINES

    topologies = {key: default_topology(key, entry) for key, entry in OMNI_PIPELINES.items()}
    pipelines = {key: _pipeline(key, topology) for key, topology in topologies.items()}
    for key, entry in OMNI_PIPELINES.items():
        if callable(entry) and key not in BY_MACHINE:
            pipelines[key]["variants"] = list(_variants(key, entry, topologies))
    return {
        "vllm_omni": version,
        "pipelines": pipelines,  # in the order of the registry: the first that fits a checkpoint is taken
        "default_deploy_files": default_deploy_files(topologies),
    }


def default_topology(key: str, entry: Any) -> Any:
    """The pipeline under a key; what a resolver returns for a default config of its class."""
    if not callable(entry):
        return entry
    if key in BY_MACHINE:
        return entry(None)
    if key not in RESOLVERS:
        raise RuntimeError(f"registry key {key!r} is a resolver that this exporter does not know")
    return entry(_config(key, {}))


def _config(key: str, settings: Mapping[str, Any]) -> Any:
    import transformers

    return getattr(transformers, RESOLVERS[key][0])(**settings)


def _variants(key: str, resolver: Callable[[Any], Any], known: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for settings in RESOLVERS[key][1]:
        chosen = resolver(_config(key, settings))
        name = next(name for name, topology in known.items() if topology is chosen)
        if name == key:
            raise RuntimeError(f"{key}: {settings} no longer selects another pipeline")
        yield {"when": dict(settings), "pipeline": name}


def default_deploy_files(topologies: Mapping[str, Any]) -> dict[str, str]:
    """Deploy file → the first key whose default it is; a pipeline's aliases come after it in the registry."""
    files: dict[str, str] = {}
    for key, topology in topologies.items():
        if topology.default_deploy_config_name:
            files.setdefault(topology.default_deploy_config_name, key)
    return dict(sorted(files.items()))


def _pipeline(key: str, pipeline: Any) -> dict[str, Any]:
    path, call = source.definition_of(pipeline, "vllm_omni")
    further = FURTHER_MODEL_TYPES.get(key, {})
    for model_type, rest in further.items():
        _check_further_model_type(key, model_type, rest)
    predicate = _predicate(call, pipeline)
    return {
        "model_type": pipeline.model_type,
        "model_arch": pipeline.model_arch,
        "hf_architectures": jsonable(pipeline.hf_architectures),
        "hf_model_types": [key, *further],
        "hf_model_type_conditions": further,
        "hf_config_predicate": predicate,
        "diffusers_class_name": pipeline.diffusers_class_name,
        "diffusers_class_aliases": jsonable(pipeline.diffusers_class_aliases),
        "default_deploy_config_name": pipeline.default_deploy_config_name,
        # Since 0.30.0.
        "duplex_plugin": getattr(pipeline, "duplex_plugin", None),
        "default_session_mode": getattr(pipeline, "default_session_mode", None),
        "duplex_runtime_extension": pipeline.duplex_runtime_extension,
        "duplex_serving_adapter": pipeline.duplex_serving_adapter,
        "duplex_control_enabled": pipeline.duplex_control_enabled,
        "endpoint_restrictions": [
            {"path": restriction.capability.path, "reason": restriction.reason}
            for restriction in pipeline.endpoint_restrictions
        ],
        "stage_cli_aliases": jsonable(pipeline.stage_cli_aliases),
        "source": {"file": source.relative(path), "line": call.lineno},
        "lines": source.keyword_lines(call),
        "stages": [
            _stage(stage, stage_call)
            for stage, stage_call in zip(pipeline.stages, _stage_calls(path, call, len(pipeline.stages)), strict=True)
        ],
    }


def _stage(stage: Any, call: ast.Call) -> dict[str, Any]:
    fields = {field.name: jsonable(getattr(stage, field.name)) for field in dataclasses.fields(stage)}
    return fields | {"lines": {"": call.lineno} | source.keyword_lines(call)}


def _stage_calls(path: Path, call: ast.Call, count: int) -> list[ast.Call]:
    """The calls that build the stages, ``count`` of them.

    ``OTHER.stages`` leads to another pipeline of the same file; ``*(replace(stage, ...) for stage in ...)`` is one call
    for as many stages as the others leave.
    """
    value = next(keyword.value for keyword in call.keywords if keyword.arg == "stages")
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        other = source.assignments(source.parse(path))[value.value.id]
        if isinstance(other, ast.Call):
            return _stage_calls(path, other, count)
    if isinstance(value, ast.Tuple):
        repeated = count - sum(isinstance(item, ast.Call) for item in value.elts)
        calls = [each for item in value.elts for each in _calls_of(item, repeated)]
        if len(calls) == count:
            return calls
    raise RuntimeError(f"{path}:{value.lineno}: stages are written in a way that this exporter does not know")


def _calls_of(item: ast.expr, repeated: int) -> list[ast.Call]:
    if isinstance(item, ast.Call):
        return [item]
    if isinstance(item, ast.Starred) and isinstance(item.value, ast.GeneratorExp):
        return [item.value.elt] * repeated if isinstance(item.value.elt, ast.Call) else []
    return []


def _predicate(call: ast.Call, pipeline: Any) -> dict[str, str] | None:
    """``lambda c: str(getattr(c, NAME, "")) == VALUE`` as ``{NAME: VALUE}``; upstream's only form."""
    accepts = pipeline.hf_config_predicate
    if accepts is None:
        return None
    value = next(keyword.value for keyword in call.keywords if keyword.arg == "hf_config_predicate")
    match value:
        case ast.Lambda(
            body=ast.Compare(
                left=ast.Call(
                    func=ast.Name("str"),
                    args=[ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant(str(name)), ast.Constant("")])],
                ),
                ops=[ast.Eq()],
                comparators=[ast.Constant(str(wanted))],
            )
        ):
            if accepts(SimpleNamespace(**{name: wanted})) and not accepts(SimpleNamespace()):
                return {name: wanted}
    raise RuntimeError(f"line {value.lineno}: a predicate that this exporter does not know: {ast.unparse(value)}")


def _check_further_model_type(key: str, model_type: str, rest: Mapping[str, str]) -> None:
    from vllm_omni.diffusion.utils import hf_utils

    config: dict[str, Any] = {"model_type": model_type}
    for dotted, value in rest.items():
        *parents, last = dotted.split(".")
        level = config
        for parent in parents:
            level = level.setdefault(parent, {})
        level[last] = value
    looks_like = getattr(hf_utils, f"_looks_like_{key}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(config), encoding="utf-8")
        if not looks_like(folder):
            raise RuntimeError(f"config.json with model_type {model_type!r} no longer leads to {key!r} as it did")
