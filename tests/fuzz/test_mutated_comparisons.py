"""Mutated profiles compared: with their original, and held against two releases. An answer, never a traceback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from omnicfg.catalog.library import library
from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.differences.comparison import compare
from omnicfg.errors import ResolveError
from omnicfg.passes.read import read_file
from omnicfg.plan import Plan
from omnicfg.report.changes import render_comparison
from omnicfg.report.changes_markdown import MAX_COMMENT, comparison_markdown
from omnicfg.report.json import dumps
from omnicfg.report.terminal import Style
from omnicfg.report.upgrade import render_upgrade, upgrade_markdown
from omnicfg.tree import Layer, LayerKind, plain
from omnicfg.upgrade import upgrade
from tests.fuzz.harness import time_limit
from tests.fuzz.restructure import restructure, to_yaml

PLATFORMS = ("cuda", "npu")
MUTANTS = 120


@pytest.fixture
def mutants(tmp_path: Path) -> Iterator[tuple[int, Path, Path]]:
    """Seed, original and mutant, beside copies of all shipped profiles."""
    originals = list(library().values())
    for path in originals:
        (tmp_path / path.name).write_bytes(path.read_bytes())

    def made() -> Iterator[tuple[int, Path, Path]]:
        for seed in range(MUTANTS):
            original = originals[seed % len(originals)]
            document = plain(read_file(original, Layer(LayerKind.PROFILE)))
            mutant = tmp_path / "mutant.yaml"
            mutant.write_text(to_yaml(restructure(document, random.Random(f"compare {seed}"))))
            yield seed, original, mutant

    return made()


def plan_of(path: Path, platform: str) -> Plan:
    profile = load(path)
    return compile_profile(profile, platform, pipeline_of(profile))


def test_with_their_original(mutants: Iterator[tuple[int, Path, Path]]) -> None:
    for _, original, mutant in mutants:
        with time_limit():
            found = compare(lambda name: plan_of(original, name), lambda name: plan_of(mutant, name), PLATFORMS)  # noqa: B023
            dumps([[change.to_dict() for change in found.changes], [each.to_dict() for each in found.refused]])
            assert render_comparison(found, PLATFORMS, Style(False), 80)
            assert len(comparison_markdown(found, PLATFORMS)) < MAX_COMMENT


@pytest.mark.parametrize(
    ("product", "before", "after"), [("vllm", "0.31.0", "0.33.0"), ("vllm-omni", "0.30.0", "0.32.0rc1")]
)
def test_against_two_releases(mutants: Iterator[tuple[int, Path, Path]], product: str, before: str, after: str) -> None:
    told = 0
    for seed, _, mutant in mutants:
        with time_limit():
            try:
                found = upgrade(product, *((before, after) if seed % 2 else (after, before)), [mutant], PLATFORMS)
            except ResolveError as error:
                pytest.fail(f"{seed}: {error}")
            dumps(found.to_dict())
            assert render_upgrade(found, PLATFORMS, Style(False), 80)
            assert len(upgrade_markdown(found, PLATFORMS)) < MAX_COMMENT
        told += found.differs
    assert told > MUTANTS / 10
