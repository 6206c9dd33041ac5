"""What the bundled engine asks of vLLM for a Thinker with payload rows, and when it cannot be done. Pure.

A model's record says which rows its downstream stage reads::

    payload: {layers: [24], final: false, embeddings: recomputed}

``layers`` are residual streams, counted as transformers counts ``hidden_states``: k is the input of layer k,
so 24 is what layers 0 to 23 have made of the embedding. ``final`` is the output of the final norm. Embeddings
are never kept: a text token's is a row of the embedding table, and a multimodal position's comes from the
encoder's output.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

ARCHITECTURE_PREFIX = "Payload"
CONFIG_KEY = "payload_rows"
CONNECTOR = "PayloadConnector"
CONNECTOR_MODULE = "omnicfg.engine.gather"
REQUEST_FLAG = "payload"


class EngineSpecError(ValueError):
    """Engine args or a record that the bundled engine cannot serve; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class PayloadRows:
    """The rows kept for every token: residual streams ``layers`` (ascending), then the ``final`` hidden
    state.
    """

    layers: tuple[int, ...]
    final: bool

    def __post_init__(self) -> None:
        if not self.layers and not self.final:
            raise EngineSpecError("payload: no rows: name at least one layer, or set final")
        if any(layer < 1 for layer in self.layers):
            raise EngineSpecError("payload: layer 0 is the embedding, which is recomputed from token ids, not kept")
        if list(self.layers) != sorted(set(self.layers)):
            raise EngineSpecError("payload: layers must be ascending, each at most once")

    def __len__(self) -> int:
        return len(self.layers) + self.final

    @property
    def names(self) -> tuple[str, ...]:
        """The rows' names, in the order in which they are kept."""
        return (*(f"layer {layer}" for layer in self.layers), *(("final",) if self.final else ()))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """From a model's record, the mapping under ``payload``."""
        layers, final = record.get("layers", []), record.get("final", False)
        if not isinstance(layers, list) or any(type(layer) is not int for layer in layers):
            raise EngineSpecError("payload: layers must be a list of layer numbers")
        if type(final) is not bool:
            raise EngineSpecError("payload: final must be true or false")
        if record.get("embeddings", "recomputed") != "recomputed":
            raise EngineSpecError("payload: embeddings can only be recomputed; the engine does not keep them")
        return cls(tuple(layers), final)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """From what :meth:`to_config` put into vLLM's ``additional_config``."""
        return cls(tuple(config["layers"]), bool(config["final"]))

    def to_config(self) -> dict[str, Any]:
        """The form that travels in vLLM's ``additional_config``."""
        return {"layers": list(self.layers), "final": self.final}


def payload_architecture(architecture: str) -> str:
    """The name under which the plugin registers ``architecture`` extended by payload rows."""
    return ARCHITECTURE_PREFIX + architecture


def base_architecture(name: str) -> str:
    """The architecture that ``payload_architecture`` gave ``name``."""
    return name.removeprefix(ARCHITECTURE_PREFIX)


def rows_engine_args(
    payload: PayloadRows,
    hf_config: Mapping[str, Any],
    engine_args: Mapping[str, Any],
    *,
    socket: str,
    ring_bytes: int | None = None,
    stall_seconds: float | None = None,
) -> dict[str, Any]:
    """The engine args that switch payload rows on, to lay over ``engine_args``.

    ``hf_config`` is the model's ``config.json``, ``socket`` the path at which the engine offers the rows
    (``transport.RowReceiver``; with data parallelism, ``socket_path`` gives each replica's). ``ring_bytes``
    bounds the rows under way, ``stall_seconds`` how long a consumer may stand still; the defaults are the
    connector's.

    Raises :class:`EngineSpecError` where :func:`unsupported_reason` gives a reason, or where ``engine_args``
    already use what the rows need.
    """
    reason = unsupported_reason(hf_config, engine_args)
    if reason is not None:
        raise EngineSpecError(reason)
    layers = int(text_config(hf_config).get("num_hidden_layers", 0))
    if payload.layers and layers and payload.layers[-1] > layers:
        raise EngineSpecError(f"payload: layer {payload.layers[-1]} of a Thinker with {layers} layers")
    overrides = dict(_mapping(engine_args, "hf_overrides"))
    architectures: list[str] = overrides.get("architectures") or hf_config["architectures"]
    overrides["architectures"] = [payload_architecture(name) for name in architectures]
    extra: dict[str, Any] = {"socket": socket}
    if ring_bytes is not None:
        extra["ring_bytes"] = ring_bytes
    if stall_seconds is not None:
        extra["stall_seconds"] = stall_seconds
    return {
        "hf_overrides": overrides,
        "additional_config": {**_mapping(engine_args, "additional_config"), CONFIG_KEY: payload.to_config()},
        "kv_transfer_config": {
            "kv_connector": CONNECTOR,
            "kv_connector_module_path": CONNECTOR_MODULE,
            "kv_role": "kv_producer",
            "kv_connector_extra_config": extra,
        },
    }


