"""At a terminal, every command alike: its width, its colours, and that something is going on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from omnicfg.cli import command_names
from omnicfg.report.terminal import cells
from tests.terminal import Shown, at_terminal

BAD: Final = (
    "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, max_num_seq: 8, gpu_memory_utilization: 1.5}]\n"
)
OLD: Final = """\
stage_args:
  - stage_id: 0
    runtime: {devices: "0", max_batch_size: 1}
    engine_args: {model_stage: qwen3_tts, model_arch: Qwen3TTSTalkerForConditionalGeneration, worker_type: ar}
  - stage_id: 1
    engine_args: {model_stage: code2wav, model_arch: Qwen3TTSCode2Wav, worker_type: generation}
"""
POLICY: Final = """\
policies:
  - id: TEAM001
    message: No more than a thousand requests at once.
    require: stage.effective.max_num_seqs <= 1000
    examples: {pass: [qwen3_tts]}
"""
TEXTS: Final = {
    "overview": ["--help"],
    "help": ["validate", "--help"],
    "usage": ["reslove"],
    "resolve": ["resolve", "qwen3_tts"],
    "resolve-explain": ["resolve", "qwen3_tts", "--platform", "npu", "--explain"],
    "explain": ["explain", "minicpmo_4_5_turn", "stages.0.enable_prefix_caching", "--platform", "npu"],
    "validate": ["validate", "bad.yaml", "--no-config"],
    "diff": ["diff", "qwen3_tts", "qwen3_tts_v1"],
    "diff-versions": ["diff", "--versions", "vllm", "0.32.0..0.33.0", "bad.yaml"],
    "matrix": ["matrix", "qwen3_omni_moe"],
    "profiles": ["profiles"],
    "rules": ["rules"],
    "rule": ["rules", "OC501"],
    "schema": ["schema", "stage"],
    "schema-entry": ["schema", "vllm", "max_num_seqs"],
    "migrate": ["migrate", "old.yaml", "--check"],
    "graph": ["graph", "qwen3_omni_duplex_mrv2"],
    "doctor": ["doctor", "qwen3_omni_moe", "--engine", "vllm-omni"],
    "export": ["export", "bad.yaml", "--to", "k8s"],
    "init": ["init", "own.yaml", "--on", "qwen3_t"],
    "serve": ["serve", "qwen3_tts"],
    "policy": ["policy", "test", "nowhere.yaml"],
    "bench": ["bench", "nonsense"],
    "lsp": ["lsp", "--nonsense"],
    "report": ["report", "bad.yaml", "--out", "page.yaml"],
    "completion": ["completion", "tcsh"],
}
"""What every command has for people; what is for machines or shells has lines as long as they are."""
REPORT: Final = Path(__file__).parents[2] / "docs/benchmarks/bench_qwen3_h200"
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")

At = Callable[..., Shown]


@pytest.fixture
def at(tmp_path: Path) -> At:
    """A terminal in a directory with a profile that has mistakes, and an old stage config."""
    (tmp_path / "bad.yaml").write_text(BAD)
    (tmp_path / "old.yaml").write_text(OLD)

    def call(words: list[str], **more: object) -> Shown:
        environment = {"NO_COLOR": "", "COLUMNS": "", **dict(more.pop("environment", {}))}  # type: ignore[call-overload]
        return at_terminal(words, folder=tmp_path, environment=environment, **more)  # type: ignore[arg-type]

    return call


def test_every_command_is_here() -> None:
    assert {words[0] for words in TEXTS.values()} >= set(command_names())


@pytest.mark.parametrize("name", TEXTS)
def test_lines_fit_a_narrow_terminal_and_no_color_means_none(name: str, at: At) -> None:
    shown = at(TEXTS[name], columns=40, environment={"NO_COLOR": "1"}).text
    assert not _STYLE.search(shown)
    assert "Traceback" not in shown
    lasting = re.sub(r"\r\x1b\[K[^\r\n]*(?=\r)|\r\x1b\[K", "", shown)
    assert [line for line in lasting.splitlines() if cells(line) > 40] == []
    assert lasting.strip()


@pytest.mark.parametrize(
    "name", ["resolve", "explain", "validate", "diff", "matrix", "profiles", "graph", "doctor", "migrate"]
)
def test_otherwise_there_is_colour(name: str, at: At) -> None:
    shown = at(TEXTS[name]).text
    assert _STYLE.search(shown)
    assert "\\x1b" not in shown, "a style of our own is shown as text"


def test_a_terminal_that_can_do_nothing_gets_text_alone(at: At) -> None:
    assert "\x1b" not in at(TEXTS["matrix"], environment={"TERM": "dumb"}).text


def test_the_outcome_of_policies_is_coloured(at: At, tmp_path: Path) -> None:
    (tmp_path / "policies.yaml").write_text(POLICY)
    shown = at(["policy", "test", "policies.yaml"], columns=40).text
    assert "\x1b[32mok   \x1b[0m TEAM001" in shown
    assert [line for line in _STYLE.sub("", shown).splitlines() if cells(line) > 40] == []


def test_columns_goes_before_what_the_terminal_says(at: At) -> None:
    wide, narrow = (at(TEXTS["profiles"], columns=200, environment={"COLUMNS": asked}).text for asked in ("", "40"))
    assert max(map(cells, wide.splitlines())) > 60
    assert max(cells(_STYLE.sub("", line)) for line in narrow.splitlines()) <= 40
    assert at(TEXTS["profiles"], columns=200, environment={"COLUMNS": "wide"}).text == wide


def clock(folder: Path, after_s: float) -> dict[str, str]:
    """An environment in which something takes long after ``after_s`` seconds, and is told of as often."""
    (folder / "sitecustomize.py").write_text(
        f"import omnicfg.report.progress as progress\nprogress._AFTER_S = progress._EVERY_S = {after_s}\n"
    )
    return {"PYTHONPATH": os.pathsep.join([str(folder), str(Path(__file__).parents[2])])}


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "many"],
        ["matrix"],
        ["migrate", "--check", "old.yaml"],
        ["doctor"],
        ["bench", "simulate", str(REPORT), "--trace", "chat", "--arm", "on", "--replicas", "1"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_what_takes_longer_than_a_second_says_so_and_leaves_no_trace(words: list[str], at: At, tmp_path: Path) -> None:
    """Time passes faster for the progress here, so that the test need not wait for a second."""
    if "simulate" in words:
        pytest.importorskip("simpy", reason="needs the extra bench")
    (tmp_path / "many").mkdir()
    for number in range(30):
        (tmp_path / "many" / f"profile_{number}.yaml").write_text("pipeline: qwen3_omni_moe\n")
    shown = at(words, environment=clock(tmp_path, 0.001)).text
    drawn = shown.split("\r\x1b[K")
    assert len(drawn) > 2
    assert re.search(r"(profiles|migrating|looking at|simulating).* \(\d+ s\)$", drawn[1])
    assert "\r" not in drawn[-1]
    assert " s)" not in drawn[-1].splitlines()[0]


def test_what_is_quick_says_nothing(at: At, tmp_path: Path) -> None:
    """A second is long here, so that it is quick on every machine."""
    assert "\r" not in at(["validate", "bad.yaml"], environment=clock(tmp_path, 600)).text
