"""What a process can have in its environment: what the system itself takes is what is said to be possible."""

from __future__ import annotations

import os

import pytest

from omnicfg.variables import can_be_named, can_hold


@pytest.mark.parametrize(
    ("name", "possible"),
    [("A", True), ("a b", True), ("ü", True), (1, True), ("", False), ("A=B", False), ("A\0", False)],
)
def test_a_name_is_possible_where_a_process_starts_with_it(name: object, possible: bool) -> None:
    assert can_be_named(name) is possible
    assert _starts({str(name): "x"}) is possible


@pytest.mark.parametrize(("value", "possible"), [("", True), ("a=b", True), (None, True), ("a\0b", False)])
def test_a_value_is_possible_where_a_process_starts_with_it(value: object, possible: bool) -> None:
    assert can_hold(value) is possible
    assert _starts({"A": str(value)}) is possible


def _starts(environment: dict[str, str]) -> bool:
    try:
        return os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)[1] == 0
    except ValueError:
        return False
