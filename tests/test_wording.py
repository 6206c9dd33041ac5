"""Numbers and lists in sentences."""

from __future__ import annotations

import pytest

from omnicfg.wording import counted, in_yaml, is_number, listed


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_number_with_its_noun(number: int, said: str) -> None:
    assert counted(number, "file") == said


@pytest.mark.parametrize(
    ("words", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_list(words: list[str], said: str) -> None:
    assert listed(words) == said


@pytest.mark.parametrize(
    ("value", "said"), [(None, "null"), (True, "true"), (False, "false"), (1, "1"), (0, "0"), ("a", "'a'")]
)
def test_a_value_in_the_words_of_yaml(value: object, said: str) -> None:
    assert in_yaml(value) == said


@pytest.mark.parametrize("text", ["", "-1", "+1", "1_0", "1.0", "٣", "²", " 1", "1234567"])
def test_what_is_no_number(text: str) -> None:
    assert not is_number(text)
    assert is_number("1234567", 7)
