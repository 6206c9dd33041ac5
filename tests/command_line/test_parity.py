"""Command lines come to what vllm-omni makes of them: its parser's values, and each stage's engine values.

The committed answers are upstream's own (``oracle.py``).
"""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from omnicfg.command_line.effect import effect
from omnicfg.command_line.parse import CommandLine, parse
from omnicfg.command_line.shell import Word
from omnicfg.compiler import Profile, compile_profile, load
from omnicfg.diagnostics import Severity
from omnicfg.errors import ResolveError
from omnicfg.tree import Mark
from tests.command_line.cases import FILES, Case, cases
from tests.parity.encoding import encode

EXPECTED = Path(__file__).parent / "expected.json.gz"
PARSER_FINDINGS = {"unknown-flag", "bad-flag-value"}

BY_NAME = {case.name: case for case in cases()}


@functools.cache
def expected() -> dict[str, dict[str, Any]]:
    answers: dict[str, dict[str, Any]] = json.loads(gzip.decompress(EXPECTED.read_bytes()))
    return answers


@pytest.fixture(scope="module")
def profiles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Profile]:
    folder = tmp_path_factory.mktemp("profiles")
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return {name: load(folder / f"{name}.yaml") for name in FILES}


def _set(value: Any) -> Any:
    """A value without the fields that are null in it: upstream's classes spell out what is unset."""
    if isinstance(value, dict):
        return {key: _set(child) for key, child in value.items() if child is not None}
    return value


def parsed(case: Case) -> CommandLine:
    return parse([Word(word, Mark("--command", 1, at + 1)) for at, word in enumerate(case.words[1:])])


def test_every_case_has_its_answer() -> None:
    assert set(expected()) == set(BY_NAME)


@pytest.mark.parametrize("name", BY_NAME)
def test_flags_are_read_as_upstream_reads_them(name: str) -> None:
    answer, line = expected()[name], parsed(BY_NAME[name])
    found = {finding.name for finding in line.findings}
    if answer.get("where") == "parser":
        assert found & PARSER_FINDINGS
        return
    assert found == set()
    given = {dest: encode(given.value) for dest, given in line.given.items() if dest != "omni"}
    assert given == answer["explicit"]


@pytest.mark.parametrize("name", [name for name, answer in expected().items() if answer.get("where") != "parser"])
def test_stages_get_what_upstream_gives_them(name: str, profiles: dict[str, Profile]) -> None:
    case, answer = BY_NAME[name], expected()[name]
    profile = profiles[case.file]
    made = effect(parsed(case), case.file, compile_profile(profile, "cuda", case.file))
    errors = [finding for finding in made.findings if finding.severity is Severity.ERROR]
    if "error" in answer:
        try:
            compile_profile(profile, "cuda", case.file, made.overrides)
        except ResolveError as refused:
            errors += refused.diagnostics
        assert errors
        return
    assert errors == []
    plan = compile_profile(profile, "cuda", case.file, made.overrides)
    for stage in answer["stages"]:
        planned = plan.stage(stage["stage_id"])
        assert planned is not None
        runtime = {"devices", "num_replicas", "env"}
        wanted = {key: value for key, value in stage["engine"].items() if value is not None and key not in runtime}
        got = {key: encode(planned.engine_args.value(key)) for key in wanted}
        assert _set(got) == _set(wanted)
        assert planned.runtime.value("devices") == stage["devices"]
        assert planned.runtime.value("num_replicas", 1) == stage["num_replicas"]
