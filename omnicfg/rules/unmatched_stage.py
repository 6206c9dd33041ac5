"""OC201: a stage entry that configures no stage of the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import unquote
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, Scalar, Sequence

RULE = Rule(
    code="OC201",
    name="unmatched-stage",
    severity=Severity.ERROR,
    what=(
        "A stage entry whose `stage_id` matches no stage of the pipeline, in `stages` or in a platform block; or an "
        "entry of a platform block for a stage that `stages` does not list."
    ),
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
    yield from _unmatched(_ids_in(document.items.get("stages")), ids, subject, None)
    for name, nodes in _platform_ids(document):
        yield from _unmatched(nodes, ids, subject, name)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """The entries of platform blocks against the stages that the merged profile lists."""
    if subject.pipeline is None:
        return
    ids = [stage["stage_id"] for stage in pipelines()[subject.pipeline]["stages"]]
    listed = [node.value for node in _ids_in(subject.profile.deploy.items["stages"])]
    for name, nodes in _platform_ids(subject.profile.deploy):
        for node in nodes:
            if node.value in ids and node.value not in listed:
                yield Finding(
                    node.mark,
                    f"`stages` lists no stage {node.value}, so what the {name} block sets for it is dropped",
                    f"Add `- stage_id: {node.value}` to `stages`.",
                    platform=name,
                )


def _platform_ids(document: Mapping) -> Iterator[tuple[str, list[Scalar]]]:
    platforms = document.items.get("platforms")
    for name, block in platforms.items.items() if isinstance(platforms, Mapping) else ():
        if isinstance(name, str) and name in deploy_schema().platforms and isinstance(block, Mapping):
            yield name, _ids_in(block.items.get("stages"))


def _ids_in(stages: Node | None) -> list[Scalar]:
    entries = stages.mappings() if isinstance(stages, Sequence) else ()
    nodes = (entry.items.get("stage_id") for entry in entries)
    return [node for node in nodes if isinstance(node, Scalar)]


def _unmatched(nodes: list[Scalar], ids: list[int], subject: Subject, platform: str | None) -> Iterator[Finding]:
    for node in nodes:
        if node.value in ids:
            continue
        known = ", ".join(str(stage_id) for stage_id in ids)
        written = f'"{node.value}"' if isinstance(node.value, str) else node.value
        text = node.value.strip() if isinstance(node.value, str) else ""
        meant = text in map(str, ids)
        alone = meant and not any(other is not node and str(other.value).strip() == text for other in nodes)
        yield Finding(
            node.mark,
            f"stage_id {written} matches no stage of pipeline {subject.pipeline}, so the whole entry is dropped",
            f"Write `stage_id: {text}` without quotes." if meant else f"Its stages are {known}.",
            platform=platform,
            fix=unquote(subject, node, text) if alone else None,
        )
