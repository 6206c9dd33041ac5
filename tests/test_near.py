"""Near names."""

from __future__ import annotations

import pytest

from omnicfg.near import did_you_mean, near

NAMES = ("max_num_seqs", "max_num_batched_tokens", "async_chunk", "quantization", "npu", "cuda")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("max_num_seq", "max_num_seqs"),
        ("max-num-seqs", "max_num_seqs"),
        ("MAX_NUM_SEQS", "max_num_seqs"),
        ("asynch_chunk", "async_chunk"),
        ("quantisation", "quantization"),
        ("NPU", "npu"),
        ("cudas", "cuda"),
        ("duplex", None),
        ("x", None),
        ("", None),
        ("x" * 100_000, None),
    ],
)
def test_the_name_that_was_probably_meant(word: str, name: str | None) -> None:
    assert near(word, NAMES) == name


def test_a_word_is_not_near_to_itself() -> None:
    assert near("npu", NAMES) is None
    assert near("npu", []) is None


def test_the_answer_does_not_depend_on_the_order_of_names() -> None:
    assert near("stage_1", ["stage_3", "stage_2"]) == near("stage_1", ["stage_2", "stage_3"])


def test_as_a_question() -> None:
    assert did_you_mean("max_num_seq", NAMES) == "Did you mean `max_num_seqs`?"
    assert did_you_mean("duplex", NAMES) is None
