"""``omnicfg explain``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.conftest import Run
from tests.conftest import WriteProfile

KEY = "stages.0.enable_prefix_caching"


def test_the_winner_the_losers_and_the_reason(run: Run) -> None:
    lines = run("explain", "minicpmo_4_5_turn", KEY, "--platform", "npu").out.splitlines()
    assert lines[0] == "stages.0.enable_prefix_caching = false"
    assert lines[1] == "minicpmo_4_5_turn.yaml on npu"
    chain = [line.split()[:2] for line in lines[3:5]]
    assert chain == [["wins", "false"], ["lost", "false"]]
    assert "the prefix cache of stage 0 (llm) here: unvalidated" in lines


def test_a_validated_cache_comes_with_evidence_costs_and_the_way_out(run: Run) -> None:
    out = run("explain", "qwen3_omni_moe", KEY).out
    for part in (
        "here: validated",
        "evidence: Daily-Omni 0.7157",
        "cost:     9.9 to 10.9 GiB of host memory (15.2 to 16.1 with it, 5.2 to 5.3 without)",
        "load:     decode, 100 tokens in and out: 0 to 0.5% hits, throughput -3 to -0.8%",
        "An overlay that turns it off:",
        "    base_config: qwen3_omni_moe.yaml",
    ):
        assert part in out


def test_a_refused_cache_says_so(run: Run) -> None:
    out = run("explain", "qwen3_omni_moe_mrv2", KEY).out
    assert "rule:     turning it on here is an error" in out
    assert "An overlay" not in out


def test_json_holds_the_whole_chain(run: Run) -> None:
    data = run("explain", "minicpmo_4_5_turn", KEY, "--format", "json").data
    assert (data["value"], data["set"]) == (True, True)
    assert [(link["role"], link["value"], link["layer"]) for link in data["chain"]] == [
        ("wins", True, "platform cuda"),
        ("lost", False, "base minicpmo_4_5.yaml"),
    ]
    assert data["chain"][0]["line"] > 0
    assert data["evidence"][0]["verdict"] == "validated"
    assert data["overlay_that_turns_it_off"].startswith("base_config: minicpmo_4_5_turn.yaml")


def test_all_platforms(run: Run) -> None:
    data = run("explain", "minicpmo_4_5_turn", KEY, "--platform", "all", "--format", "json").data
    assert {name: each["value"] for name, each in data.items()} == {
        "cuda": True, "npu": False, "rocm": False, "xpu": False, "musa": False,
    }  # fmt: skip


def test_a_platform_that_refuses_is_told_and_the_others_are_shown(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nmodel_runner: v2\n")
    result = run("explain", path, "model_runner", "--platform", "all", "--format", "json")
    assert (result.code, list(result.data)) == (1, ["cuda", "rocm", "musa"])
    assert result.err.count("error[OC015]") == 2


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("stages.0.block_size", "stages.0.block_size is not set; the default of vLLM 0.32.0 applies: 16"),
        ("stages.0.max_model_len", "stages.0.max_model_len is not set; vLLM decides at start: the context length"),
        ("dtype", "dtype = null"),
    ],
)
def test_what_is_unset_says_what_applies(run: Run, key: str, first: str) -> None:
    assert run("explain", "minicpmo_4_5_turn", key).out.startswith(first)


def test_a_block_lists_its_entries_with_their_origins(run: Run) -> None:
    out = run("explain", "qwen3_omni_moe", "stages.0.default_sampling_params").out
    entries = out.partition("  entries\n")[2].splitlines()
    assert entries[0].split()[:3] == ["temperature", "0.0", "profile"]
    assert any("topology" in line for line in entries)


def test_an_entry_of_the_command_line_is_its_own_place(run: Run) -> None:
    setting = "stages.0.default_sampling_params.temperature=0.5"
    out = run("explain", "qwen3_omni_moe", "stages.0.default_sampling_params", "--set", setting).out
    entries = [line.split() for line in out.partition("  entries\n")[2].splitlines()]
    assert ["temperature", "0.5", "--set", setting] in entries


def test_a_key_that_exists_nowhere(run: Run) -> None:
    result = run("explain", "qwen3_omni_moe", "stages.0.enable_prefix_cachin")
    assert (result.code, result.out) == (2, "")
    assert "Did you mean `enable_prefix_caching`?" in result.err


def test_credentials_are_hidden(run: Run, profile_file: WriteProfile) -> None:
    base = profile_file("pipeline: qwen3_tts\nstages:\n  - {stage_id: 0, hf_token: hf_old}\n")
    for format in ("text", "json"):
        words = ["explain", base, "stages.0.hf_token", "--set", "stages.0.hf_token=hf_new", "--format", format]
        result = run(*words)
        assert result.code == 0
        assert "***" in result.out
        assert "hf_" not in result.out.replace("hf_token", "")


def test_on_a_terminal_losers_are_struck_out() -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("NO_COLOR", None)
    subprocess.run(
        [sys.executable, "-m", "omnicfg.cli", "explain", "minicpmo_4_5_turn", KEY],
        stdout=theirs,
        env=environment,
        cwd=Path(__file__).parents[2],
        check=True,
    )
    os.close(theirs)
    text = b""
    while chunk := _read(ours):
        text += chunk
    os.close(ours)
    assert b"\x1b[9;2mfalse\x1b[0m" in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the other end of a pty is closed
        return b""
