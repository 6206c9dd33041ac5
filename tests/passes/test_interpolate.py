"""Pass 2: expressions, with the values that OmegaConf gives them and none of its dangers."""

from __future__ import annotations

import sys

import pytest

from omnicfg.errors import ResolveError
from omnicfg.passes.interpolate import interpolate
from omnicfg.secrets import redacted
from omnicfg.tree import Scalar, plain
from tests.passes.trees import tree_of

pytestmark = pytest.mark.usefixtures("environment_allowed")

STAGES = "stages:\n  - stage_id: 0\n    x: "


def value_of(expression: str) -> object:
    """What an expression in a stage becomes."""
    tree = interpolate(tree_of(f"pipeline: qwen3_tts\nsizes: [4, 8]\n{STAGES}{expression}\n"))
    return plain(tree.sequence("stages").mappings()[0].items["x"])


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLICAS", "4")
    monkeypatch.setenv("DEVICES", "[0, 1]")
    monkeypatch.delenv("UNSET", raising=False)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("${pipeline}", "qwen3_tts"),
        ("${ pipeline }", "qwen3_tts"),
        ("${sizes}", [4, 8]),
        ("${sizes[1]}", 8),
        ("${sizes.1}", 8),
        ("${stages[0].stage_id}", 0),
        ("${.stage_id}", 0),
        ("${..0.stage_id}", 0),
        ("'${pipeline}-${sizes[0]}'", "qwen3_tts-4"),
        ("'$${pipeline}'", "$qwen3_tts"),
        ("${oc.env:REPLICAS}", "4"),
        ("${oc.env:UNSET,8}", "8"),
        ("${oc.env:UNSET,null}", None),
        ("'${oc.env:UNSET, http://localhost:8000/v1}'", "http://localhost:8000/v1"),
        ("${oc.env:UNSET,${oc.env:REPLICAS}}", "4"),
        ("${oc.env:UNSET,${oc.env:UNSET,${oc.env:REPLICAS}}}", "4"),
        ("${oc.decode:${oc.env:REPLICAS}}", 4),
        ("${oc.decode:${oc.env:DEVICES}}", [0, 1]),
        ("${oc.decode:${oc.env:UNSET,true}}", True),
        ("${oc.decode:'3'}", 3),
        ("${oc.create:[1, 2]}", [1, 2]),
        ("'${oc.create:{a: 1}}'", {"a": 1}),
        ("'\\${pipeline}'", "${pipeline}"),
        ("$pipeline", "$pipeline"),
        ("'{pipeline}'", "{pipeline}"),
    ],
)
def test_what_an_expression_becomes(expression: str, value: object) -> None:
    assert value_of(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "${oc.coerce:os.path.sep,1}",
        "'${oc.select:pipeline}'",
        "'${oc.dict.keys:stages}'",
        "'${oc.deprecated:pipeline}'",
        "'${no.such.resolver:1}'",
        "'${${pipeline}}'",
        "'${${pipeline}:1}'",
        "'${oc.decode:${pipeline}}'",
        "'${oc.decode:${oc.env:UNSET,${pipeline}}}'",
        "'${oc.decode:\\${pipeline}}'",
        "'\\\\${oc.coerce:os.path.sep,1}'",
        "'${oc.env:UNSET,\\${oc.coerce:os.path.sep,1}}'",
        "'${oc.create:${pipeline}}'",
        "'${}'",
        "'${'",
        "'${a b}'",
    ],
)
def test_an_expression_of_another_form_is_refused(expression: str) -> None:
    with pytest.raises(ResolveError, match=r"^profile\.yaml:5:8: OC009 this `\$\{\.\.\.\}` expression is not one"):
        value_of(expression)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("${missing}", "Interpolation key 'missing' not found"),
        ("${sizes[7]}", "not found"),
        ("${pipeline.x}", "Error trying to access pipeline.x"),
        ("${.x}", "Recursive interpolation"),
        ("${stages}", "Interpolation to parent node"),
        ("${oc.env:UNSET}", "Environment variable 'UNSET' not found"),
        ("'${oc.env:UNSET,a,b}'", "takes from 1 to 2 positional arguments"),
    ],
)
def test_an_expression_that_leads_nowhere_is_refused_at_its_place(expression: str, words: str) -> None:
    with pytest.raises(ResolveError) as refused:
        value_of(expression)
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column) == ("OC009", 5, 8)
    assert words in reason.message
    assert reason.help is not None
    assert ("environment variable" in reason.help) == ("oc.env" in expression)


def test_a_resolved_value_stays_at_the_place_of_its_expression() -> None:
    tree = interpolate(tree_of("a: ${b}\nb: [1, {c: 2}]\n"))
    inner = tree.sequence("a").mappings()[0].items["c"]
    assert plain(tree) == {"a": [1, {"c": 2}], "b": [1, {"c": 2}]}
    assert (inner.mark.line, inner.mark.column) == (1, 4)
    assert inner.layer == tree.layer


def test_a_resolved_scalar_remembers_its_text() -> None:
    node = interpolate(tree_of("a: '${b}'\nb: 1\n")).items["a"]
    assert isinstance(node, Scalar)
    assert (node.value, node.text, node.quoted) == (1, "${b}", True)


def test_a_file_without_expressions_is_returned_as_it_is() -> None:
    tree = tree_of("a: 1\n")
    assert interpolate(tree) is tree


def test_the_file_that_was_read_is_left_alone() -> None:
    tree = tree_of("a: {b: [x, '${c}']}\nc: 1\n")
    interpolate(tree)
    assert plain(tree) == {"a": {"b": ["x", "${c}"]}, "c": 1}


def test_omegaconf_is_not_imported_for_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    with pytest.raises(ResolveError, match="OC009"):
        value_of("${oc.coerce:os.path.sep,1}")


def test_references_that_pass_through_others_are_followed() -> None:
    assert plain(interpolate(tree_of("a: ${b}\nb: ${c}\nc: {d: 5}\ne: ${a.d}\n")))["e"] == 5


def test_two_hundred_and_fifty_six_expressions_are_enough() -> None:
    lines = "".join(f"a{n}: ${{pipeline}}\n" for n in range(256))
    assert plain(interpolate(tree_of(f"pipeline: x\n{lines}")))["a255"] == "x"
    with pytest.raises(ResolveError, match=r"profile\.yaml:258:4: OC004 more than 256"):
        interpolate(tree_of(f"pipeline: x\n{lines}b: ${{pipeline}}\n"))


@pytest.mark.parametrize(
    "expression", ["${oc.env:MY_TOKEN}", "x ${oc.env:MY_TOKEN} y", "${oc.env:UNSET,${oc.env:MY_TOKEN}}"]
)
def test_a_credential_of_the_environment_is_never_shown(expression: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    value = plain(interpolate(tree_of(f"a: '{expression}'\n")))["a"]
    assert "hunter2" in value  # the engine gets it
    assert redacted("a", value) == "***"


@pytest.mark.parametrize("expression", ["${hf_token}", "x-${b.api_key}"])
def test_a_credential_that_is_referred_to_is_never_shown(expression: str) -> None:
    tree = tree_of(
        f"hf_token: hunter2\nb: {{api_key: hunter2, eos_token_id: 3}}\na: '{expression}'\nc: ${{b.eos_token_id}}\n"
    )
    values = plain(interpolate(tree))
    assert "hunter2" in values["a"]
    assert redacted("a", values["a"]) == "***"
    assert redacted("c", values["c"]) == 3
