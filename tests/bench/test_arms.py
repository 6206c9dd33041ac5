"""Arms: how they are written, and what is wrong with them."""

from __future__ import annotations

import pytest

from omnicfg.bench.arms import Arm, parse_arms, shown
from omnicfg.errors import UsageError


def test_arms_are_names_with_settings() -> None:
    words = [
        "off:stages.0.enable_prefix_caching=false,dtype=float32",
        "on",
        "plain:stages=0",
        "rows:rows=asked,dtype=half",
    ]
    assert parse_arms(words) == (
        Arm("off", ("stages.0.enable_prefix_caching=false", "dtype=float32")),
        Arm("on"),
        Arm("plain", (), alone=True),
        Arm("rows", ("dtype=half",), rows=True),
    )


@pytest.mark.parametrize(
    "value", ['"0,1"', '{"a": 1, "b": 2}', "[1,2]", '{"x": "b,c=d"}', "[1,b=2]", '"a\\",b=1"', "{a: {b: 1},c=2}"]
)
def test_commas_inside_a_value_stay_there(value: str) -> None:
    assert parse_arms([f"a:stages.0.x={value},stages.0.y=1"])[0].settings == (f"stages.0.x={value}", "stages.0.y=1")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a b"], "`a b` is no name"),
        ([""], "`` is no name"),
        (["../a"], "is no name"),
        (["a", "a:x=1"], "arm `a` is there twice"),
        (["a:x"], "`x` sets nothing"),
        (["a:"], "`` sets nothing"),
        (["a:stages=1"], "arm `a` cannot be had with `stages=1`"),
        (["a:rows=all"], "arm `a` cannot be had with `rows=all`"),
        (["a:rows=asked,stages=0"], "`stages=0` keeps no hidden states"),
    ],
)
def test_what_is_no_arm(words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        parse_arms(words)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("off:dtype=half,stages.0.hf_token=sesame", "off:dtype=half,stages.0.hf_token=***"),
        ("stages.0.env={HF_TOKEN: sesame, A: b}", "stages.0.env={HF_TOKEN: ***, A: b}"),
        ("--url=http://me:sesame@host:1/v1", "--url=http://***@host:1/v1"),
        ("off:stages.0.x=[1,2],y=3", "off:stages.0.x=[1,2],y=3"),
        ('off:x="never closed,hf_token=sesame', 'off:x="never closed,hf_token=***'),
    ],
)
def test_what_is_shown_of_a_word_has_no_key_and_no_password(word: str, expected: str) -> None:
    assert shown(word) == expected
