"""Configuration files: how they are found, what they say, and how their mistakes are told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from omnicfg.diagnostics import Severity
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.findings.configuration import configured
from omnicfg.findings.settings import PathRules, Settings

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """``write("rules = {}", "omnicfg.toml")``, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)

    def make(text: str, name: str = "omnicfg.toml") -> Path:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path

    return make


def told(file: Path | None = None) -> list[tuple[str, int, int, str, str | None]]:
    with pytest.raises(OmnicfgError) as caught:
        configured(file)
    return [(one.path, one.line, one.column, one.message, one.help) for one in caught.value.diagnostics]


# ---------------------------------------------------------------------------------------------------- what it says
def test_everything(write: Write) -> None:
    write(
        'platforms = ["cuda", "npu"]\nengine = "bundled"\nvllm-version = "0.33.0"\nfail-on = "warning"\n'
        'formats = ["text", "sarif:out/report.sarif"]\nbaseline = "known.json"\npolicies = ["../policies/ours.yaml"]\n'
        '[rules]\nOC104 = "off"\nOC013 = "note"\nTEAM-1 = "warning"\n'
        '[[paths]]\nfiles = ["old/**"]\nrules = {OC101 = "warning"}\n'
    )
    assert configured() == Settings(
        file=Path("omnicfg.toml"),
        platforms=("cuda", "npu"),
        engine="bundled",
        vllm_version="0.33.0",
        fail_on="warning",
        formats=("text", "sarif:out/report.sarif"),
        baseline=Path("known.json"),
        policies=(Path("../policies/ours.yaml"),),
        rules={"OC104": None, "OC013": Severity.NOTE, "TEAM-1": Severity.WARNING},
        paths=(PathRules(("old/**",), {"OC101": Severity.WARNING}),),
    )


def test_paths_are_relative_to_the_file(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write('baseline = "known.json"\npolicies = ["p.yaml"]\nformats = ["sarif:out.sarif"]\n')
    write("", "deep/er/x.yaml")
    monkeypatch.chdir("deep/er")
    settings = configured()
    assert settings.file == Path("../../omnicfg.toml")
    assert settings.baseline == Path("../../known.json")
    assert settings.policies == (Path("../../p.yaml"),)
    assert settings.formats == ("sarif:../../out.sarif",)


def test_an_empty_file_says_nothing(write: Write) -> None:
    file = write("")
    assert configured() == Settings(file=file)


def test_windows_line_breaks_and_a_byte_order_mark(write: Write) -> None:
    write('\ufeffengine = "bundled"\r\n[rules]\r\nOC1 = "off"\r\n')
    assert [one[1:3] for one in told()] == [(3, 1)]


# ------------------------------------------------------------------------------------------------------ how it is found
def test_nothing_is_found(write: Write, tmp_path: Path) -> None:
    assert configured() == Settings()


def test_a_link_that_leads_nowhere_is_not_passed_over(write: Write, tmp_path: Path) -> None:
    (tmp_path / "omnicfg.toml").symlink_to("moved.toml")
    with pytest.raises(UsageError, match=r"`omnicfg\.toml` leads to no file"):
        configured()


def test_a_table_of_pyproject(write: Write) -> None:
    write('[project]\nname = "x"\n[tool.omnicfg]\nengine = "bundled"\n', "pyproject.toml")
    assert configured().engine == "bundled"


def test_the_nearest_one(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write('engine = "bundled"\n')
    write('[tool.omnicfg]\nengine = "vllm-omni"\n', "a/pyproject.toml")
    write("[tool.other]\nomnicfg = 1\n", "a/b/pyproject.toml")
    monkeypatch.chdir("a/b")
    assert (configured().file, configured().engine) == (Path("../pyproject.toml"), "vllm-omni")


def test_a_file_of_its_own_goes_before_pyproject(write: Write) -> None:
    write("")
    write('[tool.omnicfg]\nengine = "bundled"\n', "pyproject.toml")
    assert configured().engine is None


def test_a_pyproject_of_others_may_be_broken(write: Write) -> None:
    write("[tool.x\n", "pyproject.toml")
    assert configured() == Settings()


def test_the_file_that_is_named(write: Write) -> None:
    write('engine = "vllm-omni"\n')
    assert configured(write('engine = "bundled"\n', "ci/strict.toml")).engine == "bundled"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none.toml", None, "there is no configuration file `none.toml`"),
        (".", None, "there is no configuration file `.`"),
        ("pyproject.toml", "[tool.x]\n", "`pyproject.toml` has no `[tool.omnicfg]`"),
    ],
)
def test_a_named_file_that_is_none(write: Write, name: str, text: str | None, message: str) -> None:
    if text is not None:
        write(text, name)
    assert [one[3] for one in told(Path(name))] == [message]


