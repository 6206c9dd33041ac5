"""What an upgrade changes for profiles, as text and as a comment on a pull request: equal effects brought together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from omnicfg.report.changes_markdown import MAX_COMMENT, code, words
from omnicfg.report.table import Cell, render_table
from omnicfg.report.terminal import Style, paragraph
from omnicfg.report.yaml import inline
from omnicfg.secrets import redacted
from omnicfg.upgrade import KINDS, Effect, Upgrade
from omnicfg.wording import counted

_SHOWN: Final = 3  # places of one effect that a terminal lists
_LISTED: Final = 20  # and a comment


class _Group(NamedTuple):
    """One effect wherever it shows."""

    effect: Effect
    places: list[tuple[str, Effect, tuple[str, ...]]]

    @property
    def profiles(self) -> int:
        return len({profile for profile, _, _ in self.places})


def render_upgrade(found: Upgrade, platforms: Sequence[str], style: Style, width: int | None) -> str:
    """The effects by their kind, the worst first."""
    parts = [paragraph(_headline(found), width)]
    groups = _groups(found)
    for kind, told in KINDS.items():
        rows = [_row(group, platforms) for group in groups if group.effect.kind == kind]
        if rows:
            table = render_table(rows, style, width, headers=("key", "before", "after", "where"), indent="  ")
            parts.append(f"\n{paragraph(told, width, style, 'strong')}{table}")
    if broken := _broken(found):
        parts.append("\n" + paragraph(f"Not compared, since they do not compile: {', '.join(broken)}", width))
    if found.added:
        parts.append("\n" + paragraph(f"New in {found.after}: {', '.join(found.added)}", width))
    return "".join(parts)


def upgrade_markdown(found: Upgrade, platforms: Sequence[str]) -> str:
    """The same as Markdown, no longer than a comment may be."""
    parts = [f"**{words(_headline(found))}**\n"]
    groups = _groups(found)
    for kind, told in KINDS.items():
        chosen = [group for group in groups if group.effect.kind == kind]
        if chosen:
            parts.append(
                f"\n### {told[0].upper()}{told[1:]}\n\n| key | before | after | where |\n| --- | --- | --- | --- |\n"
            )
            parts += [_markdown_row(group, platforms) for group in chosen]
    if broken := _broken(found):
        parts.append(f"\nNot compared, since they do not compile: {', '.join(map(code, broken))}\n")
    if found.added:
        listed = ", ".join(map(code, found.added))
        parts.append(f"\n<details><summary>New in {words(found.after)}</summary>\n\n{listed}\n</details>\n")
    return _cut(parts)


def _cut(parts: Sequence[str]) -> str:
    text = ""
    for position, part in enumerate(parts):
        if len(text) + len(part) > MAX_COMMENT - 200:
            return f"{text}\n{len(parts) - position} more lines are left out; `omnicfg diff --versions` has them.\n"
        text += part
    return text


def _headline(found: Upgrade) -> str:
    concerned = sum(bool(each.effects) for each in found.profiles)
    profiles = f"{concerned} of {counted(found.checked, 'profile')}"
    return f"{found.product} {found.before} to {found.after}: something changes for {profiles}."


def _groups(found: Upgrade) -> list[_Group]:
    groups: dict[str, _Group] = {}
    for each in found.profiles:
        for effect, names in each.effects:
            alike = effect._replace(stage_id=None, mark=None)
            groups.setdefault(repr(alike), _Group(alike, [])).places.append((each.profile, effect, names))
    return sorted(groups.values(), key=lambda group: (-len(group.places), group.effect.key))


def _broken(found: Upgrade) -> list[str]:
    return [each.profile for each in found.profiles if each.reasons]


def _values(effect: Effect) -> tuple[str, str]:
    before, after = (
        "unset" if value is None else inline(redacted(effect.key, value)) for value in (effect.before, effect.after)
    )
    return before, {"removed": "gone", "pipeline": "gone", "refused": "not taken"}.get(effect.kind, after)


def _row(group: _Group, platforms: Sequence[str]) -> list[str | Cell]:
    before, after = _values(group.effect)
    if group.profiles > _SHOWN:
        where = f"{len(group.places)} places in {group.profiles} profiles"
    else:
        where = "; ".join(_place(*place, platforms) for place in group.places)
    return [Cell(group.effect.key or "(whole stage)", "name"), before, Cell(after, "strong"), where]


def _place(profile: str, effect: Effect, names: Sequence[str], platforms: Sequence[str]) -> str:
    place = profile if effect.mark is None else str(effect.mark)
    stage = "" if effect.stage_id is None else f" stage {effect.stage_id}"
    return f"{place}{stage}" + ("" if len(names) == len(platforms) else f" on {', '.join(names)}")


def _markdown_row(group: _Group, platforms: Sequence[str]) -> str:
    before, after = _values(group.effect)
    shown = [code(_place(*place, platforms)) for place in group.places[:_LISTED]]
    more = len(group.places) - len(shown)
    where = ", ".join(shown) + (f" and {more} more" if more else "")
    return f"| {code(group.effect.key or 'whole stage')} | {code(before)} | {code(after)} | {where} |\n"
