"""A repository with profiles in it, and the report of what they have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnicfg.check import check
from omnicfg.diagnostics import Severity
from omnicfg.findings.review import Report, report_of
from omnicfg.findings.settings import Settings
from omnicfg.rule import all_platforms

ReportOf = Callable[..., Report]


@pytest.fixture
def report_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ReportOf:
    """``report_on({"sub/a.yaml": "..."}, "sub")``: the report on all files as they are named from ``sub``."""

    def make(
        files: dict[str, str], folder: str = ".", fail_on: str = "error", overrides: tuple[str, ...] = ()
    ) -> Report:
        (tmp_path / ".git").mkdir(exist_ok=True)
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path / folder)
        names = tuple(str(Path(name).relative_to(folder)) for name in files)
        checked = check(names, all_platforms(), overrides=overrides)
        return report_of(checked, Settings(), None, Severity(fail_on))

    return make
