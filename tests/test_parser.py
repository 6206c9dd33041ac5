"""A command's function as a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from omnicfg.errors import UsageError
from omnicfg.parser import Argument, Option, parse


def command(
    profile: Annotated[str, Argument("PROFILE", help="A profile.")],
    paths: Annotated[list[Path], Argument("PATH", help="More.")] = [],  # noqa: B006
    format: Annotated[str, Option("--format", choices=("text", "json"), help="How, 100%.")] = "text",
    overlays: Annotated[list[Path] | None, Option("--overlay", help="More on top.")] = None,
    port: Annotated[int, Option("--port", min=0, max=9, help="Where.", envvar="TEST_PORT")] = 1,
    dry: Annotated[bool, Option("--dry-run", help="Only look.")] = False,
) -> None: ...


def parsed(*words: str) -> dict[str, Any]:
    return parse(command, "x", "About it.", words)


def test_defaults() -> None:
    assert parsed("a") == {
        "profile": "a", "paths": [], "format": "text", "overlays": None, "port": 1, "dry": False,
    }  # fmt: skip


def test_options_may_stand_anywhere_and_repeat() -> None:
    found = parsed("a", "--overlay", "b", "c", "--dry-run", "--overlay=d", "e", "--port", "9")
    assert found["paths"] == [Path("c"), Path("e")]
    assert found["overlays"] == [Path("b"), Path("d")]
    assert (found["dry"], found["port"]) == (True, 9)


def test_after_two_dashes_every_word_is_an_argument() -> None:
    found = parsed("--format", "json", "--", "--dry-run", "-x", "--")
    assert (found["profile"], found["paths"], found["dry"]) == ("--dry-run", [Path("-x"), Path("--")], False)


def test_the_last_one_wins_so_that_a_wrappers_choice_can_be_changed_behind_it() -> None:
    assert parsed("a", "--port=2", "--port", "3")["port"] == 3


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (Option("--n", help="", min=1), "1 or more"),
        (Option("--n", help="", max=-1), "-1 or less"),
        (Option("--n", help="", min=1, max=9), "from 1 to 9"),
    ],
)
def test_a_number_out_of_bounds_is_told_those_there_are(option: Option, said: str) -> None:
    with pytest.raises(UsageError, match=f"`--n` is 0; it has to be {said}"):
        option.check(0)


def test_an_argument_too_many() -> None:
    def one(profile: Annotated[str, Argument("PROFILE", help="")]) -> None: ...

    with pytest.raises(UsageError, match="unexpected argument `b`"):
        parse(one, "x", "", ["a", "b"])


def test_the_environment_stands_in_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_PORT", "5")
    assert parsed("a")["port"] == 5
    assert parsed("a", "--port", "6")["port"] == 6


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        ([], "PROFILE is missing", "`x --help` shows how it is used."),
        (["a", "--dry-run=no"], "`--dry-run` takes no value", "Write `--dry-run` alone, or leave it out."),
        (["a", "--overlay"], "`--overlay` needs a value", "`x --help` shows how it is used."),
        (["a", "--overlay", "--dry-run"], "`--overlay` needs a value", "`x --help` shows how it is used."),
        (["a", "--formt", "json"], "`x` has no option `--formt`", "Did you mean `--format`?"),
        (["a", "--dry"], "`x` has no option `--dry`", "Did you mean `--dry-run`?"),
        (["a", "--format", "jsn"], "`--format` cannot be `jsn`", "Did you mean `json`?"),
        (["a", "--format", "xml"], "`--format` cannot be `xml`", "One of: text, json."),
        (["a", "--port", "10"], "`--port` is 10; it has to be from 0 to 9", None),
        (["a", "--port", "-1"], "`--port` is -1; it has to be from 0 to 9", None),
        ([""], "`PROFILE` is empty", "Give it a value, or leave it out."),
        (["a", "--overlay", ""], "`--overlay` is empty", "Give it a value, or leave it out."),
        (["a", "--port="], "`--port` is empty", "Give it a value, or leave it out."),
        (["a", "--port", "1_0"], "`--port` is `1_0`; it has to be a whole number", None),
        (["a", "--port", "٣"], "`--port` is `٣`; it has to be a whole number", None),
        (["a", "--port", " 3"], "`--port` is ` 3`; it has to be a whole number", None),
        (["a", "--port", "ten"], "`--port` is `ten`; it has to be a whole number", None),
    ],
)
def test_what_cannot_be_understood_is_a_usage_error(words: list[str], message: str, help: str | None) -> None:
    with pytest.raises(UsageError) as caught:
        parsed(*words)
    assert message in caught.value.diagnostics[0].message
    assert caught.value.diagnostics[0].help == help


def test_help_is_made_from_the_declarations(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed("--help")
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert text == (
        "usage: x PROFILE [PATH ...] [OPTION ...]\n\nAbout it.\n\n"
        "arguments:\n  PROFILE  A profile.\n  PATH     More.\n\n"
        "options:\n"
        "  --format text|json  How, 100%. (default: text)\n"
        "  --overlay PATH      More on top.\n"
        "  --port INT          Where. (default: 1; or $TEST_PORT)\n"
        "  --dry-run           Only look.\n"
        "  -h, --help          Show this help and exit.\n"
    )


def test_a_parameter_that_is_not_declared_is_a_bug() -> None:
    def undeclared(x: Annotated[str, "something else"]) -> None: ...

    with pytest.raises(TypeError, match="declare it with an Argument or an Option"):
        parse(undeclared, "x", "", [])