def environment(model_runner: str | None) -> dict[str, str]:
    """The environment variables that select vLLM's model runner: ``v1``, ``v2``, or vLLM's own choice for
    ``None``.
    """
    flags = {"v1": "0", "v2": "1"}
    if model_runner is None:
        return {}
    if model_runner not in flags:
        raise EngineSpecError(f"model_runner: {model_runner!r} is neither v1 nor v2")
    return {"VLLM_USE_V2_MODEL_RUNNER": flags[model_runner]}


def socket_path(socket: str, data_parallel_size: int, rank: int) -> str:
    """Where replica ``rank`` of ``data_parallel_size`` offers its rows."""
    return socket if data_parallel_size == 1 else f"{socket}.{rank}"


def request_flag(key: str | None = None) -> dict[str, Any]:
    """The ``kv_transfer_params`` of a request whose rows are wanted; ``key`` (at most 256 characters) comes
    back with them, for a consumer that does not know vLLM's request ids.
    """
    return {REQUEST_FLAG: key if key is not None else True}


def unsupported_reason(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> str | None:
    """Why a model with this ``config.json`` and these engine args cannot keep payload rows; ``None`` if it
    can.

    Rows share the attention layers' block table, so every layer must need a block for every token: vLLM
    0.32.0 then puts all of them into one group. Anything else gets a group of its own with small blocks,
    which wastes most of the pool.
    """
    for reason in _reasons(hf_config, engine_args):
        return reason
    return None


def text_config(hf_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The decoder's part of a ``config.json``: nested under ``thinker_config``, ``text_config``,
    ``llm_config``, or all.
    """
    for name in ("thinker_config", "text_config", "llm_config"):
        inner = hf_config.get(name)
        if isinstance(inner, Mapping):
            return text_config(inner)
    return hf_config


def _reasons(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> Iterable[str]:
    config = text_config(hf_config)
    if not hf_config.get("architectures") and "architectures" not in _mapping(engine_args, "hf_overrides"):
        yield "config.json names no architecture, so there is no vLLM class to extend by payload rows"
    yield from _model_reasons(config, bool(engine_args.get("disable_sliding_window")))
    if hf_config.get("is_encoder_decoder"):
        yield "the model is an encoder-decoder: its layers do not share one block table with payload rows"
    yield from _parallel_reasons(engine_args)
    if engine_args.get("speculative_config"):
        yield "speculative_config: draft tokens' rows would be handed out before they are accepted; leave it out"
    if engine_args.get("kv_transfer_config"):
        yield "kv_transfer_config: payload rows use vLLM's KV connector themselves; leave it out"
    if engine_args.get("kv_offloading_size"):
        yield "kv_offloading_size: it uses vLLM's KV connector, and payload rows need that; leave it out"
    if engine_args.get("kv_sharing_fast_prefill"):
        yield "kv_sharing_fast_prefill: it skips layers of the prompt's tokens, whose rows would be missing"


def _model_reasons(config: Mapping[str, Any], sliding_window_disabled: bool) -> Iterable[str]:
    others = sorted({str(kind) for kind in _sequence(config, "layer_types")} - {"full_attention"})
    windowed = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
    if set(others) == {"sliding_attention"} or (windowed and not others):
        if not sliding_window_disabled:
            yield (
                f"the model has sliding-window layers: {_ELSEWHERE}; set disable_sliding_window, or serve it "
                "without rows"
            )
    elif others:
        yield f"the model has {', '.join(others)} layers: {_ELSEWHERE}"
    if any(key in config for key in _RECURRENT_KEYS):
        yield f"the model has Mamba or linear-attention layers: {_ELSEWHERE}"
    if config.get("kv_lora_rank"):
        yield "the model uses latent attention (MLA): payload rows beside its cache are not proven"


def _parallel_reasons(engine_args: Mapping[str, Any]) -> Iterable[str]:
    reasons = {
        "decode_context_parallel_size": "a rank holds only some tokens of a block, payload rows need all",
        "prefill_context_parallel_size": "a rank sees only some tokens of a prompt, payload rows need all",
        "pipeline_parallel_size": "an early stage's residual stream does not reach the rank that keeps the rows",
    }
    for name, why in reasons.items():
        if int(engine_args.get(name) or 1) > 1:
            yield f"{name} > 1: {why}; use tensor or data parallelism"
    if engine_args.get("enable_dbo"):
        yield "enable_dbo: a step is split into micro-batches, which payload rows do not follow; leave it out"


_ELSEWHERE = "vLLM keeps them in another group than payload rows, which wastes most of the KV cache"

_RECURRENT_KEYS = (
    "attn_layer_period",
    "full_attention_interval",
    "hybrid_override_pattern",
    "layers_block_type",
    "linear_num_key_heads",
    "mamba_d_state",
    "ssm_cfg",
    "state_size",
)


def _mapping(args: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = args.get(name) or {}
    if not isinstance(value, Mapping):
        raise EngineSpecError(f"{name}: must be a mapping where payload rows are kept")
    return value


def _sequence(config: Mapping[str, Any], name: str) -> list[Any]:
    value = config.get(name)
    return value if isinstance(value, list) else []
