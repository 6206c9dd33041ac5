"""OC407: connectors in a platform's block, where vLLM-Omni does not look for them."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import VLLM_OMNI
from omnicfg.diagnostics import Severity
from omnicfg.keys import blocks_of
from omnicfg.plan import CONNECTOR_SIDES
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC407",
    name="platform-connectors",
    severity=Severity.WARNING,
    what="`input_connectors` or `output_connectors` of a stage in a platform's block.",
    why=(
        "vLLM-Omni wires its connectors from the file itself, with its bases but before any platform's block is "
        "applied; the block's own references are never looked at, so every platform runs on the connectors of "
        "`stages:`. A profile of its own for the platform, with this one as its base, can name others."
    ),
    bad="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
platforms:
  npu:
    stages:
      - stage_id: 1
        input_connectors: {from_stage_0: shm}
""",
    good="""\
pipeline: qwen3_tts
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every stage of every platform's block."""
    if subject.engine != DEFAULT_ENGINE:
        return
    for block in blocks_of(document, subject):
        if block.place != "stage" or block.platform is None:
            continue
        for side in CONNECTOR_SIDES:
            if side in block.node.items:
                yield Finding(
                    block.node.key_mark(side),
                    f"vllm-omni {VLLM_OMNI} does not read `{side}` of {block.what} in a platform's block",
                    "Name the connectors in `stages:`, or write a profile for the platform.",
                    block.stage_id,
                    block.platform,
                )
