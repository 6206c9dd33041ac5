"""A ring of payload rows in the memory of a GPU, which another process maps: on the same GPU or, where GPUs are peers,
on another one. Rows then never pass through the host.

CUDA's interprocess handles do it (CUDA runtime API, "Device Management": ``cudaIpcGetMemHandle`` and
``cudaIpcOpenMemHandle``), through NVIDIA's own bindings. The memory is taken with ``cudaMalloc``: what torch's
allocator gives out may lie anywhere in a larger piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch

_HANDLE_BYTES: Final = 64
"""``CUDA_IPC_HANDLE_SIZE``."""


class DeviceRing:
    """``capacity`` bytes on ``device``; ``bytes`` is all of it as a tensor of ``uint8``."""

    def __init__(self, capacity: int, device: torch.device) -> None:
        self._device = device
        with torch.cuda.device(device):
            self._address: int | None = _called("cudaMalloc", capacity)
        self.bytes = torch.as_tensor(_Memory(int(self._address), capacity), device=device)

    def handle(self) -> bytes:
        """What another process opens it with."""
        with torch.cuda.device(self._device):  # asked on any other, CUDA would take memory there for this process
            return bytes(_called("cudaIpcGetMemHandle", self._address).reserved)

    def close(self) -> None:
        """Give the memory back. Idempotent."""
        if self._address is not None:
            with torch.cuda.device(self._device):
                _called("cudaFree", self._address)
            self._address = None


class MappedRing:
    """The ring of another process, for one thread. Raises :class:`RuntimeError` where it cannot be mapped here."""

    def __init__(self, handle: bytes) -> None:
        from cuda.bindings import runtime

        if len(handle) != _HANDLE_BYTES:
            raise RuntimeError(f"a handle of CUDA's has {_HANDLE_BYTES} bytes, not {len(handle)}")
        opened = runtime.cudaIpcMemHandle_t()
        opened.reserved = handle
        torch.cuda.init()
        self._stream = torch.cuda.Stream()
        self._address = int(_called("cudaIpcOpenMemHandle", opened, runtime.cudaIpcMemLazyEnablePeerAccess))

    def read(self, offset: int, size: int) -> torch.Tensor:
        """A copy of ``size`` bytes on this process's GPU, complete when this returns."""
        from cuda.bindings import runtime

        with torch.cuda.stream(self._stream):
            copied = torch.empty(size, dtype=torch.uint8, device="cuda")
            kind, stream = runtime.cudaMemcpyKind.cudaMemcpyDefault, self._stream.cuda_stream
            _called("cudaMemcpyAsync", copied.data_ptr(), self._address + offset, size, kind, stream)
        self._stream.synchronize()
        return copied

    def side_by_side(self, parts: Sequence[torch.Tensor], rows: int) -> torch.Tensor:
        """Parts of ``rows`` rows, which :meth:`read` gave, put together row by row; complete when this returns."""
        with torch.cuda.stream(self._stream):
            for part in parts:  # taken on another ring's stream
                part.record_stream(self._stream)
            whole = torch.cat([part.view(rows, -1) for part in parts], dim=1).view(-1)
        self._stream.synchronize()
        return whole

    def close(self) -> None:
        """Unmap it."""
        _called("cudaIpcCloseMemHandle", self._address)


class _Memory:
    """What torch makes a tensor of without a copy (numba's CUDA array interface, version 2)."""

    def __init__(self, address: int, size: int) -> None:
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 2}


def _called(name: str, *arguments: Any) -> Any:
    """The result of a function of the CUDA runtime. Raises :class:`RuntimeError` with CUDA's own name of the error."""
    from cuda.bindings import runtime

    error, *results = getattr(runtime, name)(*arguments)
    if error != runtime.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{name}: {error.name}")
    return results[0] if results else None
