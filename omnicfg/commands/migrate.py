"""``omnicfg migrate``: an old stage config, or an old command line, to a profile of today."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from omnicfg.commands._command_line import COMMAND, COMMAND_FROM, parsed_command
from omnicfg.commands._options import PIPELINE, profile_names
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.parser import Argument, Option
from omnicfg.report.progress import working
from omnicfg.streams import note

if TYPE_CHECKING:
    from omnicfg.command_line.parse import CommandLine
    from omnicfg.command_line.shell import Word
    from omnicfg.migrate.command import MigratedCommand
    from omnicfg.migrate.run import Migration

HELP = "Turn a stage config of vLLM-Omni before 0.30 into a profile that means the same today."

PATHS = Annotated[list[Path], Argument("OLD", help="A file with `stage_args`; --check and --in-place take several.")]
OUTPUT = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the profile to this file.")]
IN_PLACE = Annotated[bool, Option("--in-place", help="Write it in the old file's place, and keep that as OLD.bak.")]
STDOUT = Annotated[bool, Option("--stdout", help="Print the profile, the report on standard error (the default).")]
CHECK = Annotated[bool, Option("--check", help="Write nothing; exit code 1 if anything would be lost.")]
FLAT = Annotated[bool, Option("--flat", help="Write a full profile, without a base.")]
BASE = Annotated[
    str | None,
    Option(
        "--base", metavar="NAME|FILE", help="The profile to build on, not the nearest shipped one.", words=profile_names
    ),
]
PLATFORM = Annotated[
    str | None, Option("--platform", metavar="P", help="The platform that the file was for, where nothing tells.")
]
FORMAT = Annotated[str, Option("--format", choices=("text", "json", "markdown"), help="How to print the report.")]


class _Asked(NamedTuple):
    """What to make, of a file or of a command, and how to report it."""

    output: Path | None
    flat: bool
    base: str | None
    pipeline: str | None
    platform: str | None
    format: str

    def of(self, old: Path, line: CommandLine | None = None) -> Migration:
        """The migration of a stage config, with the flags of the command that names it if any."""
        from omnicfg.migrate.run import migrate

        _check_output(self.output, [old])
        return migrate(
            old,
            target=self.output,
            pipeline=self.pipeline,
            platform=self.platform,
            base=self.base,
            flat=self.flat,
            line=line,
        )


def run(
    paths: PATHS = [],  # noqa: B006  # never changed
    output: OUTPUT = None,
    in_place: IN_PLACE = False,
    stdout: STDOUT = False,
    check: CHECK = False,
    flat: FLAT = False,
    base: BASE = None,
    pipeline: PIPELINE = None,
    platform: PLATFORM = None,
    command: COMMAND = None,
    command_from: COMMAND_FROM = None,
    format: FORMAT = "text",
) -> int:
    """Exit code: 0 where everything is still said, 1 where something is lost, 2 where a file cannot be migrated."""
    line = parsed_command(command, command_from)
    asked = _Asked(output, flat, base, pipeline, platform, format)
    if line is not None:
        if paths or in_place or check:
            raise UsageError("a command names its own files", "Give `-o FILE` or `--stdout`, and no OLD.")
        _check_ways([output is not None, stdout], flat, base)
        return _of_command(line, asked)
    _check_request(paths, [output is not None, in_place, stdout, check], flat, base)
    if check:
        paths = [path for path in paths if _is_old(path)]
    done: list[Migration] = []
    refused: list[tuple[Path, OmnicfgError]] = []
    with working("migrating") as work:
        for path in work.each(paths):
            try:
                if in_place:
                    _check_plain(path)
                done.append(asked.of(path))
            except OmnicfgError as error:
                if not (check or in_place):
                    raise
                refused.append((path, error))
    for migration in done:
        _check_output(output, migration.base.files)
        _write(migration, output, in_place, quiet=not (output or in_place or check))
    _report(done, refused, format, on_stdout=bool(output or in_place or check))
    if refused:
        return 1 if check and not any(_is_unread(error) for _, error in refused) else 2
    return int(not all(migration.is_whole for migration in done))


def _of_command(line: CommandLine, asked: _Asked) -> int:
    """An old command with its stage config becomes a profile; one of today an overlay on the profile it names."""
    from omnicfg.migrate.command import migrate_command

    if line.stage_config is not None:
        return _of_old_command(line, line.stage_config, asked)
    if asked.flat:
        raise UsageError("the flags of a command go over its profile, which is their base", "Leave `--flat` out.")
    from omnicfg.command_line.profile import profile_of
    from omnicfg.compiler import load, pipeline_of

    named, key = profile_of(line, asked.base or "", asked.pipeline, None, "`--base`")
    profile = load(named)
    _check_output(asked.output, list(profile.chain.paths.values()))
    target = asked.output or Path("overlay.yaml")
    made = migrate_command(line, profile, pipeline_of(profile, key), target, asked.platform or "cuda")
    return _show_command(made, asked.output, asked.format)


def _of_old_command(line: CommandLine, config: Word, asked: _Asked) -> int:
    """The profile of an old command's stage config, its flags included, and the command that starts it."""
    from omnicfg.diagnostics import Severity
    from omnicfg.migrate.command import old_findings, shortest, unread_flags
    from omnicfg.report.json import dumps
    from omnicfg.report.terminal import one_line
    from omnicfg.report.text import render_errors

    if config.unknown:
        message = f"which stage config the command starts is not known: nothing here tells `{config.text}`"
        raise UsageError(message, "Migrate the file itself: `omnicfg migrate OLD -o FILE`.")
    old, output = Path(config.text), asked.output
    done = asked.of(old, line)
    _write(done, output, in_place=False, quiet=output is None)
    found = old_findings(line, done.pipeline)
    unread = unread_flags(line, done.outcomes)
    command = shortest(line, str(output or old.with_name("profile.yaml")))
    told = sys.stdout if output else sys.stderr
    if asked.format == "json":
        rest = {"command": command, "unread": unread, "findings": [finding.to_dict() for finding in found]}
        told.write(dumps({**done.to_dict(), **rest}))
    else:
        _report([done], [], asked.format, on_stdout=output is not None)
        for text in unread:
            why = "every stage of the old file sets that itself, or takes no such thing"
            print(one_line(f"`{text}` changed nothing: {why}"), file=told)
        print(f"command: {command}", file=told)
        if found:
            print(render_errors(OmnicfgError(found)), end="", file=sys.stderr)
    return int(not done.is_whole or any(finding.severity is Severity.ERROR for finding in found))


