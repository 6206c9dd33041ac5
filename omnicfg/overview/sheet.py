"""A profile's values on all platforms side by side, each with the chain of settings behind it, as they may be shown."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from omnicfg.evidence import CAPABILITY_OF, entry_on
from omnicfg.explain import Link, Role, chain_of
from omnicfg.origins import is_unset, layer_text
from omnicfg.plan import Plan, StagePlan
from omnicfg.report.terminal import one_line
from omnicfg.report.yaml import inline
from omnicfg.secrets import redacted
from omnicfg.tree import Layer, Mark, Node, Route, leaves, plain
from omnicfg.tree import Mapping as Tree

MAX_TEXT: Final = 2000
MAX_CHAIN: Final = 24
_MAX_PLACES: Final = 100
_SHORT: Final = 200
_TITLE: Final = ("stage_id", "model_stage", "stage_type", "worker_type")
_PARTS: Final = ("engine_args", "runtime", "extras")


class Said(NamedTuple):
    """One layer's word on a value: whether it wins, what it says, who says so, where, and why it lost."""

    role: Role
    value: str
    layer: str
    place: str
    reason: str


class Cell(NamedTuple):
    """A value on one platform.

    ``layer`` is the kind of layer that wins, ``chain`` starts with the winner. ``places`` are where the value and what
    it won against, their keys and list items are written (``file:line:column``): findings stand there. ``known`` is
    the verdict of the model's capability record and its evidence; empty where there is none.
    """

    layer: str
    chain: tuple[Said, ...]
    places: tuple[str, ...]
    known: str


class Row(NamedTuple):
    """A setting by its key, with a cell for each platform; ``None`` where the platform does not have it."""

    key: str
    cells: tuple[Cell | None, ...]


class Block(NamedTuple):
    """The settings of a stage; of the profile as a whole, where ``stage_id`` is ``None``."""

    stage_id: int | None
    title: str
    rows: tuple[Row, ...]


class _Entry(NamedTuple):
    """A leaf of a plan: its key as shown, its route within its block, its node, and its key's place."""

    key: str
    route: Route
    node: Node
    key_place: str


def sheet(plans: Mapping[str, Plan], platforms: Sequence[str], engine: str) -> tuple[Block, ...]:
    """The values of ``plans`` (by platform) in blocks: the profile's own, then stage by stage.

    Keys are those of :mod:`omnicfg.differences.compare`, topology fields with ``topology.`` before them. ``engine`` is
    what capability records are asked about. Platforms without a plan have no cells.
    """
    blocks: dict[int | None, tuple[str, dict[str, list[Cell | None]]]] = {}
    for column, platform in enumerate(platforms):
        plan = plans.get(platform)
        if plan is None:
            continue
        for stage, title, entries in _blocks(plan):
            stage_id = None if stage is None else stage.stage_id
            _, rows = blocks.setdefault(stage_id, (title, {}))
            for entry in entries:
                cells = rows.setdefault(entry.key, [None] * len(platforms))
                cells[column] = _cell(entry, _known(plan, stage, entry.key, engine))
    return tuple(
        Block(stage_id, title, tuple(Row(key, tuple(cells)) for key, cells in rows.items()))
        for stage_id, (title, rows) in blocks.items()
    )


def _blocks(plan: Plan) -> Iterator[tuple[StagePlan | None, str, Iterator[_Entry]]]:
    unset = [name for name, node in plan.deploy.items.items() if is_unset(node)]
    yield None, "pipeline-wide", _entries("", plan.deploy.without("pipeline", *unset))
    for stage in plan.stages:
        yield stage, one_line(stage.title), _of_stage(stage)


def _of_stage(stage: StagePlan) -> Iterator[_Entry]:
    yield from _entries("", stage.engine_args)
    yield from _entries("runtime.", stage.runtime)
    yield from _entries("extras.", stage.extras)
    yield from _entries("topology.", stage.tree.without(*_TITLE, *_PARTS))


def _entries(prefix: str, block: Tree, above: Route = ()) -> Iterator[_Entry]:
    """The leaves of a block by their dotted keys; a list counts as one value."""
    for name, node in block.items.items():
        key, route = f"{prefix}{name}", (*above, name)
        if isinstance(node, Tree) and node.items:
            yield from _entries(f"{key}.", node, route)
        else:
            yield _Entry(_text(key), route, node, str(block.key_marks.get(name, "")))


def _cell(entry: _Entry, known: str) -> Cell:
    links = chain_of(entry.node)
    marks = [mark for link in links for _, leaf in leaves(link.node) for mark in (link.node.mark, leaf.mark)]
    places = dict.fromkeys([entry.key_place, *map(str, marks[:_MAX_PLACES])])
    return Cell(
        entry.node.layer.kind.value,
        tuple(_said(entry, link) for link in links[:MAX_CHAIN]),
        tuple(_text(place) for place in places if place),
        known,
    )


def _said(entry: _Entry, link: Link) -> Said:
    node = link.node
    value = inline(redacted(entry.route, plain(node)))
    return Said(link.role, _text(value), _layer(node.layer, node.mark), _text(str(node.mark)), _text(link.reason or ""))


@functools.lru_cache(maxsize=1 << 14)
def _layer(layer: Layer, mark: Mark) -> str:
    return _text(layer_text(layer, mark))


def _known(plan: Plan, stage: StagePlan | None, key: str, engine: str) -> str:
    capability = CAPABILITY_OF.get(key)
    entry = None if stage is None or capability is None else entry_on(plan, stage, capability, engine)
    if entry is None:
        return ""
    told = f"{entry['verdict']}: {' '.join(entry['evidence'].split())} [{' '.join(entry['source'].split())}]"
    return _text(told)


def _text(text: str) -> str:
    """A text as it may be shown: on one line, and of bounded length, which says what was left out."""
    return _short_text(text) if len(text) <= _SHORT else _shown(text)


@functools.lru_cache(maxsize=1 << 14)
def _short_text(text: str) -> str:
    """The same, kept: nearly all texts are short, and met again on other platforms and in other profiles."""
    return _shown(text)


def _shown(text: str) -> str:
    shown = one_line(text)
    return shown if len(shown) <= MAX_TEXT else f"{shown[:MAX_TEXT]}… ({len(shown)} characters)"
