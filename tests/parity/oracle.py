"""Asks vllm-omni how it resolves deploy files, and writes its answers as data. No GPU is needed.

``python -m tests.parity.oracle`` in an environment with vllm-omni installed writes, beside this file:

``expected/<file>.json``
    each shipped deploy file on each platform, through ``merge_pipeline_deploy``;
``expected_typed.json``
    for the same cells, whether ``VllmOmniConfig``, the stricter path that servers start from, takes them;
``expected_cases.json.gz``, ``expected_traps.json``
    the generated overlay chains (``cases.py``) and the small profiles with one mistake each (``traps/``).
"""

from __future__ import annotations

import argparse
import dataclasses
import gzip
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from omnicfg.export.omni_environment import prepare
from omnicfg.export.omni_pipelines import default_deploy_files, default_topology
from omnicfg.export.vllm_omni import write_json

from .cases import generate
from .encoding import canonical, encode
from .traps import Trap, traps

HERE = Path(__file__).parent
PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")
STAGE_FIELDS = {
    "stage_id": "stage_id",
    "model_stage": "model_stage",
    "stage_type": "stage_type",
    "worker_type": "worker_type",
    "scheduler_cls": "scheduler_cls",
    "input_sources": "input_sources",
    "final_output": "final_output",
    "final_output_type": "final_output_type",
    "hf_config_name": "hf_config_name",
    "is_comprehension": "is_comprehension",
    "custom_process_input_func": "custom_process_input_func",
    "sampling_constraints": "sampling_constraints",
    "engine_args": "yaml_engine_args",
    "runtime": "yaml_runtime",
    "extras": "yaml_extras",
}
"""Name in a plan → name in vllm-omni's ``StageConfig``."""


# ------------------------------------------------------------------------------------------------------ upstream
def deploy_folder() -> Path:
    """The installed package's deploy files."""
    import vllm_omni

    return Path(str(vllm_omni.__file__)).parent / "deploy"


@cache
def topology(key: str) -> Any:
    """The pipeline under a registry key."""
    from vllm_omni.config.pipeline_registry import OMNI_PIPELINES

    return default_topology(key, OMNI_PIPELINES[key])


@cache
def default_files() -> dict[str, str]:
    """Deploy file → the pipeline whose default it is."""
    from vllm_omni.config.pipeline_registry import OMNI_PIPELINES

    return default_deploy_files({key: topology(key) for key in OMNI_PIPELINES})


def on_platform(name: str) -> None:
    """Make vllm-omni believe that it runs on a platform; only the name is asked while it resolves."""
    import vllm_omni.platforms as platforms
    from vllm_omni.platforms.interface import UnspecifiedOmniPlatform

    platform = UnspecifiedOmniPlatform()
    platform.device_name = name
    platform.is_rocm = lambda: False  # what a server would probe the device for
    platforms._current_omni_platform = platform


def resolve(path: Path, pipeline: str, platform: str) -> dict[str, Any]:
    """What ``merge_pipeline_deploy`` makes of a deploy file."""
    from vllm_omni.config import stage_config

    on_platform(platform)
    deploy = stage_config.load_deploy_config(path)
    stages = stage_config.merge_pipeline_deploy(topology(pipeline), deploy)
    fields = [field.name for field in dataclasses.fields(deploy) if field.name not in {"stages", "platforms"}]
    return {
        "deploy": {name: getattr(deploy, name) for name in fields},
        "stages": [{ours: getattr(stage, theirs) for ours, theirs in STAGE_FIELDS.items()} for stage in stages],
    }


def resolve_with_cli(path: Path, pipeline: str, platform: str, *, cli: Mapping[str, Any]) -> dict[str, Any]:
    """The same with command-line overrides, as the engine of each stage gets them."""
    from vllm_omni.config.config_factory import StageConfigFactory
    from vllm_omni.config.stage_config import load_deploy_config
    from vllm_omni.config.yaml_util import to_dict

    on_platform(platform)
    stages, _ = StageConfigFactory._create_legacy_from_registry(
        topology(pipeline), dict(cli), user_deploy_config=load_deploy_config(path)
    )
    started = [to_dict(stage.to_omegaconf()) for stage in stages]
    return {"stages": [{key: stage[key] for key in ("stage_id", "engine_args", "runtime")} for stage in started]}


