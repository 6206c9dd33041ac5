"""What the bundled engine asks of vLLM for a Thinker with payload rows, and when it cannot be done.

A model's record says which rows its downstream stage reads::

    payload: {layers: [24], layers_from: talker_config.accept_hidden_layer, embeddings: recomputed}

``layers`` are counted as transformers counts ``hidden_states``: k is the residual stream that enters layer k, so 24
is what layers 0 to 23 have made of the embedding; ``final`` is the output of the final norm. ``layers_from`` is where
the checkpoint's own ``config.json`` says it. Embeddings are never kept: a text token's is a row of the embedding
table, and a multimodal position's comes from the encoder's output. Needs neither vLLM nor torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

ARCHITECTURE_PREFIX = "Payload"
CONFIG_KEY = "payload_rows"
CONNECTOR = "PayloadConnector"
CONNECTOR_MODULE = "omnicfg.engine.gather"
REQUEST_FLAG = "payload"
SHARDS_KEY = "shards"
WEIGHTS_KEY = "payload_weights"
"""Under this name ``additional_config`` says what a model's tensors begin with in a checkpoint of several parts."""


FINAL = "final"


class EngineSpecError(ValueError):
    """Engine args or a record that the bundled engine cannot serve; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why rows cannot be kept; ``setting`` is the engine arg to blame, ``None`` where it is the model."""

    why: str
    setting: str | None = None


@dataclass(frozen=True, slots=True)
class PayloadRows:
    """The rows kept for every token: residual streams ``layers`` (ascending), then the ``final`` hidden state.

    ``measures`` are told of the prompt's media beside them: names, and the fields of the processor that say each.
    """

    layers: tuple[int, ...]
    final: bool
    measures: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)

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
    def from_record(cls, record: Mapping[str, Any], hf_config: Mapping[str, Any]) -> Self:
        """From a model's record, the mapping under ``payload``, and the model's ``config.json``.

        What ``config.json`` says under the record's ``layers_from`` goes over the record's own ``layers``. The last
        of transformers' hidden states is the one behind the final norm, whatever its number.
        """
        listed = record.get("layers", [])
        told = setting(hf_config, record["layers_from"]) if "layers_from" in record else None
        if told is not None:
            listed = told if isinstance(told, list) else [told]
        if not isinstance(listed, list) or any(type(layer) is not int and layer != FINAL for layer in listed):
            where = "config.json: " + record["layers_from"] if told is not None else "payload"
            raise EngineSpecError(f"{where}: layers must be layer numbers or `{FINAL}`, not {in_json(listed)}")
        depth = text_config(hf_config).get("num_hidden_layers")
        layers = [layer for layer in listed if layer not in (FINAL, depth)]
        measures = {name: tuple(fields) for name, fields in record.get("measures", {}).items()}
        return cls(tuple(layers), final=len(layers) < len(listed), measures=measures)

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


def rows_engine_args(
    payload: PayloadRows,
    hf_config: Mapping[str, Any],
    engine_args: Mapping[str, Any],
    *,
    socket: str,
    shards: int | None = None,
    ring_bytes: int | None = None,
    stall_seconds: float | None = None,
) -> dict[str, Any]:
    """The engine args that switch payload rows on, to lay over ``engine_args``.

    ``hf_config`` is the model's ``config.json``, ``socket`` the path at which the engine offers the rows
    (``shards.connect``; with data parallelism, ``socket_path`` gives each replica's). ``shards`` is over how many
    ranks a row is spread: 1, or as :func:`row_shards` says, which is the default. ``ring_bytes`` bounds the rows under
    way of each, ``stall_seconds`` how long a consumer may stand still; the defaults are the connector's.

    Raises :class:`EngineSpecError` with the first of :func:`refusals`.
    """
    for refusal in refusals(engine_args, hf_config, payload):
        raise EngineSpecError(refusal.why)
    overrides = dict(_mapping(engine_args, "hf_overrides"))
    overrides["architectures"] = [payload_architecture(name) for name in _architectures(hf_config, engine_args)]
    extra: dict[str, Any] = {"socket": socket}
    if payload.measures:
        extra["measures"] = {name: list(fields) for name, fields in payload.measures.items()}
    if (replicas := data_parallel_size(engine_args)) > 1:
        extra["replicas"] = replicas
    if ring_bytes is not None:
        extra["ring_bytes"] = ring_bytes
    if stall_seconds is not None:
        extra["stall_seconds"] = stall_seconds
    return {
        "hf_overrides": overrides,
        "additional_config": {
            **_mapping(engine_args, "additional_config"),
            CONFIG_KEY: {**payload.to_config(), SHARDS_KEY: shards or row_shards(hf_config, engine_args)},
        },
        "kv_transfer_config": {
            "kv_connector": CONNECTOR,
            "kv_connector_module_path": CONNECTOR_MODULE,
            "kv_role": "kv_producer",
            "kv_connector_extra_config": extra,
        },
    }


