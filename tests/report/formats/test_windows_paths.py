"""Reports name files with slashes on Windows, too: that is what URIs and the tools of a repository know."""

from __future__ import annotations

import ntpath
from pathlib import PureWindowsPath
from types import SimpleNamespace

import pytest

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.review import Report
from omnicfg.report import findings
from omnicfg.report.formats import format_names, renderer

PATH = "C:\\work\\repo\\profiles\\a b.yaml"
NAMED = {
    "github": "file=profiles/a b.yaml,",
    "gitlab": '"path": "profiles/a b.yaml"',
    "sarif": '"uri": "profiles/a%20b.yaml"',
}
"""Format → how it names the file. The others show the name as it was given."""


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows' own rules of paths, where the paths of reports are made."""
    path = SimpleNamespace(**{**vars(ntpath), "lexists": lambda each: str(each) == "C:\\work\\repo\\.git"})
    monkeypatch.setattr(findings, "os", SimpleNamespace(path=path, pardir=".."))
    monkeypatch.setattr(findings, "Path", PureWindowsPath)
    monkeypatch.setattr(findings, "current_folder", lambda: PureWindowsPath("C:\\work\\repo\\profiles"))


@pytest.mark.parametrize("format", format_names())
def test_a_file_of_the_repository(format: str) -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "unknown key", PATH, 1, 1, 1, 4)
    text = renderer(format)(Report([found], [PATH]), False, None)
    if format in NAMED:
        assert NAMED[format] in text
        assert "repo\\" not in text
    else:
        assert "a b.yaml" in text


def test_a_file_of_another_drive_is_none_of_the_repository() -> None:
    with pytest.raises(ValueError, match="path is on mount"):
        ntpath.relpath("D:\\a.yaml", "C:\\work\\repo")
    assert findings.Repository().path("D:\\a.yaml") is None