def _show_command(made: MigratedCommand, output: Path | None, format: str) -> int:
    from omnicfg.diagnostics import Severity
    from omnicfg.report import migration as report
    from omnicfg.report.terminal import width_of
    from omnicfg.report.text import render_errors

    if output is None and format != "json":
        sys.stdout.write(made.text)
    elif output is not None and made.text:
        from omnicfg.migrate.write import write_overlay

        for path in write_overlay(made, output):
            note(f"omnicfg migrate: wrote {path}")
    if format == "json":
        from omnicfg.report.json import dumps

        sys.stdout.write(dumps(made.to_dict()))
    else:
        stream = sys.stdout if output else sys.stderr
        as_text = report.render_command(made, width_of(stream))
        stream.write(report.command_markdown(made) if format == "markdown" else as_text)
        if made.findings:
            print(render_errors(OmnicfgError(made.findings)), end="", file=sys.stderr)
    return int(bool(made.changes) or any(finding.severity is Severity.ERROR for finding in made.findings))


def _check_request(paths: Sequence[Path], ways: Sequence[bool], flat: bool, base: str | None) -> None:
    _check_ways(ways, flat, base)
    if not paths:
        raise UsageError("OLD is missing", "`omnicfg migrate --help` shows how it is used.")
    _, in_place, _, check = ways
    if len(paths) > 1 and not (in_place or check):
        raise UsageError("one file at a time, other than with `--in-place` or `--check`", "Run the command for each.")


