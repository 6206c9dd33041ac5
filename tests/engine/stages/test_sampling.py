"""Sampling cuts off what transformers' processors cut off."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
transformers = pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")

from omnicfg.engine.stages._sampling import Sampling  # noqa: E402

pytestmark = pytest.mark.slow

HISTORY = [[1, 2, 2, 30], [], [5]]


@pytest.fixture
def logits() -> Any:
    return 3 * torch.randn(3, 40, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (5, 1.0), (0, 0.7), (10, 0.5), (100, 0.999)])
def test_what_is_left_has_the_same_probabilities(top_k: int, top_p: float, logits: Any) -> None:
    ours = Sampling(top_k=top_k, top_p=top_p)._cut(logits).softmax(-1)
    kept = logits
    if top_k:
        kept = transformers.TopKLogitsWarper(top_k)(None, kept)
    if top_p < 1:
        kept = transformers.TopPLogitsWarper(top_p)(None, kept)
    torch.testing.assert_close(ours, kept.softmax(-1))


def test_what_was_said_loses_as_much(logits: Any) -> None:
    sampling = Sampling(temperature=0, repetition_penalty=1.3)
    processor = transformers.RepetitionPenaltyLogitsProcessor(1.3)
    for row, said in zip(logits, HISTORY, strict=True):
        wanted = processor(torch.tensor([said], dtype=torch.long), row[None])[0] if said else row
        torch.testing.assert_close(sampling._penalized(row, said), wanted)


def test_temperature_nothing_takes_the_largest(logits: Any) -> None:
    assert Sampling(temperature=0).choose(logits, HISTORY, []).tolist() == logits.argmax(-1).tolist()


def test_each_request_has_its_own_chance(logits: Any) -> None:
    def drawn(rows: Any, seeds: list[int]) -> list[int]:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        return list(Sampling().choose(rows, [[]] * len(rows), generators).tolist())

    together = drawn(logits, [1, 2, 3])
    assert [drawn(logits[place : place + 1], [place + 1])[0] for place in range(3)] == together


@pytest.mark.parametrize(
    ("parameters", "sampling"),
    [
        ({}, Sampling()),
        ({"temperature": 0.0, "max_tokens": 9, "seed": 3}, Sampling(temperature=0.0)),
        ({"top_k": -1, "top_p": None}, Sampling()),
        ({"top_k": 50, "repetition_penalty": 1.05}, Sampling(top_k=50, repetition_penalty=1.05)),
    ],
)
def test_parameters_are_read_as_vllm_reads_them(parameters: dict[str, Any], sampling: Sampling) -> None:
    assert Sampling.of(parameters) == sampling
