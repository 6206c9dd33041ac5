"""OC710: two settings of a stage for the same thing, of which it may have one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC710",
    name="rival-settings",
    severity=Severity.ERROR,
    what="Two settings of a stage that say the same thing, or exclude each other, where the engine takes only one.",
    why=(
        "Some things have an engine arg and a field of a nested configuration, or an old name and a new one. The files "
        "of a chain may each have their own, which nobody notices until vLLM or vLLM-Omni refuses both together at "
        "start, even where they agree."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    attention_backend: FLASH_ATTN
    attention_config:
      backend: FLASHINFER
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    attention_config:
      backend: FLASHINFER
""",
)


class _Rivals(NamedTuple):
    """Two settings of a kind of stage, and values of them that are as good as none."""

    stage_type: str
    one: str
    other: str
    unset: tuple[object, ...] = (None,)


_RIVALS: Final = (
    # vLLM 0.30, EngineArgs.create_engine_config (vllm/engine/arg_utils.py)
    _Rivals("llm", "attention_backend", "attention_config.backend", (None, "auto")),
    _Rivals("llm", "max_cudagraph_capture_size", "compilation_config.max_cudagraph_capture_size"),
    _Rivals("llm", "data_parallel_hybrid_lb", "data_parallel_external_lb", (None, False)),
    # vllm-omni 0.30.0, normalize_omni_diffusion_kwargs (vllm_omni/diffusion/data.py)
    _Rivals("diffusion", "quantization", "quantization_config"),
    _Rivals("diffusion", "diffusion_quantization_config", "quantization_config"),
    _Rivals("diffusion", "quantization", "diffusion_quantization_config"),
    _Rivals("diffusion", "static_lora_scale", "lora_scale"),
    _Rivals("diffusion", "kv_cache_skip_steps", "diffusion_kv_cache_skip_steps"),
    _Rivals("diffusion", "kv_cache_skip_layers", "diffusion_kv_cache_skip_layers"),
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every pair of which a stage has both."""
    for stage in plan.stages:
        for rivals in _RIVALS:
            one, other = _setting(stage, rivals.one, rivals.unset), _setting(stage, rivals.other, rivals.unset)
            if stage.stage_type == rivals.stage_type and one is not None and other is not None:
                upper, lower = (rivals.one, one), (rivals.other, other)
                if subject.topmost(one, other) is other:
                    upper, lower = lower, upper
                yield Finding(
                    upper[1].mark,
                    f"`{upper[0]}` of stage {stage.stage_id} cannot stand beside `{lower[0]}` ({lower[1].mark})",
                    "Keep one of the two.",
                    stage.stage_id,
                )


def _setting(stage: StagePlan, name: str, unset: tuple[object, ...]) -> Node | None:
    """A setting of a stage, or of a configuration in it; ``None`` where it is as good as not set."""
    block, _, field = name.partition(".")
    config = stage.engine_args.get(block)
    node = parallel_setting(stage, name) if not field else config.get(field) if isinstance(config, Mapping) else None
    return None if node is None or plain(node) in unset else node
