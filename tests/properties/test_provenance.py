"""Every leaf of every plan knows the layer that set it and the place where it is written."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.compiler import Profile, compile_profile, load, pipeline_of
from omnicfg.errors import ResolveError
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.passes.read import read_scalar
from omnicfg.plan import Plan
from omnicfg.tree import LayerKind, Node, Scalar, leaves
from tests.properties.profiles import PLATFORMS

IN_FILES = (LayerKind.BASE, LayerKind.PROFILE, LayerKind.OVERLAY, LayerKind.PLATFORM)
COMPUTED = ("derived from", "read as")


@pytest.fixture(scope="module")
def plans(upstream_deploy: Path) -> list[Plan]:
    """All of upstream's files on all platforms."""
    compiled = []
    for path in sorted(upstream_deploy.glob("*.yaml")):
        profile = load(path)
        key = _pipeline(profile)
        compiled += [compile_profile(profile, platform, key) for platform in PLATFORMS]
    return compiled


def _pipeline(profile: Profile) -> str:
    try:
        return pipeline_of(profile)
    except ResolveError:
        return guess_pipeline(profile.path) or "moss_tts_delay"


def test_all_cells_are_there(plans: list[Plan]) -> None:
    assert len(plans) == 550


def test_every_leaf_has_an_origin(plans: list[Plan]) -> None:
    without = [(plan.profile, route) for plan in plans for route, node in plan.leaves() if not _has_origin(node)]
    assert without == []


def _has_origin(node: Node) -> bool:
    if node.layer.kind in IN_FILES:
        return bool(node.mark.file) and node.mark.line >= 1 and node.mark.column >= 1
    return bool(node.mark.file)


def test_every_leaf_that_was_beaten_has_an_origin_too(plans: list[Plan]) -> None:
    for plan in plans:
        for route, node in plan.leaves():
            for lost in node.beaten:
                assert lost.reason, (plan.profile, route)
                for _, leaf in leaves(lost.node):
                    assert _has_origin(leaf), (plan.profile, route)


def test_a_value_of_a_file_is_what_the_file_says_at_its_place(plans: list[Plan]) -> None:
    """The strongest form: cut out of the file what the origin points at, read it, and the value is there."""
    texts: dict[str, list[str]] = {}
    seen = 0
    for plan in plans:
        for route, node in plan.leaves():
            if not isinstance(node, Scalar) or node.layer.kind not in IN_FILES or _is_computed(node):
                continue
            mark = node.mark
            lines = texts.setdefault(mark.file, Path(mark.file).read_text(encoding="utf-8").splitlines())
            if mark.end_line != mark.line:
                continue  # a text over several lines
            text = lines[mark.line - 1][mark.column - 1 : mark.end_column - 1]
            read = text[1:-1] if node.quoted else read_scalar(text)
            assert read == node.value, (plan.profile, route, mark)
            seen += 1
    assert seen > 20_000


def _is_computed(node: Node) -> bool:
    return any(lost.reason.startswith(COMPUTED) for lost in node.beaten)


def test_what_topology_and_defaults_give_lies_in_upstreams_source(plans: list[Plan]) -> None:
    for plan in plans:
        for route, node in plan.leaves():
            if node.layer.kind in (LayerKind.TOPOLOGY, LayerKind.DEFAULT):
                assert node.mark.file.startswith("vllm_omni/"), (plan.profile, route, node.mark)
                assert node.mark.file.endswith(".py"), (plan.profile, route, node.mark)


def test_the_layer_of_a_value_is_the_file_it_lies_in(plans: list[Plan]) -> None:
    for plan in plans:
        for route, node in plan.leaves():
            if node.layer.kind is LayerKind.PROFILE:
                assert node.mark.file == plan.profile, route
            if node.layer.kind is LayerKind.BASE:
                assert Path(node.mark.file).name == node.layer.name != Path(plan.profile).name, route
            if node.layer.kind is LayerKind.PLATFORM:
                assert node.layer.name == plan.platform, route


def test_shipped_profiles_have_origins_too() -> None:
    from omnicfg.catalog.library import library

    for name in library():
        for platform in PLATFORMS:
            plan = omnicfg.resolve(name, platform=platform)
            assert [route for route, node in plan.leaves() if not _has_origin(node)] == [], name
