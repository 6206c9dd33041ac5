"""One part of a checkpoint as a module of transformers, without reading the other parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

DUMMY_SCALE = 0.02
"""The standard deviation of weights that are drawn at random."""


def part(model: Path, record: Mapping[str, Any], dtype: torch.dtype, device: str, *, dummy: bool = False) -> nn.Module:
    """The module that ``record`` describes, in evaluation mode.

    ``module`` is a class of transformers, ``config`` the place of its configuration in ``config.json``, ``weights`` the
    prefix of its tensors. ``dummy`` (vLLM's load format of that name) reads none and draws them at random, to measure
    a model that is not there. Raises :class:`RuntimeError` where tensors are missing or left over.
    """
    import transformers
    from transformers.initialization import no_init_weights

    config = configuration(model, record["config"])
    kind = getattr(transformers, record["module"], None)
    if kind is None:
        raise RuntimeError(f"transformers {transformers.__version__} has no {record['module']}")
    with torch.device(device), no_init_weights():
        module: nn.Module = kind._from_config(config, dtype=dtype)
    if dummy:
        for parameter in module.parameters():
            nn.init.normal_(parameter, std=DUMMY_SCALE)
        return module.eval().requires_grad_(requires_grad=False)
    tensors = _merged_experts(dict(tensors_under(model, record["weights"], dtype, device)), module)
    module.load_state_dict(tensors, strict=True)
    return module.eval().requires_grad_(requires_grad=False)


def configuration(model: Path, place: str = "") -> Any:
    """The configuration of a checkpoint, or the part of it at a dotted ``place``."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(model)
    for step in filter(None, place.split(".")):
        config = getattr(config, step)
    return config


def tensor(model: Path, name: str, dtype: torch.dtype, device: str) -> torch.Tensor:
    """One tensor of a checkpoint by its whole name."""
    found = dict(tensors_under(model, name, dtype, device))
    if "" not in found:
        raise RuntimeError(f"{model} holds no tensor {name}")
    return found[""]


def tensors_under(model: Path, prefix: str, dtype: torch.dtype, device: str) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors whose names begin with ``prefix``, by the rest of their names."""
    files = sorted(model.glob("*.safetensors"))
    if not files:
        raise RuntimeError(f"{model} holds no .safetensors file")
    for file in files:
        with safe_open(file, framework="pt", device=device) as checkpoint:
            for name in checkpoint.keys():  # noqa: SIM118 - not a mapping
                if name.startswith(prefix):
                    yield name.removeprefix(prefix), checkpoint.get_tensor(name).to(dtype)


def _merged_experts(tensors: dict[str, torch.Tensor], module: nn.Module) -> dict[str, torch.Tensor]:
    """Experts one by one, as checkpoints have them → stacked, as transformers 5 computes them."""
    wanted = module.state_dict().keys()
    groups: dict[str, dict[int, dict[str, torch.Tensor]]] = defaultdict(lambda: defaultdict(dict))
    merged: dict[str, torch.Tensor] = {}
    for name, value in tensors.items():
        before, found, after = name.partition(".experts.")
        number, _, matrix = after.partition(".")
        if found and number.isdecimal() and f"{before}.experts.gate_up_proj" in wanted:
            groups[f"{before}.experts"][int(number)][matrix] = value
        else:
            merged[name] = value
    for name, experts in groups.items():
        ordered = [experts[number] for number in sorted(experts)]
        both = [torch.cat((one["gate_proj.weight"], one["up_proj.weight"])) for one in ordered]
        merged[f"{name}.gate_up_proj"] = torch.stack(both)
        merged[f"{name}.down_proj"] = torch.stack([one["down_proj.weight"] for one in ordered])
    return merged
