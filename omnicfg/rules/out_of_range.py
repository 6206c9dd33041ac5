"""OC105: a number outside the range that the engine accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingOf
from math import inf, prod
from operator import ge, gt, le, lt
from typing import Final, NamedTuple, TypeGuard

from omnicfg.catalog.vllm_args import Bounds, all_args, config_class, engine_args
from omnicfg.diagnostics import Severity
from omnicfg.keys import Block, blocks_of
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting, sequence_parallel_size
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC105",
    name="out-of-range",
    severity=Severity.ERROR,
    what="A number outside the range that the engine accepts, by itself or beside another setting of its stage.",
    why=(
        "These ranges are checked only when the server starts (`gpu_memory_utilization` in (0, 1], at least one "
        "replica, positive sizes), some of them after the weights were loaded, and those of sampling parameters when "
        "a stage's defaults are made. For text stages the ranges are those that vLLM's own data declare. "
        "A whole number of more than 64 bits fits nowhere. Some ranges end at another number: a rank lies below the "
        "number of ranks, and HSDP covers as many devices as the other ways in which its stage is split."
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


_TOO_LARGE: Final = 1 << 63  # for the whole numbers of torch and of what is sent between vLLM's processes
_LONGEST: Final = 30
_SHARE: Final[Bounds] = (("gt", 0), ("le", 1))
_POSITIVE: Final[Bounds] = (("ge", 1),)
_NOT_NEGATIVE: Final[Bounds] = (("ge", 0),)
# vllm-omni 0.30.0, the fields of vllm_omni/config/omni_config.py.
_OF_ANY_STAGE: Final[dict[str, Bounds]] = {
    "gpu_memory_utilization": _SHARE,
    "num_replicas": _POSITIVE,
    "max_num_seqs": _POSITIVE,
    "max_num_batched_tokens": _POSITIVE,
    "tensor_parallel_size": _POSITIVE,
    "pipeline_parallel_size": _POSITIVE,
    "data_parallel_size": _POSITIVE,
    "ulysses_degree": _POSITIVE,
    "ring_degree": _POSITIVE,
    "allgather_degree": _POSITIVE,
    "cfg_parallel_size": _POSITIVE,
    "hsdp_replicate_size": _POSITIVE,
    "text_encoder_tp_size": _POSITIVE,
    "vae_patch_parallel_size": _POSITIVE,
    "diffusion_kv_max_rows_per_request": _POSITIVE,
    "num_weight_load_threads": _POSITIVE,
    "prompt_embed_cache_size": _POSITIVE,
    "active_stream_window": _NOT_NEGATIVE,
    "data_parallel_rank": _NOT_NEGATIVE,
    "data_parallel_size_local": _NOT_NEGATIVE,
    "dlo_host_registration_limit_gib": (("ge", 0), ("lt", inf)),
    "dlo_resident_layers": _NOT_NEGATIVE,
    "kv_cache_memory_bytes": _NOT_NEGATIVE,
    "max_cpu_loras": _POSITIVE,
    "max_cudagraph_capture_size": _NOT_NEGATIVE,
    "mm_processor_cache_gb": _NOT_NEGATIVE,
}
# vLLM 0.30, SamplingParams._verify_args (vllm/sampling_params.py).
_OF_SAMPLING: Final[dict[str, Bounds]] = {
    "n": _POSITIVE,
    "presence_penalty": (("ge", -2), ("le", 2)),
    "frequency_penalty": (("ge", -2), ("le", 2)),
    "repetition_penalty": (("gt", 0),),
    "temperature": (("ge", 0), ("le", 2)),
    "top_p": _SHARE,
    "top_k": (("ge", -1),),
    "min_p": (("ge", 0), ("le", 1)),
    "max_tokens": _POSITIVE,
    "min_tokens": (("ge", 0),),
    "stream_interval": _POSITIVE,
    "logprobs": (("ge", -1),),
    "prompt_logprobs": (("ge", -1),),
}
_HOLDS: Final[dict[str, Callable[[float, float], bool]]] = {"gt": gt, "ge": ge, "lt": lt, "le": le}
_WORDS: Final = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every number with a range, wherever a profile sets it."""
    for block in blocks_of(document, subject):
        bounds = _bounds(block, subject.stage_kind(block.stage_id) == "diffusion", subject.vllm_version)
        for key, node in block.node.items.items():
            allowed = bounds.get(key) if isinstance(key, str) else None
            value = plain(node)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not block.takes(key):
                continue
            wanted = None
            if allowed is not None and not all(_HOLDS[name](value, bound) for name, bound in allowed):
                wanted = f"be {_words(allowed)}"
            elif isinstance(value, int) and not -_TOO_LARGE <= value < _TOO_LARGE and block.place != "env":
                wanted = "fit into 64 bits"
            if wanted is not None:
                yield Finding(
                    node.mark,
                    f"`{key}` in {block.what} is {_shown(value)}; it has to {wanted}",
                    None,
                    block.stage_id,
                    block.platform,
                )