# ------------------------------------------------------------------------------------------------------- what is wrong
def test_all_mistakes_at_once_with_their_places(write: Write) -> None:
    write(
        'platforms = ["cuda", "npuu"]\nengin = "bundled"\nfail-on = "note"\nformats = ["text", "sarf:x"]\n'
        'policies = "a.yaml"\nbaseline = " "\nvllm-version = 0.32\n[rules]\nOC104 = "of"\nOC101 = false\n'
    )
    severities = "One of: error, warning, note, off."
    assert told() == [
        ("omnicfg.toml", 1, 22, "an entry of `platforms` cannot be `npuu`", "Did you mean `npu`?"),
        ("omnicfg.toml", 2, 1, "the configuration has no key `engin`", "Did you mean `engine`?"),
        ("omnicfg.toml", 3, 11, "`fail-on` cannot be `note`", "One of: error, warning."),
        ("omnicfg.toml", 4, 20, "an entry of `formats` cannot be `sarf`", "Did you mean `sarif`?"),
        ("omnicfg.toml", 5, 12, "`policies` has to be a list, not text", None),
        ("omnicfg.toml", 6, 12, "`baseline` is empty", "Leave it out, or write what it is for."),
        ("omnicfg.toml", 7, 16, "`vllm-version` has to be text, not a number", None),
        ("omnicfg.toml", 9, 9, "`OC104` cannot be `of`", severities),
        ("omnicfg.toml", 10, 9, "`OC101` cannot be true or false", severities),
    ]


def test_places_in_a_table_of_pyproject(write: Write) -> None:
    write('[tool.omnicfg]\n[[tool.omnicfg.paths]]\nfiles = ["x"]\nrules.OC101 = "nope"\n', "pyproject.toml")
    assert told()[0][:4] == ("pyproject.toml", 4, 15, "`OC101` cannot be `nope`")


@pytest.mark.parametrize(
    ("code", "help"),
    [
        ("unknown-key", "`unknown-key` has the code `OC101`."),
        ("yaml-syntax", "`yaml-syntax` has the code `OC002`."),
        ("oc101", "Did you mean `OC101`?"),
        ("OC9999", None),
        ("strange", "`omnicfg rules` lists the codes."),
    ],
)
def test_codes_that_no_rule_has(write: Write, code: str, help: str | None) -> None:
    write(f'[rules]\n{code} = "off"\n')
    ((_, line, column, message, hint),) = told()
    assert (line, column, message) == (2, 1, f"no rule has the code `{code}`")
    assert help in (None, hint)
    assert hint


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("paths = 1\n", 1, "`paths` has to be a list, not a number"),
        ("paths = [1]\n", 1, "an entry of `paths` has to be a table, not a number"),
        ('[[paths]]\nfiles = ["x"]\n', 1, "an entry of `paths` has no `rules`"),
        ("[[paths]]\nrules = {}\n", 1, "an entry of `paths` has no `files`"),
        ("[[paths]]\nrules = {}\nfiles = []\n", 3, "`files` is empty"),
        ("[[paths]]\nrules = {}\nfiles = [\n 1]\n", 4, "an entry of `files` has to be text, not a number"),
        ('[[paths]]\nrules = {}\nfiles = ["x"]\nfile = ""\n', 4, "an entry of `paths` has no key `file`"),
        ("rules = []\n", 1, "`rules` has to be a table, not a list"),
        ("engine = 2026-01-01\n", 1, "`engine` has to be text, not a date or time"),
        ("platforms = []\n", 1, "`platforms` is empty"),
        ('baseline = "a\\u0000"\n', 1, "`baseline` holds a null character"),
    ],
)
def test_values_of_the_wrong_kind(write: Write, text: str, line: int, message: str) -> None:
    write(text)
    assert [one[1:4:2] for one in told()] == [(line, message)]


@pytest.mark.parametrize(
    ("glob", "sign"),
    [
        ("/old", "/"),
        ("!old", "!"),
        ("C:/old", "C:"),
        ("old/{a,b}.yaml", "{"),
        ("old/[ab].yaml", "["),
        ("old\\\\a", "\\"),
    ],
)
def test_globs_that_would_mean_nothing(write: Write, glob: str, sign: str) -> None:
    write(f'[[paths]]\nfiles = ["a", "{glob}"]\nrules = {{OC101 = "off"}}\n')
    ((_, line, column, message, hint),) = told()
    assert (line, column, message) == (2, 15, f"`{sign}` has no meaning in an entry of `files`")
    assert hint == "A glob is relative to the folder of `omnicfg.toml`, and has `*`, `?`, `**` and slashes."


def test_the_table_of_the_other_file(write: Write) -> None:
    write('[tool.omnicfg]\nengine = "bundled"\n')
    assert [one[3:] for one in told()] == [
        (
            "the configuration has no key `tool`",
            "`[tool.omnicfg]` is for `pyproject.toml`; here its keys stand without it.",
        )
    ]


def test_what_is_no_toml(write: Write) -> None:
    write('a = 1\nengine = "bundled\n')
    ((path, line, column, message, _),) = told()
    assert (path, line, column) == ("omnicfg.toml", 2, 18)
    assert message.startswith("this is not TOML: ")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "x = '" + "a" * (1 << 20) + "'"])
def test_what_is_too_much(write: Write, text: str) -> None:
    write(text)
    assert len(told()) == 1


def test_what_is_no_text(write: Write) -> None:
    write("").write_bytes(b"a = '\xff'\n")
    assert [one[3] for one in told()] == ["`omnicfg.toml` is not UTF-8 text"]
