"""OC101: a key that nothing reads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema
from omnicfg.catalog.vllm_args import (
    config_args,
    config_class,
    config_classes,
    known_engine_args,
    vllm_versions,
)
from omnicfg.command_line.flags import catalog
from omnicfg.diagnostics import Fix, Severity
from omnicfg.fixes.edits import remove_key, rename_key
from omnicfg.keys import Block, blocks_of
from omnicfg.near import near, slip_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.rules.wrong_type import is_misquoted
from omnicfg.tree import Mapping, Scalar, plain

RULE = Rule(
    code="OC101",
    name="unknown-key",
    severity=Severity.ERROR,
    what="A key that no part of the engine reads, at any level of a profile.",
    why=(
        "vLLM-Omni ignores unknown keys at the top level, in platform blocks and in `runtime`, and hands unknown stage "
        "keys on as engine args that are refused at start, or that nobody reads. A typo therefore costs either a "
        "crash or, worse, a setting that silently never applies. Top-level keys that begin with `x-` are left alone: a "
        "place for anchors."
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
    blocks = list(blocks_of(document, subject))
    unknown = 0
    for block in blocks:
        if block.known is None:
            continue
        for key in block.node.items:
            if key not in block.known and not _is_unset_field(block, key) and not _is_shelf(block, key):
                unknown += 1
                if unknown > _MOST:
                    yield Finding(
                        block.node.key_mark(key),
                        f"unknown key `{key}` in {block.what}",
                        _LIST,
                        block.stage_id,
                        block.platform,
                    )
                    continue
                elsewhere = _elsewhere(str(key), block.place, subject.stage_kind(block.stage_id))
                elsewhere = elsewhere or _inside(str(key), block, subject.vllm_version)
                elsewhere = elsewhere or _beyond(str(key), block, subject)
                yield Finding(
                    block.node.key_mark(key),
                    f"unknown key `{key}` in {block.what}",
                    elsewhere or _releases(str(key), block) or _hint(str(key), block),
                    block.stage_id,
                    block.platform,
                    fix=None if elsewhere else _fix(key, block, blocks, subject),
                )


def _fix(key: Hashable, block: Block, blocks: list[Block], subject: Subject) -> Fix | None:
    """The key that was meant, safe where it can be no other; without one, to leave the key out."""
    assert block.known is not None
    close = near(str(key), block.known)
    if close is None:
        return remove_key(subject, block.node, key, safe=False)
    wanted, value = block.types.get(close), block.node.items[key]
    fits = wanted is None or wanted.admits(plain(value)) or is_misquoted(value, wanted)
    is_slip = slip_of(str(key), block.known) == close
    return rename_key(subject, block.node, key, close, safe=fits and is_slip and not _is_set(close, block, blocks))


def _is_set(key: str, block: Block, blocks: list[Block]) -> bool:
    """Whether another block of the same stage, or another spelling of it, sets the key too."""
    return any(
        key in other.node.items and (other.stage_id, other.platform) == (block.stage_id, block.platform)
        for other in blocks
        if other.node is not block.node and other.place in _OF_A_STAGE and block.place in _OF_A_STAGE
    )


def _is_shelf(block: Block, key: Hashable) -> bool:
    """A top-level key such as ``x-common``, by convention a place for anchors: what refers to them is checked there."""
    return block.place == "profile" and str(key).startswith("x-")


def _is_unset_field(block: Block, key: Hashable) -> bool:
    """A field of the stage schema that is null reaches no engine, so it does no harm on the wrong kind of stage."""
    node = block.node.items[key]
    return key in deploy_schema().stage_fields and isinstance(node, Scalar) and node.value is None


def _releases(key: str, block: Block) -> str | None:
    """The releases of vLLM that take a field of a nested config which the one in use does not take."""
    config = block.config
    if config is None:
        return None
    taking = [
        version
        for version in vllm_versions()
        if config in config_classes(version) and key in config_class(config, version).types
    ]
    return f"Of the shipped releases, vLLM {' and '.join(taking)} takes it; see `--vllm-version`." if taking else None


def _hint(key: str, block: Block) -> str:
    assert block.known is not None
    close = near(key, block.known)
    if close:
        return f"Did you mean `{close}`?"
    listed = sorted(block.known)
    return f"It may have: {', '.join(listed)}." if len(listed) <= 12 else _LIST


def _elsewhere(key: str, place: str, kind: str | None) -> str | None:
    """Where a key that exists in the language belongs, if it only stands in the wrong block."""
    schema = deploy_schema()
    if place == "stage" and key in _TOPOLOGY_KEYS:
        return f"`{key}` belongs to the pipeline's topology; a profile cannot change it."
    if place == "stage" and key in schema.reserved_keys:  # an entry of `stages` knows them all
        return f"`{key}` is no engine arg but a setting of the stage itself: put it beside `stage_id`."
    owners = {"stage": schema.owners, "parallel": schema.parallel_owners}.get(place, {}) if kind else {}
    others = sorted(other for other, keys in owners.items() if key in keys)
    if others:
        return f"`{key}` is a setting of {' and '.join(others)} stages; this one is {kind}."
    if place != "stage" and (key in schema.stage_fields or key in known_engine_args()):
        return f"`{key}` is a setting of a stage: put it under the stage in `stages:`."
    if place != "profile" and key in schema.deploy_fields:
        return f"`{key}` is a setting of the whole profile: put it at the top level."
    return None


def _inside(key: str, block: Block, version: str) -> str | None:
    """The block of a stage, sampling parameters or a nested config of vLLM, that the key is a field of."""
    assert block.known is not None
    if block.place != "stage":
        return None
    configs = config_args(version).items()
    owners = [name for name, config in configs if name in block.known and key in config_class(config, version).types]
    owners += ["default_sampling_params"] if key in deploy_schema().sampling_params else []
    return f"`{key}` is a setting of `{'` and of `'.join(sorted(owners))}`: put it there." if owners else None


def _beyond(key: str, block: Block, subject: Subject) -> str | None:
    """Who takes a key that is no setting of the profile or of the stage: the command, a connector, or vLLM alone."""
    if block.place == "connector":
        in_extra = key in deploy_schema().connector_extra_keys
        return f"`{key}` is a setting of the connector's `extra`: put it there." if in_extra else None
    if block.place not in ("profile", "stage"):
        return None
    flag = catalog().named(key)
    if flag is not None and (flag.reach in ("server", "orchestrator") or key in catalog().read_by_server):
        return f"`{key}` is no setting of a profile but a flag of the server: `{flag.shown}`."
    if key in deploy_schema().connector_extra_keys:
        return f"`{key}` is a setting of a connector: put it under `extra` of one in `connectors:`."
    if not any(key in known_engine_args(version) for version in vllm_versions()):
        return None
    is_served = subject.stage_kind(block.stage_id) != "diffusion" and key in known_engine_args()
    otherwise = "; `--engine bundled` takes it" if is_served else ""
    return f"vLLM has `{key}`, but stages of vLLM-Omni {VLLM_OMNI} refuse it at start. Remove it{otherwise}."


_MOST = 200  # unknown keys of a file for which it is found out what was meant; with more it is no profile at all
_LIST = "Remove it; `omnicfg schema` lists the keys."
_OF_A_STAGE = ("stage", "runtime")
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
