"""Blocks that are not run: each names its reason, and is read."""

from __future__ import annotations

import pytest

from tests.docs.reading import complaints


def fenced(info: str, text: str) -> str:
    return f"Words.\n\n```{info}\n{text}\n```\n\nMore words.\n"


@pytest.mark.parametrize(
    "page",
    [
        fenced("console", "$ true"),
        fenced('console needs="vllm"', "$ curl http://127.0.0.1:8091/metrics"),
        fenced('sh not-run="gpu"', "omnicfg serve qwen3_tts --model DIR \\\n  --port 8091  # a comment"),
        fenced('sh not-run="checkout"', "make test\npython -m omnicfg.export.docs --out docs"),
        fenced('sh needs="checkout"', "make lint"),
        fenced('sh not-run="gpu"', "omnicfg serve ... --headless"),
        fenced('sh not-run="network"', "pip install 'omnicfg[cuda,bench]'"),
        fenced('sh title="serve.sh"', "exec vllm serve X"),
        fenced('python title="ask.py"', "print(1)"),
        fenced("python", ">>> 1\n1"),
        fenced('python not-run="signatures"', "f(x: int) -> int"),
        fenced("yaml", "a: 1\n---\nb: 2"),
        fenced("text", "a $ sign"),
        "1. a list\n\n   goes on here\n\n   ```yaml\n   a: 1\n   ```\n",
    ],
)
def test_nothing_is_said_of_what_is_run_or_has_its_reason(page: str) -> None:
    assert list(complaints(page)) == []


@pytest.mark.parametrize(
    ("page", "said"),
    [
        (fenced("sh", "make test"), "are not run"),
        (fenced("bash", "make test"), "no language of our pages"),
        (fenced("", "make test"), "no language of our pages"),
        (fenced("{code-block} sh", "make test"), "is not seen"),
        ("~~~sh\nmake test\n~~~\n", "is not seen"),
        ("Run\n\n    make test\n\nnow.\n", "without a fence"),
        (fenced("text", "$ make test"), "stand in a `console` block"),
        (fenced('sh not-run="lazy"', "make test"), "no reason"),
        (fenced('sh not-run="checkout" run="no"', "make test"), "no attribute"),
        (fenced('console needs="tpu"', "$ true"), "nothing that a block can need"),
        (fenced('sh not-run="checkout"', "make tests"), "no 'tests'"),
        (fenced('sh not-run="checkout"', "python -m omnicfg.nothing"), "no module omnicfg.nothing"),
        (fenced('sh not-run="network"', "pip install 'omnicfg[cudda]'"), "no extra 'cudda'"),
        (fenced('sh not-run="gpu"', "omnicfg serve qwen3_tts --modle DIR"), "does not take that"),
        (fenced('sh not-run="gpu"', "omnicfg sevre qwen3_tts"), "no command `sevre`"),
        (fenced('sh not-run="gpu"', "echo 'open"), "no shell"),
        (fenced("python", "print(1)"), "is not run"),
        (fenced('python title="a.py"', "print("), "no Python"),
        (fenced("json", "{a: 1}"), "no json"),
        (fenced("yaml", "a: ["), "no yaml"),
        (fenced("toml", "a ="), "no toml"),
    ],
)
def test_a_block_that_escapes_is_found(page: str, said: str) -> None:
    told = list(complaints(page))
    assert len(told) == 1, told
    assert said in told[0]
