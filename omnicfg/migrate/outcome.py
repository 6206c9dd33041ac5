"""What became of one setting of an old file."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from omnicfg.migrate.old_file import Setting
from omnicfg.secrets import redacted
from omnicfg.tree import Mark, Node, Route, dotted


class Fate(StrEnum):
    """What became of a setting; the last two are losses."""

    KEPT = "kept"
    RENAMED = "renamed"
    DEFAULT = "default"
    TOPOLOGY = "topology"
    UNREAD = "unread"
    DIFFERS = "differs"
    LOST = "lost"

    @property
    def is_loss(self) -> bool:
        return self in (Fate.DIFFERS, Fate.LOST)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A value that the migrated profile has to give: where, what to write, and what it is then; ids are today's."""

    stage_id: int | None
    route: Route
    raw: Node
    value: Any

    @property
    def key(self) -> str:
        """How the setting is called today."""
        return dotted(self.route if self.stage_id is None else ("stages", self.stage_id, *self.route))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of the report. ``setting`` is ``None`` for what an old file meant without saying it."""

    path: str
    setting: Setting | None
    fate: Fate
    note: str = ""
    instead: str | None = None
    wanted: tuple[Wanted, ...] = ()

    @property
    def mark(self) -> Mark | None:
        return None if self.setting is None else self.setting.key_mark

    @property
    def value(self) -> Any:
        """The old value as it may be shown."""
        found = self.wanted[0].value if self.setting is None else self.setting.value
        return redacted(self.path, found)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form. ``to`` is the setting's name today, ``null`` where it has none."""
        mark = self.mark
        return {
            "path": self.path,
            "line": mark.line if mark else 0,
            "column": mark.column if mark else 0,
            "value": self.value,
            "fate": self.fate.value,
            "to": self.wanted[0].key if self.wanted else None,
            "note": self.note,
            "instead": self.instead,
        }
