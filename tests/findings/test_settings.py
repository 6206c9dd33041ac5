"""What counts where: severities by code and by glob."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.findings.settings import PathRules, Settings, matches

FOUND = Diagnostic("OC101", "unknown-key", Severity.ERROR, "x", "profiles/old/a.yaml", 1, 1, 1, 2)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("a.yaml", "a.yaml"),
        ("*.yaml", "a.yaml"),
        ("?.yaml", "a.yaml"),
        ("old", "old/a.yaml"),
        ("old/", "old/deep/a.yaml"),
        ("./old", "old/a.yaml"),
        ("old/**", "old/deep/a.yaml"),
        ("**", "a.yaml"),
        ("**/a.yaml", "a.yaml"),
        ("**/a.yaml", "old/deep/a.yaml"),
        ("old/**/a.yaml", "old/a.yaml"),
        ("old/**/a.yaml", "old/deep/deeper/a.yaml"),
        ("**/deep", "old/deep/a.yaml"),
        ("o*/*/a.yaml", "old/deep/a.yaml"),
        (".", "old/a.yaml"),
        ("../other", "../other/a.yaml"),
        ("a+b[1].yaml", "a+b[1].yaml"),
    ],
)
def test_a_glob_means(glob: str, path: str) -> None:
    assert matches(glob, path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*.yaml", "old/a.yaml"),
        ("a.yaml", "old/a.yaml"),
        ("old", "older/a.yaml"),
        ("old", "deep/old/a.yaml"),
        ("old/**", "old"),
        ("ol?", "older/a.yaml"),
        ("a.yaml", "axyaml"),
        ("old/*/a.yaml", "old/a.yaml"),
        ("[ab].yaml", "a.yaml"),
    ],
)
def test_a_glob_does_not_mean(glob: str, path: str) -> None:
    assert not matches(glob, path)


def test_what_is_not_configured_counts_as_the_rule_says() -> None:
    assert Settings().applied(FOUND) == FOUND
    assert not Settings().is_off("OC101", "a.yaml")


def test_a_severity_of_ones_own_and_none() -> None:
    found = Settings(rules={"OC101": Severity.NOTE}).applied(FOUND)
    assert found is not None
    assert found.severity is Severity.NOTE
    off = Settings(rules={"OC101": None})
    assert off.applied(FOUND) is None
    assert off.is_off("OC101", "a.yaml")


def test_the_last_entry_that_matches_wins_code_by_code() -> None:
    settings = Settings(
        file=Path("omnicfg.toml"),
        rules={"OC101": Severity.NOTE},
        paths=(
            PathRules(("profiles",), {"OC101": None, "OC104": None}),
            PathRules(("**/old", "x"), {"OC101": Severity.WARNING}),
            PathRules(("elsewhere",), {"OC101": Severity.ERROR}),
        ),
    )
    found = settings.applied(FOUND)
    assert found is not None
    assert found.severity is Severity.WARNING
    assert settings.is_off("OC104", FOUND.path)
    assert settings.is_off("OC101", "profiles/a.yaml")
    assert not settings.is_off("OC101", "a.yaml")


@pytest.mark.parametrize("path", ["", "--set x=1"])
def test_what_is_in_no_file_is_meant_by_no_glob(path: str) -> None:
    settings = Settings(Path("omnicfg.toml"), rules={"OC104": None}, paths=(PathRules(("**",), {"OC101": None}),))
    assert not settings.is_off("OC101", path)
    assert settings.is_off("OC104", path)


def test_globs_are_relative_to_the_folder_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    settings = Settings(file=Path("../omnicfg.toml"), paths=(PathRules(("sub/a.yaml",), {"OC101": None}),))
    assert settings.is_off("OC101", "a.yaml")
    assert settings.is_off("OC101", str(tmp_path / "sub/a.yaml"))
    assert not settings.is_off("OC101", "sub/a.yaml")
