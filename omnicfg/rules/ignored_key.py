"""OC701: a stage's setting that is accepted and then ignored."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.catalog.vllm_args import known_engine_args
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import remove_key
from omnicfg.keys import Block, blocks_of
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject
from omnicfg.tree import Mapping, plain

RULE = Rule(
    code="OC701",
    name="ignored-key",
    severity=Severity.WARNING,
    what=(
        "A key that vLLM-Omni accepts for this kind of stage and does nothing with: a text engine's setting on a "
        "diffusion stage, the pipeline's topology, or a number that is computed."
    ),
    why=(
        "The keys of all kinds of stages share one schema, so nobody refuses them; what is no field of the engine that "
        "runs the stage is dropped on the way. `num_gpus` follows from the parallel sizes, and `final_output` from the "
        "pipeline, whatever a profile says. The list is made by asking the release itself: no value of such a key "
        "changes what the stage is started with."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    num_gpus: 8
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    tensor_parallel_size: 1
""",
)

# As a stage may say it → as the topology says it.
_TOPOLOGY: Final = {
    "final_output": "final_output",
    "final_output_type": "final_output_type",
    "is_comprehension": "owns_tokenizer",
}


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every setting of every stage whose kind is known."""
    for block in blocks_of(document, subject):
        kind = subject.stage_kind(block.stage_id) if block.place == "stage" else None
        if kind is None:
            continue
        for key in block.node.items:
            if _is_ignored(key, block, kind, subject.engine) and not _is_so_anyway(key, block, subject):
                yield Finding(
                    block.node.key_mark(key),
                    f"`{key}` in {block.what} changes nothing: {_reason(str(key))}",
                    _help(str(key), kind),
                    block.stage_id,
                    block.platform,
                    fix=remove_key(subject, block.node, key),
                )


def _is_ignored(key: Hashable, block: Block, kind: str, engine: str) -> bool:
    if key not in deploy_schema().ignored_keys[kind] or plain(block.node.items[key]) is None:
        return False
    return engine == DEFAULT_ENGINE or key not in known_engine_args()


def _is_so_anyway(key: Hashable, block: Block, subject: Subject) -> bool:
    """Whether a key of the topology says what the topology says: it does no harm."""
    field = _TOPOLOGY.get(key) if isinstance(key, str) else None
    if field is None or subject.pipeline is None:
        return False
    stages = pipelines()[subject.pipeline]["stages"]
    said = next(stage[field] for stage in stages if stage["stage_id"] == block.stage_id)
    return bool(said == plain(block.node.items[key]))


def _reason(key: str) -> str:
    if key in _TOPOLOGY:
        return "the pipeline's topology decides it"
    if key == "num_gpus":
        return "it is computed from the parallel sizes"
    return f"vllm-omni {VLLM_OMNI} takes it and hands it to nobody"


def _help(key: str, kind: str) -> str:
    if key == "num_gpus":
        return "Remove it; `devices` and the parallel sizes say how many there are."
    schema = deploy_schema()
    readers = [name for name, keys in schema.owners.items() if key in keys and key not in schema.ignored_keys[name]]
    if readers and key not in _TOPOLOGY:
        return f"Remove it; it is a setting of {' and '.join(readers)} stages, and this one is {kind}."
    return "Remove it."
