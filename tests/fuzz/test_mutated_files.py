"""Ten thousand mutated real profiles: each gets an answer within a second of CPU time, never a traceback.

All rules look at them, and the comments that suppress findings are among what is mutated. A tenth of them is tried in
every run of the fast tests. To see one that fails: ``mutant(files, seed)`` below, with the seed that the failure names.
"""

from __future__ import annotations

import random
import resource
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from omnicfg.passes.read import read_file
from omnicfg.tree import Layer, LayerKind, plain
from tests.fuzz.harness import feed, pipelines_of
from tests.fuzz.mutate import SUPPRESSIONS, mutate
from tests.fuzz.restructure import restructure, to_yaml

BLOCK = 100
BLOCKS = [pytest.param(block, marks=[] if block < 5 else [pytest.mark.slow]) for block in range(50)]
MEMORY_MB = 300  # that the process may grow by, whatever it is fed
PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")


class Originals(NamedTuple):
    """The real files, in a folder in which mutants find the same bases."""

    folder: Path
    files: list[Path]
    pipelines: Mapping[str, str | None]
    parsed: Mapping[str, dict[Any, Any]]


@pytest.fixture(scope="module")
def originals(upstream_deploy: Path, tmp_path_factory: pytest.TempPathFactory) -> Originals:
    folder = tmp_path_factory.mktemp("mutants")
    files = [Path(shutil.copy(path, folder)) for path in sorted(upstream_deploy.glob("*.yaml"))]
    layer = Layer(LayerKind.PROFILE)
    parsed = {path.name: plain(read_file(path, layer)) for path in files}
    return Originals(folder, files, pipelines_of(files), parsed)


@pytest.fixture(scope="module", autouse=True)
def bounded_memory(originals: Originals) -> Iterator[None]:
    """The process does not grow with what it has been fed."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEMORY_MB << 10


def _feed(originals: Originals, original: Path, content: bytes, rng: random.Random, story: str) -> None:
    profile = originals.folder / "mutant.yaml"
    profile.write_bytes(content)
    pipeline = originals.pipelines[original.name] if rng.random() < 0.8 else None
    feed(profile, rng.choice(PLATFORMS), story, pipeline=pipeline)


@pytest.mark.parametrize("block", BLOCKS)
def test_text_that_slipped(originals: Originals, block: int) -> None:
    """Bytes, lines, indentation, keys and values changed in the text: often no YAML any more."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"text {seed}")
        original = originals.files[seed % len(originals.files)]
        content, changes = mutate(original.read_text(encoding="utf-8"), rng)
        _feed(originals, original, content, rng, f"text {seed}: {original.name} after {', '.join(changes)}")


@pytest.mark.parametrize("block", BLOCKS)
def test_structure_that_makes_no_sense(originals: Originals, block: int) -> None:
    """Values of any type anywhere, keys renamed, moved and added: always YAML, seldom a profile."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"structure {seed}")
        original = originals.files[seed % len(originals.files)]
        comment = f"  {rng.choice(SUPPRESSIONS)}" if rng.random() < 0.1 else ""
        content = (to_yaml(restructure(originals.parsed[original.name], rng)) + comment).encode()
        _feed(originals, original, content, rng, f"structure {seed}: {original.name}")
