"""Baselines: what is known does not count, what is mended is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omnicfg.catalog.paths import schemas_dir
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError
from omnicfg.findings.baseline import Baseline
from tests.commands.conftest import Validate
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"
SCHEMA = json.loads((schemas_dir() / "baseline.schema.json").read_text(encoding="utf-8"))


def findings(file: str = "known.json") -> list[dict[str, Any]]:
    data = json.loads(Path(file).read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    found: list[dict[str, Any]] = data["findings"]
    return found


def test_what_is_written_is_known(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    written = validate("--write-baseline", "known.json")
    assert (written.code, written.out, written.err) == (0, "No findings in 1 profile; 1 in the baseline.\n", "")
    assert findings() == [
        {
            "code": "OC101",
            "path": "profile.yaml",
            "where": "x",
            "stage_id": None,
            "count": 1,
            "message": "unknown key `x` in the profile",
        }
    ]
    known = validate("--baseline", "known.json")
    assert (known.code, known.out, known.err) == (0, "No findings in 1 profile; 1 in the baseline.\n", "")


def test_a_baseline_never_takes_the_place_of_a_profile(validate: Validate, profile_file: WriteProfile) -> None:
    profile = profile_file(TTS)
    refused = validate("--write-baseline", "profile.yaml")
    assert (refused.code, profile.read_text(encoding="utf-8")) == (2, TTS)


def test_lines_may_move_and_values_change(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    validate("--write-baseline", "known.json")
    profile_file("# new\n" + TTS + "trust_remote_code: true\nx: 2\n")
    assert validate("--baseline", "known.json").code == 0


def test_what_is_new_counts(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    validate("--write-baseline", "known.json")
    profile_file(TTS + "x: 1\ny: 1\n")
    result = validate("--baseline", "known.json", "--format", "json")
    assert result.code == 1
    assert [one["message"] for one in result.data["diagnostics"]] == ["unknown key `y` in the profile"]
    assert result.data["summary"]["baseline"] == 1


def test_one_more_of_the_same_counts(validate: Validate, profile_file: WriteProfile) -> None:
    entry = "  - {from: 0, to: 1, window_size: 1}\n"
    profile_file(TTS + "edges:\n" + entry)
    validate("--write-baseline", "known.json")
    (known,) = findings()
    assert known["where"] == "edges.[0].window_size"
    profile_file(TTS + "edges:\n" + entry + entry)
    assert validate("--baseline", "known.json", "--fail-on", "warning").code == 1


def test_what_is_mended_is_told(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\ny: 1\n")
    validate("--write-baseline", "known.json")
    profile_file(TTS + "x: 1\n")
    result = validate("--baseline", "known.json", "--format", "json")
    assert (result.code, result.data["diagnostics"]) == (0, [])
    assert result.err == (
        "note: 1 finding of known.json is there no more; `--write-baseline` makes it current:\n"
        "  profile.yaml: OC101 y\n"
    )


def test_what_is_gone_with_its_file_is_told(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n", "a.yaml")
    profile_file(TTS)
    validate("--write-baseline", "known.json")
    Path("a.yaml").unlink()
    assert "a.yaml: OC101 x" in validate("--baseline", "known.json").err


@pytest.mark.parametrize(
    "words", [["b.yaml"], ["--platform", "cuda"], ["--set", "max_num_seqs=1"], ["--engine", "bundled"]]
)
def test_what_was_not_looked_for_is_not_called_mended(
    validate: Validate, profile_file: WriteProfile, words: list[str]
) -> None:
    profile_file(TTS + "platforms: {npu: {x: 1}}\n", "a.yaml")
    profile_file(TTS, "b.yaml")
    validate("--write-baseline", "known.json")
    profile_file(TTS, "a.yaml")
    assert validate("--baseline", "known.json", *words).err == ""
    assert "a.yaml: OC101" in validate("--baseline", "known.json").err


def test_nor_what_is_off(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    validate("--write-baseline", "known.json")
    Path("omnicfg.toml").write_text('[rules]\nOC101 = "off"\n')
    assert validate("--baseline", "known.json").err == ""


def test_many_are_not_all_listed(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "".join(f"x{number}: 1\n" for number in range(12)))
    validate("--write-baseline", "known.json")
    profile_file(TTS)
    told = validate("--baseline", "known.json").err
    assert told.startswith("note: 12 findings of known.json are there no more")
    assert told.endswith("\n  and 2 more\n")


def test_paths_are_relative_to_the_file(
    validate: Validate, profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("ci").mkdir()
    validate("--write-baseline", "ci/known.json")
    assert [one["path"] for one in findings("ci/known.json")] == ["../deploy/a.yaml"]
    monkeypatch.chdir("deploy")
    assert validate("--baseline", "../ci/known.json").code == 0


@pytest.mark.parametrize("written", ["deploy", "link", "deploy/../link", "deploy/a.yaml", "link/a.yaml"])
@pytest.mark.parametrize("read", ["deploy", "link", "ABSOLUTE/link", "deploy/a.yaml", "link/../deploy/a.yaml"])
def test_a_file_is_known_by_whichever_folder_it_is_reached(
    validate: Validate, profile_file: WriteProfile, tmp_path: Path, written: str, read: str
) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("link").symlink_to("deploy")
    validate(written, "--write-baseline", "known.json")
    assert [one["path"] for one in findings()] == ["deploy/a.yaml"]
    result = validate(read.replace("ABSOLUTE", str(tmp_path)), "--baseline", "known.json")
    assert (result.code, result.err) == (0, "")


def test_a_baseline_is_the_same_by_whichever_folder_it_is_reached(
    validate: Validate, profile_file: WriteProfile, tmp_path: Path
) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("deep/ci").mkdir(parents=True)
    Path("link").symlink_to("deep/ci")
    for name in ("link/known.json", "deep/ci/known.json"):
        validate("--write-baseline", name)
        assert [one["path"] for one in findings(name)] == ["../../deploy/a.yaml"]
        for other in ("link/known.json", "deep/ci/known.json", f"{tmp_path}/link/known.json"):
            result = validate("--baseline", other)
            assert (result.code, result.err) == (0, "")


def test_a_file_that_is_met_twice_is_known_once(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("link").symlink_to("deploy")
    validate("deploy", "link", "--write-baseline", "known.json")
    assert [(one["path"], one["count"]) for one in findings()] == [("deploy/a.yaml", 1)]
    for words in (["deploy"], ["link"], ["deploy", "link"]):
        result = validate(*words, "--baseline", "known.json")
        assert (result.code, result.err) == (0, "")


def test_what_is_new_is_new_under_each_name(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("link").symlink_to("deploy")
    validate("deploy", "--write-baseline", "known.json")
    profile_file(TTS + "y: 1\n", "deploy/a.yaml")
    result = validate("deploy", "link", "--baseline", "known.json", "--format", "json")
    told = [(one["path"], one["message"]) for one in result.data["diagnostics"]]
    assert told == [(name, "unknown key `y` in the profile") for name in ("deploy/a.yaml", "link/a.yaml")]
    assert result.err.endswith("makes it current:\n  deploy/a.yaml: OC101 x\n")


def test_a_path_with_a_linked_folder_in_a_baseline_is_read_as_that_of_the_real_one(
    validate: Validate, profile_file: WriteProfile
) -> None:
    profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("link").symlink_to("deploy")
    validate("deploy", "--write-baseline", "known.json")
    entries = findings()
    known = {"version": 1, "findings": [*entries, {**entries[0], "path": "link/a.yaml"}]}
    Path("known.json").write_text(json.dumps(known), encoding="utf-8")
    result = validate("deploy", "--baseline", "known.json")
    assert (result.code, result.err) == (0, "")


def test_a_file_that_is_a_link_is_known_by_its_own_name(validate: Validate, profile_file: WriteProfile) -> None:
    """Its bases are looked for beside the link: beside another base the same text has other findings."""
    real = profile_file(TTS + "x: 1\n", "deploy/a.yaml")
    Path("deploy/b.yaml").symlink_to(real)
    validate("deploy", "--write-baseline", "known.json")
    assert [one["path"] for one in findings()] == ["deploy/a.yaml", "deploy/b.yaml"]
    alone = validate("deploy/a.yaml", "--baseline", "known.json")
    assert (alone.code, alone.err) == (0, "")
    validate("deploy/a.yaml", "--write-baseline", "known.json")
    assert validate("deploy/b.yaml", "--baseline", "known.json").code == 1


def test_a_shipped_profile_and_a_setting_are_known_by_name(validate: Validate) -> None:
    words = ("minicpmo_4_5_turn_mrv2", "--set", "asynch_chunk=1")
    assert validate(*words).code == 1
    validate(*words, "--write-baseline", "known.json")
    result = validate(*words, "--baseline", "known.json", "--fail-on", "warning")
    assert (result.code, result.err) == (0, "")


def test_suppressed_findings_are_not_written(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1  # omnicfg: ignore[OC101] because it is a test\n")
    validate("--write-baseline", "known.json")
    assert findings() == []


def test_the_order_of_files_does_not_matter(validate: Validate, profile_file: WriteProfile) -> None:
    for name in ("a.yaml", "b.yaml"):
        profile_file(TTS + "x: 1\ny: 1\n", name)
    texts = []
    for order in (("a.yaml", "b.yaml"), ("b.yaml", "a.yaml")):
        validate(*order, "--write-baseline", "known.json")
        texts.append(Path("known.json").read_text())
    assert texts[0] == texts[1]


def test_a_password_in_a_message_is_not_written(tmp_path: Path) -> None:
    found = Diagnostic("OC101", "unknown-key", Severity.ERROR, "no key `http://me:hunter2@host`")
    Baseline.write(tmp_path / "known.json", [found])
    assert "hunter2" not in (tmp_path / "known.json").read_text()


# ------------------------------------------------------------------------------------------------------------ trouble
@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("{", 1, "this is not JSON: "),
        ("{\n]", 2, "this is not JSON: "),
        ("[" * 100_000, 0, "this is not JSON"),
        ("\xff", 1, "this is not JSON"),
        ("[]", 0, "this is no baseline: it has no list of `findings`"),
        ('{"version": 2, "findings": []}', 0, "this is a baseline of version `2`; this omnicfg knows 1"),
        ('{"version": 1, "findings": [{}]}', 0, "entry 1 of `findings` is none of a baseline"),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = tmp_path / "known.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(OmnicfgError) as caught:
        Baseline.read(file)
    (problem,) = caught.value.diagnostics
    assert (problem.path, problem.line) == (str(file), line if "\xff" not in text else problem.line)
    assert problem.message.startswith(message)


@pytest.mark.parametrize("path", ["a\0b", "x/a\0b/c", "a" * 5000, "x/" + "b/" * 3000 + "c", "\ud800", "x\ud800/y"])
def test_a_name_that_no_file_can_have_is_that_of_one_that_is_gone(
    validate: Validate, profile_file: WriteProfile, path: str
) -> None:
    profile_file(TTS)
    entry = {"code": "OC101", "path": path, "where": "x", "stage_id": None, "count": 1, "message": ""}
    Path("known.json").write_text(json.dumps({"version": 1, "findings": [entry]}), encoding="utf-8")
    result = validate("--baseline", "known.json")
    assert (result.code, result.out) == (0, "No findings in 1 profile.\n")
    assert result.err.startswith("note: 1 finding of known.json is there no more")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--baseline", "known.json", "--write-baseline", "known.json"], "contradict each other"),
        (["--baseline", "none.json"], "the baseline `none.json` cannot be read: No such file or directory"),
        (["--baseline", "."], "the baseline `.` cannot be read: Is a directory"),
        (["--write-baseline", "none/known.json"], "there is no directory `none`"),
    ],
)
def test_files_that_are_not_there(
    validate: Validate, profile_file: WriteProfile, words: list[str], message: str
) -> None:
    profile_file(TTS)
    result = validate(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
