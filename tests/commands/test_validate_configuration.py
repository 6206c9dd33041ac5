"""``omnicfg validate`` with a configuration: what it changes, and what goes before it."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring

import pytest

from tests.commands.conftest import Result, Run, Validate
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"
DEAD = "edges: [{from: 0, to: 1, window_size: 1}]\n"


def configure(text: str) -> None:
    Path("omnicfg.toml").write_text(text, encoding="utf-8")


def codes(result: Result) -> list[tuple[str, str]]:
    return [(one["code"], one["severity"]) for one in result.data["diagnostics"]]


def test_rules_have_the_severity_that_is_configured(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n" + DEAD)
    assert codes(validate("--format", "json")) == [("OC101", "error"), ("OC104", "warning")]
    configure('[rules]\nOC101 = "off"\nOC104 = "error"\n')
    result = validate("--format", "json")
    assert (result.code, codes(result)) == (1, [("OC104", "error")])


def test_what_does_not_compile_can_be_off_too(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file("pipeline: qwen3_tts\nmodel_runner: v2\n")
    configure('[rules]\nOC015 = "off"\n')
    assert "OC015" not in validate().out


def test_files_of_their_own(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n", "old/a.yaml")
    profile_file(TTS + "x: 1\n", "new/a.yaml")
    configure('[[paths]]\nfiles = ["old"]\nrules = {OC101 = "note"}\n')
    found = {one["path"]: one["severity"] for one in validate("--format", "json").data["diagnostics"]}
    assert found == {"new/a.yaml": "error", "old/a.yaml": "note"}


def test_platforms(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file("pipeline: qwen3_tts\nmodel_runner: v2\nplatforms: {xpu: {x: 1}}\n")
    configure('platforms = ["cuda", "rocm"]\n')
    assert validate("--fail-on", "warning").out == "No findings in 1 profile.\n"
    assert "OC015" in validate("--platform", "npu").out
    assert "OC101" in validate("--platform", "all").out


def test_a_suppression_is_judged_by_the_configured_platforms(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "platforms:\n  npu: {x: 1}  # omnicfg: ignore[OC101] because it is a test\n")
    configure('platforms = ["cuda", "rocm"]\n')
    assert "OC904" in validate().out
    assert "OC904" not in validate("--platform", "cuda").out


def test_the_engine(validate: Validate, profile_file: WriteProfile) -> None:
    from omnicfg.rule import rule_modules, rule_of

    rule = next(rule_of(module) for module in rule_modules() if rule_of(module).engine == "bundled")
    profile_file(rule.bad)
    assert rule.code not in validate().out
    configure('engine = "bundled"\n')
    assert rule.code in validate().out
    assert rule.code not in validate("--engine", "vllm-omni").out


def test_a_suppression_is_judged_by_the_configured_engine(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "# omnicfg: ignore-file[OC104] because it is a test\n")
    configure('engine = "bundled"\n')
    assert "OC904" in validate().out
    assert "OC904" not in validate("--engine", "vllm-omni").out


def test_the_vllm_release(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "stages: [{stage_id: 0, kv_cache_dtype: octave_k3v4}]\n")  # new in vLLM 0.33.0
    assert (validate("--vllm-version", "0.31.0").code, validate("--vllm-version", "0.33.0").code) == (1, 0)
    configure('vllm-version = "0.33.0"\n')
    assert validate().code == 0
    assert validate("--vllm-version", "0.31.0").code == 1
    result = validate("--vllm-version", "0.1.0")
    assert (result.code, "vLLM 0.1.0 are not shipped" in result.err) == (2, True)


def test_what_makes_the_exit_code(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + DEAD)
    configure('fail-on = "warning"\n')
    assert validate().code == 1
    assert validate("--fail-on", "error").code == 0


def test_formats(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    configure('formats = ["github", "junit:results.xml"]\n')
    result = validate()
    assert result.out.startswith("::error file=profile.yaml,line=3,")
    assert fromstring(Path("results.xml").read_text()).attrib["failures"] == "1"
    Path("results.xml").unlink()
    assert validate("--format", "json").data["summary"]["error"] == 1
    assert not Path("results.xml").exists()


def test_the_baseline(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    configure('baseline = "known.json"\n')
    result = validate()
    assert result.code == 2
    assert "`--write-baseline known.json` makes one." in result.err
    assert validate("--write-baseline", "known.json").code == 0
    assert validate().code == 0
    Path("none.json").write_text('{"version": 1, "findings": []}')
    assert validate("--baseline", "none.json").code == 1


def test_policies(validate: Validate, profile_file: WriteProfile) -> None:
    pytest.importorskip("cel_expr_python")
    profile_file(TTS)
    Path("ours.yml").write_text("policies: [{id: TEAM-1, message: no pipelines here, deny: 'pipeline != \"\"'}]\n")
    configure('policies = ["ours.yml"]\n[rules]\nTEAM-1 = "warning"\n')
    result = validate("--format", "json")
    assert (result.code, codes(result)) == (0, [("TEAM-1", "warning")])
    profile_file("# omnicfg: ignore-file[TEAM-1] because it is a test\n" + TTS)
    assert validate("--format", "json").data["summary"]["suppressed"] == 1


# ---------------------------------------------------------------------------------------------- which configuration
def test_another_one_and_none(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS + "x: 1\n")
    configure('[rules]\nOC101 = "off"\n')
    Path("strict.toml").write_text('[rules]\nOC101 = "error"\n')
    assert validate().code == 0
    assert validate("--config", "strict.toml").code == 1
    assert validate("--no-config").code == 1
    result = validate("--no-config", "--config", "strict.toml")
    assert (result.code, "contradict each other" in result.err) == (2, True)


def test_a_mistake_in_it_is_trouble_with_its_place(validate: Validate, profile_file: WriteProfile) -> None:
    profile_file(TTS)
    configure('[rules]\nOC101 = "of"\n')
    result = validate("--format", "json")
    assert (result.code, result.out) == (2, "")
    assert "--> omnicfg.toml:2:9" in result.err
    assert '2 | OC101 = "of"' in result.err


# ---------------------------------------------------------------------------------------------------- machine formats
@pytest.mark.parametrize("format", ["sarif", "gitlab", "json"])
def test_a_machine_format_stands_alone(validate: Validate, profile_file: WriteProfile, format: str) -> None:
    profile_file(TTS + "x: 1\n")
    result = validate("--format", format)
    assert (result.code, result.err) == (1, "")
    assert json.loads(result.out)


@pytest.mark.parametrize("format", ["text", "json", "sarif", "junit", "github", "gitlab"])
def test_every_format_hides_credentials_and_takes_any_character(
    validate: Validate, profile_file: WriteProfile, format: str
) -> None:
    profile_file(TTS + 'hf_token: hf_abcdef\n"k\\u0007]]>::é名\\u202e": http://me:hunter2@host\n')
    result = validate("--format", format)
    assert result.code == 1
    assert "hunter2" not in result.out
    assert "hf_abcdef" not in result.out
    assert "OC101" in result.out


def test_formats_are_completed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from omnicfg.completion import candidates

    assert candidates(["validate", "--format", ""]) == ["github", "gitlab", "json", "junit", "sarif", "text"]
