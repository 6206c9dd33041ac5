"""OC703: a prefix cache together with a setting that the engine refuses beside it."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.catalog.capabilities import entry_for
from omnicfg.diagnostics import Severity
from omnicfg.origins import told_to_set
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import parallel_setting
from omnicfg.rule import DEFAULT_ENGINE, Finding, Rule, Subject, prefix_caching
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC703",
    name="prefix-cache-combination",
    severity=Severity.ERROR,
    what=(
        "A stage's prefix cache is on beside KV received from another engine, decode context parallelism or hits "
        "inside a block; or on a diffusion stage without `diffusion_kv_mode: paged_scheduler`, or with sleep mode or a "
        "KV transfer."
    ),
    why=(
        "vLLM-Omni keeps the hidden states of cached tokens in a mirror of the KV cache and refuses what would make "
        "the two disagree; a text engine does so only when its KV cache is set up, after the weights were loaded. A "
        "pipeline-wide `enable_prefix_caching: true` reaches the diffusion stages too. For text stages that leave the "
        "cache unset, vLLM's default (on) counts."
    ),
    bad="""\
pipeline: dreamzero
stages:
  - stage_id: 0
    enable_prefix_caching: true
""",
    good="""\
pipeline: dreamzero
stages:
  - stage_id: 0
    enable_prefix_caching: false
""",
)

_CACHE = "enable_prefix_caching"
_PAGED = "diffusion_kv_mode: paged_scheduler"
_CONSUMERS = ("kv_consumer", "kv_both")


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every stage whose cache is on, on the engine that has these limits."""
    if subject.engine != DEFAULT_ENGINE:
        return
    for stage in plan.stages:
        if not prefix_caching(stage):
            continue
        if stage.stage_type == "diffusion" and _is_refused_by_record(plan, stage, subject):
            continue  # OC501's, with the evidence
        refused = _refused_on_diffusion if stage.stage_type == "diffusion" else _refused_on_text
        node = stage.engine_args.items.get(_CACHE)
        for beside, hint in refused(stage, told_to_set(_CACHE, "false", node, stage.stage_id)):
            written = node if node is not None and plain(node) is not None else beside
            how = "is on" if written is node else "is unset, and vLLM's default is on,"
            if written is not None:
                place = subject.topmost(written, beside)
                where = "" if place is written else f" ({written.mark})"
                message = f"the prefix cache of stage {stage.stage_id} {how}{where} {_beside(stage, beside, place)}"
                yield Finding(place.mark, message, hint, stage.stage_id)


def _is_refused_by_record(plan: Plan, stage: StagePlan, subject: Subject) -> bool:
    entry = entry_for(plan.pipeline, stage.model_stage, "prefix_caching", subject.situation(plan, stage))
    return entry is not None and bool(entry.get("refuse"))


def _beside(stage: StagePlan, node: Node | None, place: Node) -> str:
    if node is None:
        return f"without `{_PAGED}`, so the stage does not start"
    name = next(name for name, arg in _settings(stage) if arg is node)
    where = "" if node is place else f" ({node.mark})"
    return f"beside `{name}`{where}, so the stage does not start"


def _settings(stage: StagePlan) -> Iterator[tuple[object, Node]]:
    yield from stage.engine_args.items.items()
    config = stage.engine_args.items.get("parallel_config")
    yield from config.items.items() if isinstance(config, Mapping) else ()


def _refused_on_diffusion(stage: StagePlan, off: str) -> Iterator[tuple[Node | None, str]]:
    """What is in the way (``None``: what is missing), and what to do; ``off`` is how to turn the cache off."""
    if stage.arg("diffusion_kv_mode") != "paged_scheduler":
        yield None, f"{off}, or `{_PAGED}`."
    for name in ("enable_sleep_mode", "kv_transfer_config"):
        if stage.arg(name):
            yield stage.engine_args.items[name], f"{off}, or remove `{name}`."


def _refused_on_text(stage: StagePlan, off: str) -> Iterator[tuple[Node | None, str]]:
    if stage.arg("runner") == "pooling":
        return
    args, hint = stage.engine_args.items, f"{off}."
    transfer = stage.arg("kv_transfer_config")
    context = parallel_setting(stage, "decode_context_parallel_size")
    unit, block = stage.arg("prefix_match_unit"), stage.arg("block_size")
    if isinstance(transfer, dict) and transfer.get("kv_role") in _CONSUMERS:
        yield args["kv_transfer_config"], hint
    if context is not None and plain(context) != 1:
        yield context, hint
    if unit is not None and block is not None and unit != block:
        yield args["prefix_match_unit"], f"Remove `prefix_match_unit`, or: {hint}"
