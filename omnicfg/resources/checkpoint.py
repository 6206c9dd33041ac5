"""What a model directory says of itself: its ``config.json`` and the tables of its weights, read as untrusted files."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeGuard

from omnicfg.passes.pipeline import read_json
from omnicfg.plan import StagePlan

_TABLE_LIMIT: Final = 100_000_000  # bytes, as the safetensors library has it
_LENGTH: Final = struct.Struct("<Q")
_FLOATS: Final = frozenset({"F64", "F32", "F16", "BF16"})


def stage_directory(model: Path, stage: StagePlan) -> Path:
    """Where a stage's own checkpoint lies: the model's directory, or the part of it that the pipeline names."""
    part = stage.arg("model_subdir")
    return model / part if isinstance(part, str) and part else model


def stage_config(model: Path, stage: StagePlan) -> Mapping[str, Any] | None:
    """The ``config.json`` of a stage; ``None`` where there is none.

    Raises :class:`~omnicfg.errors.ResolveError` for one that cannot be read, or is no JSON object.
    """
    path = stage_directory(model, stage) / "config.json"
    return read_json(path) if path.is_file() else None


def weight_bytes(directory: Path, prefix: str, itemsize: int) -> int | None:
    """Bytes of a model's weights once they are loaded in a dtype of ``itemsize`` bytes; ``None`` where none are there.

    From the tables at the beginning of the safetensors files (https://github.com/huggingface/safetensors, "Format").
    Of a checkpoint that holds several models, only what begins with ``prefix`` counts. Quantized weights keep the size
    that they are stored in.
    """
    names = [path for path in sorted(directory.glob("*.safetensors")) if path.is_file()]
    tensors = {name: tensor for path in names for name, tensor in _tensors(path)}
    if not tensors:
        return None
    own = [tensor for name, tensor in tensors.items() if name.startswith(prefix)] or list(tensors.values())
    return sum(_loaded_bytes(tensor, itemsize) for tensor in own)


def _tensors(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Name and description of every tensor in a file; nothing where its table is none."""
    try:
        with path.open("rb") as file:
            head = file.read(_LENGTH.size)
            length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else _TABLE_LIMIT + 1
            found = json.loads(file.read(length) if length <= _TABLE_LIMIT else b"")
    except (OSError, ValueError, RecursionError):
        return
    if isinstance(found, dict):
        yield from ((name, tensor) for name, tensor in found.items() if isinstance(tensor, dict) and "shape" in tensor)


def _loaded_bytes(tensor: Mapping[str, Any], itemsize: int) -> int:
    shape, offsets = tensor.get("shape"), tensor.get("data_offsets")
    if tensor.get("dtype") in _FLOATS and _are_sizes(shape):
        return math.prod(shape) * itemsize
    return offsets[1] - offsets[0] if _are_sizes(offsets) and len(offsets) == 2 else 0


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
