"""OC709: a setting that needs another one, which is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Node, plain
from omnicfg.wording import in_yaml

RULE = Rule(
    code="OC709",
    name="missing-partner",
    severity=Severity.ERROR,
    what="A setting that needs another one of the stage, which is not set or has another value.",
    why=(
        "Each is valid alone, so nothing says so before vLLM-Omni builds the stage's configuration, refuses the two "
        "there, and does not start."
    ),
    bad="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    diffusion_kv_mode: paged_scheduler
""",
    good="""\
pipeline: glm_image
async_chunk: false
stages:
  - stage_id: 0
  - stage_id: 1
    diffusion_kv_mode: paged_scheduler
    diffusion_kv_max_rows_per_request: 4096
""",
)


class _Need(NamedTuple):
    """A setting of a kind of stage, whether a value of it needs anything, whether that is there, and what it is."""

    stage_type: str
    setting: str
    needs: Callable[[Any], bool]
    is_met: Callable[[StagePlan], bool]
    partner: str


def _value(stage: StagePlan, name: str) -> Any:
    node = parallel_setting(stage, name)
    return None if node is None else plain(node)


def _has_weight_root(stage: StagePlan) -> bool:
    value = stage.arg("host_weight_runtime_root")
    return isinstance(value, str) and bool(value.strip())


def _has_vsa(stage: StagePlan) -> bool:
    config = stage.arg("diffusion_attention_config")
    default = config.get("default") if isinstance(config, dict) else None
    nested = default.get("backend") if isinstance(default, dict) else default
    return any(str(word).upper() == "FASTVIDEO_VSA" for word in (stage.arg("diffusion_attention_backend"), nested))


def _is_split(stage: StagePlan) -> bool:
    """Whether a size for HSDP is given, or follows from the other ways in which the stage is split."""
    if _value(stage, "hsdp_shard_size") not in (None, -1):
        return True
    sizes = ("ulysses_degree", "ring_degree", "allgather_degree", "cfg_parallel_size", *_BESIDE_HSDP)
    return any(_value(stage, name) not in (None, 1) for name in sizes)


def _parallel_size(stage: StagePlan, name: str) -> int | None:
    """A size as it takes effect; ``None`` where it is no number."""
    value = _value(stage, name)
    return 1 if value is None else value if type(value) is int else None


def _divides_heads(stage: StagePlan) -> bool:
    """Whether DCP divides the ranks of TP, as it has to without PCP."""
    dcp, tp, pcp = (_parallel_size(stage, name) for name in _CONTEXT)
    return pcp != 1 or not dcp or tp is None or tp % dcp == 0


def _spans_context(stage: StagePlan) -> bool:
    """Whether DCP spans the ranks of PCP, as it has to beside it, or those of both TP and PCP."""
    dcp, tp, pcp = (_parallel_size(stage, name) for name in _CONTEXT)
    return pcp in (None, 1) or tp is None or dcp in (1, pcp, tp * pcp)


def _has_ranks(stage: StagePlan) -> bool:
    """Whether there is more than one rank to balance experts over."""
    return any(_value(stage, name) not in (None, 1) for name in _OVER_EXPERTS)


def _has_redundant_experts(value: Any) -> bool:
    return isinstance(value, dict) and value.get("num_redundant_experts") not in (None, 0)


def _may_use_ray(stage: StagePlan) -> bool:
    """Whether Ray runs the workers, or may: vLLM chooses for several ranks, and a class may build on it."""
    backend = stage.arg("distributed_executor_backend")
    if backend is None:
        return any(_value(stage, size) not in (None, 1) for size in (*_OVER_EXPERTS, "pipeline_parallel_size"))
    return backend == "ray" or "." in str(backend)


def _is_limit(value: Any) -> bool:
    return isinstance(value, int | float) and value > 0


def _is(name: str, wanted: Any) -> Callable[[StagePlan], bool]:
    return lambda stage: bool(_value(stage, name) == wanted)


def _is_true(value: Any) -> bool:
    return value is True


def _holds_any(value: Any) -> bool:
    return bool(value)


