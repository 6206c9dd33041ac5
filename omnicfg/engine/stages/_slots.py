"""Keys and values of several requests, for modules of transformers that are called with all of them at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_FIRST_CAPACITY = 256


class Slots:
    """A cache with ``count`` slots, one for each request; it grows to the longest of them.

    :meth:`whole` and :meth:`step` stand where transformers' attention expects a cache: it calls ``update``.
    """

    def __init__(self, layers: int, count: int, heads: int, width: int, dtype: torch.dtype, device: str) -> None:
        self._shape = (count, heads, _FIRST_CAPACITY, width)
        self._keys = [torch.zeros(self._shape, dtype=dtype, device=device) for _ in range(layers)]
        self._values = [torch.zeros(self._shape, dtype=dtype, device=device) for _ in range(layers)]

    @property
    def capacity(self) -> int:
        """Tokens that a slot holds at present."""
        return int(self._keys[0].shape[2])

    def whole(self, slot: int, tokens: int) -> Whole:
        """For a call with one request's first ``tokens`` tokens."""
        self._grow(tokens)
        return Whole(self, slot)

    def step(self, slots: Sequence[int], lengths: Sequence[int]) -> Step:
        """For a call with one more token of each request, which had ``lengths`` tokens before."""
        self._grow(max(lengths) + 1)
        return Step(self, slots, lengths)

    def _grow(self, tokens: int) -> None:
        if tokens <= self.capacity:
            return
        more = max(tokens, 2 * self.capacity) - self.capacity
        for tensors in (self._keys, self._values):
            for layer, tensor in enumerate(tensors):
                room = tensor.new_zeros((*tensor.shape[:2], more, tensor.shape[3]))
                tensors[layer] = torch.cat((tensor, room), dim=2)


class Whole:
    """The cache of one request at its first call: what comes in is all there is."""

    def __init__(self, slots: Slots, slot: int) -> None:
        self._slots, self._slot = slots, slot

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keeps ``[1, heads, tokens, width]``."""
        tokens = keys.shape[2]
        self._slots._keys[layer][self._slot, :, :tokens] = keys[0]
        self._slots._values[layer][self._slot, :, :tokens] = values[0]
        return keys, values


class Step:
    """The cache at a call with one token of each request; ``mask`` says which tokens each of them may see."""

    def __init__(self, slots: Slots, places: Sequence[int], lengths: Sequence[int]) -> None:
        device = slots._keys[0].device
        self._slots = slots
        self._places = torch.tensor(places, device=device)
        self._lengths = torch.tensor(lengths, device=device)
        self._longest = max(lengths) + 1
        seen = torch.arange(self._longest, device=device) <= self._lengths[:, None]
        self.mask = seen[:, None, None, :]

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Keeps ``[requests, heads, 1, width]`` and gives back all that is kept, padded to the longest."""
        return self._add(self._slots._keys[layer], keys), self._add(self._slots._values[layer], values)

    def _add(self, kept: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
        kept[self._places, :, self._lengths] = new[:, :, 0]
        return kept[self._places, :, : self._longest]
