"""OC201: a stage entry that configures no stage of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.diagnostics import Severity
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, Scalar, Sequence

RULE = Rule(
    code="OC201",
    name="unmatched-stage",
    severity=Severity.ERROR,
    what="A stage entry whose `stage_id` matches no stage of the pipeline, in `stages` or in a platform block.",
    why=(
        "vLLM-Omni drops such entries without a word, and with them everything that they set. An id in quotes is the "
        'commonest case: `stage_id: "0"` is text and matches nothing.'
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 7
    max_num_seqs: 8
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 1
    max_num_seqs: 8
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """The entries of ``stages`` and of every known platform's block."""
    if subject.pipeline is None:
        return
    ids = [stage["stage_id"] for stage in pipelines()[subject.pipeline]["stages"]]
    yield from _entries(document.items.get("stages"), ids, subject.pipeline, None)
    platforms = document.items.get("platforms")
    for name, block in platforms.items.items() if isinstance(platforms, Mapping) else ():
        if isinstance(name, str) and name in deploy_schema().platforms and isinstance(block, Mapping):
            yield from _entries(block.items.get("stages"), ids, subject.pipeline, name)


def _entries(stages: Node | None, ids: list[int], pipeline: str, platform: str | None) -> Iterator[Finding]:
    for entry in stages.items if isinstance(stages, Sequence) else ():
        node = entry.items.get("stage_id") if isinstance(entry, Mapping) else None
        if not isinstance(node, Scalar) or (node.value in ids and not isinstance(node.value, bool)):
            continue
        known = ", ".join(str(stage_id) for stage_id in ids)
        written = f'"{node.value}"' if isinstance(node.value, str) else node.value
        text = node.value.strip() if isinstance(node.value, str) else ""
        yield Finding(
            node.mark,
            f"stage_id {written} matches no stage of pipeline {pipeline}, so the whole entry is dropped",
            f"Write `stage_id: {text}` without quotes." if text in map(str, ids) else f"Its stages are {known}.",
            platform=platform,
        )
