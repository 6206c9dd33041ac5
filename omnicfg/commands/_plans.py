"""From a command's options to plans: the platforms asked for, and what could be compiled on each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.compiler import (
    Profile,
    check_platform,
    compile_profile,
    deployed,
    load,
    parsed_overrides,
    pipeline_of,
)
from omnicfg.errors import OmnicfgError, ResolveError
from omnicfg.plan import Plan
from omnicfg.tree import Mapping as Tree
from omnicfg.tree import Mark

if TYPE_CHECKING:
    from omnicfg.diagnostics import Diagnostic


class Request:
    """A profile with everything that goes over it, loaded; ``pipeline`` is the key that was found.

    ``places`` says where the flags of a command stand that are among the overrides, by the name of each.
    """

    def __init__(
        self,
        profile: str,
        pipeline: str | None = None,
        model: Path | None = None,
        overlays: Sequence[Path] | None = None,
        settings: Sequence[str] | None = None,
    ) -> None:
        self.loaded: Profile = load(profile, overlays or ())
        self.overrides = parsed_overrides(settings)
        self.pipeline = pipeline_of(self.loaded, pipeline, self.overrides, model)
        self.places: Mapping[str, Mark] = {}

    def plan(self, platform: str) -> Plan:
        """The plan on one platform. Raises :class:`OmnicfgError`."""
        try:
            return compile_profile(self.loaded, platform, self.pipeline, self.overrides)
        except ResolveError as error:
            if not self.places:
                raise
            raise ResolveError([self.placed(each) for each in error.diagnostics]) from None

    def placed(self, diagnostic: Diagnostic) -> Diagnostic:
        """The same; of a flag's value where the command has the flag, which the value names as its file."""
        mark = self.places.get(diagnostic.path)
        if mark is None:
            return diagnostic
        path, line, column, end_line, end_column = mark
        return replace(diagnostic, path=path, line=line, column=column, end_line=end_line, end_column=end_column)

    def deployed(self, platform: str) -> Tree:
        """The deploy tree that :meth:`plan` is made from, in which settings of null are still there."""
        return deployed(self.loaded, platform, self.overrides)

    def some_plans(self, platforms: Sequence[str]) -> tuple[dict[str, Plan], dict[str, ResolveError]]:
        """The plans by platform, and the errors of the platforms that refuse the profile.

        Raises :class:`OmnicfgError` where every one of them does.
        """
        plans: dict[str, Plan] = {}
        errors: dict[str, ResolveError] = {}
        for platform in platforms:
            try:
                plans[platform] = self.plan(platform)
            except ResolveError as error:
                errors[platform] = error
        if not plans:
            raise OmnicfgError([diagnostic for error in errors.values() for diagnostic in error.diagnostics])
        return plans, errors


def platforms_of(asked: str) -> tuple[str, ...]:
    """One platform, or each of them for ``all``. Raises :class:`~omnicfg.errors.UsageError` for an unknown name."""
    if asked == "all":
        return deploy_schema().platforms
    check_platform(asked)
    return (asked,)


def tell(error: OmnicfgError) -> None:
    """Show an error that does not stop the command, on standard error."""
    from omnicfg.report.text import render_errors

    print(render_errors(error), end="", file=sys.stderr)


def vllm_version_of(asked: str | None) -> str:
    """The version of vLLM whose engine args count. Raises :class:`~omnicfg.errors.UsageError` for one not shipped."""
    from omnicfg.catalog.vllm_args import DEFAULT_VLLM, vllm_versions
    from omnicfg.errors import UsageError

    if asked is None or asked in vllm_versions():
        return asked or DEFAULT_VLLM
    raise UsageError(f"the engine args of vLLM {asked} are not shipped", f"Shipped: {', '.join(vllm_versions())}.")


def finish_of(effective: bool, version: str | None) -> Callable[[Plan], Plan]:
    """What `--effective` and `--vllm-version` make of a plan. Raises :class:`~omnicfg.errors.UsageError`."""
    if not effective:
        return lambda plan: plan
    release = vllm_version_of(version)

    def filled(plan: Plan) -> Plan:
        from omnicfg.passes.effective import effective as fill

        return fill(plan, release)

    return filled
