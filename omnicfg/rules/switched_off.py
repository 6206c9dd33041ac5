"""OC704: a setting of something that another setting, written beside it, switches off."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Mapping, Node, plain

RULE = Rule(
    code="OC704",
    name="switched-off",
    severity=Severity.WARNING,
    what=(
        "A setting of CUDA graphs or compilation beside `enforce_eager: true`; or a `cache_config` of a diffusion "
        "stage that names no `cache_backend`."
    ),
    why=(
        "`enforce_eager` turns compilation and CUDA graphs off, whatever else says how they are to be (vLLM sets both "
        "to none when it starts); a diffusion stage without a cache backend has nothing to configure. A file that "
        "says both shows one thing and serves another. Settings of another file are left alone: there, switching off "
        "is what the file on top is for."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    enforce_eager: true
    compilation_config: {cudagraph_mode: FULL}
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    enforce_eager: false
    compilation_config: {cudagraph_mode: FULL}
""",
)

# What vLLM overrules under `enforce_eager` (vllm/config/vllm.py), in `compilation_config` and as engine args.
_OF_GRAPHS = ("mode", "cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size")
_OFF = (0, "none")


def check_plan(plan: Plan, subject: Subject) -> Iterator[Finding]:
    """Every stage; what already says that it is off is left alone."""
    del subject
    for stage in plan.stages:
        if stage.stage_type == "diffusion":
            yield from _without_backend(stage)
        else:
            yield from _under_eager(stage)


def _under_eager(stage: StagePlan) -> Iterator[Finding]:
    eager = stage.engine_args.items.get("enforce_eager")
    if eager is None or plain(eager) is not True:
        return
    for name, node in _of_graphs(stage):
        value = plain(node)
        says_off = value in (None, [], {}) or (value.lower() if isinstance(value, str) else value) in _OFF
        if not says_off and node.layer == eager.layer and node.mark.file == eager.mark.file:
            yield Finding(
                node.mark,
                f"`{name}` of stage {stage.stage_id} does nothing beside `enforce_eager: true` ({eager.mark})",
                "Remove one of the two.",
                stage.stage_id,
            )


def _of_graphs(stage: StagePlan) -> Iterator[tuple[str, Node]]:
    config = stage.engine_args.items.get("compilation_config")
    blocks = [("", stage.engine_args)] + ([("compilation_config.", config)] if isinstance(config, Mapping) else [])
    for prefix, block in blocks:
        for name in _OF_GRAPHS[1:] if not prefix else _OF_GRAPHS:
            if name in block.items:
                yield f"{prefix}{name}", block.items[name]


def _without_backend(stage: StagePlan) -> Iterator[Finding]:
    if stage.arg("cache_config") and stage.arg("cache_backend") in (None, "none"):
        yield Finding(
            stage.engine_args.items["cache_config"].mark,
            f"`cache_config` of stage {stage.stage_id} does nothing without a `cache_backend`",
            "Name the backend; only the environment (`DIFFUSION_CACHE_BACKEND`) could do so otherwise.",
            stage.stage_id,
        )
