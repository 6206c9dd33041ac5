"""What kinds of value a setting takes."""

from __future__ import annotations

import pytest

from omnicfg.value_types import ValueType, kind_of, parse_annotation


def test_what_a_list_may_hold() -> None:
    assert parse_annotation("list[int] | None").items == parse_annotation("int")
    assert parse_annotation("str | list[str]").items == parse_annotation("str")
    assert parse_annotation("tuple[str, ...]").items == parse_annotation("str")
    assert parse_annotation("set[int] | None").items == parse_annotation("int")
    assert parse_annotation("dict[str, dict[str, Any]] | None").items == parse_annotation("dict[str, Any]")
    assert parse_annotation("tuple[int, str]").items is None
    assert parse_annotation("list").items is None
    assert parse_annotation("list[int] | list[str]").items is None


@pytest.mark.parametrize(
    ("annotation", "kinds", "choices", "words"),
    [
        ("bool", {"bool"}, (), "true or false"),
        ("int", {"int"}, (), "a whole number"),
        ("float", {"float"}, (), "a number"),
        ("int | float", {"int", "float"}, (), "a number"),
        ("str | None", {"str", "none"}, (), "text"),
        ("int | str", {"int", "str"}, (), "a whole number or text"),
        ("dict[str, Any] | None", {"mapping", "none"}, (), "a mapping"),
        ("list[dict[str, int | None]]", {"list"}, (), "a list"),
        ("tuple[str, ...]", {"list"}, (), "a list"),
        ("DuplexSessionConfig", {"mapping"}, (), "a mapping"),
        ('Literal["v1", "v2"]', {"str"}, ("v1", "v2"), "one of v1, v2"),
        ("Literal['a'] | None", {"str", "none"}, ("a",), "one of a"),
        ("Any", {"any"}, (), "null"),
        ("None", {"none"}, (), "null"),
        ("RequestOutputKind", {"int"}, (), "a whole number"),
    ],
)
def test_annotations(annotation: str, kinds: set[str], choices: tuple[str, ...], words: str) -> None:
    found = parse_annotation(annotation)
    assert (set(found.kinds), found.choices) == (kinds, choices)
    if annotation != "Any":
        assert str(found) == words


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        ("bool", [True, False]),
        ("int", [0, -5]),
        ("float", [0.5, 1]),
        ("str", ["", "x"]),
        ("str | None", ["x", None]),
        ("dict", [{}, {"a": 1}]),
        ("list", [[], [1]]),
        ('Literal["v1"]', ["v1"]),
        ("Any", [None, True, 1, "x", {}, []]),
    ],
)
def test_values_that_are_admitted(annotation: str, values: list[object]) -> None:
    assert [value for value in values if not parse_annotation(annotation).admits(value)] == []


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        ("bool", [0, 1, "true", None]),
        ("int", [True, 1.0, "1", None, [1]]),
        ("float", [False, "0.5", None]),
        ("str", [0, True, None, ["x"]]),
        ("dict", [[], "x", None]),
        ("list", [{}, "x"]),
        ('Literal["v1"]', ["v2", 1, None]),
    ],
)
def test_values_that_are_not(annotation: str, values: list[object]) -> None:
    assert [value for value in values if parse_annotation(annotation).admits(value)] == []


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "none"),
        (True, "bool"),
        (1, "int"),
        (1.0, "float"),
        ("x", "str"),
        ({}, "mapping"),
        ([], "list"),
        ((), "list"),
    ],
)
def test_the_kind_of_a_value(value: object, kind: str) -> None:
    assert kind_of(value) == kind


def test_choices_that_may_be_spelt_in_several_ways() -> None:
    backend = ValueType(frozenset({"str"}), ("deep_gemm", "auto"), frozenset({"ignore_case", "dashes"}))
    assert [text for text in ("Deep-GEMM", "deep_gemm", "AUTO") if not backend.admits(text)] == []
    assert not backend.admits("deepgemm")
    assert not ValueType(frozenset({"str"}), ("auto",)).admits("AUTO")
