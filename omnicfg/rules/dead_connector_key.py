"""OC104: a connector setting that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.near import near
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC104",
    name="dead-connector-key",
    severity=Severity.WARNING,
    what="A key under a connector's `extra` that no connector, adapter or model of the engine reads.",
    why=(
        "`extra` is free-form, so a typo or a setting of an older release stays there for ever and looks as if it did "
        "something. `connector_get_sleep_s` and its two siblings are such relics: 55 resolved upstream profiles "
        "carry them, and vllm-omni 0.30.0 reads none."
    ),
    bad=(
        "pipeline: qwen3_tts\nconnectors:\n  shm:\n    name: SharedMemoryConnector\n    extra:\n"
        "      connector_get_sleep_s: 0.01\nstages:\n  - stage_id: 1\n    input_connectors: {from_stage_0: shm}\n"
    ),
    good=(
        "pipeline: qwen3_tts\nconnectors:\n  shm:\n    name: SharedMemoryConnector\n    extra:\n"
        "      codec_chunk_frames: 25\nstages:\n  - stage_id: 1\n    input_connectors: {from_stage_0: shm}\n"
    ),
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every key of every connector's ``extra``."""
    del subject
    known = deploy_schema().connector_extra_keys
    connectors = document.items.get("connectors")
    for name, connector in connectors.items.items() if isinstance(connectors, Mapping) else ():
        extra = connector.items.get("extra") if isinstance(connector, Mapping) else None
        for key in extra.items if isinstance(extra, Mapping) else ():
            if key not in known:
                close = near(str(key), known)
                assert isinstance(extra, Mapping)
                yield Finding(
                    extra.key_mark(key),
                    f"nothing in vllm-omni {VLLM_OMNI} reads `{key}` of connector `{name}`",
                    f"Did you mean `{close}`?" if close else "Remove it.",
                )
