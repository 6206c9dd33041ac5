"""OC105: a number outside the range that the engine accepts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingOf
from operator import ge, gt, le, lt
from typing import Final

from omnicfg.catalog.vllm_args import Bounds, all_args, config_class
from omnicfg.diagnostics import Severity
from omnicfg.keys import Block, blocks_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, plain

RULE = Rule(
    code="OC105",
    name="out-of-range",
    severity=Severity.ERROR,
    what="A number outside the range that the engine accepts.",
    why=(
        "These ranges are checked only when the server starts (`gpu_memory_utilization` in (0, 1], at least one "
        "replica, positive sizes), some of them after the weights were loaded, and those of sampling parameters when "
        "a stage's defaults are made. For text stages the ranges are those that vLLM's own data declare. "
        "A whole number of more than 64 bits fits nowhere."
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
    "dlo_host_registration_limit_gib": _NOT_NEGATIVE,
    "dlo_resident_layers": _NOT_NEGATIVE,
    "kv_cache_memory_bytes": _NOT_NEGATIVE,
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