_CONTEXT: Final = ("decode_context_parallel_size", "tensor_parallel_size", "prefill_context_parallel_size")
_OVER_EXPERTS: Final = ("tensor_parallel_size", "prefill_context_parallel_size", "data_parallel_size")
_REGISTRATION: Final = "dlo_host_registration_limit_gib"
_BESIDE_HSDP: Final = ("tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size")  # OC705 tells of those
_ROWS: Final = "diffusion_kv_max_rows_per_request"
_NEEDS: Final = (
    _Need(
        "diffusion",
        "diffusion_kv_mode",
        lambda value: value == "paged_scheduler",
        lambda stage: stage.arg(_ROWS) is not None,
        f"`{_ROWS}`",
    ),
    _Need(
        "diffusion",
        "host_weight_runtime_mode",
        lambda value: value in ("preferred", "required"),
        _has_weight_root,
        "`host_weight_runtime_root`",
    ),
    _Need(
        "diffusion",
        "fastvideo_vsa_topk",
        lambda value: value is not None,
        _has_vsa,
        "`diffusion_attention_backend: FASTVIDEO_VSA`",
    ),
    _Need(
        "diffusion",
        "diffusion_offload_config",
        lambda value: isinstance(value, dict),
        lambda stage: {"mode", "components"} <= set(stage.arg("diffusion_offload_config")),
        "`mode` and `components` in it",
    ),
    _Need("diffusion", "use_hsdp", lambda value: value is True, _is_split, "`hsdp_shard_size`"),
    *(
        _Need(
            "llm",
            name,
            lambda value: value is not None,
            lambda stage: _value(stage, "numa_bind") is True,
            "`numa_bind: true`",
        )
        for name in ("numa_bind_nodes", "numa_bind_cpus")
    ),
    _Need(
        "llm",
        "data_parallel_external_lb",
        lambda value: value is True,
        lambda stage: (_value(stage, "data_parallel_size") or 1) != 1,
        "`data_parallel_size` above 1",
    ),
    _Need(
        "llm",
        "decode_context_parallel_size",
        lambda value: type(value) is int and value > 1,
        _divides_heads,
        "a `tensor_parallel_size` that it divides",
    ),
    _Need(
        "llm",
        "decode_context_parallel_size",
        lambda value: type(value) is int and value > 1,
        _spans_context,
        "a `prefill_context_parallel_size` that is as large, alone or times `tensor_parallel_size`",
    ),
    # vLLM 0.30, ParallelConfig._validate_parallel_config and __post_init__ (vllm/config/parallel.py).
    _Need("llm", "enable_eplb", _is_true, _is("enable_expert_parallel", True), "`enable_expert_parallel: true`"),
    _Need("llm", "enable_eplb", _is_true, _has_ranks, "a `tensor_parallel_size` or `data_parallel_size` above 1"),
    _Need("llm", "eplb_config", _has_redundant_experts, _is("enable_eplb", True), "`enable_eplb: true`"),
    _Need("llm", "enable_elastic_ep", _is_true, _is("enable_eplb", True), "`enable_eplb: true`"),
    _Need("llm", "ray_workers_use_nsight", _is_true, _may_use_ray, "`distributed_executor_backend: ray`"),
    # vLLM-Omni 0.30.0, vllm_omni/diffusion/data.py and config/omni_config.py.
    _Need(
        "diffusion",
        _REGISTRATION,
        _is_limit,
        _is("enable_distributed_layerwise_offload", True),
        "`enable_distributed_layerwise_offload: true`",
    ),
    _Need("diffusion", _REGISTRATION, _is_limit, _is("dlo_use_allgather", False), "`dlo_use_allgather: false`"),
    _Need(
        "diffusion",
        _REGISTRATION,
        _is_limit,
        lambda stage: _value(stage, "host_weight_runtime_mode") not in (None, "disabled"),
        "a `host_weight_runtime_mode` of preferred or required",
    ),
    *(
        _Need(
            "diffusion",
            name,
            _holds_any,
            _is("diffusion_load_format", "diffusers"),
            "`diffusion_load_format: diffusers`",
        )
        for name in ("diffusers_load_kwargs", "diffusers_call_kwargs")
    ),
)


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:  # noqa: ARG001  # one interface for all rules
    """Every setting of every stage that stands without its partner."""
    for stage in plan.stages:
        for need in _NEEDS:
            setting = parallel_setting(stage, need.setting)
            if stage.stage_type == need.stage_type and setting is not None and need.needs(plain(setting)):
                yield from _unmet(stage, need, setting)


def _unmet(stage: StagePlan, need: _Need, setting: Node) -> Iterator[Finding]:
    if need.is_met(stage):
        return
    value = plain(setting)
    text = value if isinstance(value, str) else in_yaml(value)
    shown = need.setting if isinstance(value, dict | list) else f"{need.setting}: {text}"
    yield Finding(
        setting.mark,
        f"`{shown}` of stage {stage.stage_id} needs {need.partner}, so the stage does not start",
        f"Set {need.partner} as well, or leave `{need.setting}` out.",
        stage.stage_id,
    )
