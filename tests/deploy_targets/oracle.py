"""Asks vllm-omni whether a flat file is what it was made from, and writes down which files it was asked about.

``python -m tests.deploy_targets.oracle`` in an environment with vllm-omni installed. No GPU is needed. Every profile
that is shipped here or there is compiled on every platform, written as ``omnicfg export --to vllm-omni`` writes it, and
given to vllm-omni's own loader beside the file that it comes from: both have to give the same stages, engine args and
runtime, and both or neither have to start. The digests of the texts go to ``proof.json``; what differs is told on
standard error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import own_pipelines
from omnicfg.deploy_targets._workload import profile_only
from omnicfg.export.omni_environment import prepare
from omnicfg.export.vllm_omni import write_json
from omnicfg.plan import Plan
from omnicfg.rule import all_platforms
from tests.deploy_targets.secret_profile import SECRETS, TEXT
from tests.parity import oracle as upstream
from tests.parity.encoding import canonical

PROOF: Final = Path(__file__).with_name("proof.json")


def plans(deploy: Path, told: dict[str, str]) -> Iterator[tuple[str, Path, Plan]]:
    """Name, file and plan of every profile on every platform that takes it.

    ``deploy`` holds vllm-omni's own, ``told`` says their pipelines where the files do not.
    """
    files = {f"omnicfg/{name}": path for name, path in library().items() if name not in own_pipelines()}
    files |= {f"vllm-omni/{path.stem}": path for path in sorted(deploy.glob("*.yaml"))}
    for name, path in files.items():
        for platform in all_platforms():
            try:
                yield name, path, omnicfg.resolve(str(path), platform=platform, pipeline=told.get(path.name))
            except omnicfg.OmnicfgError:
                continue


def told_pipelines() -> dict[str, str]:
    """File name → pipeline, for vllm-omni's files that nothing assigns to one."""
    given: dict[str, dict[str, str]] = json.loads((upstream.HERE / "pipelines_of.json").read_text(encoding="utf-8"))
    return {name: entry["pipeline"] for name, entry in given.items()}


def flat(plan: Plan) -> str:
    """What is exported, without its comments."""
    return profile_only(plan, "").text


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _asked(path: Path, pipeline: str, platform: str) -> str:
    found: dict[str, Any] = upstream.answer(upstream.resolve, path, pipeline, platform)
    found.get("deploy", {}).pop("pipeline", None)
    starts = upstream.answer(upstream.construct, path, pipeline, platform)["ok"]
    return canonical(found) + str(starts)


def _check_credentials(folder: Path) -> None:
    """References to the environment are read by vllm-omni, too. Raises :class:`AssertionError`."""
    profile, copy = folder / "profile.yaml", folder / "copy.yaml"
    profile.write_text(TEXT, encoding="utf-8")
    copy.write_text(flat(omnicfg.resolve(profile)), encoding="utf-8")
    os.environ.update(SECRETS)
    assert "oc.env" in copy.read_text(encoding="utf-8")
    assert '"ok":true' in _asked(copy, "qwen3_tts", "cuda").replace(" ", "")
    assert _asked(copy, "qwen3_tts", "cuda") == _asked(profile, "qwen3_tts", "cuda")


def main() -> int:
    """Exit code 1 where vllm-omni does not agree; then nothing is written."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    prepare()
    told = told_pipelines()
    proof: dict[str, dict[str, str]] = {}
    different = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "flat.yaml"
        _check_credentials(Path(folder))
        for name, path, plan in plans(upstream.deploy_folder(), told):
            text = flat(plan)
            copy.write_text(text, encoding="utf-8")
            if _asked(copy, plan.pipeline, plan.platform) != _asked(path, plan.pipeline, plan.platform):
                sys.stderr.write(f"{name} on {plan.platform} differs\n")
                different += 1
            proof.setdefault(name, {})[plan.platform] = digest(text)
    if not different:
        write_json(PROOF, proof)
    cells = sum(map(len, proof.values()))
    sys.stdout.write(f"{cells} files, {different} of them differ\n")
    return int(bool(different))


if __name__ == "__main__":
    sys.exit(main())
