"""What validate says of the 69 small profiles with one mistake each: all of it, at its place, and nothing else.

``trap_findings.txt`` is the answer, with a word on each: file, line, column, code, severity, platform and stage of
every finding. What begins with "Right" is no mistake and has none. After a change of the rules,
``pytest tests/rules/test_traps.py --update-snapshots`` writes the findings anew and keeps the words; read the
difference before you commit it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnicfg
from omnicfg.check import check
from omnicfg.diagnostics import Diagnostic
from omnicfg.rule import all_platforms
from tests.conftest import WriteProfile
from tests.parity.traps import Trap, traps

pytestmark = pytest.mark.usefixtures("environment_allowed")

TABLE = Path(__file__).with_name("trap_findings.txt")
TRAPS = {trap.name: trap for trap in traps()}


def settings(trap: Trap) -> list[str]:
    """The trap's command line, as omnicfg's own has it: ``stages.0.max_num_seqs=4`` for ``stage_0_max_num_seqs``."""
    keys = {key: re.sub(r"^stage_(\d+)_", r"stages.\1.", key) for key in trap.cli}
    return [f"{keys[key]}={json.dumps(value)}" for key, value in trap.cli.items()]


def found(trap: Trap, platform: str = "all") -> list[Diagnostic]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(trap.path.parent)
        return omnicfg.validate(trap.path.name, platform=platform, pipeline=trap.pipeline, overrides=settings(trap))


def line(one: Diagnostic) -> str:
    stage = "-" if one.stage_id is None else one.stage_id
    return f"{one.path}:{one.line}:{one.column} {one.code} {one.severity} {one.platform or 'all'} {stage}"


def table() -> Iterator[tuple[str, str, list[str]]]:
    """Name, word and findings of every entry."""
    for entry in TABLE.read_text(encoding="utf-8").split("\n\n"):
        word, name, *findings = entry.strip().splitlines()
        yield name, word.removeprefix("# "), [one.strip() for one in findings]


def text(answers: dict[str, list[str]]) -> str:
    words = {name: word for name, word, _ in table()}
    entries = [
        f"# {words.get(name, 'TO BE REVIEWED')}\n{name}\n" + "".join(f"    {one}\n" for one in findings)
        for name, findings in answers.items()
    ]
    return "\n".join(entries)


def test_every_trap_has_its_entry(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("update_snapshots"):
        TABLE.write_text(text({name: list(map(line, found(trap))) for name, trap in TRAPS.items()}), encoding="utf-8")
    assert [name for name, _, _ in table()] == list(TRAPS)
    assert len(TRAPS) == 69


@pytest.mark.parametrize(("name", "expected"), [pytest.param(name, lines, id=name) for name, _, lines in table()])
def test_a_trap_gives_these_findings(name: str, expected: list[str]) -> None:
    assert list(map(line, found(TRAPS[name]))) == expected


def test_what_is_right_has_no_finding_and_what_is_wrong_has_one() -> None:
    assert [name for name, word, findings in table() if word.startswith("Right: ") == bool(findings)] == []


@pytest.mark.parametrize("name", TRAPS)
def test_a_platform_by_itself_shows_the_same(name: str) -> None:
    """Each platform's own findings together are those of all platforms, and none is told on another platform."""
    everywhere = found(TRAPS[name])
    for platform in all_platforms():
        there = [one for one in everywhere if one.platform is None or platform in one.platform.split(",")]
        assert {(line(one).rsplit(" ", 2)[0], one.stage_id, one.message) for one in found(TRAPS[name], platform)} == {
            (line(one).rsplit(" ", 2)[0], one.stage_id, one.message) for one in there
        }


def test_an_absolute_base_that_is_there(profile_file: WriteProfile) -> None:
    base = profile_file("async_chunk: false\nstages: [{stage_id: 0, max_num_seqs: 64}]\n", "below/base.yaml")
    profile = profile_file(f"pipeline: qwen3_tts\nbase_config: {base}\n")
    assert omnicfg.validate(profile) == []


def test_the_order_of_files_and_platforms_changes_nothing() -> None:
    """All profiles of one pipeline in one call, forwards and backwards; platforms have an order of their own."""
    paths = [trap.path for trap in TRAPS.values() if trap.pipeline == "qwen3_tts"]
    forwards = omnicfg.validate(paths, pipeline="qwen3_tts")
    assert len(forwards) > 50
    assert omnicfg.validate(reversed(paths), pipeline="qwen3_tts") == forwards
    backwards = check(paths, all_platforms()[::-1], pipeline="qwen3_tts").findings
    assert backwards == forwards
