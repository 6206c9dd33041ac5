"""vLLM's model classes, extended on first use: an attribute of a module for every architecture that vLLM knows."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn
from vllm.model_executor.models import ModelRegistry


def extended(module: str, prefix: str, extend: Callable[..., type[nn.Module]]) -> Callable[[str], type[nn.Module]]:
    """The ``__getattr__`` of a module in which ``<prefix>Foo`` is vLLM's ``Foo``, extended."""

    def attribute(name: str) -> type[nn.Module]:
        model = ModelRegistry.models.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if model is None:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return extend(model.load_model_cls())

    return attribute
