"""Over hundreds of overlay chains: what the file on top says of a stage takes effect, or a finding tells.

And the other way round: a setting that a finding calls lost is nowhere in the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

import omnicfg
from omnicfg.catalog.upstream import pipelines
from omnicfg.compiler import compile_profile, load
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError
from omnicfg.plan import Plan
from omnicfg.rule import all_platforms
from omnicfg.tree import Mapping, Mark, Node, Scalar, Sequence
from tests.parity.cases import Case, generate

pytestmark = pytest.mark.slow

LOST: Final = ("OC301", "OC302", "OC304", "OC309")
"""What these call lost is in no plan; the other losses are told at what won."""


class Setting(NamedTuple):
    """A value of a stage in the file on top, the places of the keys and blocks around it, and where it should count."""

    node: Scalar
    around: tuple[Mark, ...]
    stage_id: int
    route: tuple[object, ...]
    platforms: tuple[str, ...]


def settings(document: Mapping, ids: list[int]) -> Iterator[Setting]:
    """Every value of every entry that is the only one of its stage in its list (a repeated one is OC203's)."""
    yield from _of_list(document.items.get("stages"), ids, all_platforms())
    platforms = document.items.get("platforms")
    for name, block in platforms.items.items() if isinstance(platforms, Mapping) else ():
        if name in all_platforms() and isinstance(block, Mapping):
            yield from _of_list(block.items.get("stages"), ids, (str(name),))


def _of_list(stages: Node | None, ids: list[int], platforms: tuple[str, ...]) -> Iterator[Setting]:
    entries = stages.mappings() if isinstance(stages, Sequence) else []
    of_entries = [entry.value("stage_id") for entry in entries]
    for entry, stage_id in zip(entries, of_entries, strict=True):
        if stage_id in ids and of_entries.count(stage_id) == 1 and not isinstance(stage_id, bool):
            yield from _below(entry.without("stage_id"), (), (), int(stage_id), platforms)


def _below(
    node: Mapping, around: tuple[Mark, ...], route: tuple[object, ...], stage_id: int, platforms: tuple[str, ...]
) -> Iterator[Setting]:
    for key, child in node.items.items():
        marks, path = (*around, node.key_mark(key), child.mark), (*route, key)
        if isinstance(child, Mapping):
            yield from _below(child, marks, path, stage_id, platforms)
        elif isinstance(child, Scalar) and child.value is not None:
            yield Setting(child, marks, stage_id, path, platforms)


def marks(node: Node) -> Iterator[Mark]:
    yield node.mark
    children = node.items.values() if isinstance(node, Mapping) else node.items if isinstance(node, Sequence) else ()
    for child in children:
        yield from marks(child)


def is_told(setting: Setting, found: list[Diagnostic]) -> bool:
    """Whether a finding points at the value, at a key or a block around it, or names a block that it is merged into."""
    places = {tuple(mark)[:3] for mark in setting.around}
    block, owner = f"`{setting.route[0]}: {{", f"}}` of stage {setting.stage_id} "
    return any(
        (one.path, one.line, one.column) in places or (one.message.startswith(block) and owner in one.message)
        for one in found
    )


def says_the_same(setting: Setting, plan: Plan) -> bool:
    """Whether the plan has the value by another way: from the topology, or derived from it."""
    stage = plan.stage(setting.stage_id)
    node = None if stage is None else stage.find(setting.route)
    return isinstance(node, Scalar) and node.value == setting.node.value


CASES: Final = {case.name: case for case in generate()}


@pytest.fixture
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_nothing_is_lost_unseen(case: Case, tmp_path: Path, upstream_deploy: Path) -> None:
    path = case.write(tmp_path, upstream_deploy)
    try:
        profile = load(path)
        plans = {platform: compile_profile(profile, platform, case.pipeline) for platform in all_platforms()}
    except OmnicfgError:
        return  # what cannot be compiled is told anyhow
    found = omnicfg.validate(path, pipeline=case.pipeline)
    in_force = {platform: set(marks(plan.tree)) for platform, plan in plans.items()}
    ids = [stage["stage_id"] for stage in pipelines()[case.pipeline]["stages"]]
    assert [
        setting
        for setting in settings(profile.chain.documents[0], ids)
        if not is_told(setting, found)
        and not any(
            setting.node.mark in in_force[platform] or says_the_same(setting, plans[platform])
            for platform in setting.platforms
        )
    ] == []
    lost = [one for one in found if one.code in LOST]
    for one in lost:
        for platform in one.platform.split(",") if one.platform else all_platforms():
            mark = Mark(one.path, one.line, one.column, one.end_line, one.end_column)
            assert mark not in in_force[platform], one
