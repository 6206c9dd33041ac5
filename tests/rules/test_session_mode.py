"""OC403: session modes that will not be served."""

from __future__ import annotations

from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told


def test_duplex_without_a_plugin(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file("pipeline: personaplex\nsession_mode: duplex\n"), "OC403")
    assert (found.line, found.column, found.severity, found.platform) == (2, 15, Severity.WARNING, None)
    assert found.message == "pipeline personaplex has no duplex plugin, so `session_mode: duplex` is served as turn"


def test_duplex_with_a_plugin(profile_file: WriteProfile) -> None:
    assert told(profile_file("pipeline: minicpmo_4_5\nsession_mode: duplex\n"), "OC403") == []


def test_a_word_that_is_no_mode(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file("pipeline: minicpmo_4_5\nsession_mode: duplx\n"), "OC403")
    assert (found.line, found.column, found.severity, found.help) == (2, 15, Severity.ERROR, "Did you mean `duplex`?")


def test_a_word_that_is_near_no_mode(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file("pipeline: minicpmo_4_5\nsession_mode: streaming\n"), "OC403")
    assert found.help == "Modes: turn, duplex."


def test_in_a_base_two_levels_up(profile_file: WriteProfile) -> None:
    base = profile_file("pipeline: personaplex\nsession_mode: duplex\n", "base.yaml")
    profile_file("base_config: base.yaml\n", "middle.yaml")
    (found,) = findings(profile_file("base_config: middle.yaml\n", "top.yaml"), "OC403")
    assert (found.path, found.line, found.column) == (str(base), 2, 15)


def test_in_a_setting(profile_file: WriteProfile) -> None:
    found = findings(profile_file("pipeline: personaplex\n"), "OC403", overrides=["session_mode=duplex"])
    assert [(one.path, one.line, one.column) for one in found] == [("--set session_mode=duplex", 1, 14)]
