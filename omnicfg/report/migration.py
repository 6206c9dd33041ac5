"""What ``migrate`` made of an old file: text, Markdown, and the JSON of several files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from omnicfg.report.table import Cell, render_table
from omnicfg.report.terminal import Style, paragraph, printable
from omnicfg.report.yaml import inline

if TYPE_CHECKING:
    from omnicfg.migrate.command import MigratedCommand
    from omnicfg.migrate.outcome import Outcome
    from omnicfg.migrate.run import Added, Migration

_LONGEST: Final = 72
_TITLES: Final = {
    "lost": "cannot be expressed",
    "differs": "owned by the topology, which says otherwise",
    "renamed": "renamed",
    "kept": "kept",
    "default": "now default",
    "topology": "now owned by the topology",
    "unread": "no longer read by anything",
}


def render_migration(migration: Migration, style: Style, width: int | None) -> str:
    """The report: what became of every line, losses first, and the proof."""
    parts = [paragraph(_title(migration), width, style, "strong")]
    for fate, title in _TITLES.items():
        found = _of(migration, fate)
        if found:
            parts.append("\n" + paragraph(f"{title} ({len(found)})", width, style, "strong"))
            parts.append(render_table(map(_row, found), style, width, indent="  "))
    if migration.added:
        title = f"left open by the old file, set by the base ({len(migration.added)})"
        parts.append("\n" + paragraph(title, width, style, "strong"))
        parts.append(render_table(map(_added_row, migration.added), style, width, indent="  "))
    parts += ["\n" + paragraph(line, width) for line in _last_words(migration)]
    return "".join(parts)


def _title(migration: Migration) -> str:
    base = migration.base.reference or "no base"
    return f"{migration.source}: pipeline {migration.pipeline} ({migration.why}), over {base}, for {migration.platform}"


def _of(migration: Migration, fate: str) -> list[Outcome]:
    return [outcome for outcome in migration.outcomes if outcome.fate == fate]


def _row(outcome: Outcome) -> list[str | Cell]:
    return [
        Cell(str(outcome.mark) if outcome.mark else "(unsaid)", "place"),
        Cell(outcome.path, "name"),
        _short(outcome.value),
        _words(outcome),
    ]


def _added_row(added: Added) -> list[str | Cell]:
    return [Cell(added.origin, "place"), Cell(added.key, "name"), _short(added.value)]


def _words(outcome: Outcome) -> str:
    return " ".join(part for part in (outcome.note + ("." if outcome.instead else ""), outcome.instead) if part)


def _short(value: Any) -> str:
    text = inline(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _last_words(migration: Migration) -> Iterator[str]:
    for stage in migration.missing:
        yield f"stage {stage} is started today, and the old file has no such stage: the base's settings hold for it"
    for finding in migration.findings:
        yield f"`validate` finds in the new file: error[{finding.code}]: {finding.message}"
    yield _proof(migration)


def _proof(migration: Migration) -> str:
    proof = (
        f"proof: {migration.held} of {migration.checked} values compiled for {migration.platform} are the old file's"
    )
    if not migration.losses:
        return f"{proof}; nothing is lost"
    lost = len(migration.losses)
    lines = "1 of its lines means" if lost == 1 else f"{lost} of its lines mean"
    return f"{proof}; {lines} something else today, or nothing (listed first)"


def migration_markdown(migration: Migration) -> str:
    """The report as Markdown, a table for each kind of outcome."""
    lines = [f"### {_title(migration)}"]
    for words in _last_words(migration):
        lines += ["", f"{_cell(words)}."]
    for fate, title in _TITLES.items():
        found = _of(migration, fate)
        if found:
            lines += [
                "",
                f"**{title}** ({len(found)})",
                "",
                "| line | setting | value | |",
                "| --- | --- | --- | --- |",
            ]
            lines += [_markdown_row(outcome) for outcome in found]
    if migration.added:
        lines += ["", f"**left open by the old file, set by the base** ({len(migration.added)})", ""]
        lines += ["| setting | value | where |", "| --- | --- | --- |"]
        lines += [f"| `{each.key}` | {_code(each.value)} | {each.origin} |" for each in migration.added]
    return "\n".join([*lines, ""])


def _markdown_row(outcome: Outcome) -> str:
    line = str(outcome.mark.line) if outcome.mark else ""
    return f"| {line} | `{_cell(outcome.path)}` | {_code(outcome.value)} | {_cell(_words(outcome))} |"


def _code(value: Any) -> str:
    return _literal(_short(value))


def _literal(text: str) -> str:
    shown = _cell(text).replace("`", "'")
    return f"`{shown}`"


def _cell(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("\n", " ")


def render_command(made: MigratedCommand, width: int | None = None) -> str:
    """What became of a command's flags, the shortest command, on one line, and the proof."""
    rows = [[flag, became] for flag, became in made.told]
    head = paragraph(f"pipeline {made.pipeline}, over {made.base.reference}, for {made.platform}", width)
    table = render_table(rows, Style(False), width, indent="  ")
    lines = "".join(paragraph(line, width) for line in _outcome_of_command(made))
    return f"{head}\n{table}\ncommand: {made.command}\n{lines}"


def command_markdown(made: MigratedCommand) -> str:
    """The same for a pull request."""
    rows = "".join(f"| {_literal(flag)} | {_cell(became)} |\n" for flag, became in made.told)
    outcome = "".join(f"\n{_cell(line)}\n" for line in _outcome_of_command(made))
    head = f"Pipeline {_literal(made.pipeline)}, over {_literal(made.base.reference or '')}, for {made.platform}.\n"
    return f"{head}\n| flag | what became of it |\n| --- | --- |\n{rows}\n```sh\n{made.command}\n```\n{outcome}"


def _outcome_of_command(made: MigratedCommand) -> list[str]:
    lines = [] if made.text else ["the flags say nothing that the profile does not say: no overlay is needed"]
    lines += [f"differs: stage {change.stage_id} {change.key}" for change in made.changes]
    if made.errors:
        why = "the error below says why" if made.errors == 1 else "the errors below say why"
        lines.append(f"no proof: the old command does not start, {why}")
    elif not made.changes:
        beside = f", whatever {_listed(made.left_open)} may be" if made.left_open else ""
        if made.rest and made.text:
            beside += f", as long as {_listed(made.rest)} sets nothing that the overlay sets"
        lines.append(f"proof: compiled for {made.platform}, both commands start the same engine args{beside}")
    return lines


def _listed(words: Sequence[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def migrations_data(migrations: Sequence[Migration], refused: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``{"files": [...], "refused": [{"source", "diagnostics"}]}``."""
    return {"files": [migration.to_dict() for migration in migrations], "refused": list(refused)}
