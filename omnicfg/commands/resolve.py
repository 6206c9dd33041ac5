"""``omnicfg resolve``: the final engine args of every stage."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from omnicfg.commands._command_line import COMMAND, COMMAND_FROM, parsed_command, request_of, tell_findings
from omnicfg.commands._estimates import DEVICE_MEMORY, check_device_memory, tell_estimates
from omnicfg.commands._options import (
    EFFECTIVE,
    MODEL_DIR,
    OVERLAYS,
    PIPELINE,
    PLATFORM,
    PROFILE,
    SETTINGS,
    VLLM_VERSION,
    refuse_unread,
)
from omnicfg.commands._plans import Request, platforms_of, tell, vllm_version_of
from omnicfg.errors import UsageError
from omnicfg.parser import Option
from omnicfg.streams import note

if TYPE_CHECKING:
    from omnicfg.plan import Plan, StagePlan

HELP = "Compile a profile to the final engine args of every stage."

EXPLAIN = Annotated[bool, Option("--explain", help="Show where each value comes from.")]
FORMAT = Annotated[
    str, Option("--format", choices=("table", "yaml", "json", "args"), help="args: one `vllm serve` line a stage.")
]


def run(
    profile: PROFILE = "",
    platform: PLATFORM = "cuda",
    pipeline: PIPELINE = None,
    model: MODEL_DIR = None,
    device_memory: DEVICE_MEMORY = None,
    overlays: OVERLAYS = None,
    settings: SETTINGS = None,
    command: COMMAND = None,
    command_from: COMMAND_FROM = None,
    effective: EFFECTIVE = False,
    vllm_version: VLLM_VERSION = None,
    explain: EXPLAIN = False,
    format: FORMAT = "table",
) -> int:
    """Exit code: 1 where one of several platforms refuses the profile, or a command line has errors.

    A refusal of the only platform is an error.
    """
    platforms = platforms_of(platform)
    check_device_memory(model, device_memory)
    _check_told(explain, effective, vllm_version, format)
    line = parsed_command(command, command_from)
    if line is None:
        _check_profile(profile)
        request = Request(profile, pipeline, model, overlays, settings)
        wrong = False
    else:
        request, found = request_of(line, profile, pipeline, model, overlays, settings)
        wrong = tell_findings(request, found, platforms)
    plans, errors = request.some_plans(platforms)
    version = vllm_version_of(vllm_version)
    if effective:
        from omnicfg.passes.effective import effective as filled

        plans = {name: filled(plan, version) for name, plan in plans.items()}
    sys.stdout.write(_Output(explain, effective, version).render(plans, format, whole=platform == "all"))
    tell_estimates(plans, model, device_memory)
    for error in errors.values():
        tell(error)
    return 1 if errors or wrong else 0


def _check_profile(profile: str) -> None:
    if not profile:
        raise UsageError("PROFILE is missing", "`omnicfg resolve --help` shows how it is used.")


def _check_told(explain: bool, effective: bool, vllm_version: str | None, format: str) -> None:
    """Raises :class:`UsageError` for what the output has no place for."""
    if format == "args":
        hint = "The other formats show where values come from; `omnicfg explain` shows it of one value."
        refuse_unread("resolve --format args", {"--explain": explain}, hint)
    elif not effective:
        hint = "It counts with `--effective` or `--format args`: add one of them, or leave it out."
        refuse_unread("resolve", {"--vllm-version": vllm_version}, hint)


class _Output:
    """The plans as text, in each of the formats."""

    def __init__(self, explain: bool, effective: bool, version: str) -> None:
        self.explain = explain
        self.effective = effective
        self.version = version

    def render(self, plans: dict[str, Plan], format: str, *, whole: bool) -> str:
        if format == "json":
            from omnicfg.report.json import dumps

            data = {name: self._data(plan) for name, plan in plans.items()}
            return dumps(data if whole else next(iter(data.values())))
        separator = {"yaml": "---\n", "table": "\n", "args": ""}[format]
        return separator.join(getattr(self, f"_{format}")(plan) for plan in plans.values())

    def _data(self, plan: Plan) -> Any:
        if self.explain:
            from omnicfg.origins import explained

            return explained(plan.tree)
        from omnicfg.secrets import redacted

        return redacted("", plan.to_dict())

    def _yaml(self, plan: Plan) -> str:
        from omnicfg.report.yaml import dumps

        return dumps(self._data(plan))

    def _table(self, plan: Plan) -> str:
        from omnicfg.report.plan import render_plan
        from omnicfg.report.terminal import Style, has_colour, width_of, wrap

        style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout)
        why = self._why_unset(plan) if self.effective else None
        notes = "".join(f"{line}\n" for note in _costs(plan) for line in wrap(note, width))
        text = render_plan(plan, style, width, explain=self.explain, why_unset=why)
        return f"{text}\n{notes}" if notes else text

    def _why_unset(self, plan: Plan) -> Any:
        from omnicfg.passes.effective import why_unset

        def why(name: str, stage: StagePlan) -> str | None:
            return why_unset(name, stage, plan.platform, self.version)

        return why

    def _args(self, plan: Plan) -> str:
        import shlex

        from omnicfg.catalog.vllm_args import engine_args
        from omnicfg.secrets import redacted
        from omnicfg.serve.arguments import stage_arguments

        lines = []
        for stage in redacted("", plan.to_dict())["stages"]:
            where = f"{plan.platform}, stage {stage['stage_id']} ({stage['model_stage']})"
            if stage["stage_type"] == "diffusion":
                note(f"{where}: a diffusion stage runs on vLLM-Omni's own engine, not on vLLM's")
                lines.append("")
                continue
            made = stage_arguments(stage, engine_args(self.version), self.version)
            lines.append(shlex.join(made.arguments))
            by_reason: dict[str, list[str]] = {}
            for left in made.left_out:
                by_reason.setdefault(left.reason, []).append(left.name)
            for reason, names in by_reason.items():
                note(f"{where}: left out, {reason}: {', '.join(names)}")
        return "".join(f"{line}\n" for line in lines)


def _costs(plan: Plan) -> list[str]:
    """What the prefix cache of each stage that has one is known to cost."""
    cached = [stage for stage in plan.stages if stage.arg("enable_prefix_caching")]
    if not cached:
        return []
    from omnicfg.evidence import entry_on, host_memory_text

    entries = {stage.stage_id: entry_on(plan, stage, "prefix_caching") for stage in cached}
    costs = {stage_id: host_memory_text(entry) for stage_id, entry in entries.items() if entry}
    told = [(stage_id, cost) for stage_id, cost in costs.items() if cost]
    return [f"note: stage {stage_id}'s prefix cache was measured to take {cost}" for stage_id, cost in told]
