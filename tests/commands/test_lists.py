"""``omnicfg profiles``, ``rules``, ``schema`` and ``matrix``: what is shipped."""

from __future__ import annotations

import pytest

from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.refusals import REFUSALS
from omnicfg.rule import rule_modules, rule_of
from tests.commands.conftest import Run


def test_profiles(run: Run) -> None:
    data = run("profiles", "--format", "json").data
    assert [entry["name"] for entry in data] == list(library())
    assert all(entry["what"].endswith(".") and entry["stages"] for entry in data)
    lines = run("profiles").out.splitlines()
    assert len(lines) == len(data) + 1
    assert lines[0].split() == ["profile", "pipeline", "stages", "what"]


def test_rules(run: Run) -> None:
    data = run("rules", "--format", "json").data
    codes = [entry["code"] for entry in data]
    assert codes == sorted(codes)
    assert set(codes) == {refusal.code for refusal in REFUSALS.values()} | {
        rule_of(each).code for each in rule_modules()
    }


@pytest.mark.parametrize("name", ["OC101", "oc101", "unknown-key"])
def test_the_page_of_a_rule(run: Run, name: str) -> None:
    out = run("rules", name).out
    assert out.startswith("OC101 unknown-key (error)\n")
    assert "\nBad:\n\n    pipeline: qwen3_tts\n" in out
    assert "\nGood:\n" in out


def test_the_page_of_a_reason_to_stop(run: Run) -> None:
    assert run("rules", "base-cycle").out.startswith("OC007 base-cycle (error)\n")


def test_no_such_rule(run: Run) -> None:
    result = run("rules", "unknwn-key")
    assert result.code == 2
    assert "Did you mean `unknown-key`?" in result.err


@pytest.mark.parametrize("topic", ["profile", "stage", "pipelines", "vllm"])
def test_schema_topics(run: Run, topic: str) -> None:
    assert topic in run("schema").out
    data = run("schema", topic, "--format", "json").data
    out = run("schema", topic).out
    assert all(f"{entry['name']} " in out for entry in data)


@pytest.mark.parametrize(
    ("words", "help"),
    [(("vllm", "max_num_seq"), "Did you mean `max_num_seqs`?"), (("stage", "zzz"), "all of them are")],
)
def test_no_such_entry(run: Run, words: tuple[str, str], help: str) -> None:
    result = run("schema", *words)
    assert result.code == 2
    assert f"no entry `{words[1]}`" in result.err
    assert help in result.err


def test_schema_entries(run: Run) -> None:
    names = {entry["name"] for entry in run("schema", "profile", "--format", "json").data}
    assert {"async_chunk", "duplex_session.max_sessions", "enable_prefix_caching"} <= names
    assert len(run("schema", "stage", "--format", "json").data) == len(deploy_schema().stage_fields)
    assert len(run("schema", "pipelines", "--format", "json").data) == len(pipelines())
    entry = run("schema", "vllm", "enable_prefix_caching", "--format", "json").data
    assert (entry["default"], entry["group"]) == (None, "CacheConfig")
    assert run("schema", "profile", "session_mode").out.splitlines()[2].split() == ["default", "turn"]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["vlm"], "Did you mean `vllm`?"),
        (["vllm", "max_num_seq"], "Did you mean `max_num_seqs`?"),
        (["vllm", "--vllm-version", "9"], "Shipped: "),
    ],
)
def test_schema_trouble(run: Run, words: list[str], hint: str) -> None:
    result = run("schema", *words)
    assert (result.code, result.out) == (2, "")
    assert hint in result.err


def test_matrix(run: Run) -> None:
    result = run("matrix")
    assert (result.code, result.err) == (0, "")
    header, *lines = result.out.splitlines()
    assert header.split() == ["model", "profile", "stage", "platforms", "cache", "set", "by", "verdict", "evidence"]
    turn = next(line for line in lines if " minicpmo_4_5_turn " in line and " cuda " in line)
    assert "on     platform" in turn
    assert "validated" in turn
    assert "Seed-TTS WER 0.0207" in turn


def test_matrix_in_json_and_markdown(run: Run) -> None:
    data = run("matrix", "qwen3_omni_moe", "--platform", "cuda", "--format", "json").data
    assert [(cell["stage_id"], cell["prefix_caching"]) for cell in data["cells"]] == [(0, True), (1, False), (2, False)]
    lines = run("matrix", "qwen3_omni_moe", "--platform", "cuda", "--format", "markdown").out.splitlines()
    assert lines[0].startswith("| model | profile | stage |")
    assert len(lines) == 5


def test_a_list_has_one_line_for_each_of_its_entries(run: Run) -> None:
    out, entries = run("schema", "vllm").out, run("schema", "vllm", "--format", "json").data
    assert [line.split()[0] for line in out.splitlines()] == ["name", *(entry["name"] for entry in entries)]
    assert max(map(len, out.splitlines())) < 300
    long = max((entry["help"] for entry in entries if "\n" not in entry["help"]), key=len)
    assert long not in out
    name = next(entry["name"] for entry in entries if entry["help"] == long)
    assert long in run("schema", "vllm", name).out
