"""OC108: an environment variable of vLLM's or vLLM-Omni's, misspelt."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.upstream import omni_variables
from omnicfg.catalog.vllm_args import known_variables
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import rename_key
from omnicfg.keys import blocks_of
from omnicfg.near import slip_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping

RULE = Rule(
    code="OC108",
    name="misspelt-variable",
    severity=Severity.WARNING,
    what="A name under `env` that is a slip of the pen away from an environment variable of vLLM's or vLLM-Omni's.",
    why=(
        "An environment takes any name, so a typo is no error anywhere: the setting does not apply, and all that vLLM "
        "says is a line in the log of a server that is up. Names are held against those of the shipped vLLM releases "
        "(`vllm/envs.py`) and those of vLLM-Omni (`vllm_omni/config/environment_variable_inventory.py`); those of "
        "plugins and of other libraries are like none of them and left alone."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    env:
      VLLM_LOGING_LEVEL: DEBUG
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    env:
      VLLM_LOGGING_LEVEL: DEBUG
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every name of every `env` block that is no variable, and nearly one."""
    known = None
    for block in blocks_of(document, subject):
        if block.place != "env":
            continue
        known = known or known_variables() | omni_variables()
        for name in block.node.items:
            if not isinstance(name, str) or name in known:
                continue
            meant = slip_of(name, known)
            if meant is not None:
                yield Finding(
                    block.node.key_mark(name),
                    f"neither vLLM nor vLLM-Omni has a variable `{name}`",
                    f"Did you mean `{meant}`?",
                    block.stage_id,
                    block.platform,
                    fix=rename_key(subject, block.node, name, meant, safe=False),
                )
