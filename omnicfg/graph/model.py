"""What a graph of a profile shows: its files by inheritance, its stages by what hands what to what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.compiler import Profile
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import is_device_number
from omnicfg.tree import Mapping, Sequence, plain

BASE, OVERLAY, PROFILE = "base", "overlay", "profile"
_HIGHEST: Final = 999_999  # a stage id that anybody means


@dataclass(frozen=True, slots=True)
class File:
    """One file. ``below`` is the number of the file that it lies on, and ``by`` says how it comes to lie there.

    ``platforms`` are the platforms that it has a block for.
    """

    name: str
    role: str
    platforms: tuple[str, ...]
    below: int | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of the pipeline; ``output`` is what it answers a client with, if anything.

    ``is_configured`` tells whether the profile says anything of it.
    """

    stage_id: int
    name: str
    kind: str
    devices: str | None
    replicas: int
    output: str | None
    is_configured: bool


@dataclass(frozen=True, slots=True)
class Link:
    """One stage hands its output to another: over which connector, and whether piece by piece while it is made.

    ``is_real`` is false for a link that the profile writes and the pipeline does not have.
    """

    source: int
    target: int
    connector: str | None
    connector_class: str | None
    in_chunks: bool
    is_real: bool = True


@dataclass(frozen=True, slots=True)
class Graph:
    """A profile on one platform."""

    profile: str
    platform: str
    pipeline: str
    files: tuple[File, ...]
    stages: tuple[Stage, ...]
    links: tuple[Link, ...]

    def links_of(self, stage_id: int) -> list[Link]:
        """What a stage hands on."""
        return [link for link in self.links if link.source == stage_id]


def graph_of(profile: Profile, plan: Plan) -> Graph:
    """The graph of a compiled profile. The same files give the same graph, entry by entry."""
    return Graph(
        plan.profile,
        plan.platform,
        plan.pipeline,
        tuple(_files(profile)),
        tuple(_stage(stage) for stage in plan.stages),
        tuple(_links(plan)),
    )


def _files(profile: Profile) -> Iterator[File]:
    """The files outermost first, as they were read: the profile and its bases, then each overlay with its own."""
    roots: list[int] = []
    is_root = True
    for number, document in enumerate(profile.chain.documents):
        has_base = document.value("base_config") is not None
        role = BASE if not is_root else OVERLAY if roots else PROFILE
        below, by = (number + 1, "base_config") if has_base else (None, "")
        if is_root:
            below, by = (below, by) if has_base or not roots else (roots[-1], "--overlay")
            roots.append(number)
        yield File(document.mark.file, role, _platforms(document), below, by)
        is_root = not has_base


def _platforms(document: Mapping) -> tuple[str, ...]:
    blocks = document.items.get("platforms")
    return tuple(map(str, blocks.items)) if isinstance(blocks, Mapping) else ()


def _stage(stage: StagePlan) -> Stage:
    kinds = [stage.stage_type, stage.worker_type]
    devices, replicas = stage.runtime.value("devices"), stage.runtime.value("num_replicas")
    return Stage(
        stage.stage_id,
        stage.model_stage,
        " ".join(kind for kind in kinds if kind),
        None if devices is None else str(devices),
        replicas if isinstance(replicas, int) else 1,
        str(stage.tree.value("final_output_type")) if stage.tree.value("final_output") else None,
        "num_replicas" in stage.runtime.items,
    )


def _links(plan: Plan) -> Iterator[Link]:
    """The pipeline's own links in its order, then what the profile writes beside them."""
    named = _named(plan)
    stages = {stage.stage_id: stage for stage in plan.stages}
    for target in plan.stages:
        sources = target.tree.value("input_sources")
        for source in sources if isinstance(sources, list) else ():
            connector, kind = named.pop((source, target.stage_id), (None, None))
            yield Link(source, target.stage_id, connector, kind, _in_chunks(stages.get(source)))
    for (source, end), (connector, kind) in named.items():
        yield Link(source, end, connector, kind, _in_chunks(stages.get(source)), is_real=False)


def _in_chunks(stage: StagePlan | None) -> bool:
    return stage is not None and bool(stage.arg("async_chunk"))


def _named(plan: Plan) -> dict[tuple[int, int], tuple[str | None, str | None]]:
    """Link → its connector and that one's class, as the stages and ``edges`` say."""
    found: dict[tuple[int, int], tuple[str | None, str | None]] = {}
    for stage in plan.stages:
        for side, prefix in (("output_connectors", "to_stage_"), ("input_connectors", "from_stage_")):
            block = stage.extras.items.get(side)
            for key, node in block.items.items() if isinstance(block, Mapping) else ():
                other = _stage_id(str(key).removeprefix(prefix))
                if other is not None and str(key).startswith(prefix):
                    ends = (stage.stage_id, other)
                    found.setdefault(ends if prefix == "to_stage_" else ends[::-1], _connector(plain(node), plan))
    edges = plan.deploy.items.get("edges")
    for edge in edges.mappings() if isinstance(edges, Sequence) else ():
        source, end = _stage_id(edge.value("from")), _stage_id(edge.value("to"))
        if source is not None and end is not None:
            found.setdefault((source, end), ("edges", "SharedMemoryConnector"))
    return found


def _stage_id(written: Any) -> int | None:
    """The stage that a number, or its digits, can be the id of."""
    if isinstance(written, int) and not isinstance(written, bool):
        return written if 0 <= written <= _HIGHEST else None
    is_id = isinstance(written, str) and is_device_number(written)
    return int(written) if is_id else None


def _connector(named: Any, plan: Plan) -> tuple[str | None, str | None]:
    if isinstance(named, dict):
        return None, _class(named)
    connectors = plan.deploy.value("connectors")
    declared = connectors.get(named) if isinstance(connectors, dict) and isinstance(named, str) else None
    return (None if named is None else str(named)), _class(declared)


def _class(connector: Any) -> str | None:
    name = connector.get("name") if isinstance(connector, dict) else None
    return name if isinstance(name, str) else None
