"""Numbers and lists in sentences."""

from __future__ import annotations

import pytest

from omnicfg.wording import counted, listed


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (2, "2 files")])
def test_a_number_with_its_noun(number: int, said: str) -> None:
    assert counted(number, "file") == said


@pytest.mark.parametrize(
    ("words", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_list(words: list[str], said: str) -> None:
    assert listed(words) == said
