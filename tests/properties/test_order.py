"""Findings are the same, in the same order, whatever the order of files, platforms and policies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from omnicfg.check import check
from omnicfg.diagnostics import Diagnostic
from omnicfg.rule import all_platforms
from tests.conftest import WriteProfile


def found(files: Sequence[Path], platforms: Sequence[str], policies: Sequence[Path] = ()) -> list[Diagnostic]:
    return check(files, platforms, policies=policies).findings


@pytest.mark.parametrize("seed", range(2))
def test_upstreams_files_in_any_order(upstream_deploy: Path, seed: int) -> None:
    files, platforms = sorted(upstream_deploy.glob("*.yaml")), list(all_platforms())
    expected = found(files, platforms)
    rng = random.Random(seed)
    rng.shuffle(files)
    rng.shuffle(platforms)
    assert found(files, platforms) == expected
    assert len(expected) > 100


def test_a_base_whose_mistake_many_profiles_show(profile_file: WriteProfile) -> None:
    """It is told once, in the name of the same profiles; what only some platforms show names these in one order."""
    base = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nmax_num_seq: 1\nstages: [{stage_id: 0, gpu_memory_utilization: 3}]\n"
        "platforms:\n  xpu: {stages: [{stage_id: 0, max_num_seq: 1}]}\n  npu: {model_runner: v2}\n",
        "base.yaml",
    )
    files = [
        profile_file(f"base_config: base.yaml\nstages: [{{stage_id: 1, max_num_seq: {n}}}]\n", f"p{n}.yaml")
        for n in range(5)
    ]
    policies = [
        profile_file(f"policies: [{{id: T{n}, message: m, deny: stage.stage_id == {n}}}]\n", f"policy{n}.yaml")
        for n in range(2)
    ]
    expected = found([base, *files], all_platforms(), policies)
    assert {finding.code for finding in expected} > {"OC101", "T0", "T1"}
    rng = random.Random(7)
    for _ in range(5):
        shuffled = [base, *files]
        rng.shuffle(shuffled)
        platforms = rng.sample(all_platforms(), len(all_platforms()))
        assert found(shuffled, platforms, policies[::-1]) == expected
    repeated = found([*files, base, *files], all_platforms(), policies)
    assert repeated == expected
