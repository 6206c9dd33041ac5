"""What a model contributes: its own vLLM class, extended by payload rows. No model is named here.

Any vLLM class whose decoder can hand out the residual stream between its layers (``EagleModelMixin``, which
vLLM uses for EAGLE-3) can be extended. ``PayloadFoo`` is an attribute of this module for every architecture
``Foo`` that vLLM knows; it is made on first use. Which rows it keeps comes from ``additional_config`` (which
is part of vLLM's compile hash) under the name ``spec.CONFIG_KEY``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import nn
from vllm.config import VllmConfig
from vllm.distributed.kv_transfer import kv_transfer_state
from vllm.model_executor.models.interfaces import EagleModelMixin, SupportsEagle3
from vllm.model_executor.models.utils import maybe_prefix
from vllm.sequence import IntermediateTensors

from omnicfg.engine.architectures import extended
from omnicfg.engine.paged_rows import PagedRows
from omnicfg.engine.spec import ARCHITECTURE_PREFIX, CONFIG_KEY, SHARDS_KEY, WEIGHTS_KEY, PayloadRows

LAYER_NAME = "payload_rows"


class KeepsPayloadRows:
    """Mixin in front of a vLLM model class: keeps the rows of every token that the model reads."""

    payload_rows: PagedRows
    _payload: PayloadRows
    _weights: str

    def __init__(self, *, vllm_config: VllmConfig, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)  # type: ignore[call-arg]
        self._keep_rows(vllm_config, prefix)

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor | IntermediateTensors:
        """The model's own ``forward``; its inner part is what gets compiled, the rows are written outside of it."""
        with _without_layers_hooks():
            output = super().forward(*args, **kwargs)  # type: ignore[misc]
        hidden, between = output if isinstance(output, tuple) else (output, [])
        self.payload_rows.write([*between, hidden] if self._payload.final else between)
        return hidden

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> Any:
        """The model's own ``load_weights``. Of a checkpoint that holds several models it sees its own tensors only."""
        if self._weights:
            weights = (
                (name.removeprefix(self._weights), tensor)
                for name, tensor in weights
                if name.startswith(self._weights) and hasattr(self, name.removeprefix(self._weights).split(".")[0])
            )
        return super().load_weights(weights)  # type: ignore[misc]

    def _keep_rows(self, vllm_config: VllmConfig, prefix: str) -> None:
        asked = vllm_config.additional_config[CONFIG_KEY]
        payload = PayloadRows.from_config(asked)
        text_config = vllm_config.model_config.hf_config.get_text_config()
        layers = text_config.num_hidden_layers
        if payload.layers and payload.layers[-1] > layers:
            raise ValueError(f"payload row {payload.layers[-1]}: the Thinker has {layers} layers")
        if payload.layers:
            SupportsEagle3.set_aux_hidden_state_layers(_decoder_owner(self), payload.layers)
        # vLLM reads one integer, the layer's index, out of a layer's name.
        name = maybe_prefix(prefix, f"{LAYER_NAME}.{layers}")
        self._payload = payload
        self._weights = vllm_config.additional_config.get(WEIGHTS_KEY, "")
        self.payload_rows = PagedRows(len(payload), text_config.hidden_size, asked.get(SHARDS_KEY, 1), name)


@contextmanager
def _without_layers_hooks() -> Iterator[None]:
    """No attention layer sees a KV connector, as vLLM's ``set_disabled`` has it (``v1/worker/gpu/kv_connector.py``).

    Ours does nothing layer by layer, and in a step that no CUDA graph replays every layer would ask for it.
    """
    connector, kv_transfer_state._KV_CONNECTOR_AGENT = kv_transfer_state._KV_CONNECTOR_AGENT, None
    try:
        yield
    finally:
        kv_transfer_state._KV_CONNECTOR_AGENT = connector


@cache
def with_payload_rows(base: type[nn.Module]) -> type[nn.Module]:
    """``base``, extended by payload rows."""
    members: dict[str, Any] = {"__module__": __name__, "__doc__": f"{base.__name__} with payload rows."}
    if any("__new__" in vars(parent) for parent in base.__mro__ if parent is not object):
        members["__new__"] = _new
    return type(ARCHITECTURE_PREFIX + base.__name__, (KeepsPayloadRows, base), members)


__getattr__ = extended(__name__, ARCHITECTURE_PREFIX, with_payload_rows)


def _new(cls: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
    """``__new__`` of an extended class whose base has one: some pick another class by the model's version and
    build it.
    """
    base = cls.__mro__[cls.__mro__.index(KeepsPayloadRows) + 1]
    model: nn.Module = base.__new__(cls, *args, **kwargs)
    if isinstance(model, cls):
        return model  # Python calls __init__
    model.__class__ = with_payload_rows(type(model))  # type: ignore[arg-type]
    model._keep_rows(kwargs["vllm_config"], kwargs.get("prefix", ""))
    return model


def _decoder_owner(model: Any) -> Any:
    """``model``, checked to have a decoder that hands out the residual stream between its layers."""
    language = model.get_language_model() if hasattr(model, "get_language_model") else model
    language = getattr(model, "language_model", language)
    if not isinstance(getattr(language, "model", language), EagleModelMixin):
        raise ValueError(
            f"{type(model).__name__} cannot keep payload rows: its decoder does not hand out the "
            "residual stream between layers (vLLM's EagleModelMixin)"
        )
    return model
