"""Expressions as text: what they name, what they ask of each stage, and where their parts stand in the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.policy.expression import Body, Expression
from omnicfg.policy.file import read_policies
from omnicfg.tree import Mark


def expression(text: str) -> Expression:
    return Expression(text, Mark("p.yaml", 1, 1, 1, len(text) + 1), text)


def test_settings_are_named_in_their_order_and_not_in_strings_or_comments() -> None:
    text = "s.engine_args.a > 1 && 's.engine_args.no' == s . extras . b // s.runtime.no\n || s.effective.c"
    assert [(each.part, each.name) for each in expression(text).settings()] == [
        ("engine_args", "a"),
        ("extras", "b"),
        ("effective", "c"),
    ]
    assert [each.name for each in expression("deploy.a == 'deploy.b' && x.deploy.c").deploy_settings()] == ["a"]
    assert list(expression("stage.engine_args.exists(k, k == 'x') || deploy.size() > 3").settings()) == []


@pytest.mark.parametrize(
    ("text", "macro", "body"),
    [
        ("stages.exists(s, s.a > (1))", "exists", Body("s", " s.a > (1)")),
        (" stages . all ( x , x.a in [1, 2] ) ", "all", Body("x", " x.a in [1, 2] ")),
        ("stages.exists(s, s.a == ')')", "exists", Body("s", " s.a == ')'")),
        ("stages.exists(s, s.a) && true", "exists", None),
        ("!stages.exists(s, s.a)", "exists", None),
        ("stages.all(s, s.a)", "exists", None),
        ("stages.exists(s, s.a", "exists", None),
    ],
)
def test_a_macro_over_the_stages_is_asked_stage_by_stage(text: str, macro: str, body: Body | None) -> None:
    assert expression(text).body(macro) == body


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("deny: a && bad", (4, 16)),
        ("deny: 'a && ''x'' && bad'", (4, 26)),
        ('deny: "a && \\"x\\" && bad"', (4, 26)),
        ("deny: |\n      a &&\n        bad", (6, 9)),
        ("deny: >-\n      a &&\n      bad", (6, 7)),
        ("deny: a\n      && bad", (5, 10)),
    ],
)
def test_parts_of_an_expression_are_placed_in_the_file_however_yaml_writes_it(
    tmp_path: Path, written: str, place: tuple[int, int]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"policies:\n  - id: A\n    message: m\n    {written}\n")
    (policy,) = read_policies([path])
    found = policy.expression.place(policy.expression.text.index("bad"), 3)
    assert (found.line, found.column, found.end_column) == (*place, place[1] + 3)
