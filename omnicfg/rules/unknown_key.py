"""OC101: a key that nothing reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import known_engine_args
from omnicfg.diagnostics import Severity
from omnicfg.keys import Block, blocks_of
from omnicfg.near import near
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Scalar

RULE = Rule(
    code="OC101",
    name="unknown-key",
    severity=Severity.ERROR,
    what="A key that no part of the engine reads, at any level of a profile.",
    why=(
        "vLLM-Omni ignores unknown keys at the top level, in platform blocks and in `runtime`, and hands unknown stage "
        "keys on as engine args that are refused at start, or that nobody reads. A typo therefore costs either a "
        "crash or, worse, a setting that silently never applies."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seq: 8
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every key of every block of a file against the keys that the block may have."""
    for block in blocks_of(document, subject):
        if block.known is None:
            continue
        for key in block.node.items:
            if key not in block.known and not _is_unset_field(block, key):
                yield Finding(
                    block.node.key_mark(key),
                    f"unknown key `{key}` in {block.what}",
                    _hint(str(key), block, subject.stage_kind(block.stage_id)),
                    block.stage_id,
                    block.platform,
                )


def _is_unset_field(block: Block, key: Hashable) -> bool:
    """A field of the stage schema that is null reaches no engine, so it does no harm on the wrong kind of stage."""
    node = block.node.items[key]
    return key in deploy_schema().stage_fields and isinstance(node, Scalar) and node.value is None


def _hint(key: str, block: Block, kind: str | None) -> str:
    assert block.known is not None
    elsewhere = _elsewhere(key, block.place, kind)
    if elsewhere:
        return elsewhere
    close = near(key, block.known)
    if close:
        return f"Did you mean `{close}`?"
    listed = sorted(block.known)
    return f"It may have: {', '.join(listed)}." if len(listed) <= 12 else "Remove it; `omnicfg schema` lists the keys."


def _elsewhere(key: str, place: str, kind: str | None) -> str | None:
    """Where a key that exists in the language belongs, if it only stands in the wrong block."""
    schema = deploy_schema()
    if place == "stage" and key in _TOPOLOGY_KEYS:
        return f"`{key}` belongs to the pipeline's topology; a profile cannot change it."
    if place == "stage" and kind:
        others = sorted(other for other, keys in schema.owners.items() if key in keys)
        if others:
            return f"`{key}` is a setting of {' and '.join(others)} stages; this one is {kind}."
    if place != "stage" and (key in schema.stage_fields or key in known_engine_args()):
        return f"`{key}` is a setting of a stage: put it under the stage in `stages:`."
    if place != "profile" and key in schema.deploy_fields:
        return f"`{key}` is a setting of the whole profile: put it at the top level."
    return None


_TOPOLOGY_KEYS = frozenset(
    {
        "engine_output_type",
        "execution_type",
        "final_output",
        "final_output_type",
        "hf_config_name",
        "input_sources",
        "is_comprehension",
        "model_arch",
        "model_stage",
        "sampling_constraints",
        "scheduler_cls",
        "stage_type",
        "worker_type",
    }
)
