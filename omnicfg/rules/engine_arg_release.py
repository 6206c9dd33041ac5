"""OC706: an engine arg that a release of vLLM has given up, or is about to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from omnicfg.catalog.vllm_args import (
    ConfigClass,
    all_args,
    config_class,
    config_classes,
    engine_args,
    vllm_versions,
)
from omnicfg.diagnostics import Severity
from omnicfg.keys import Block, blocks_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain
from omnicfg.value_types import ValueType

RULE = Rule(
    code="OC706",
    name="engine-arg-release",
    severity=Severity.WARNING,
    what=(
        "An engine arg that the vLLM release in use calls deprecated; or, as a note, one that it takes and a later "
        "release does not, or not with this value."
    ),
    why=(
        "vLLM drops engine args, fields of its nested configs and choices from one release to the next, and refuses "
        "them at start from then on. The release in use is the engine's own, or the one that `--vllm-version` names; "
        "what that one does not take is an unknown key or a wrong value already."
    ),
    engine="bundled",
    bad="""\
pipeline: qwen3_omni_moe_thinker_only
async_chunk: false
stages:
  - stage_id: 0
    enable_prefix_caching: false
    disable_cascade_attn: true
""",
    good="""\
pipeline: qwen3_omni_moe_thinker_only
async_chunk: false
stages:
  - stage_id: 0
    enable_prefix_caching: false
    attention_backend: FLASH_ATTN
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every setting of a text stage, and every field of vLLM's nested configs."""
    version = subject.vllm_version
    later = vllm_versions()[vllm_versions().index(version) + 1 :]
    for block in blocks_of(document, subject):
        if block.place not in ("stage", "config") or subject.stage_kind(block.stage_id) == "diffusion":
            continue
        here = _args(block, version)
        for key, node in block.node.items.items():
            if not isinstance(key, str) or here is None or key not in here.types or plain(node) is None:
                continue
            told = _deprecation(key, block, here, version) or _end(key, node, block, here.types[key], later)
            if told is not None:
                severity, message, hint = told
                mark = block.node.key_mark(key)
                yield Finding(mark, message, hint, block.stage_id, block.platform, severity=severity)


_Told = tuple[Severity, str, str | None]


def _args(block: Block, version: str) -> ConfigClass | None:
    """What a version takes in a block; ``None`` where it does not have such a config."""
    if block.config is None:
        return all_args(version)
    return config_class(block.config, version) if block.config in config_classes(version) else None


def _deprecation(key: str, block: Block, here: ConfigClass, version: str) -> _Told | None:
    if key not in here.deprecated:
        return None
    words = "" if block.config is not None else str(engine_args(version)[key]["help"])
    said = re.sub(r"\s+", " ", words).strip()
    hint = f"vLLM says: {said}" if "deprecated" in said.lower() else "Leave it out."
    return Severity.WARNING, f"vLLM {version} calls `{key}` in {block.what} deprecated", hint


def _end(key: str, node: Node, block: Block, here: ValueType, later: tuple[str, ...]) -> _Told | None:
    """The first later version that does not take the setting, or its value."""
    value = plain(node)
    for version in later:
        there = _args(block, version)
        wanted = None if there is None else there.types.get(key)
        if wanted is None and (there is None or not there.is_open or block.config is None):
            return Severity.NOTE, f"vLLM {version} no longer takes `{key}` in {block.what}", "Plan to do without it."
        if wanted is not None and here.admits(value) and not wanted.admits(value):
            message = f"vLLM {version} no longer takes `{key}: {value}` in {block.what}; it has to be {wanted}"
            return Severity.NOTE, message, None
    return None
