"""Mutated real profiles that still compile: each is drawn, exported and begun on, or refused in words.

What is exported means the same when it is read back, whatever stands in it, and is what the targets' schemas take.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pydot
import pytest

import omnicfg
from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.deploy_targets import target
from omnicfg.deploy_targets._workload import profile_only, workload
from omnicfg.graph.model import graph_of
from omnicfg.init.request import on_profile
from omnicfg.init.text import text_of
from omnicfg.passes.override import parse_overrides
from omnicfg.report.graphs import format_names, renderer
from omnicfg.report.terminal import Style
from tests.deploy_targets.conftest import documents
from tests.deploy_targets.test_compose import check as check_compose
from tests.fuzz.restructure import restructure, to_yaml
from tests.fuzz.test_mutated_files import PLATFORMS, Originals, originals
from tests.parity.encoding import canonical, encode

__all__ = ["originals"]

BLOCK: Final = 20
BLOCKS: Final = [pytest.param(block, marks=[] if block < 1 else [pytest.mark.slow]) for block in range(4)]
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def mutants(originals: Originals, block: int) -> Iterator[tuple[str, Path, str, str]]:
    """Story, file, platform and pipeline of the mutants that compile."""
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        rng = random.Random(f"export {seed}")
        original = originals.files[seed % len(originals.files)]
        path = originals.folder / "mutant.yaml"
        path.write_text(to_yaml(restructure(originals.parsed[original.name], rng)), encoding="utf-8")
        platform = rng.choice(PLATFORMS)
        try:
            pipeline = pipeline_of(load(path), originals.pipelines[original.name])
            omnicfg.resolve(path, platform=platform, pipeline=pipeline)
        except omnicfg.OmnicfgError:
            continue
        yield f"export {seed}: {original.name}", path, platform, pipeline


@pytest.mark.parametrize("block", BLOCKS)
def test_it_is_drawn(originals: Originals, block: int) -> None:
    for story, path, platform, pipeline in mutants(originals, block):
        profile = load(path)
        graph = graph_of(profile, compile_profile(profile, platform, pipeline))
        for name in format_names():
            text = renderer(name)(graph, Style(False), 40)
            assert not _CONTROL.search(text), story
        assert pydot.graph_from_dot_data(renderer("dot")(graph, Style(False), None)), story


@pytest.mark.parametrize("block", BLOCKS)
def test_it_is_exported(originals: Originals, block: int, tmp_path: Path) -> None:
    for story, path, platform, pipeline in mutants(originals, block):
        plan = omnicfg.resolve(path, platform=platform, pipeline=pipeline)
        flat = tmp_path / "flat.yaml"
        only = profile_only(plan, "`omnicfg export`")
        flat.write_text(target("vllm-omni").render(only), encoding="utf-8")
        if not only.references:
            again = omnicfg.resolve(flat, platform=platform).to_dict()
            assert canonical(encode(again["stages"])) == canonical(encode(plan.to_dict()["stages"])), story
        for name in ("k8s", "compose"):
            try:
                made = workload(plan, "x", name=None, model="a/b", image="c:1", port=80, engine="vllm-omni")
                found = documents(target(name).render(made))
            except omnicfg.OmnicfgError:
                continue
            check(name, found, story)


def check(name: str, found: list[dict[str, Any]], story: str) -> None:
    if name == "compose":
        check_compose(found[0])
        return
    for document in found:
        try:
            kubernetes_validate.validate(document, "1.37", strict=True)
        except kubernetes_validate.ValidationError as error:
            pytest.fail(f"{story}: {error}")


@pytest.mark.parametrize("block", BLOCKS)
def test_it_is_begun_on(originals: Originals, block: int) -> None:
    own = originals.folder / "own.yaml"
    for story, path, platform, pipeline in mutants(originals, block):
        if "pipeline" not in load(path).raw.items:
            continue
        settings = parse_overrides(["stages.0.max_num_seqs=3"])
        try:
            own.write_text(text_of(on_profile(own, str(path), platform, settings)), encoding="utf-8")
        except omnicfg.OmnicfgError:  # one that no file can lie on
            continue
        stage = omnicfg.resolve(own, platform=platform).to_dict()["stages"][0]
        assert stage["engine_args"]["max_num_seqs"] == 3, f"{story} for {pipeline}"
