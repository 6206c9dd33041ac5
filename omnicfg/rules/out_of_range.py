"""OC105: a number outside the range that the engine accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from omnicfg.diagnostics import Severity
from omnicfg.keys import blocks_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, plain

RULE = Rule(
    code="OC105",
    name="out-of-range",
    severity=Severity.ERROR,
    what="A number outside the range that the engine accepts.",
    why=(
        "vLLM-Omni checks these ranges only when the server starts (`gpu_memory_utilization` in (0, 1], at least one "
        "replica, positive sizes), some of them after the weights were loaded."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    num_replicas: 0
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    num_replicas: 1
""",
)


class _Range(NamedTuple):
    holds: Callable[[float], bool]
    text: str


_SHARE: Final = _Range(lambda value: 0 < value <= 1, "above 0 and at most 1")
_POSITIVE: Final = _Range(lambda value: value >= 1, "at least 1")
_RANGES: Final = {
    "gpu_memory_utilization": _SHARE,
    "num_replicas": _POSITIVE,
    "max_num_seqs": _POSITIVE,
    "max_num_batched_tokens": _POSITIVE,
    "tensor_parallel_size": _POSITIVE,
    "pipeline_parallel_size": _POSITIVE,
    "data_parallel_size": _POSITIVE,
}


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every number with a range, wherever a profile sets it."""
    for block in blocks_of(document, subject):
        for key, node in block.node.items.items():
            allowed = _RANGES.get(key) if isinstance(key, str) else None
            value = plain(node)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if allowed is not None and is_number and not allowed.holds(value):
                yield Finding(
                    node.mark,
                    f"`{key}` in {block.what} is {value}; it has to be {allowed.text}",
                    None,
                    block.stage_id,
                    block.platform,
                )
