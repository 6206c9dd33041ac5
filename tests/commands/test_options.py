"""Options that a command's other options leave without an effect."""

from __future__ import annotations

import pytest

from tests.commands.conftest import Run


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        (
            ["resolve", "qwen3_tts", "--explain", "--format", "args"],
            "`resolve --format args` takes no `--explain`",
            "The other formats show where values come from; `omnicfg explain` shows it of one value.",
        ),
        (
            ["resolve", "qwen3_tts", "--vllm-version", "0.31.0"],
            "`resolve` takes no `--vllm-version`",
            "It counts with `--effective` or `--format args`: add one of them, or leave it out.",
        ),
        (
            ["diff", "qwen3_tts", "qwen3_tts_v1", "--vllm-version", "0.31.0"],
            "`diff` takes no `--vllm-version`",
            "It counts with `--effective`: add that, or leave it out.",
        ),
        (
            ["explain", "qwen3_tts", "async_chunk", "--pipeline", "qwen3_tts", "--model", "."],
            "`--pipeline` and `--model` both tell the pipeline",
            "Give one of them.",
        ),
        (
            ["graph", "qwen3_tts", "--pipeline", "qwen3_tts", "--model", "."],
            "`--pipeline` and `--model` both tell the pipeline",
            "Give one of them.",
        ),
        (
            ["schema", "stage", "--vllm-version", "0.31.0"],
            "`schema stage` takes no `--vllm-version`",
            "The engine args of a release: `omnicfg schema vllm`.",
        ),
        (
            ["schema", "--vllm-version", "0.31.0"],
            "`schema` takes no `--vllm-version`",
            "The engine args of a release: `omnicfg schema vllm`.",
        ),
        (
            ["validate", "qwen3_tts", "--write-baseline", "known.json", "--fail-on", "warning"],
            "`validate --write-baseline` takes no `--fail-on`",
            "What becomes known fails nothing: leave it out.",
        ),
        (
            ["export", "qwen3_tts", "--to", "vllm-omni", "--port", "8091"],
            "`--port` means nothing with `--to vllm-omni`",
            "It writes the profile alone; leave it out.",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_option_that_would_do_nothing_is_refused(run: Run, words: list[str], message: str, help: str) -> None:
    assert run(*words) == (2, "", f"error: {message}\n  = help: {help}\n")


@pytest.mark.parametrize("words", [["--effective"], ["--format", "args"]])
def test_a_release_counts_where_its_defaults_or_flags_are_asked_for(run: Run, words: list[str]) -> None:
    assert run("resolve", "qwen3_tts", "--vllm-version", "0.31.0", *words).code == 0
