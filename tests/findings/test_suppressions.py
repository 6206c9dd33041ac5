"""Comments that suppress findings: where they are found, what they cover, what is said of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.findings.suppressions import suppressions_in
from omnicfg.fixes.edits import Text
from tests.conftest import WriteProfile
from tests.patience import in_cpu_s

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"
WHY = "because it is a test"


def codes(*profiles: Path, **options: Any) -> list[str]:
    return [finding.code for finding in omnicfg.validate(profiles, **options)]


def places(text: str) -> list[tuple[int, int, int]]:
    """Where suppressions are, and the line that each speaks of."""
    return [(one.mark.line, one.mark.column, one.line) for one in suppressions_in(text, "a.yaml")]


# ------------------------------------------------------------------------------------------------ what they suppress
def test_at_the_end_of_the_line(profile_file: WriteProfile) -> None:
    assert codes(profile_file(TTS + f"x: 1  # omnicfg: ignore[OC101] {WHY}\n")) == []


def test_on_the_line_above(profile_file: WriteProfile) -> None:
    assert codes(profile_file(TTS + f"# omnicfg: ignore[OC101] {WHY}\nx: 1\n")) == []


def test_other_comments_may_stand_between(profile_file: WriteProfile) -> None:
    text = TTS + f"# omnicfg: ignore[OC101] {WHY}\n# that goes on\n  # and on\nx: 1\n"
    assert codes(profile_file(text)) == []


def test_several_codes(profile_file: WriteProfile) -> None:
    text = TTS + f"stages: [{{stage_id: 9, x: 1}}]  # omnicfg: ignore[OC201,OC101] {WHY}\n"
    assert codes(profile_file(text)) == []


def test_only_that_line_and_only_those_codes(profile_file: WriteProfile) -> None:
    text = (
        TTS + f"x: 1  # omnicfg: ignore[OC101] {WHY}\nx2: 1\ntrust_remote_code: 'yes'  # omnicfg: ignore[OC101] {WHY}\n"
    )
    assert codes(profile_file(text)) == ["OC101", "OC103", "OC904"]


def test_a_whole_file(profile_file: WriteProfile) -> None:
    text = TTS + f"x: 1\ny: 1\n# omnicfg: ignore-file[OC101] {WHY}\n"
    assert codes(profile_file(text)) == []


def test_what_cannot_be_compiled_is_suppressed_too(profile_file: WriteProfile) -> None:
    text = f"pipeline: qwen3_tts\nmodel_runner: v2  # omnicfg: ignore[OC015] {WHY}\n"
    assert "OC015" not in codes(profile_file(text))


def test_in_a_base_where_the_finding_is(profile_file: WriteProfile) -> None:
    profile_file(TTS + f"x: 1  # omnicfg: ignore[OC101] {WHY}\n", "base.yaml")
    assert codes(profile_file("base_config: base.yaml\n")) == []


def test_a_profile_does_not_speak_for_its_base(profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n", "base.yaml")
    text = f"# omnicfg: ignore-file[OC101] {WHY}\nbase_config: base.yaml\n"
    assert codes(profile_file(text)) == ["OC101", "OC904"]


def test_in_an_overlay(profile_file: WriteProfile) -> None:
    overlay = profile_file(f"x: 1  # omnicfg: ignore[OC101] {WHY}\n", "overlay.yaml")
    assert codes(profile_file(TTS), overlays=[overlay]) == []


# ------------------------------------------------------------------------------------------------------- where they are
def test_a_comment_is_told_from_what_only_looks_like_one() -> None:
    text = (
        f"a: 'x # omnicfg: ignore[OC101] {WHY}'\n"
        f'b: "x # omnicfg: ignore[OC101] {WHY}"\n'
        f"c: |\n  # omnicfg: ignore[OC101] {WHY}\n"
        f"d: >-  # omnicfg: ignore[OC101] {WHY}\n  # omnicfg: ignore[OC101] {WHY}\n"
        f"e: x#omnicfg:ignore[OC101]-{WHY}\n"
        f"f: 1 # omnicfg: ignore[OC101] {WHY}\n"
    )
    assert places(text) == [(5, 8, 5), (8, 6, 8)]


def test_after_another_tools_comment() -> None:
    ours = "# omnicfg: ignore[OC101] because"
    assert places(f"a: 1  # yamllint disable-line {ours}\n# note  {ours}\nb: 1\n") == [(1, 31, 1), (2, 9, 3)]


def test_in_a_flow_collection_and_after_a_byte_order_mark() -> None:
    assert places(f"\ufeffa: [  # omnicfg: ignore[OC101] {WHY}\n  1]\n") == [(1, 7, 1)]


def test_in_the_first_line_after_a_byte_order_mark() -> None:
    assert places(f"\ufeff# omnicfg: ignore[OC101] {WHY}\na: 1\n") == [(1, 1, 2)]


def test_a_text_that_only_pure_python_reads() -> None:
    assert places(f"a: [12:30:45]  # omnicfg: ignore[OC101] {WHY}\n") == [(1, 16, 1)]


@pytest.mark.parametrize(
    "text", ["a: [ # omnicfg: ignore[OC101] because\n", "a: \x07 # omnicfg: ignore[OC101] because\n"]
)
def test_a_text_that_cannot_be_parsed_has_none(text: str) -> None:
    assert suppressions_in(text, "a.yaml") == []


@pytest.mark.parametrize("comment", ["# see omnicfg: it says", "# omnicfg: 0.1 made this", "# omnicfg:", "#omnicfg"])
def test_comments_about_omnicfg_are_no_suppressions(comment: str) -> None:
    assert suppressions_in(f"a: 1  {comment}\n", "a.yaml") == []


# ---------------------------------------------------------------------------------------------- what is said of them
def about(profile: Path, **options: Any) -> list[tuple[str, int, int, str]]:
    found = omnicfg.validate(profile, **options)
    return [(one.code, one.line, one.column, one.message) for one in found if one.code.startswith("OC9")]


@pytest.mark.parametrize(
    ("comment", "message"),
    [
        ("# omnicfg: ignore", "this comment suppresses nothing: it names no codes"),
        ("# omnicfg: ignore OC101 because", "this comment suppresses nothing: it names no codes"),
        ("# omnicfg: ignore[] because", "this comment suppresses nothing: it names no codes"),
        ("# OMNICFG: IGNORE[OC101] because x", "this comment suppresses nothing: there is no `omnicfg: IGNORE`"),
        ("# omnicfg: disable=OC101", "this comment suppresses nothing: there is no `omnicfg: disable`"),
        ("# omnicfg: noqa OC101", "this comment suppresses nothing: there is no `omnicfg: noqa`"),
        ("# omnicfg: OC101", "this comment suppresses nothing: there is no `omnicfg: OC101`"),
        ("# omnicfg: ignores[OC101] because", "this comment suppresses nothing: there is no `omnicfg: ignores`"),
        (
            "# omnicfg: ignore_file[OC101] because x",
            "this comment suppresses nothing: there is no `omnicfg: ignore_file`",
        ),
    ],
)
def test_one_that_cannot_be_read(profile_file: WriteProfile, comment: str, message: str) -> None:
    assert about(profile_file(TTS + f"x: 1  {comment}\n")) == [("OC901", 3, 7, message)]


def test_one_more_than_a_file_may_have(profile_file: WriteProfile) -> None:
    profile = profile_file(TTS + f"# omnicfg: ignore-file[OC503] {WHY}\n" * 1200)
    message = "this comment suppresses nothing: a file has at most 1000; this and those below are not read"
    assert about(profile) == [("OC901", 1003, 1, message)]


@pytest.mark.parametrize("rest", ["", " because", " because  ", " legacy", ": because x", " becausex"])
def test_one_without_a_reason_suppresses_nothing(profile_file: WriteProfile, rest: str) -> None:
    profile = profile_file(TTS + f"x: 1  # omnicfg: ignore[OC101]{rest}\n")
    message = "this suppression gives no reason, so it suppresses nothing"
    assert about(profile) == [("OC902", 3, 7, message)]
    assert "OC101" in codes(profile)


def test_codes_that_do_not_exist(profile_file: WriteProfile) -> None:
    found = omnicfg.validate(profile_file(TTS + f"x: 1  # omnicfg: ignore[OC101, oc101, unknown-key, OC904] {WHY}\n"))
    assert [(one.code, one.column, one.message, one.help) for one in found] == [
        ("OC903", 32, "no finding has the code `oc101`", "Did you mean `OC101`?"),
        ("OC903", 39, "no finding has the code `unknown-key`", "`unknown-key` has the code `OC101`."),
        (
            "OC903",
            52,
            "`OC904` is about suppressions, and no comment suppresses it",
            "Mend what it reports, or turn the rule off in the configuration.",
        ),
    ]


def test_one_that_suppresses_nothing(profile_file: WriteProfile) -> None:
    text = TTS + f"# omnicfg: ignore[OC101] {WHY}\n\nx: 1\n# omnicfg: ignore-file[OC103] {WHY}\n"
    assert about(profile_file(text)) == [
        ("OC904", 3, 1, "there is no `OC101` on line 4 to suppress"),
        ("OC904", 6, 1, "there is no `OC103` in this file to suppress"),
    ]


def test_the_codes_of_which_some_suppress_something(profile_file: WriteProfile) -> None:
    text = TTS + f"x: 1  # omnicfg: ignore[OC101, OC103, OC105, OC201] {WHY}\n"
    message = "there is no `OC103`, `OC105` and `OC201` on line 3 to suppress"
    assert about(profile_file(text)) == [("OC904", 3, 32, message)]


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("x: 1  # omnicfg: ignore[OC101, OC103] because\n", None),
        ("x: 1  # omnicfg: ignore[OC103, OC101] because a\n", "x: 1  # omnicfg: ignore[OC101] because a\n"),
        ("trust_remote_code: true  # omnicfg: ignore[OC103] because a\n", "trust_remote_code: true\n"),
        ("# omnicfg: ignore[OC103] because a\ntrust_remote_code: true\n", "trust_remote_code: true\n"),
        ("trust_remote_code: true\n# omnicfg: ignore[OC103] because a", "trust_remote_code: true\n"),
        ("# a  # omnicfg: ignore[OC103] because a\nmodel_runner: v1\n", "# a\nmodel_runner: v1\n"),
    ],
)
def test_what_is_too_much_can_be_removed(profile_file: WriteProfile, text: str, mended: str | None) -> None:
    unused = [one for one in omnicfg.validate(profile_file(TTS + text)) if one.code == "OC904"]
    if mended is None:
        assert unused == []
        return
    (found,) = unused
    assert found.fix is not None
    (edit,) = found.fix.edits
    start, end = Text(TTS + text).span(edit.mark)
    assert (TTS + text)[:start] + edit.text + (TTS + text)[end:] == TTS + mended
    assert found.fix.safe


@pytest.mark.parametrize(
    "text",
    [
        "# omnicfg: ignore[OC9999] because x\n" * 28_000,
        "".join(f"k{number}: 1  # omnicfg: ignore[XX{number}] because\n" for number in range(9000)),
        "# omnicfg: ignore[OC101] because " * 30_000 + "\n",
        "# omnicfg: ignore[" + "OC101," * 150_000 + "] because x\n",
        "#" + " " * 1_000_000 + "omnicfg: ignore\n",
    ],
)
def test_very_many_take_no_time(profile_file: WriteProfile, text: str) -> None:
    profile = profile_file(TTS + text)
    in_cpu_s(3, lambda: omnicfg.validate(profile, platform="cuda"))


# ------------------------------------------------------------------------------------- when one may be called unused
NPU = TTS + f"platforms:\n  npu: {{x: 1}}  # omnicfg: ignore[OC101] {WHY}\n"


def test_one_that_another_platform_needs(profile_file: WriteProfile) -> None:
    profile = profile_file(NPU)
    assert codes(profile) == codes(profile, platform="cuda") == []


FEW = TTS + (
    f"stages:\n  - stage_id: 0\n    max_num_seqs: 8\n    max_num_batched_tokens: 4  # omnicfg: ignore[OC603] {WHY}\n"
)


def test_one_that_an_override_made_idle(profile_file: WriteProfile) -> None:
    profile = profile_file(FEW)
    assert codes(profile) == codes(profile, overrides=["stages.0.max_num_seqs=1"]) == []


def test_one_that_an_overlay_made_idle_and_one_in_the_overlay(profile_file: WriteProfile) -> None:
    text = f"stages: [{{stage_id: 0, max_num_seqs: 1}}]  # omnicfg: ignore[OC101] {WHY}\n"
    overlay = profile_file(text, "overlay.yaml")
    (found,) = omnicfg.validate(profile_file(FEW), overlays=[overlay])
    assert (found.code, found.path) == ("OC904", str(overlay))


def test_one_of_a_base_is_judged_where_the_base_is_named_itself(profile_file: WriteProfile) -> None:
    base = profile_file(TTS + f"max_model_len: 10  # omnicfg: ignore[OC105] {WHY}\n", "base.yaml")
    profile = profile_file("base_config: base.yaml\n")
    assert "OC904" not in codes(profile)
    assert "OC904" in codes(base, profile)


def test_one_of_a_profile_that_does_not_compile_everywhere(profile_file: WriteProfile) -> None:
    text = f"pipeline: qwen3_tts\nmodel_runner: v2\nx: 1\n# omnicfg: ignore-file[OC603] {WHY}\n"
    assert "OC904" not in codes(profile_file(text))


def test_one_for_another_engine(profile_file: WriteProfile) -> None:
    served = "pipeline: qwen3_omni_moe_thinker_only\nstages: [{stage_id: 0, enable_prefix_caching: false}]\n"
    profile = profile_file(f"{served}# omnicfg: ignore-file[OC503] {WHY}\n")
    assert codes(profile) == codes(profile, engine="bundled") == []


def test_a_file_that_is_met_under_two_names_has_its_suppressions_once(profile_file: WriteProfile) -> None:
    base = profile_file(TTS + f"x: 1  # omnicfg: ignore[OC101, OC103] {WHY}\n", "base.yaml")
    link = base.with_name("link.yaml")
    link.symlink_to(base)
    assert codes(base, link) == ["OC904"]


def test_a_text_nested_too_deep_for_a_profile_takes_no_time() -> None:
    text = "a: " + "[" * 3000 + "\n# omnicfg: ignore[OC101] because x\n"
    assert in_cpu_s(0.5, lambda: suppressions_in(text, "p.yaml")) == []
