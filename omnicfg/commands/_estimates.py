"""What the stages of a plan hold in their KV caches, told beside a command's own output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.parser import Option
from omnicfg.streams import note

if TYPE_CHECKING:
    from omnicfg.plan import Plan

DEVICE_MEMORY = Annotated[
    str | None,
    Option("--device-memory", metavar="SIZE", help="With `--model`: how many tokens fit a device of, say, 139.8GiB."),
]


def check_device_memory(model: Path | None, device_memory: str | None) -> None:
    """Raises :class:`UsageError` for a size that is none, or of which nothing could be told."""
    if device_memory is not None:
        from omnicfg.resources.sizes import parse_size

        parse_size(device_memory, "--device-memory")
        if model is None:
            raise UsageError("`--device-memory` needs a model", "Name its directory: `--model DIR`.")


def tell_estimates(plans: Mapping[str, Plan], model: Path | None, device_memory: str | None) -> None:
    """One note a stage on standard error, for all platforms together where they agree; nothing without a model.

    Raises :class:`~omnicfg.errors.OmnicfgError` for a ``config.json`` that cannot be read.
    """
    if model is None:
        return
    from omnicfg.report.estimates import estimate_lines
    from omnicfg.resources.estimate import estimates
    from omnicfg.resources.sizes import parse_size

    size = None if device_memory is None else parse_size(device_memory, "--device-memory")
    platforms: dict[str, list[str]] = {}
    for platform, plan in plans.items():
        for line in estimate_lines(estimates(plan, model, size)):
            platforms.setdefault(line, []).append(platform)
    for line, where in platforms.items():
        prefix = "" if len(where) == len(plans) else f"{', '.join(where)}: "
        note(f"note: {prefix}{line}")


def tell_estimates_of(
    profiles: Iterable[str],
    platforms: Sequence[str],
    model: Path,
    device_memory: str | None,
    pipeline: str | None,
    overlays: Sequence[Path] | None,
    settings: Sequence[str] | None,
) -> None:
    """The same for several profiles; what one cannot be compiled for has been told already."""
    from omnicfg.commands._plans import Request

    for profile in profiles:
        try:
            plans, _ = Request(profile, pipeline, model, overlays, settings).some_plans(platforms)
            tell_estimates(plans, model, device_memory)
        except OmnicfgError:
            continue