def construct(
    path: Path, pipeline: str, platform: str, *, cli: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Builds the typed config of a deploy file and each stage's engine args from it; keeps no values."""
    from vllm_omni.config.omni_config import VllmOmniConfig
    from vllm_omni.config.stage_config import load_deploy_config
    from vllm_omni.engine import stage_init_utils

    on_platform(platform)
    config = VllmOmniConfig.from_pipeline_config(
        topology(pipeline),
        user_deploy_config=load_deploy_config(path),
        deploy_config_path=str(path),
        cli_overrides={"model": "model", **cli},
    )
    for stage in config.stage_configs:
        stage_init_utils._project_omni_stage_engine_args(stage)
    return {}


def _plain(value: Any) -> Any:
    """Dataclasses as mappings, enums by value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


# ------------------------------------------------------------------------------------------------------- answers
def answer(ask: Callable[[Path, str, str], dict[str, Any]], path: Path, pipeline: str, platform: str) -> dict[str, Any]:
    """``{"ok": true, ...}``, or ``{"ok": false, "error": ...}`` where vllm-omni refuses or fails."""
    try:
        given = ask(path, pipeline, platform)
    except Exception as error:  # noqa: BLE001  # a crash is an answer too
        message = str(error).partition("\n    For further information visit")[0]
        message = message.replace(f"{path.parent}{os.sep}", "").replace(str(path.parent), ".").strip()
        return {"ok": False, "error": f"{type(error).__name__}: {message}"}
    return {"ok": True} | {name: encode(_plain(part)) for name, part in given.items()}


def cells(ask: Callable[[Path, str, str], dict[str, Any]], path: Path, pipeline: str) -> list[dict[str, Any]]:
    """The answers on several platforms; platforms with one answer share a cell."""
    by_text: dict[str, dict[str, Any]] = {}
    for platform in PLATFORMS:
        given = answer(ask, path, pipeline, platform)
        cell = by_text.setdefault(canonical(given), {"platforms": []} | given)
        cell["platforms"].append(platform)
    return list(by_text.values())


# ------------------------------------------------------------------------------------------- which pipeline it is
def decide(path: Path, given: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A shipped file's pipeline, what decides it, and whether omnicfg has to be told.

    Raises:
        LookupError: for a file that nothing assigns to a pipeline.
    """
    from vllm_omni.config.stage_config import resolve_deploy_yaml

    named = resolve_deploy_yaml(path).get("pipeline")
    if named is not None:
        return _decided(named, "the file, or a base of it, names the pipeline", told=False)
    for file in _chain(path):
        which = "" if file == path else f"its base {file.name}: "
        if file.name in given:
            return _decided(given[file.name]["pipeline"], which + given[file.name]["why"], told=True)
        if file.name in default_files():
            return _decided(default_files()[file.name], f"{which}the pipeline's default deploy file", told=False)
    raise LookupError(f"{path.name}: no pipeline; add it to pipelines_of.json")


def _decided(pipeline: str, by: str, *, told: bool) -> dict[str, Any]:
    return {"pipeline": pipeline, "decided_by": by, "told": told}


def _chain(path: Path) -> Iterable[Path]:
    from vllm_omni.config.yaml_util import load_yaml_config, to_dict

    yield path
    base = to_dict(load_yaml_config(path)).get("base_config")
    if base is not None:
        yield from _chain(path.parent / base)


# ------------------------------------------------------------------------------------------------------- writing
def write_shipped() -> None:
    """``expected/`` and ``expected_typed.json``."""
    given = json.loads((HERE / "pipelines_of.json").read_text(encoding="utf-8"))
    expected = HERE / "expected"
    expected.mkdir(exist_ok=True)
    for stale in expected.glob("*.json"):
        stale.unlink()
    typed: dict[str, Any] = {}
    for path in sorted(deploy_folder().glob("*.yaml")):
        decided = decide(path, given)
        pipeline = decided["pipeline"]
        write_json(expected / f"{path.stem}.json", decided | {"cells": cells(resolve, path, pipeline)})
        typed[path.name] = _verdicts(cells(construct, path, pipeline))
    write_json(HERE / "expected_typed.json", typed)


def _verdicts(typed_cells: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Platform → ``ok`` or the refusal."""
    verdicts = {
        platform: "ok" if cell["ok"] else cell["error"] for cell in typed_cells for platform in cell["platforms"]
    }
    return {platform: verdicts[platform] for platform in PLATFORMS}


def write_cases() -> None:
    """``expected_cases.json.gz``."""
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in generate():
            path = case.write(Path(folder), deploy_folder())
            answers[case.name] = {
                "digest": case.digest,
                "cells": cells(resolve, path, case.pipeline),
                "typed": _verdicts(cells(construct, path, case.pipeline)),
            }
    text = json.dumps(answers, ensure_ascii=False, separators=(",", ":")).encode()
    (HERE / "expected_cases.json.gz").write_bytes(gzip.compress(text, compresslevel=9, mtime=0))


def write_traps() -> None:
    """``expected_traps.json``."""
    write_json(HERE / "expected_traps.json", {trap.name: _trap(trap) for trap in traps()})


def _trap(trap: Trap) -> dict[str, Any]:
    answers = {
        "pipeline": trap.pipeline,
        "cells": cells(resolve, trap.path, trap.pipeline),
        "typed": _verdicts(cells(construct, trap.path, trap.pipeline)),
    }
    if trap.cli:
        answers["with_cli"] = cells(partial(resolve_with_cli, cli=trap.cli), trap.path, trap.pipeline)
        answers["typed_with_cli"] = _verdicts(cells(partial(construct, cli=trap.cli), trap.path, trap.pipeline))
    return answers


def main() -> None:
    """Write everything, or the parts that are named."""
    parts = {"shipped": write_shipped, "cases": write_cases, "traps": write_traps}
    parser = argparse.ArgumentParser(prog="python -m tests.parity.oracle", description=(__doc__ or "").strip())
    parser.add_argument("part", nargs="*", choices=[*parts, []], default=[], help="what to write; by default all")
    asked = parser.parse_args().part or list(parts)
    if os.environ.get("PYTHONHASHSEED") != "0":  # vllm-omni walks sets: which of two mistakes it names is chance
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, "-m", "tests.parity.oracle", *asked])
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    prepare()
    for part in asked:
        parts[part]()
    sys.stdout.write(f"written: {', '.join(asked)}\n")


if __name__ == "__main__":
    main()
