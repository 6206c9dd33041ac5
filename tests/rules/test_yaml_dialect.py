"""OC106: plain values that YAML 1.1 and 1.2 take differently. What is said to be served is what is served."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.passes.read import read_scalar
from omnicfg.rules.yaml_dialect import read_core
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n"


@pytest.mark.parametrize(
    ("written", "here", "there"),
    [
        ("yes", "true", "text"),
        ("Off", "false", "text"),
        ("NO", "false", "text"),
        ("010", "the number 8", "the number 10"),
        ("08", "text", "the number 8"),
        ("0o17", "text", "the number 15"),
        ("12:30:45", "the number 45045", "text"),
        ("1:30", "the number 90", "text"),
        ("1_000", "the number 1000", "text"),
        ("0b101", "the number 5", "text"),
        ("-0x1F", "the number -31", "text"),
        ("-.5", "text", "the number -0.5"),
        (".5e3", "text", "the number 500.0"),
        ("1_0.5", "the number 10.5", "text"),
    ],
)
def test_both_readings_are_told(profile_file: WriteProfile, written: str, here: str, there: str) -> None:
    line = f"  - {{stage_id: 0, default_sampling_params: {{extra_args: {{A: {written} }}}}}}\n"
    profile = profile_file(HEAD + line)
    assert told(profile, "OC106") == [
        (4, line.index(written, 50) + 1, f"`{written}` is read as {here} here, but as {there} by readers of YAML 1.2")
    ]
    served = omnicfg.resolve(profile).to_dict()["stages"][0]["extras"]["default_sampling_params"]["extra_args"]["A"]
    assert served == read_scalar(written)


@pytest.mark.parametrize(
    "written",
    [
        "1e3",
        "1.5",
        ".5",
        "+5",
        "-3",
        "0x1F",
        ".inf",
        "-.inf",
        ".nan",
        "1.",
        "true",
        "FALSE",
        "null",
        "~",
        "y",
        "n",
        "0",
    ],
)
def test_what_both_read_alike_is_nothing_to_report(profile_file: WriteProfile, written: str) -> None:
    assert told(profile_file(HEAD + f"  - {{stage_id: 0, env: {{A: {written} }}}}\n"), "OC106") == []
    assert repr(read_core(written)) == repr(read_scalar(written))


@pytest.mark.parametrize("written", ["'010'", '"off"', "${oc.env:NO_SUCH,010}", "a010", "0,1", "yesterday", "1.2.3"])
def test_quotes_expressions_and_other_words_are_left_alone(profile_file: WriteProfile, written: str) -> None:
    assert told(profile_file(HEAD + f"  - stage_id: 0\n    env: {{A: {written}}}\n"), "OC106") == []


def test_a_date_is_text_here_and_a_date_elsewhere(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "  - {stage_id: 0, env: {A: 2026-11-29}}\n"), "OC106")
    assert found.message == "`2026-11-29` is read as text here, but as a date by readers of YAML 1.1 that know dates"
    assert found.help == 'Write `"2026-11-29"` if it is text.'


def test_the_fix_keeps_what_is_served(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "  - {stage_id: 0, max_num_seqs: 010}\n"), "OC106")
    assert found.help == "Write `8`."
    assert found.fix is not None
    (edit,) = found.fix.edits
    assert (edit.mark.line, edit.mark.column, edit.mark.end_column, edit.text) == (4, 33, 36, "8")


@pytest.mark.parametrize("place", PLACES)
def test_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    found = set_at(place, profile_file, "max_num_seqs", "010")
    assert [one.code for one in found] == ["OC106"]
    assert found[0].path.endswith(wrong_file(place))
    assert found[0].platform == ("npu" if place == "platform" else None)
    assert found[0].stage_id == 0


def test_in_a_list(profile_file: WriteProfile) -> None:
    text = HEAD + "  - {stage_id: 0, compilation_config: {cudagraph_capture_sizes: [8, 016]}}\n"
    assert [(line, column) for line, column, _ in told(profile_file(text), "OC106")] == [(4, 69)]


@pytest.mark.parametrize(("key", "value"), [("devices", "010"), ("max_num_seqs", "08"), ("max_num_seqs", "1:30.5")])
def test_what_the_setting_does_not_take_is_found_once(profile_file: WriteProfile, key: str, value: str) -> None:
    found = omnicfg.validate(profile_file(HEAD + f"  - {{stage_id: 0, {key}: {value} }}\n"))
    assert [one.code for one in found] == ["OC102"]


def test_a_key_that_is_a_boolean(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + "  - {stage_id: 0, env: {NO: '1'}}\n"), "OC106") == [
        (4, 25, "this key is read as false and not as the word that it is")
    ]


def test_a_boolean_where_a_setting_is_expected_is_an_unknown_key(profile_file: WriteProfile) -> None:
    found = omnicfg.validate(profile_file(HEAD + "  - {stage_id: 0, on: 1}\n"))
    assert "OC101" in {one.code for one in found}
    assert "OC106" not in {one.code for one in found}


def test_a_credential_is_not_shown(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "  - {stage_id: 0, env: {API_KEY: 0123}}\n"), "OC106")
    assert "0123" not in f"{found.message} {found.help}"
    assert found.fix is None


def test_a_number_that_python_would_not_print_is_left_alone(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + f"  - {{stage_id: 0, env: {{A: 0{'8' * 5000} }}}}\n"), "OC106") == []


@pytest.mark.parametrize(
    ("written", "fixed", "safe"),
    [
        ("yes", "true", True),
        ("1_000", "1000", True),
        ("1_0.5", "10.5", True),
        ("0b101", "5", True),
        ("2026-11-29", '"2026-11-29"', True),
        ("010", "8", False),
        ("12:30", "750", False),
        ("0o17", '"0o17"', False),
        ("08", '"08"', False),
    ],
)
def test_every_reader_takes_the_fix_for_what_is_served(
    profile_file: WriteProfile, written: str, fixed: str, safe: bool
) -> None:
    text = HEAD + f"  - stage_id: 0\n    default_sampling_params:\n      extra_args:\n        A: {written}\n"
    (found,) = findings(profile_file(text), "OC106")
    assert found.fix is not None
    assert found.fix.safe is safe
    assert [edit.text for edit in found.fix.edits] == [fixed]


def test_text_is_offered_where_it_may_stand(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "  - {stage_id: 0, env: {A: 010}}\n"), "OC106")
    assert found.help == 'Write `8`, or `"010"` if it is text.'


def test_a_value_with_an_anchor_is_left_to_its_writer(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "  - {stage_id: 0, env: {A: &a 010, B: *a}}\n"), "OC106")
    assert found.fix is None
