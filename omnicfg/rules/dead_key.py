"""OC104: a connector or edge setting that nothing reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema
from omnicfg.diagnostics import Fix, Severity
from omnicfg.fixes.edits import empty_block, remove_key, rename_key
from omnicfg.near import near, slip_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Sequence

RULE = Rule(
    code="OC104",
    name="dead-key",
    severity=Severity.WARNING,
    what="A key under a connector's `extra`, or of an edge, that no connector, adapter or model of the engine reads.",
    why=(
        "Both places are free-form, so a typo or a setting of an older release stays there for ever and looks as if it "
        "did something. `connector_get_sleep_s` and its two siblings are such relics: 55 resolved upstream profiles "
        "carry them, and vllm-omni 0.30.0 reads none."
    ),
    bad="""\
pipeline: qwen3_tts
connectors:
  shm:
    name: SharedMemoryConnector
    extra:
      connector_get_sleep_s: 0.01
stages:
  - stage_id: 0
    enable_prefix_caching: false
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
""",
    good="""\
pipeline: qwen3_tts
connectors:
  shm:
    name: SharedMemoryConnector
    extra:
      codec_chunk_frames: 25
stages:
  - stage_id: 0
    enable_prefix_caching: false
  - stage_id: 1
    input_connectors: {from_stage_0: shm}
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every key of every connector's ``extra`` and of every edge."""
    schema = deploy_schema()
    connectors = document.items.get("connectors")
    for name, connector in connectors.items.items() if isinstance(connectors, Mapping) else ():
        extra = connector.items.get("extra") if isinstance(connector, Mapping) else None
        if isinstance(extra, Mapping):
            assert isinstance(connector, Mapping)
            keys = schema.connector_extra_keys
            emptied = empty_block(subject, connector, "extra") if keys.isdisjoint(extra.items) else None
            yield from _unread(extra, keys, f"of connector `{name}`", subject, emptied)
    edges = document.items.get("edges")
    for edge in edges.items if isinstance(edges, Sequence) else ():
        if isinstance(edge, Mapping):
            yield from _unread(edge, schema.edge_keys, "of an edge", subject, None)


def _unread(
    block: Mapping, known: frozenset[str], where: str, subject: Subject, emptied: Fix | None
) -> Iterator[Finding]:
    """The keys that nothing reads; ``emptied`` is what mends them all where the block has no other key."""
    for key in block.items:
        if key not in known:
            close = near(str(key), known)
            yield Finding(
                block.key_mark(key),
                f"nothing in vllm-omni {VLLM_OMNI} reads `{key}` {where}",
                f"Did you mean `{close}`?" if close else "Remove it.",
                fix=_fix(key, close, block, known, subject) or emptied,
            )


def _fix(key: Hashable, close: str | None, block: Mapping, known: frozenset[str], subject: Subject) -> Fix | None:
    if close is None:
        return remove_key(subject, block, key) if not known.isdisjoint(block.items) else None
    return rename_key(subject, block, key, close, safe=slip_of(str(key), known) == close)
