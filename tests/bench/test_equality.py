"""Equality: what counts as a difference, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from omnicfg.bench.answers import Answer, Question, as_floats, common, questions
from omnicfg.bench.equality import Equality, Verdict, is_equal, judge, lines
from omnicfg.bench.loads import Load
from omnicfg.bench.progress import Progress
from omnicfg.bench.prompts import Prompt, Vocabulary, prompts_of
from omnicfg.engine.transport import RowLayout
from tests.bench.test_campaign import subject

np = pytest.importorskip("numpy")

LOAD = Load("A", 0, 4, 3, 0.0, 1, "text", 1, 2, 1)
QUESTION = Question(LOAD, 1, 1, Prompt([1, 2, 3, 4], 3))
ROWS = np.arange(6 * 2 * 3, dtype=np.float32).reshape(6, 2, 3)  # four tokens of the prompt, two of the answer
SAME = Answer("abc", [7, 8, 9], 4, ROWS, codes=[[1, 2], [3, 4]])


def verdict(other: Answer, tolerance: float = 0.0) -> Verdict:
    made = Verdict("text")
    judge(made, QUESTION, SAME, other, tolerance)
    return made


def differences(other: Answer) -> list[dict[str, Any]]:
    return verdict(other).differences


def test_what_is_the_same_is_equal() -> None:
    made = verdict(SAME)
    assert is_equal([made])
    assert (made.rows, made.codes, made.hit_tokens, made.identical) == (6, 2, 4, True)


def test_without_a_hit_nothing_is_shown_to_be_equal() -> None:
    assert not is_equal([verdict(replace(SAME, cached=0))])


def test_a_text_that_differs_is_shown_from_where_it_does() -> None:
    [text] = differences(replace(SAME, text="abd", tokens=[7, 8, 6]))
    assert text == {
        "what": "text",
        "load": "A",
        "prompt": 1,
        "turn": 1,
        "token": 2,
        "base": {"tokens": [9], "text": "abc"},
        "other": {"tokens": [6], "text": "abd"},
    }


def test_rows_are_compared_as_far_as_the_tokens_are_the_same() -> None:
    far = ROWS.copy()
    far[5] += 100  # belongs to the second token of the answer, which is another one here
    assert [one["what"] for one in differences(replace(SAME, tokens=[7, 1, 9], rows=far))] == ["text"]
    far[4] += 100
    assert [one["what"] for one in differences(replace(SAME, tokens=[7, 1, 9], rows=far))] == ["text", "rows"]


@pytest.mark.parametrize(("tolerance", "equal"), [(0.0, False), (0.009, False), (0.0101, True)])
def test_rows_may_be_apart_by_a_share_of_the_largest_value(tolerance: float, equal: bool) -> None:
    near = ROWS.copy()
    near[3, 1, 2] += 0.35  # the largest value is 35
    made = verdict(replace(SAME, rows=near), tolerance)
    assert is_equal([made]) is equal
    assert not made.identical
    assert made.rows_apart == pytest.approx(0.35, rel=1e-4)
    if not equal:
        [one] = made.differences
        assert (one["token"], one["row"], one["channel"]) == (3, 1, 2)


def test_rows_that_are_no_numbers_are_no_equal_rows() -> None:
    broken = ROWS.copy()
    broken[0, 0, 0] = np.nan
    assert not is_equal([verdict(replace(SAME, rows=broken), 1.0)])


def test_rows_that_are_missing_are_told() -> None:
    [one] = differences(replace(SAME, rows=ROWS[:5]))
    assert (one["expected"], one["base"], one["other"]) == (6, 6, 5)
    [incomplete] = differences(replace(SAME, complete=False))
    assert incomplete["other"] == "incomplete"


@pytest.mark.parametrize(("codes", "frame"), [([[1, 2], [3, 5]], 1), ([[1, 2]], 1), (None, 0)])
def test_codes_that_differ_are_shown_by_their_frame(codes: list[list[int]] | None, frame: int) -> None:
    [one] = differences(replace(SAME, codes=codes))
    assert (one["what"], one["frame"]) == ("codes", frame)


def test_every_prompt_is_asked_twice() -> None:
    asked = questions([LOAD], [[Prompt([1], 1), Prompt([2], 1), Prompt([3], 1)]], 2)
    assert [(one.name, one.prompt.tokens) for one in asked] == [
        ("A-0-0", [1]),
        ("A-1-0", [2]),
        ("A-0-1", [1]),
        ("A-1-1", [2]),
    ]


def test_half_floats_of_either_kind_are_read() -> None:
    values = np.array([[[1.0, -2.5]], [[0.0, 3.0]]], dtype=np.float32)
    brain = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    assert np.array_equal(as_floats(memoryview(brain), RowLayout(("final",), 2, "bfloat16", 2)), values)
    half = values.astype(np.float16).tobytes()
    assert np.array_equal(as_floats(memoryview(half), RowLayout(("final",), 2, "float16", 2)), values)


def test_what_two_answers_have_in_common() -> None:
    assert [common(*pair) for pair in (([1, 2], [1, 2]), ([1, 2], [1]), ([1, 2], [3]), ([], [1]))] == [2, 1, 0, 0]


def test_the_outcome_for_people() -> None:
    report = {"arms": {"off": [], "on": []}, "verdicts": [verdict(SAME).to_dict()], "equal": True}
    assert list(lines(report)) == [
        "text: 1 answers of on against off, 4 prompt tokens of on were hits",
        "  hidden states of 6 tokens identical, the largest value 35",
        "  2 frames of codes",
        "  nothing differs",
        "equal",
    ]
    report |= {"verdicts": [verdict(replace(SAME, codes=[])).to_dict()], "equal": False}
    assert list(lines(report))[-2:] == [
        "  codes of A, prompt 1, sent the 2nd time: frame 0, base [[1, 2]], other []",
        "NOT shown to be equal",
    ]


@pytest.mark.parametrize(
    ("other", "equal", "kinds"), [("on", True, []), ("errs", False, ["text"] * 4), ("off", False, [])]
)
def test_both_arms_are_asked_the_same(tmp_path: Path, other: str, equal: bool, kinds: list[str]) -> None:
    asked = questions([LOAD], [prompts_of(LOAD, Vocabulary(1000))], 2)
    arms = [replace(subject(name), engine="vllm-omni") for name in ("off", other)]
    [made] = Equality(arms[0], arms[1], asked, tmp_path, tmp_path, Progress(StringIO())).run()
    assert is_equal([made]) is equal
    assert [one["what"] for one in made.differences] == kinds
    assert (made.asked, made.rows) == (4, 0)
    assert {path.name for path in tmp_path.iterdir()} == {"equality-text-off.log", f"equality-text-{other}.log"}
