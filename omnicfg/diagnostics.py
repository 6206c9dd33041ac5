"""What omnicfg says about a profile: one :class:`Diagnostic`, many renderers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from omnicfg.tree import Mark

DOCS_URL: Final = "https://github.com/omnicfg/omnicfg/blob/main/docs/"  # an installed package has no pages beside it
RULES_URL: Final = f"{DOCS_URL}rules/"
POLICIES_URL: Final = f"{DOCS_URL}policies.md"
MAX_MESSAGE: Final = 2000


class Severity(StrEnum):
    """How bad a finding is. Errors stop ``serve``; warnings and notes do not."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 for the worst, for sorting and thresholds."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces the text of ``mark`` (its end is exclusive; an empty range inserts) by ``text``."""

    mark: Mark
    text: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        names = ("path", "line", "column", "end_line", "end_column")
        return dict(zip(names, self.mark, strict=True)) | {"text": self.text}


@dataclass(frozen=True, slots=True)
class Fix:
    """What would mend a finding: ``title`` says it in words. Safe: what the profile means stays what it clearly was."""

    title: str
    edits: tuple[Edit, ...]
    safe: bool = True

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"title": self.title, "safe": self.safe, "edits": [edit.to_dict() for edit in self.edits]}


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what, where, why and what to do.

    Lines and columns count from 1 (0: the finding has no place in a file); the end is exclusive. ``platform`` is
    ``None`` where the finding holds on every platform that was looked at, otherwise the names joined by commas.
    """

    code: str
    name: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    platform: str | None = None
    stage_id: int | None = None
    help: str | None = None
    fix: Fix | None = None

    @classmethod
    def at(
        cls,
        mark: Mark | None,
        code: str,
        name: str,
        severity: Severity,
        message: str,
        *,
        platform: str | None = None,
        stage_id: int | None = None,
        help: str | None = None,
        fix: Fix | None = None,
    ) -> Diagnostic:
        """A diagnostic at a mark of the tree. A message that quotes a huge value is cut in its middle."""
        mark = mark or Mark("")
        if len(message) > MAX_MESSAGE:
            message = f"{message[: MAX_MESSAGE // 2]} ... {message[-MAX_MESSAGE // 2 :]}"
        return cls(code, name, severity, message, *mark, platform=platform, stage_id=stage_id, help=help, fix=fix)

    @property
    def url(self) -> str:
        """The page that explains the rule; for a policy of a team's own, the one on policies."""
        is_rule = self.code.startswith("OC") and self.code[2:].isdecimal()
        return f"{RULES_URL}{self.code}.md" if is_rule else POLICIES_URL

    @property
    def sort_key(self) -> tuple[Any, ...]:
        """Order of a report: by place, worst first; independent of the order in which rules ran."""
        place = (self.path, self.line, self.column, self.end_line, self.end_column)
        stage_id = -1 if self.stage_id is None else self.stage_id
        return (
            *place[:3],
            self.severity.rank,
            self.code,
            self.message,
            self.platform or "",
            stage_id,
            self.help or "",
            place,
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form (field order is part of the format)."""
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.value,
            "message": self.message,
            "path": self.path,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "platform": self.platform,
            "stage_id": self.stage_id,
            "help": self.help,
            "url": self.url,
            "fix": self.fix.to_dict() if self.fix else None,
        }


def summarize(diagnostics: Iterable[Diagnostic]) -> dict[str, int]:
    """How many findings there are of each severity."""
    counts = {severity.value: 0 for severity in Severity}
    for diagnostic in diagnostics:
        counts[diagnostic.severity.value] += 1
    return counts
