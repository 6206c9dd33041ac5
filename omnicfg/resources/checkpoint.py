"""What a model directory says of itself: its ``config.json`` and the tables of its weights, read as untrusted files."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
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


def weight_bytes(directory: Path, prefix: str, itemsize: int, load_format: object = None) -> int | str:
    """Bytes of a model's weights once they are loaded in a dtype of ``itemsize`` bytes; in words why it is not known.

    From the tables at the beginning of the safetensors files (https://github.com/huggingface/safetensors, "Format").
    Of a checkpoint that holds several models, only what begins with ``prefix`` counts. Quantized weights keep the size
    that they are stored in. ``load_format`` is the engine arg.
    """
    tensors: dict[str, Mapping[str, Any]] = {}
    for path in _weight_files(directory, load_format):
        found = _tensors(path)
        if found is None:
            return f"{path} is no whole safetensors file, so the size of the weights is not known"
        tensors.update(found)
    if not tensors:
        return f"{directory} holds no safetensors file, so the size of the weights is not known"
    own = [tensor for name, tensor in tensors.items() if name.startswith(prefix)] or list(tensors.values())
    return sum(_loaded_bytes(tensor, itemsize) for tensor in own)


def _weight_files(directory: Path, load_format: object) -> list[Path]:
    """The files that vLLM loads: Mistral's own where there are some, and what the index names where there is one.

    As its ``DefaultModelLoader._prepare_weights`` chooses them (vLLM 0.32.0): a repository may hold the same weights
    twice, whole and in pieces.
    """
    mistral = load_format in (None, "auto", "mistral") and sorted(directory.glob("consolidated*.safetensors"))
    files = mistral or sorted(directory.glob("*.safetensors"))
    index = _json(directory / f"{'consolidated' if mistral else 'model'}.safetensors.index.json", 0)
    placed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(placed, dict):
        return files
    names = {name for name in placed.values() if isinstance(name, str) and Path(name).name == name}
    return [directory / name for name in sorted(names)]


def _tensors(path: Path) -> dict[str, Mapping[str, Any]] | None:
    """Name and description of every tensor in a file; ``None`` where it is not there or has no such table."""
    try:
        with path.open("rb") as file:
            head = file.read(_LENGTH.size)
    except OSError:
        return None
    found = _json(path, _LENGTH.size, _LENGTH.unpack(head)[0]) if len(head) == _LENGTH.size else None
    if not isinstance(found, dict):
        return None
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, dict) and "shape" in tensor}


def _json(path: Path, start: int, length: int = _TABLE_LIMIT) -> Any:
    """What a part of a regular file says in JSON; ``None`` where it cannot be read, is no JSON, or is too long."""
    try:
        if not path.is_file() or length > _TABLE_LIMIT:
            return None
        with path.open("rb") as file:
            file.seek(start)
            return json.loads(file.read(length))
    except (OSError, ValueError, RecursionError):
        return None


def _loaded_bytes(tensor: Mapping[str, Any], itemsize: int) -> int:
    shape, offsets = tensor.get("shape"), tensor.get("data_offsets")
    if tensor.get("dtype") in _FLOATS and _are_sizes(shape):
        return math.prod(shape) * itemsize
    return offsets[1] - offsets[0] if _are_sizes(offsets) and len(offsets) == 2 else 0


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)
