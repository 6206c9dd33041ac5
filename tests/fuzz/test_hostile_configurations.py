"""Whatever a configuration file or a baseline holds: diagnostics with a place, never a traceback."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from omnicfg.errors import OmnicfgError
from omnicfg.findings.baseline import Baseline
from omnicfg.findings.configuration import configured

PARTS = st.sampled_from(
    [
        *"[]{}=,.\"'#\\ \t\n", "\r\n", '"""', "'''", "[[", "]]", "[rules]", "[[paths]]", "[tool.omnicfg]", "platforms",
        "engine", "formats", "baseline", "policies", "files", "rules", "paths", "OC101", "TEAM-1", "off", '"off"',
        '"cuda"', '"sarif:x"', "1", "-inf", "true", "2026-01-01", "\ufeff", "\x00", "\ud7ff", "名", "a" * 300,
        "error", '"\\u0000"',
    ]
)  # fmt: skip
VALID = 'platforms = ["cuda"]\n[rules]\nOC101 = "off"\n[[paths]]\nfiles = ["a"]\nrules = {OC104 = "note"}\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(text: str) -> None:
    """Read it; where it is refused, each reason has a place in the file, or is about all of it."""
    Path("omnicfg.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        configured()
    except OmnicfgError as error:
        lines = text.replace("\r\n", "\n").split("\n")
        for problem in error.diagnostics:
            assert problem.message
            assert 0 <= problem.line <= len(lines) + 1
            assert problem.path in ("", "omnicfg.toml")


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True
)
@given(st.lists(PARTS, max_size=40).map("".join))
@example("[tool.omnicfg]\n[[rules]]\n")
@example("paths = [[]]\n")
@example('[paths]\nfiles = ["a"]\n')
@example("'' = 1\n[rules]\n'' = 'off'\n")
@example('[[paths]]\n"files" = ["\\u0000"]\nrules.OC101 = "off"\n')
def test_any_parts(folder: Path, text: str) -> None:
    read(text)


@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True
)
@given(st.data())
def test_a_valid_one_with_something_else_in_it(folder: Path, data: Any) -> None:
    start = data.draw(st.integers(0, len(VALID)))
    end = data.draw(st.integers(start, min(start + 6, len(VALID))))
    read(VALID[:start] + data.draw(PARTS) + VALID[end:])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ENTRY = {"code": "OC101", "path": "a.yaml", "where": "x", "stage_id": None, "count": 1, "message": "m"}


@settings(
    max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True
)
@given(st.sampled_from([*ENTRY, "version", "findings", "more"]), JSON)
def test_a_baseline_with_any_value_anywhere(folder: Path, name: str, value: Any) -> None:
    data: dict[str, Any] = {"version": 1, "findings": [dict(ENTRY)]}
    (data if name in data else data["findings"][0])[name] = value
    Path("known.json").write_text(json.dumps(data), encoding="utf-8")
    with contextlib.suppress(OmnicfgError):
        Baseline.read(Path("known.json"))
