"""OC202: a platform block under a name that no platform has."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rename_key
from omnicfg.near import near, slip_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC202",
    name="unknown-platform",
    severity=Severity.ERROR,
    what="A block under `platforms` whose name is no platform.",
    why="vLLM-Omni looks blocks up by lower-case platform name; a block under `NPU` or `gpu` is never read.",
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
platforms:
  NPU:
    stages: [{stage_id: 0, max_num_seqs: 1}]
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
platforms:
  npu:
    stages: [{stage_id: 0, max_num_seqs: 1}]
""",
)

_OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "amd": "rocm", "hip": "rocm", "ascend": "npu", "intel": "xpu"}


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every name under ``platforms``."""
    known = deploy_schema().platforms
    platforms = document.items.get("platforms")
    for name in platforms.items if isinstance(platforms, Mapping) else ():
        if name not in known:
            assert isinstance(platforms, Mapping)
            word = str(name)
            slip = slip_of(word, known)
            close = slip or near(word, known) or _OTHER_NAMES.get(word.lower())
            yield Finding(
                platforms.key_mark(name),
                f"`{word}` is no platform, so its block is never read",
                f"Did you mean `{close}`?" if close else f"Platforms: {', '.join(known)}.",
                fix=rename_key(subject, platforms, name, close, safe=close == slip) if close else None,
            )
