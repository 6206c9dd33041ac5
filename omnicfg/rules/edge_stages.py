"""OC406: an edge between stages that hand nothing to each other."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Mark, Sequence, plain

RULE = Rule(
    code="OC406",
    name="edge-stages",
    severity=Severity.ERROR,
    what=(
        "An entry of `edges` whose `from` and `to` are not two stages that follow each other in the pipeline, or that "
        "is no mapping."
    ),
    why=(
        "The pipeline alone decides which stage hands its output to which. An entry of `edges` adds a shared-memory "
        "connector for the edge that it names, and a stage takes the first edge that it finds: one that the pipeline "
        "does not have makes a stage wait for what nobody sends. An entry without `from` or `to` is skipped (a "
        "warning). At one that is no mapping the connectors are set up no further. vLLM-Omni tells none of these."
    ),
    bad="""\
pipeline: qwen3_tts
edges:
  - {from: 1, to: 0}
""",
    good="""\
pipeline: qwen3_tts
edges:
  - {from: 0, to: 1}
""",
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every entry of ``edges``."""
    del subject
    sources = {str(stage.stage_id): [str(one) for one in stage.tree.value("input_sources")] for stage in plan.stages}
    known = ", ".join(f"{{from: {start}, to: {end}}}" for end, starts in sources.items() for start in starts)
    edges = plan.deploy.items["edges"]
    for edge in edges.items if isinstance(edges, Sequence) else ():
        if not isinstance(edge, Mapping):
            yield Finding(edge.mark, "an edge is a mapping with `from` and `to`; this is none", _help(known))
            continue
        start, end = (plain(edge.items[side]) if side in edge.items else None for side in ("from", "to"))
        if start is None or end is None:
            missing = "from" if start is None else "to"
            yield Finding(edge.mark, f"an edge without `{missing}` is skipped", _help(known), severity=Severity.WARNING)
        elif str(start) not in sources.get(str(end), ()):
            message = f"pipeline {plan.pipeline} has no edge from stage {start} to stage {end}"
            yield Finding(_place(edge, str(start), sources), message, _help(known))


def _place(edge: Mapping, start: str, sources: dict[str, list[str]]) -> Mark:
    """The side that is no stage at all; if both are stages, the one that the edge leads to."""
    return edge.items["to" if start in sources else "from"].mark


def _help(known: str) -> str:
    return f"Its edges are {known}." if known else "It has no edges: remove the entry."