def environment(model_runner: str | None) -> dict[str, str]:
    """The environment variables that select vLLM's model runner: ``v1``, ``v2``, or vLLM's own choice for ``None``."""
    flags = {"v1": "0", "v2": "1"}
    if model_runner is None:
        return {}
    if model_runner not in flags:
        raise EngineSpecError(f"model_runner: {model_runner!r} is neither v1 nor v2")
    return {"VLLM_USE_V2_MODEL_RUNNER": flags[model_runner]}


def socket_path(socket: str, data_parallel_size: int, rank: int) -> str:
    """Where replica ``rank`` of ``data_parallel_size`` offers its rows."""
    return socket if data_parallel_size == 1 else f"{socket}.{rank}"


def shard_path(socket: str, rank: int) -> str:
    """Where tensor-parallel rank ``rank`` offers its part of the rows that rank 0 offers at ``socket``."""
    return socket if rank == 0 else f"{socket}.shard{rank}"


def row_shards(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> int:
    """Over how many tensor-parallel ranks a row is spread, each keeping an equal part of its width.

    Every rank has the whole residual stream, so spreading costs nothing to compute and the cache holds more. It takes
    ranks on one host, where the consumer is; elsewhere, and where the width does not divide, each keeps all rows: 1.
    """
    ranks = size_of(engine_args, "tensor_parallel_size")
    width = text_config(hf_config).get("hidden_size")
    elsewhere = size_of(engine_args, "nnodes") > 1 or engine_args.get("distributed_executor_backend") == "ray"
    return 1 if type(width) is not int or width % ranks or elsewhere else ranks


def data_parallel_size(engine_args: Mapping[str, Any]) -> int:
    """The number of data-parallel replicas that engine args ask for."""
    return size_of(engine_args, "data_parallel_size")


def size_of(engine_args: Mapping[str, Any], name: str, default: int = 1) -> int:
    """An engine arg that counts something; ``default`` where it is not set, or no positive number."""
    value = engine_args.get(name)
    return value if type(value) is int and value > 0 else default


def request_flag(key: str | None = None) -> dict[str, Any]:
    """The ``kv_transfer_params`` of a request whose rows are wanted; ``key`` (at most 256 characters) comes
    back with them, for a consumer that does not know vLLM's request ids.
    """
    return {REQUEST_FLAG: key if key is not None else True}


def refusals(
    engine_args: Mapping[str, Any],
    hf_config: Mapping[str, Any] | None = None,
    payload: PayloadRows | Mapping[str, Any] | None = None,
) -> Iterator[Refusal]:
    """Everything that keeps an engine with these args, and a model with this ``config.json``, from keeping rows.

    ``payload`` are the rows, or the record that tells them. Without a ``config.json`` only the engine args count.

    Rows share the attention layers' block table, so every layer must need a block for every token: vLLM 0.32.0 then
    puts all of them into one group. Anything else gets a group of its own with small blocks, which wastes most of the
    pool.
    """
    yield from _setting_refusals(engine_args)
    if hf_config is not None:
        yield from _model_refusals(hf_config, engine_args)
        if payload is not None:
            yield from _layer_refusals(hf_config, payload)


def text_config(hf_config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The decoder's part of a ``config.json``: nested under ``thinker_config``, ``text_config``,
    ``llm_config``, or all.
    """
    for name in ("thinker_config", "text_config", "llm_config"):
        inner = hf_config.get(name)
        if isinstance(inner, Mapping):
            return text_config(inner)
    return hf_config


def _setting_refusals(engine_args: Mapping[str, Any]) -> Iterator[Refusal]:
    for name, why in _PARALLEL.items():
        if size_of(engine_args, name) > 1:
            yield Refusal(f"{name} > 1: {why}; use tensor or data parallelism", name)
    for name, why in _SWITCHES.items():
        if engine_args.get(name):
            yield Refusal(f"{name}: {why}; leave it out", name)
    for name in _MAPPINGS:
        if not isinstance(engine_args.get(name) or {}, Mapping):
            yield Refusal(f"{name}: must be a mapping where payload rows are kept", name)


def _model_refusals(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> Iterator[Refusal]:
    if not _architectures(hf_config, engine_args):
        yield Refusal("config.json names no architecture, so there is no vLLM class to extend by payload rows")
    config = text_config(hf_config)
    for kind in partial_layers(config, bool(engine_args.get("disable_sliding_window"))):
        remedy = "; set disable_sliding_window, or serve it without rows" if kind == SLIDING else ""
        yield Refusal(f"the model has {kind} layers: {_ELSEWHERE}{remedy}")
    if config.get("kv_lora_rank"):
        yield Refusal("the model uses latent attention (MLA): payload rows beside its cache are not proven")
    if hf_config.get("is_encoder_decoder"):
        yield Refusal("the model is an encoder-decoder: its layers do not share one block table with payload rows")


def partial_layers(config: Mapping[str, Any], sliding_window_disabled: bool) -> Iterator[str]:
    """The kinds of a decoder's layers that do not need a block for every token, by its part of a ``config.json``."""
    others = sorted({str(kind) for kind in _layer_types(config)} - {"full_attention"})
    windowed = bool(config.get("sliding_window")) and config.get("use_sliding_window", True)
    if others == ["sliding_attention"] or (windowed and not others):
        if not sliding_window_disabled:
            yield SLIDING
    elif others:
        yield ", ".join(others)
    if any(key in config for key in _RECURRENT_KEYS):
        yield "Mamba or linear-attention"


def is_recurrent(config: Mapping[str, Any]) -> bool:
    """Whether a decoder, by its part of a ``config.json``, has layers that carry a state from token to token."""
    kinds = {str(kind) for kind in _layer_types(config)}
    return bool(kinds - _ATTENTION) or any(key in config for key in _RECURRENT_KEYS)


def _layer_refusals(hf_config: Mapping[str, Any], payload: PayloadRows | Mapping[str, Any]) -> Iterator[Refusal]:
    try:
        rows = payload if isinstance(payload, PayloadRows) else PayloadRows.from_record(payload, hf_config)
    except EngineSpecError as error:
        yield Refusal(str(error))
        return
    depth = text_config(hf_config).get("num_hidden_layers")
    if type(depth) is int and rows.layers and rows.layers[-1] > depth:
        yield Refusal(f"payload: layer {rows.layers[-1]} of a Thinker with {depth} layers")


_PARALLEL: Final = {
    "decode_context_parallel_size": "a rank holds only some tokens of a block, payload rows need all",
    "prefill_context_parallel_size": "a rank sees only some tokens of a prompt, payload rows need all",
    "pipeline_parallel_size": "an early stage's residual stream does not reach the rank that keeps the rows",
}
_SWITCHES: Final = {
    "enable_dbo": "a step is split into micro-batches, which payload rows do not follow",
    "speculative_config": "draft tokens' rows would be handed out before they are accepted",
    "kv_transfer_config": "payload rows use vLLM's KV connector themselves",
    "kv_offloading_size": "it uses vLLM's KV connector, and payload rows need that",
    "kv_sharing_fast_prefill": "it skips layers of the prompt's tokens, whose rows would be missing",
}
_MAPPINGS: Final = ("hf_overrides", "additional_config")

SLIDING: Final = "sliding-window"
_ELSEWHERE = "vLLM keeps them in another group than payload rows, which wastes most of the KV cache"

_ATTENTION = frozenset({"full_attention", "sliding_attention", "chunked_attention"})
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
    value = args.get(name)
    return value if isinstance(value, Mapping) else {}


def _architectures(hf_config: Mapping[str, Any], engine_args: Mapping[str, Any]) -> list[str]:
    """The names in force, by the override or the ``config.json``; none where they are no list of names."""
    names = _mapping(engine_args, "hf_overrides").get("architectures") or hf_config.get("architectures")
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def setting(config: Mapping[str, Any], dotted_name: str) -> Any:
    """What a ``config.json`` has at a dotted place; ``None`` where it has none."""
    value: Any = config
    for step in dotted_name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def in_json(value: Any) -> str:
    """A value as whoever wrote it has it in a JSON file: ``null``, not ``None``."""
    return json.dumps(value, ensure_ascii=False, default=str)


def _layer_types(config: Mapping[str, Any]) -> list[Any]:
    value = config.get("layer_types")
    return value if isinstance(value, list) else []
