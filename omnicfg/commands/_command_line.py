"""Options that take a whole `vllm serve` command, and the request that it comes to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from omnicfg.commands._plans import Request
from omnicfg.errors import OmnicfgError, ResolveError, UsageError
from omnicfg.parser import Option

if TYPE_CHECKING:
    from omnicfg.command_line.parse import CommandLine
    from omnicfg.diagnostics import Diagnostic

COMMAND = Annotated[
    str | None, Option("--command", metavar="COMMAND", help="A whole `vllm serve ... --omni` command, in one word.")
]
COMMAND_FROM = Annotated[
    Path | None,
    Option("--command-from", metavar="FILE", help="The same, from a shell script, Dockerfile or compose file."),
]


def parsed_command(command: str | None, command_from: Path | None) -> CommandLine | None:
    """The command that was given either way; ``None`` where none was. Raises :class:`UsageError`."""
    if command is None and command_from is None:
        return None
    if command is not None and command_from is not None:
        raise UsageError("`--command` and `--command-from` both give a command", "Choose one of them.")
    from omnicfg.command_line import find
    from omnicfg.command_line.parse import parse

    words = find.of_text(command) if command is not None else find.of_file(command_from or Path())
    return parse(words)


def request_of(
    line: CommandLine,
    profile: str,
    pipeline: str | None,
    model: Path | None,
    overlays: Sequence[Path] | None,
    settings: Sequence[str] | None,
) -> tuple[Request, list[Diagnostic]]:
    """The profile that a command starts, with its flags as overrides, and what is to be said of the flags."""
    from omnicfg.command_line.effect import effect
    from omnicfg.command_line.profile import findings_of_command, profile_of

    named, key = profile_of(line, profile, pipeline, model)
    request = Request(named, key, model, overlays, settings)
    bare = Request(named, key, model, overlays)
    try:
        before = bare.plan("cuda")
    except ResolveError:
        before = None
    made = effect(line, request.pipeline, before)
    request.overrides = [*made.overrides, *request.overrides]
    request.places = made.places
    return request, [*findings_of_command(line), *line.findings, *made.findings]


def tell_findings(request: Request, found: Sequence[Diagnostic], platforms: Sequence[str]) -> bool:
    """Show what was found in a command and in the profile that it comes to; whether any of it is an error.

    What is wrong with the value of a flag is told where the command has the flag, and what a comment in a file
    suppresses is left out, as `validate` does.
    """
    import sys

    from omnicfg.check import Merger, run_rules
    from omnicfg.diagnostics import Severity
    from omnicfg.findings.suppressions import Suppressions
    from omnicfg.report.text import render_errors
    from omnicfg.rule import Subject

    subject = Subject(request.loaded, request.pipeline, overrides=request.overrides)
    for platform in platforms:
        try:
            subject.plans[platform] = request.plan(platform)
        except ResolveError:
            continue  # the command says so itself
    merger = Merger(platforms)
    merger.add(request.loaded.shown, run_rules(subject))
    told = Suppressions(request.loaded.chain.paths).told(merger.merged())
    of_flags = [request.placed(each) for each in told if each.path in request.places]
    in_files = [each for each in told if each.path not in request.places]
    every = [*sorted([*found, *of_flags], key=lambda each: each.sort_key), *in_files]
    if every:
        print(render_errors(OmnicfgError(every)), end="", file=sys.stderr)
    return any(each.severity is Severity.ERROR for each in every)
