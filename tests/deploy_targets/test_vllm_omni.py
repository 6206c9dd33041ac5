"""The flat file is what vllm-omni's own loader was asked about, and gives the same plan here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnicfg
from omnicfg.confine import confined
from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.deploy_targets.oracle import PROOF, digest, flat, plans, told_pipelines
from tests.deploy_targets.secret_profile import SECRETS, TEXT


def test_vllm_omni_has_agreed_to_every_file_that_is_written_now(upstream_deploy: Path) -> None:
    now: dict[str, dict[str, str]] = {}
    for name, _, plan in plans(upstream_deploy, told_pipelines()):
        now.setdefault(name, {})[plan.platform] = digest(flat(plan))
    agreed = json.loads(PROOF.read_text(encoding="utf-8"))
    assert now == agreed, "run `python -m tests.deploy_targets.oracle` where vllm-omni is installed"
    assert sum(map(len, agreed.values())) > 600


def test_overlays_settings_and_the_platform_are_in_it(run: Run, profile_file: WriteProfile) -> None:
    overlay = profile_file("stages: [{stage_id: 0, max_num_seqs: 7}]\n", "overlay.yaml")
    words = ("--platform", "npu", "--overlay", overlay, "--set", "stages.1.max_num_seqs=3")
    text = run("export", "qwen3_tts", "--to", "vllm-omni", *words).out
    assert not {"base_config:", "platforms:"} & set(text.split())
    flattened = omnicfg.resolve(profile_file(text, "flat.yaml"), platform="npu")
    settings = ["stages.1.max_num_seqs=3"]
    original = omnicfg.resolve("qwen3_tts", platform="npu", overlays=overlay, overrides=settings)
    assert flattened.to_dict()["stages"] == original.to_dict()["stages"]


def test_credentials_come_from_the_environment_again(
    run: Run, profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = profile_file(TEXT)
    text = run("export", profile, "--to", "vllm-omni").out
    for name, value in SECRETS.items():
        assert f"comes from the environment variable {name}." in text
        monkeypatch.setenv(name, value)
    with confined(allow_env=SECRETS):
        again = omnicfg.resolve(profile_file(text, "flat.yaml"))
    assert again.to_dict()["stages"] == omnicfg.resolve(profile).to_dict()["stages"]
