"""How the exporter finds the lines of a pipeline's stages."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from omnicfg.export.omni_pipelines import BY_MACHINE, RESOLVERS, _stage_calls, default_topology


def lines(text: str, count: int) -> list[int]:
    call = ast.parse(text).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    return [each.lineno for each in _stage_calls(Path("pipeline.py"), call.value, count)]


def test_stages_are_calls_in_a_tuple() -> None:
    assert lines("P(stages=(\n S(),\n replace(x),\n))", 2) == [2, 3]


def test_one_generator_stands_for_the_stages_that_the_others_leave() -> None:
    assert lines("P(stages=(\n S(),\n *(replace(s) for s in others),\n S(),\n))", 4) == [2, 3, 3, 4]


@pytest.mark.parametrize("stages", ["x", "(S(), *others)", "(S(), *(s for s in others))", "(S(),)"])
def test_anything_else_is_refused_rather_than_guessed(stages: str) -> None:
    with pytest.raises(RuntimeError, match="does not know"):
        lines(f"P(stages={stages})", 2)


def test_a_resolver_that_looks_at_the_machine_is_asked_without_a_config() -> None:
    (key,) = BY_MACHINE
    assert key not in RESOLVERS
    assert default_topology(key, lambda config: ("topology", config)) == ("topology", None)
    with pytest.raises(RuntimeError, match="a resolver that this exporter does not know"):
        default_topology("other", lambda config: None)
