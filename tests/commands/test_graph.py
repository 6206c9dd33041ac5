"""``omnicfg graph``: what a profile is made from, and what its stages hand to each other."""

from __future__ import annotations

import pytest

from tests.commands.conftest import Run
from tests.conftest import WriteProfile

TREE = """\
minicpmo_4_5_turn.yaml  profile, platforms cuda, npu
└── minicpmo_4_5.yaml  base, platforms cuda, npu

pipeline minicpmo_4_5  on npu
├── stage 0 llm  llm ar, devices 0, answers in text
│   └── to stage 1 tts  in chunks
├── stage 1 tts  llm ar, devices 0
│   └── to stage 2 code2wav  connector_of_shared_memory (SharedMemoryConnector), in chunks
└── stage 2 code2wav  llm generation, devices 0, answers in audio
"""


def test_the_tree(run: Run) -> None:
    result = run("graph", "minicpmo_4_5_turn", "--platform", "npu")
    assert (result.code, result.out, result.err) == (0, TREE, "")


def test_overlays_lie_on_top(run: Run, profile_file: WriteProfile) -> None:
    overlay = profile_file("stages: [{stage_id: 0, max_num_seqs: 2}]\n", "mine.yaml")
    lines = run("graph", "qwen3_tts", "--overlay", overlay).out.splitlines()
    assert lines[0] == f"{overlay}  overlay"
    assert lines[1].startswith("└── qwen3_tts.yaml  profile")


@pytest.mark.parametrize("format", ["tree", "mermaid", "dot"])
def test_the_same_profile_gives_the_same_text(run: Run, format: str) -> None:
    words = ("graph", "qwen3_omni_duplex_mrv2", "--format", format)
    assert run(*words).out == run(*words).out != ""


@pytest.mark.parametrize("format", ["tree", "mermaid", "dot"])
def test_no_credential_is_drawn(run: Run, profile_file: WriteProfile, format: str) -> None:
    token = f"hf_{'a' * 34}"
    named = f"stages: [{{stage_id: 0, output_connectors: {{to_stage_1: {token}}}}}]\n"
    text = f"pipeline: qwen3_tts\nconnectors: {{{token}: {{name: X}}}}\n{named}"
    out = run("graph", profile_file(text), "--format", format).out
    assert token not in out
    assert out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "no profile `nowhere`"),
        (["qwen3_tts", "--format", "svg"], "`--format` cannot be `svg`"),
        (["qwen3_tts", "--platform", "all"], "unknown platform `all`"),
        (["qwen3_tts", "--set", "stages.9.devices=0"], "has no stage 9"),
        ([], "PROFILE is missing"),
    ],
)
def test_trouble(run: Run, words: list[str], message: str) -> None:
    result = run("graph", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
