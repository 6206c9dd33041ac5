"""Near names."""

from __future__ import annotations

import pytest

from omnicfg.near import did_you_mean, near, slip_of

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


KEYS = ["max_num_seqs", "max_model_len", "tensor_parallel_size", "data_parallel_size", "devices", "env", "extra"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("max_num_seq", "max_num_seqs"),
        ("max_nmu_seqs", "max_num_seqs"),
        ("Max-Num-Seqs", "max_num_seqs"),
        ("tensor_paralel_siz", "tensor_parallel_size"),
        ("device", "devices"),
        ("dvice", None),  # two slips are too many for a short word
        ("max_model_length", None),
        ("env", None),
        ("evn", None),  # and a word of three letters is one slip from too much
        ("unheard_of", None),
    ],
)
def test_a_slip_of_the_pen(word: str, meant: str | None) -> None:
    assert slip_of(word, KEYS) == meant


def test_where_two_could_be_meant_none_is() -> None:
    assert slip_of("top_c", ["top_k", "top_p"]) is None
    assert slip_of("Top-K", ["top_k", "top_p"]) == "top_k"
