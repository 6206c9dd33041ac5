"""Policies asked about plans: where their findings are, what cannot be decided, and what an expression may not do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg import Diagnostic
from omnicfg.errors import UsageError
from omnicfg.policy import evaluate
from omnicfg.policy.evaluate import Policies
from omnicfg.policy.file import PolicyError
from tests.conftest import WriteProfile

PROFILE = """\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    gpu_memory_utilization: 0.95
    max_num_seqs: 8
  - stage_id: 1
    gpu_memory_utilization: 0.3
"""

TEN = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"

Check = Callable[..., list[Diagnostic]]


@pytest.fixture
def check(profile_file: WriteProfile) -> Check:
    """What one policy finds in a profile, on cuda."""

    def found(policy: str, profile: str = PROFILE, platform: str = "cuda", **options: Any) -> list[Diagnostic]:
        policies = profile_file(f"policies:\n  - id: TEAM1\n    message: told\n    {policy}\n", "policies.yaml")
        path = profile_file(profile)
        every = omnicfg.validate(path, platform=platform, policies=policies, **options)
        return [each for each in every if each.code == "TEAM1"]

    return found


def places(found: list[Diagnostic]) -> list[tuple[int | None, int, int]]:
    return [(each.stage_id, each.line, each.column) for each in found]


@pytest.mark.parametrize(
    "policy",
    [
        "deny: stages.exists(s, s.engine_args.gpu_memory_utilization > 0.9)",
        "require: stages.all(s, s.engine_args.gpu_memory_utilization <= 0.9)",
        "deny: stage.engine_args.gpu_memory_utilization > 0.9",
        "require: stage.engine_args.gpu_memory_utilization <= 0.9",
    ],
)
def test_a_finding_stands_at_the_value_of_the_stage(check: Check, policy: str) -> None:
    (found,) = check(policy)
    assert (found.stage_id, found.line, found.column, found.end_column) == (0, 5, 29, 33)
    assert (found.message, found.name, found.severity.value, found.platform) == ("told", "policy", "error", "cuda")
    assert found.url.endswith("docs/policies.md")


def test_what_is_about_the_whole_plan_stands_at_the_setting_or_the_profile(check: Check) -> None:
    assert places(check("deny: deploy.async_chunk == false")) == [(None, 2, 14)]
    assert places(check("require: stages.size() == 3")) == [(None, 1, 1)]
    assert places(check("deny: stages.filter(s, s.engine_args.gpu_memory_utilization > 0.1).size() > 1")) == [
        (None, 1, 1)
    ]
    assert check("deny: pipeline != 'qwen3_tts' || platform == 'npu' || profile == ''") == []


def test_a_stage_variable_of_a_macro_is_not_the_stage(check: Check) -> None:
    assert places(check("deny: '!stages.all(stage, stage.stage_id < 1)'")) == [(None, 1, 1)]


def test_it_is_said_on_its_platforms_only_and_once(check: Check) -> None:
    policy = "deny: stage.stage_id == 0\n    platforms: [npu, rocm]"
    (found,) = check(policy, platform="all")
    assert found.platform == "npu,rocm"
    assert check(policy) == []


def test_an_unset_value_does_not_pass_in_silence(check: Check) -> None:
    (found,) = check("deny: stage.engine_args.max_num_seqs > 100\n    severity: warning")
    assert (found.stage_id, found.line, found.column) == (1, 7, 15)
    assert found.message == "undecided for stage 1, since `max_num_seqs` is not set here: told"
    assert found.severity.value == "warning"
    assert found.help is not None
    assert "`effective.max_num_seqs`" in found.help
    assert check("deny: has(stage.engine_args.max_num_seqs) && stage.engine_args.max_num_seqs > 100") == []


def test_effective_has_the_defaults_of_vllm(check: Check) -> None:
    assert places(check("deny: stage.effective.max_model_len == 7 || stage.effective.max_num_seqs == 8")) == [
        (0, 6, 19)
    ]


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("stage.engine_args.model_arch > 1", "`>` does not take text and a whole number"),
        ("deploy.edges > 1", "`>` does not take null and a whole number"),
        ("stage.stage_id", "the expression gives a whole number, not true or false"),
        ("stages[7].stage_id == 1", "a list of 2 has no entry 7"),
        ("stage.max_num_seqs == 1", "`max_num_seqs` is not set here"),
        ("1 / deploy.active_stream_window == 1", "divide by zero"),
        (f"{TEN}.all(a, {TEN}.all(b, {TEN}.all(c, {TEN}.all(d, deploy.async_chunk == false))))", "more than 10,000"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_says_why(check: Check, expression: str, reason: str) -> None:
    found = check(f'deny: "{expression}"')
    assert found
    for each in found:
        assert each.message.startswith("undecided")
        assert reason in each.message


def test_numbers_compare_whatever_their_type_and_size(check: Check) -> None:
    big = PROFILE.replace("max_num_seqs: 8", f"seed: {2**70}").replace("0.95", "1")
    assert len(check("deny: has(stage.engine_args.seed) && stage.engine_args.seed > 1.0", big)) == 1
    assert len(check("deny: stage.engine_args.gpu_memory_utilization > 0.9", big)) == 1


def test_credentials_are_hidden_from_policies(check: Check) -> None:
    secret = PROFILE + "    env: {HF_TOKEN: hunter2}\n"
    assert check("deny: string(stage.runtime.env) == '' || stage.runtime.env.HF_TOKEN.contains('hunter')", secret) != []
    assert check("deny: has(stage.runtime.env) && stage.runtime.env.HF_TOKEN.contains('hunter')", secret) == []


def test_a_long_text_is_ended_and_what_comes_after_is_still_asked(
    profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "PATIENCE_S", 100)
    bomb = "['a'].map(s,s+s)" + ".map(s,s+s+s+s)" * 14 + ".size() > 0"
    policies = profile_file(
        f'policies:\n  - {{id: A, message: m, deny: "{bomb}"}}\n  - {{id: B, message: n, deny: "true"}}\n', "p.yaml"
    )
    found = [each for each in omnicfg.validate(profile_file(PROFILE), policies=policies) if each.code in "AB"]
    assert [(each.code, each.message) for each in found] == [
        ("A", "undecided, since the expression takes too much memory: m"),
        ("B", "n"),
    ]


def test_an_expression_that_takes_too_long_is_ended(
    profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand searches of a text of megabytes, which take seconds and no memory; what comes after is still asked."""
    digits = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
    searches = f"{digits}.all(x, {digits}.all(y, {digits}.all(z, !text.matches('(a|aa)*b'))))"
    long = "['a'].map(s,s+s)" + ".map(s,s+s+s+s)" * 10 + f".all(text, {searches})"
    lines = (f'  - {{id: A, message: m, deny: "{long}"}}\n', '  - {id: B, message: n, deny: "true"}\n')
    plan = omnicfg.resolve(profile_file(PROFILE))
    with Policies([profile_file("policies:\n" + "".join(lines), "p.yaml")]) as asked:
        first, second = asked.policies
        monkeypatch.setattr(evaluate, "PATIENCE_S", 0.02)
        (outcome,) = asked.outcomes(plan, "0.32.0", first)
        assert outcome.undecided == "the expression takes more than 0.02 s"
        monkeypatch.undo()
        (outcome,) = asked.outcomes(plan, "0.32.0", second)
        assert outcome.undecided is None
        process = asked._evaluator._process
    assert process.poll() is not None


