"""Options of the commands that look for findings in profiles, and what is configured for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg.commands._options import platform_names, profile_names, vllm_versions
from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option

if TYPE_CHECKING:
    from omnicfg.diagnostics import Severity
    from omnicfg.findings.settings import Settings

PATHS = Annotated[
    list[Path],
    Argument("PATH", help="A file, a directory (searched for profiles) or a shipped name.", words=profile_names),
]
POLICIES = Annotated[
    list[Path] | None, Option("--policy", metavar="FILE", help="Policies of your own to check as well; repeatable.")
]
FAIL_ON = Annotated[
    str | None,
    Option("--fail-on", choices=("error", "warning"), help="What makes the exit code 1; else error."),
]
WHERE = Annotated[
    str | None,
    Option("--platform", metavar="P", help="cuda, npu, rocm, xpu or musa; else all.", words=platform_names),
]
TARGET = Annotated[
    str | None,
    Option(
        "--vllm-version", metavar="V", help="Whose engine args count, where not the engine's own.", words=vllm_versions
    ),
]
BASELINE = Annotated[
    Path | None, Option("--baseline", metavar="FILE", help="Findings that this file knows do not count.")
]
CONFIG = Annotated[
    Path | None,
    Option("--config", metavar="FILE", help="Configuration, where not the omnicfg.toml or pyproject.toml above."),
]
NO_CONFIG = Annotated[bool, Option("--no-config", help="Go without configuration.")]


def profiles_at(paths: list[Path]) -> list[Path]:
    """The profiles that are named, or in the directories that are; what cannot be searched is told beside them."""
    from omnicfg.profile_files import profiles_in
    from omnicfg.streams import note

    def tell(error: OSError) -> None:
        note(f"note: the directory `{error.filename}` is left out, since it cannot be read: {error.strerror}")

    return list(profiles_in(paths or [Path()], tell))


def configured_by(file: Path | None, none: bool) -> Settings:
    """What `--config` and `--no-config` lead to. Raises :class:`~omnicfg.errors.OmnicfgError`."""
    from omnicfg.findings.settings import Settings

    if file is not None and none:
        raise UsageError("`--config` and `--no-config` contradict each other", "Give one of them.")
    if none:
        return Settings()
    from omnicfg.findings.configuration import configured

    return configured(file)


def platforms_in_question(platform: str | None, configured: Settings) -> Sequence[str]:
    """The platforms that are asked for, else those that are configured, else all of them."""
    from omnicfg.commands._plans import platforms_of

    return platforms_of(platform or "all") if platform or not configured.platforms else configured.platforms


def failing(fail_on: str | None, configured: Settings) -> Severity:
    """What makes the exit code 1: as it is asked for, else as it is configured, else an error."""
    from omnicfg.diagnostics import Severity

    return Severity(fail_on or configured.fail_on or "error")
