"""Which stage keys does vllm-omni accept for a kind of stage and then do nothing with? Asked of its own projection.

A key counts as ignored if several values of it are accepted and not one of them changes what the stage's engine is
started with. On diffusion stages a key whose name occurs in the code of the servers or of the diffusion engine is
left out, in case it is read on another way than through the engine's own config.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

_MODEL: Final = "/nonexistent"
_SEVERAL: Final = 2
_VALUES: Final[tuple[Any, ...]] = (
    True, False, 1, 2, 3, 7, 0.5, "a", "7", "0,1", "auto", "all", "mp", "ray", "fp8", "hf", "slow", "lru", "dummy",
    "processed_logits", ["a"], [1], {"a": 1}, {"a": "b"},
)  # fmt: skip
_READERS: Final = ("diffusion", "engine", "entrypoints")
_DECLARATIONS: Final = (
    "diffusion/data.py",
    "diffusion/vllm_config.py",
    "engine/arg_utils.py",
    "engine/omni_engine_base.py",
    "entrypoints/cli/",
)
_OVERWRITTEN: Final = frozenset({"final_output", "final_output_type", "is_comprehension", "num_gpus"})
"""Read under these names, but from the topology and the parallel sizes, whatever a stage says."""

_NOT_ASKED: Final = frozenset(
    {
        "has_sampling_extra_args",  # added later, from the sampling parameters
        "parallel_config",  # a mapping of settings, and only what is no mapping is passed over
        "supports_native_mrv2_data_plane",  # refused by the older path
        "use_v2_model_runner",
    }
)


def ignored(execution_type: Any, keys: Iterable[str]) -> list[str]:
    """Those of the keys that a stage of this type accepts in vain; not asked of releases before 0.30.0: none."""
    from vllm_omni.config import omni_config

    if not hasattr(omni_config, "extract_diffusion_stage_config_kwargs"):
        return []
    nothing = started_with(execution_type, {})
    unread = [key for key in keys if key not in _NOT_ASKED and _changes_nothing(execution_type, key, nothing)]
    if not set(unread) >= _OVERWRITTEN:
        raise RuntimeError(f"vllm-omni now reads {sorted(_OVERWRITTEN - set(unread))} of a stage")
    named = set() if execution_type.value != "diffusion" else _names_in_readers() - _OVERWRITTEN
    return sorted(set(unread) - named)


def _changes_nothing(execution_type: Any, key: str, nothing: str) -> bool:
    accepted = list(_outcomes(execution_type, key))
    return len(accepted) >= _SEVERAL and all(outcome == nothing for outcome in accepted)


def _outcomes(execution_type: Any, key: str) -> Iterator[str]:
    for value in _VALUES:
        try:
            yield started_with(execution_type, {key: value})
        except (ValueError, TypeError, AttributeError, KeyError, OSError):
            continue


def started_with(execution_type: Any, engine_extras: dict[str, Any]) -> str:
    """What a stage with these settings hands to its engine and its processes, as text to compare."""
    from vllm_omni.config import omni_config, stage_config
    from vllm_omni.engine import stage_init_utils

    topology = stage_config.StagePipelineConfig(
        stage_id=0,
        model_stage="probe",
        execution_type=execution_type,
        final_output=True,
        model_arch="Probe",
        requires_multimodal_data=True,
    )
    stage = stage_config.StageDeployConfig(stage_id=0, engine_extras=engine_extras)
    deploy = stage_config.DeployConfig(stages=[stage], async_chunk=False)
    pipeline = stage_config.PipelineConfig(model_type="probe", model_arch="Probe", stages=(topology,))
    values = omni_config._stage_engine_values(stage, topology)
    built = omni_config._build_stage_config(pipeline, deploy, topology, stage, values, model=_MODEL)
    args = stage_init_utils._project_omni_stage_engine_args(built)
    if execution_type.value == "diffusion":
        args = omni_config.extract_diffusion_stage_config_kwargs(args, stage_id=0, include_engine_adapter_metadata=True)
    runtime = {name: getattr(built.runtime_config, name) for name in ("devices", "num_replicas", "env")}
    return repr([sorted(args.items()), sorted(runtime.items())])


def _names_in_readers() -> set[str]:
    import vllm_omni

    root = Path(str(vllm_omni.__file__)).parent
    words: set[str] = set()
    for package in _READERS:
        for path in (root / package).rglob("*.py"):
            if not path.relative_to(root).as_posix().startswith(_DECLARATIONS):
                words.update(re.findall(r"\w+", path.read_text(encoding="utf-8")))
    return words
