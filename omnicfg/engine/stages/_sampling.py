"""Choosing codes from logits: the stage's default sampling parameters, one generator for each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch


@dataclass(frozen=True, slots=True)
class Sampling:
    """``temperature`` 0 takes the largest logit; ``top_k`` and ``top_p`` cut the rest off, as vLLM counts them."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """From a stage's ``default_sampling_params``; a ``top_k`` below 1 cuts nothing off."""
        given = {name: parameters[name] for name in cls.__slots__ if parameters.get(name) is not None}
        given["top_k"] = max(0, given.get("top_k", 0))
        return cls(**given)

    @property
    def greedy(self) -> bool:
        """Whether nothing is left to chance."""
        return self.temperature == 0

    def choose(
        self, logits: torch.Tensor, history: Sequence[Sequence[int]], generators: Sequence[torch.Generator]
    ) -> torch.Tensor:
        """One code for each row of ``logits`` (``[requests, codes]``); ``history`` are each request's codes so far."""
        if self.repetition_penalty != 1.0:
            logits = torch.stack([self._penalized(row, codes) for row, codes in zip(logits, history, strict=True)])
        if self.greedy:
            return logits.argmax(-1)
        probabilities = self._cut(logits.float() / self.temperature).softmax(-1)
        drawn = [
            torch.multinomial(row, 1, generator=generator)
            for row, generator in zip(probabilities, generators, strict=True)
        ]
        return torch.cat(drawn)

    def _penalized(self, logits: torch.Tensor, codes: Sequence[int]) -> torch.Tensor:
        """As transformers does it: the logit of a code that was said before gets smaller, whatever its sign."""
        if not codes:
            return logits
        said = torch.tensor(sorted(set(codes)), device=logits.device)
        values = logits[said]
        penalty = self.repetition_penalty
        return logits.index_copy(0, said, torch.where(values < 0, values * penalty, values / penalty))

    def _cut(self, logits: torch.Tensor) -> torch.Tensor:
        if 0 < self.top_k < logits.shape[-1]:
            least = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p < 1.0:
            ordered, places = logits.sort(dim=-1, descending=True)
            before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
            ordered = ordered.masked_fill(before >= self.top_p, float("-inf"))
            logits = torch.empty_like(logits).scatter_(-1, places, ordered)
        return logits
