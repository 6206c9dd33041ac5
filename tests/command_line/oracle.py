"""Asks vllm-omni what it makes of command lines, and writes its answers as data. No GPU is needed.

``python -m tests.command_line.oracle`` in an environment with vllm-omni writes ``expected.json.gz``: for each case the
flags as upstream's own parser reads them and, for each stage, the engine values that its typed config is built from
(deploy file, command line and what it derives), or the error.
"""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from omnicfg.export.omni_environment import prepare
from omnicfg.export.omni_flags import serve_parser
from tests.parity.encoding import encode
from tests.parity.oracle import _plain, on_platform, topology

from .cases import FILES, Case, cases

EXPECTED = Path(__file__).parent / "expected.json.gz"


def answer(case: Case, parser: Any, folder: Path) -> dict[str, Any]:
    """What upstream makes of a case: ``{"explicit", "async_chunk", "stages"}`` or ``{"error"}``."""
    try:
        args = parser.parse_args([*case.words, "--deploy-config", str(folder / f"{case.file}.yaml")])
    except (SystemExit, Exception) as error:  # noqa: BLE001  # how a parser refuses
        return {"error": type(error).__name__, "where": "parser"}
    explicit = {
        name: value
        for name, value in args.get_explicit_kwargs_dict().items()
        if name not in ("subparser", "model_tag", "omni", "deploy_config")
    }
    from vllm_omni.config.resolver import _convert_dataclasses_to_dict

    shown = encode(_plain(_convert_dataclasses_to_dict(dict(explicit))))
    try:
        resolved = _resolve(case, args)
    except Exception as error:  # noqa: BLE001  # a refusal is an answer too
        return {"explicit": shown, "error": f"{type(error).__name__}: {error}".partition("\n")[0], "where": "config"}
    return {"explicit": shown, **encode(_plain(resolved))}


def _resolve(case: Case, args: Any) -> dict[str, Any]:
    """The way of ``resolve_omni_config``, but for the model, which is nowhere."""
    from vllm_omni.config import omni_config, resolver
    from vllm_omni.config.stage_config import load_deploy_config
    from vllm_omni.entrypoints.utils import prepare_stage_config_inputs

    kwargs = args.get_explicit_kwargs_dict()
    kwargs.pop("robot_openpi_idle_timeout", None)
    kwargs.setdefault("log_stats", True)
    for name in ("subparser", "omni"):
        kwargs.pop(name, None)
    inputs = prepare_stage_config_inputs("model", kwargs, trust_remote_code=kwargs.get("trust_remote_code"))
    overrides = resolver._convert_dataclasses_to_dict(dict(inputs.kwargs))
    resolver._flatten_stage_overrides(overrides, inputs.stage_overrides)
    captured: dict[int, dict[str, Any]] = {}
    checked = omni_config._validate_stage_engine_override_ownership

    def capture(stage_id: int, execution_type: Any, engine: Any, **rest: Any) -> None:
        captured[stage_id] = dict(engine)
        checked(stage_id, execution_type, engine, **rest)

    on_platform("cuda")
    with patch.object(omni_config, "_validate_stage_engine_override_ownership", capture):
        config = omni_config.VllmOmniConfig.from_pipeline_config(
            topology(case.file),
            user_deploy_config=load_deploy_config(inputs.deploy_config_path),
            deploy_config_path=str(inputs.deploy_config_path),
            cli_overrides={**overrides, "model": "model"},
        )
    stages = []
    for stage in config.stage_configs:
        runtime = stage.runtime_config
        stages.append(
            {
                "stage_id": stage.stage_id,
                "engine": captured[stage.stage_id],
                "devices": runtime.devices,
                "num_replicas": runtime.num_replicas,
                "dtype": stage.model_config.dtype,
                "trust_remote_code": stage.model_config.trust_remote_code,
                "async_chunk": stage.async_chunk if hasattr(stage, "async_chunk") else None,
            }
        )
    return {"stages": stages}


def main() -> None:
    """Write ``expected.json.gz``."""
    prepare()
    parser = serve_parser()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name, text in FILES.items():
            (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        found = {case.name: answer(case, parser, folder) for case in cases()}
    text = json.dumps(found, indent=1, sort_keys=True, ensure_ascii=False).replace(scratch, "")
    with gzip.GzipFile(EXPECTED, "wb", mtime=0) as stream:
        stream.write(text.encode())
    print(EXPECTED, len(found))


if __name__ == "__main__":
    main()
