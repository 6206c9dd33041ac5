"""``omnicfg policy test`` and ``validate --policy``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.conftest import WriteProfile

POLICIES = """\
policies:
  - id: TEAM001
    message: leave a tenth of the memory free
    deny: stages.exists(s, has(s.engine_args.gpu_memory_utilization) && s.engine_args.gpu_memory_utilization > 0.9)
    examples:
      pass:
        - qwen3_tts
        - beside.yaml
      fail:
        - {profile: qwen3_tts, set: {stages.0.gpu_memory_utilization: 0.95}}
        - |
          pipeline: qwen3_tts
          async_chunk: false
          stages: [{stage_id: 0, gpu_memory_utilization: 1}]
"""
OWN = "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, gpu_memory_utilization: %s}]\n"


@pytest.fixture
def policies(profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch) -> Path:
    profile_file(OWN % "0.5", "rules/beside.yaml")
    path = profile_file(POLICIES, "rules/policies.yaml")
    monkeypatch.chdir(path.parent.parent)
    return path.relative_to(path.parent.parent)


def test_examples_that_go_as_they_should(run: Run, policies: Path) -> None:
    result = run("policy", "test", policies)
    assert result.code == 0
    assert result.out.splitlines() == [
        "ok    TEAM001 pass: qwen3_tts on cuda",
        "ok    TEAM001 pass: beside.yaml on cuda",
        "ok    TEAM001 fail: qwen3_tts on cuda",
        "ok    TEAM001 fail: the profile at rules/policies.yaml:11:11 on cuda",
        "4 examples of 1 policy, none wrong.",
    ]


def test_examples_that_do_not(run: Run, policies: Path) -> None:
    text = POLICIES.replace("- qwen3_tts\n", "- {profile: qwen3_tts, set: {stages.0.gpu_memory_utilization: 1}}\n")
    text = text.replace("utilization: 0.95", "utilization: 0.9").replace(
        "qwen3_tts\n          async", "qwen3_t\n          async"
    )
    undecided = "{id: TEAM002, message: m, deny: 'stage.engine_args.seed > 1', examples: {pass: [qwen3_tts]}}"
    policies.write_text(f"{text}  - {undecided}\n  - {{id: TEAM003, message: m, deny: 'true'}}\n")
    unknown = "the profile does not compile: OC012 no pipeline `qwen3_t`"
    result = run("policy", "test", policies)
    assert result.code == 1
    assert result.out.splitlines() == [
        "WRONG TEAM001 pass: qwen3_tts on cuda: the policy finds stage 0 (--set stages.0.gpu_memory_utilization)",
        "ok    TEAM001 pass: beside.yaml on cuda",
        "WRONG TEAM001 fail: qwen3_tts on cuda: the policy finds nothing",
        f"WRONG TEAM001 fail: the profile at rules/policies.yaml:11:11 on cuda: {unknown}",
        "WRONG TEAM002 pass: qwen3_tts on cuda: the policy cannot be decided: `seed` is not set here",
        "TEAM003: no examples",
        "5 examples of 3 policies, 4 wrong.",
    ]
    data = run("policy", "test", policies, "--format", "json").data
    assert [each["ok"] for each in data["trials"]] == [False, True, False, False, False]
    assert data["without_examples"] == ["TEAM003"]


def test_validate_takes_policies_beside_its_rules(run: Run, policies: Path, profile_file: WriteProfile) -> None:
    profile_file(OWN % "0.95", "mine.yaml")
    result = run("validate", "mine.yaml", "--policy", policies)
    assert result.code == 1
    assert "error[TEAM001] policy: leave a tenth of the memory free\n  --> mine.yaml:3:48\n" in result.out
    assert run("validate", "mine.yaml").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("policy", "test"), "`omnicfg policy test` needs a policy file"),
        (("policy", "rules/policies.yaml"), "help: `omnicfg policy test rules/policies.yaml` tries the examples"),
        (("policy", "check", "rules/policies.yaml"), "help: `omnicfg policy test FILE` tries the examples"),
        (("policy", "test", "missing.yaml"), "missing.yaml cannot be read"),
        (("validate", "mine.yaml", "--policy", "missing.yaml"), "missing.yaml cannot be read"),
    ],
)
def test_trouble(run: Run, policies: Path, profile_file: WriteProfile, words: tuple[str, ...], message: str) -> None:
    profile_file(OWN % "0.5", "mine.yaml")
    result = run(*words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


def test_the_library_is_loaded_only_for_a_policy(profile_file: WriteProfile) -> None:
    path = profile_file(OWN % "0.5")
    code = (
        "import sys, omnicfg; omnicfg.validate(sys.argv[1]);"
        "print([name for name in sys.modules if name.startswith(('cel_expr', 'omnicfg.policy'))])"
    )
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
