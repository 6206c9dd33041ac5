"""OC203: two entries of one list for the same stage."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Mark, Node, Scalar, Sequence

RULE = Rule(
    code="OC203",
    name="repeated-stage",
    severity=Severity.ERROR,
    what="Two entries with the same `stage_id` in one `stages` list, of a profile or of a platform block.",
    why=(
        "vLLM-Omni keeps entries by id. In a file without `base_config` the last one replaces the others, and what they"
        " set is lost without a word; on top of a base, and in a platform block, later entries go over earlier ones."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
  - stage_id: 0
    max_model_len: 4096
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
    max_model_len: 4096
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """The entries of ``stages`` and of every known platform's block, each list for itself."""
    del subject
    yield from _repeated(document.items.get("stages"), None)
    platforms = document.items.get("platforms")
    for name, block in platforms.items.items() if isinstance(platforms, Mapping) else ():
        if isinstance(name, str) and name in deploy_schema().platforms and isinstance(block, Mapping):
            yield from _repeated(block.items.get("stages"), name)


def _repeated(stages: Node | None, platform: str | None) -> Iterator[Finding]:
    first: dict[Hashable, Mark] = {}
    for entry in stages.mappings() if isinstance(stages, Sequence) else ():
        node = entry.items.get("stage_id")
        if not isinstance(node, Scalar):
            continue
        if node.value in first:
            yield Finding(
                node.mark,
                f"stage {node.value} already has an entry, on line {first[node.value].line}",
                "Make one entry of the two.",
                platform=platform,
            )
        first.setdefault(node.value, node.mark)