EXPRESSIONS = {
    "deny: stages.exists(s,": (4, 27, "the expression ends too early"),
    "deny: stags.exists(s, true)": (4, 11, "nothing is called `stags` here"),
    "deny: |\n      true &&\n      x.y == 1": (6, 7, "nothing is called `x` here"),
    "deny: foo(1)": (4, 11, "nothing is called `foo` here"),
    "deny: stages.size()": (4, 11, "the expression gives a whole number, not true or false"),
    "deny: stages.exists(s, s.a) + 1": (4, 33, "`+` does not take true or false and a whole number"),
    "deny: stage.a == 1 and true": (4, 24, "mismatched input 'and'"),
    f"deny: {'(' * 100}true{')' * 100}": (4, 11, "recursion"),
}


@pytest.mark.parametrize(
    ("policy", "line", "column", "words"), [(text, *told) for text, told in EXPRESSIONS.items()], ids=list(EXPRESSIONS)
)
def test_an_error_in_an_expression_is_placed_in_the_file(
    check: Check, policy: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(PolicyError) as caught:
        check(policy)
    (told,) = caught.value.diagnostics
    assert (told.line, told.column) == (line, column)
    assert words in told.message
    assert "\n" not in told.message


def test_without_the_library_it_is_said_how_to_get_it(
    check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError) as caught:
        check('deny: "true"')
    assert caught.value.diagnostics[0].help == "`pip install 'omnicfg[policy]'`."


def test_a_library_that_does_not_start_is_told(check: Check, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "worker.py"
    broken.write_text("raise ImportError\n")
    monkeypatch.setattr(evaluate, "_WORKER", broken)
    with pytest.raises(UsageError, match="the CEL library does not start"):
        check('deny: "true"')