def _check_ways(ways: Sequence[bool], flat: bool, base: str | None) -> None:
    if sum(ways) > 1:
        raise UsageError("`-o`, `--in-place`, `--stdout` and `--check` exclude each other", "Choose one of them.")
    if flat and base is not None:
        raise UsageError("`--flat` has no base, and `--base` names one", "Choose one of them.")


def _is_old(path: Path) -> bool:
    """Whether a file is of the old schema, or may be; what is wrong with it is for :meth:`_Asked.of` to tell."""
    from omnicfg.migrate.old_file import is_old
    from omnicfg.passes.read import read_file
    from omnicfg.tree import Layer, LayerKind

    try:
        return is_old(read_file(path, Layer(LayerKind.PROFILE, path.name)))
    except OmnicfgError:
        return _names_the_old_schema(path)


def _names_the_old_schema(path: Path) -> bool:
    """Whether a file that cannot be read as one holds a word of the old schema: most YAML files are of other tools.

    One that cannot be opened at all counts, since nothing is known of it.
    """
    from omnicfg.confine import may_read
    from omnicfg.migrate.old_file import WORDS
    from omnicfg.passes.read import MAX_BYTES

    if not may_read(path) or not path.is_file():
        return True
    try:
        with path.open("rb") as stream:
            text = stream.read(MAX_BYTES).replace(b"\0", b"").decode("utf-8", errors="ignore")  # of UTF-16 as well
    except OSError:
        return True
    return any(word in text for word in WORDS)


def _is_unread(error: OmnicfgError) -> bool:
    """Whether a file could not be read at all, so that nothing is known of what would be lost."""
    return any(diagnostic.name == "unreadable-file" for diagnostic in error.diagnostics)


def _check_output(output: Path | None, read: Sequence[Path]) -> None:
    """Refuse to write over a file that is read for it, or where no file can be written."""
    if output is None:
        return
    _check_plain(output)
    if any(output.exists() and path.exists() and output.samefile(path) for path in read):
        raise UsageError(
            f"{output} is read for this itself", "Name another file; `omnicfg migrate --in-place OLD` keeps a copy."
        )
    if not output.parent.is_dir():
        raise UsageError(f"there is no directory {output.parent}", "Make it first.")


def _check_plain(path: Path) -> None:
    """Refuse a place that a file cannot take without something else being lost."""
    if path.is_dir():
        raise UsageError(f"{path} is a directory", "Name a file.")
    if path.is_symlink() and path.exists():
        raise UsageError(f"{path} is a link, which a file would replace", "Name the file that it leads to.")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a regular file", "Leave `-o` out to have the profile printed.")


def _write(migration: Migration, output: Path | None, in_place: bool, *, quiet: bool) -> None:
    if output is None and not in_place:
        if quiet:
            sys.stdout.write(migration.text)
            if migration.base.copy:
                missing = f"`{migration.base.reference}` is not there yet: `-o FILE` copies the shipped profile to it"
                note(f"omnicfg migrate: {missing}")
        return
    from omnicfg.migrate.write import write_profile

    for path in write_profile(migration, output or Path(migration.source), backup=in_place):
        note(f"omnicfg migrate: wrote {path}")


def _report(
    done: Sequence[Migration], refused: Sequence[tuple[Path, OmnicfgError]], format: str, *, on_stdout: bool
) -> None:
    from omnicfg.report import migration as report
    from omnicfg.report.terminal import Style, has_colour, width_of

    stream = sys.stdout if on_stdout else sys.stderr
    if format == "json":
        from omnicfg.report.json import dumps

        stream.write(dumps(report.migrations_data(done, [_refused_data(path, error) for path, error in refused])))
        return
    if format == "markdown":
        stream.write("\n".join(report.migration_markdown(migration) for migration in done))
    else:
        style, width = Style(has_colour(stream)), width_of(stream)
        stream.write("\n".join(report.render_migration(migration, style, width) for migration in done))
    from omnicfg.report.text import render_errors

    for _, error in refused:
        print(render_errors(error), end="", file=sys.stderr)


def _refused_data(path: Path, error: OmnicfgError) -> dict[str, Any]:
    return {"source": str(path), "diagnostics": [diagnostic.to_dict() for diagnostic in error.diagnostics]}
