"""CUDA graphs for a function of fixed shapes: captured at its first call with a shape, replayed afterwards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_WARM_UPS = 2

Function = Callable[[list[torch.Tensor]], list[torch.Tensor]]


class Graphs:
    """Calls ``function``; on CUDA through one graph for each of its inputs' shapes, elsewhere directly.

    What is returned on CUDA is overwritten by the next call with these shapes. What the function needs meanwhile lies
    in memory that all graphs share: capture the largest shape first.
    """

    def __init__(self, function: Function, *, enabled: bool) -> None:
        self._function = function
        self._pool: Any = torch.cuda.graph_pool_handle() if enabled else None
        self._captured: dict[tuple[torch.Size, ...], _Captured] = {}

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        if self._pool is None:
            return self._function(list(inputs))
        shapes = tuple(tensor.shape for tensor in inputs)
        captured = self._captured.get(shapes)
        if captured is None:
            captured = self._captured[shapes] = _Captured(self._function, inputs, self._pool)
        return captured.replay(inputs)


class _Captured:
    def __init__(self, function: Function, inputs: Sequence[torch.Tensor], pool: Any) -> None:
        self._inputs = [tensor.clone() for tensor in inputs]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # a library's first call allocates, which a capture must not see
            for _ in range(_WARM_UPS):
                function(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.empty_cache()  # what that needed is needed again, in the pool
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph, pool=pool):
            self._outputs = function(self._inputs)

    def replay(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for mine, given in zip(self._inputs, inputs, strict=True):
            mine.copy_(given)
        self._graph.replay()
        return self._outputs