class _End(NamedTuple):
    """Where the range of a setting ends: below another one, or at it, and what that is where nobody sets it."""

    setting: str
    relation: str
    other: str
    default: int | None = None


# vllm-omni 0.30.0, OmniStageParallelConfig; vLLM 0.30, ParallelConfig, EngineArgs.create_engine_config and
# SchedulerConfig.verify_max_model_len.
_ENDS: Final = (
    _End("data_parallel_rank", "lt", "data_parallel_size", 1),
    _End("data_parallel_size_local", "le", "data_parallel_size", 1),
    _End("node_rank", "lt", "nnodes"),
    _End("long_prefill_token_threshold", "le", "max_model_len"),
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every number of a stage whose range depends on what else takes effect there."""
    for stage in plan.stages:
        if stage.stage_type == "diffusion":
            yield from _sharding(stage, subject)
            continue
        for end in _ENDS:
            setting, other = parallel_setting(stage, end.setting), parallel_setting(stage, end.other)
            yield from _beyond(end, setting, other, stage, subject)
        yield from _unbound(stage, subject)
        yield from _unsplit(stage, subject)
        params = stage.extras.items.get("default_sampling_params")
        if isinstance(params, Mapping):
            end = _End("min_tokens", "le", "max_tokens")
            yield from _beyond(end, params.get(end.setting), params.get(end.other), stage, subject)


def _beyond(
    end: _End, setting: Node | None, other: Node | None, stage: StagePlan, subject: Subject
) -> Iterator[Finding]:
    value = None if setting is None else plain(setting)
    bound = end.default if other is None else plain(other)
    if setting is None or not _is_count(value) or not _is_count(bound) or _is_free(end, bound, subject):
        return
    if not _HOLDS[end.relation](value, bound):
        place = subject.topmost(setting, other)
        where = "" if place is setting else f" ({setting.mark})"
        told = f"{bound}, which is `{end.other}`" if other is not None else f"{bound}: no `{end.other}` is set"
        yield Finding(
            place.mark,
            f"`{end.setting}` of stage {stage.stage_id} is {_shown(value)}{where}; it has to be "
            f"{_WORDS[end.relation]} {told}",
            None,
            stage.stage_id,
        )


def _unbound(stage: StagePlan, subject: Subject) -> Iterator[Finding]:
    """Lists for NUMA with fewer entries than the stage starts workers (vLLM 0.30, vllm/utils/numa_utils.py).

    Workers of other executors are not bound, and on several nodes each has the workers of its own.
    """
    sizes = {name: parallel_setting(stage, name) for name in ("tensor_parallel_size", "pipeline_parallel_size")}
    counts = [1 if node is None else plain(node) for node in sizes.values()]
    is_bound = plain(binds) is True if (binds := parallel_setting(stage, "numa_bind")) is not None else False
    if not is_bound or stage.arg("distributed_executor_backend") != "mp" or not all(map(_is_count, counts)):
        return
    if any(stage.arg(name) not in (None, usual) for name, usual in (("nnodes", 1), ("data_parallel_backend", "mp"))):
        return
    workers = prod(counts)
    for name in ("numa_bind_nodes", "numa_bind_cpus"):
        listed = parallel_setting(stage, name)
        entries = None if listed is None else plain(listed)
        if listed is not None and isinstance(entries, list) and 0 < len(entries) < workers:
            place = subject.topmost(listed, *sizes.values())
            where = "" if place is listed else f" ({listed.mark})"
            message = f"`{name}` of stage {stage.stage_id} lists {len(entries)}{where} for {workers} workers"
            yield Finding(place.mark, message, "List one for each of them.", stage.stage_id)


def _unsplit(stage: StagePlan, subject: Subject) -> Iterator[Finding]:
    """More microbatches than the smallest batch that is split has tokens (vLLM 0.30, ParallelConfig)."""
    overlaps, size = (parallel_setting(stage, name) for name in ("enable_dbo", "ubatch_size"))
    is_dual = overlaps is not None and plain(overlaps) is True
    owner = overlaps if is_dual else size
    count = 2 if is_dual else None if size is None else plain(size)
    if owner is None or not _is_count(count) or count < 2:
        return
    for name in ("dbo_decode_token_threshold", "dbo_prefill_token_threshold"):
        setting = parallel_setting(stage, name)
        tokens = engine_args(subject.vllm_version)[name]["default"] if setting is None else plain(setting)
        if _is_count(tokens) and tokens < count:
            place = owner if setting is None else subject.topmost(setting, owner)
            told = f"`{name}` of stage {stage.stage_id} is {_shown(tokens)}"
            wanted = f"it has to be at least {_shown(count)}, the number of microbatches"
            yield Finding(place.mark, f"{told}; {wanted}", None, stage.stage_id)


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_free(end: _End, bound: int, subject: Subject) -> bool:
    """Whether nobody looks: vLLM does not at a rank of one alone, vLLM-Omni at any."""
    if end.other == "nnodes" or (end.relation == "lt" and subject.engine != DEFAULT_ENGINE):
        return bound <= 1
    return False


def _sharding(stage: StagePlan, subject: Subject) -> Iterator[Finding]:
    """HSDP that does not cover the ranks into which its stage is split otherwise.

    vllm-omni 0.30.0, OmniStageDiffusionParallelConfig.
    """
    use, shards = parallel_setting(stage, "use_hsdp"), parallel_setting(stage, "hsdp_shard_size")
    copies = parallel_setting(stage, "hsdp_replicate_size")
    size, count = (-1 if shards is None else plain(shards)), (1 if copies is None else plain(copies))
    others = _other_ranks(stage)
    if use is None or plain(use) is not True or type(size) is not int or not _is_count(count) or others is None:
        return
    place = subject.topmost(shards, copies) if shards is not None or copies is not None else use
    if size < 1 and size != -1:
        wanted = "`hsdp_shard_size` has to be at least 1, or -1 for what the other sizes leave"
    elif others > 1 and size == -1 and count > 0 and others % count:
        wanted = f"`hsdp_replicate_size` has to divide the {others} ranks of the other sizes"
    elif others > 1 and size != -1 and size * count != others:
        wanted = f"they have to cover the {others} ranks of the other sizes together"
    else:
        return
    told = f"stage {stage.stage_id} has `hsdp_shard_size: {size}` and `hsdp_replicate_size: {count}`"
    yield Finding(place.mark, f"{told}; {wanted}", None, stage.stage_id)


def _other_ranks(stage: StagePlan) -> int | None:
    """Over how many ranks sequence and CFG parallelism split a diffusion stage; OC705 tells of those beside HSDP."""
    sequence, setting = sequence_parallel_size(stage), parallel_setting(stage, "cfg_parallel_size")
    cfg = 1 if setting is None else plain(setting)
    return None if sequence is None or not _is_count(cfg) else sequence * cfg


def _bounds(block: Block, is_diffusion: bool, version: str) -> MappingOf[str, Bounds]:
    """The ranges of a block's settings; those of vLLM hold for its own stages."""
    if block.place == "env":
        return {}
    if block.place == "params":
        return {} if is_diffusion or "pooling" in block.what else _OF_SAMPLING
    if block.config is not None:
        return config_class(block.config, version).bounds
    return _OF_ANY_STAGE if is_diffusion or block.place not in ("stage", "parallel") else _of_text_stage(version)


@functools.cache
def _of_text_stage(version: str) -> MappingOf[str, Bounds]:
    return {**all_args(version).bounds, **_OF_ANY_STAGE}


def _shown(value: float) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _words(bounds: Bounds) -> str:
    return " and ".join(f"{_WORDS[name]} {bound:g}" for name, bound in bounds)
