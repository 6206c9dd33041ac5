"""Draws overlays: a few changes to a deploy file, most of them sound, some of them not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from .yaml_text import Map, Value

PLATFORMS: Final = ("cuda", "npu", "rocm", "xpu", "musa")

# Scalars by what a stage key may hold, as text. The YAML 1.1 spellings are read otherwise by a YAML 1.2 reader.
INTEGERS: Final = ("1", "2", "8", "16", "64", "256", "1024", "8192", "010", "0x20", "0b101", "1_000", "+4", "-1", "0")
FLOATS: Final = ("0.1", "0.35", "0.5", "0.9", ".25", "1.0", "5.", "1e-1", "1e3", "1.5e-2", "6.02e+2", "-0.0", "1_0.5")
BOOLEANS: Final = ("true", "false", "yes", "no", "on", "off", "True", "FALSE", "Yes", "OFF")
STRINGS: Final = (
    '"0"',
    "'0,1'",
    "auto",
    "bfloat16",
    '"false"',
    '"8"',
    "'yes'",
    "y",
    "n",
    "a b",
    '"tab\\t"',
    "''",
    "'it''s'",
)
NULLS: Final = ("null", "~", "Null", "")
ODD: Final = (
    "12:30:45", "1:30", "190:20:30.15", "2001-01-01", "2001-12-14t21:59:43.10-05:00", ".inf", "-.INF", ".NaN", "0o17",
    "08", "09.5", "1.2.3", "1__0", "_1", "0_7", "1e", "e3", "1e+3", "+.5", "-.5e3", "0x", "0b", "true1", "nil", "=",
    "!!str 5", "!!int '7'", "!!float 3", "!!bool 'yes'", "!!null ''", "? ", "???", "${oc.env:NO_SUCH_VARIABLE,7}",
    "'${oc.env:NO_SUCH_VARIABLE,x}'", "${oc.decode:'3'}", "'\\${kept}'", "12e03", "1_2e3", "0.1_5", "-0", "00", "0777",
    "1:60", "1:59:59", "-1:30", "'2001-01-01'", "1;2", "x%", "a:b", "a#b", "'#'",
)  # fmt: skip

NUMBERS_OF: Final = (
    "max_num_seqs", "max_num_batched_tokens", "max_model_len", "tensor_parallel_size", "silence_ban_frames",
    "hsdp_shard_size", "ulysses_degree", "sequence_parallel_size", "cfg_parallel_size", "num_weight_load_threads",
    "pipeline_parallel_size", "data_parallel_size", "block_size", "seed", "max_num_partial_prefills",
)  # fmt: skip
FRACTIONS_OF: Final = ("gpu_memory_utilization", "mm_processor_cache_gb", "lora_scale", "boundary_ratio", "flow_shift")
SWITCHES_OF: Final = (
    "enforce_eager", "enable_prefix_caching", "enable_chunked_prefill", "trust_remote_code", "async_scheduling",
    "skip_mm_profiling", "enable_expert_parallel", "vae_use_tiling", "use_hsdp", "disable_hybrid_kv_cache_manager",
    "enable_flashinfer_autotune", "skip_tokenizer_init", "made_up_switch",
)  # fmt: skip
WORDS_OF: Final = (
    "dtype", "quantization", "load_format", "tokenizer_mode", "config_format", "model_class_name", "cache_backend",
    "distributed_executor_backend", "kv_cache_dtype", "attention_backend", "model_subdir", "model_arch",
    "scheduler_cls", "worker_type", "engine_output_type", "made_up_word",
)  # fmt: skip
BLOCKS_OF: Final = (
    "compilation_config", "profiler_config", "cache_config", "parallel_config", "additional_config", "hf_overrides",
    "subtalker_sampling_params", "omni_kv_config", "limit_mm_per_prompt", "made_up_block",
)  # fmt: skip
BLOCK_KEYS: Final = (
    "mode",
    "level",
    "a",
    "b",
    "cudagraph_mode",
    "cudagraph_capture_sizes",
    "tensor_parallel_size",
    "nested",
)
SAMPLING_KEYS: Final = (
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "seed",
    "detokenize",
    "stop_token_ids",
    "extra_args",
)

KINDS: Final[Sequence[tuple[Sequence[str], Sequence[str]]]] = (
    (NUMBERS_OF, INTEGERS), (FRACTIONS_OF, FLOATS), (SWITCHES_OF, BOOLEANS), (WORDS_OF, STRINGS), (BLOCKS_OF, ()),
)  # fmt: skip
MODES: Final = (
    ("session_mode", "duplex"), ("session_mode", "turn"), ("session_mode", "duplx"), ("session_mode", "null"),
    ("model_runner", "v1"), ("model_runner", "v2"), ("model_runner", "v2"), ("unknown_key", "1"),
)  # fmt: skip
DUPLEX_SESSIONS: Final = (
    "{max_sessions: 4}", "{max_sessions: 2, idle_ttl_s: null}", "null", "{}", "[]", "{warmup_frames: -1}",
    "{idle_ttl_s: 1.5, disconnect_grace_s: 010}", "{server_vad_model_path: /vad.onnx}",
)  # fmt: skip
WRONG_DUPLEX_SESSIONS: Final = (
    "{max_sessions: 0}", "{idle_ttl_s: -1}", "{max_session: 2}", "{max_sessions: '2'}", "[max_sessions]", "x",
    "{server_vad_model_path: ' '}", "{server_vad_model_path: 5}", "{max_sessions: true}", "{1: 2}",
    "{max_sessions: null}",
)  # fmt: skip
WRONG_TOPS: Final = (
    ("stages", "null"), ("stages", "{}"), ("stages", "x"), ("stages", "[null]"), ("stages", "[[]]"), ("stages", "0"),
    ("stages", "[{max_num_seqs: 1}]"), ("stages", "{stage_id: 0}"), ("platforms", "x"), ("platforms", "[npu]"),
    ("connectors", "x"), ("connectors", "[a]"), ("model_runner", "V2"), ("model_runner", "null"),
    ("model_runner", "2"), ("model_runner", "[v1]"), ("stage_args", "[]"), ("async_chunk", "[]"),
    ("async_chunk", "{a: 1}"), ("active_stream_window", "x"), ("active_stream_window", "[1]"),
    ("active_stream_window", ".inf"), ("session_mode", "[duplex]"), ("7", "2"), ("null", "x"), ("edges", "x"),
    ("dtype", "[a]"),
)  # fmt: skip


class Drawer:
    """Draws the overlays of one case; ``stages`` are the shipped file's resolved stages."""

    def __init__(self, random: Random, stages: Sequence[Mapping[str, Any]], *, wild: bool) -> None:
        self.random = random
        self.stages = stages
        self.wild = wild

    def overlay(self, base: str) -> Map:
        """A document of one to five changes on top of ``base``."""
        document = Map([("base_config", base)])
        sections: list[Callable[[Map], None]] = [self._stages, self._stages, self._platforms, self._top, self._top]
        if self.wild:
            sections += [self._wild_top, self._stages, self._platforms]
        for section in self.random.sample(sections, self.random.randint(1, min(4, len(sections)))):
            section(document)
        if self._chance(0.15):
            document.pairs.reverse()
        return document

    # ------------------------------------------------------------------------------------------------ scalars
    def _chance(self, share: float) -> bool:
        return self.random.random() < share

    def _of(self, texts: Sequence[str]) -> str:
        if self._chance(0.25 if self.wild else 0.04):
            return self.random.choice(ODD)
        if self._chance(0.05):
            return self.random.choice(NULLS[:3])
        return self.random.choice(texts)

    def _any(self) -> str:
        return self._of(self.random.choice((INTEGERS, FLOATS, BOOLEANS, STRINGS)))

    # ------------------------------------------------------------------------------------------------- stages
    def _stages(self, document: Map) -> None:
        entries: list[Value] = [self._stage(self._stage_id()) for _ in range(self.random.choice((1, 1, 1, 2, 2, 3)))]
        self._join(document, "stages", entries)

    def _join(self, document: Map, key: str, entries: list[Value]) -> None:
        """A list twice under one key would be refused as a duplicate: the entries join it."""
        for name, value in document.pairs:
            if name == key and isinstance(value, list):
                value.extend(entries)
                return
        document.add(key, entries)

    def _stage_id(self) -> str:
        if self._chance(0.06):
            return self.random.choice(("7", "99", "'0'", "-1"))
        if self.wild and self._chance(0.1):
            return self.random.choice(("0.0", "1.0", "true", "false", "null", "0x1", "00", "[0]", "x"))
        return str(self.random.choice(self.stages)["stage_id"])

    def _stage(self, stage_id: str) -> Map:
        entry = Map([("stage_id", stage_id)])
        parts: list[Callable[[], tuple[str, Value]]] = [
            self._flat, self._flat, self._flat, self._engine_args, self._engine_extras, self._runtime,
            self._sampling, self._placement, self._placement, self._connectors_of_stage, self._stage_async_chunk,
        ]  # fmt: skip
        if self.wild:
            parts += [self._odd_entry, self._odd_entry]
        for part in self.random.sample(parts, self.random.randint(1, 4)):
            key, value = part()
            if key not in {name for name, _ in entry.pairs}:
                entry.add(key, value)
        if self._chance(0.1):
            self.random.shuffle(entry.pairs)
        return entry

    def _flat(self) -> tuple[str, Value]:
        kind = self.random.randrange(6)
        if kind == 5:
            return self._existing()
        keys, texts = KINDS[kind]
        key = self.random.choice(keys)
        return key, self._of(texts) if texts else self._block()

    def _existing(self) -> tuple[str, Value]:
        """A key that the shipped file's stages already have, with a value of its kind."""
        known = self.random.choice(self.stages)["engine_args"]
        key = self.random.choice(sorted(known))
        old = known[key]
        if key in {"use_v2_model_runner", "supports_native_mrv2_data_plane"} and not self.wild:
            return "enforce_eager", self._of(BOOLEANS)
        if isinstance(old, dict):
            return key, self._block(sorted(old))
        if isinstance(old, bool):
            return key, self._of(BOOLEANS)
        return key, self._of(INTEGERS if isinstance(old, int) else FLOATS if isinstance(old, float) else STRINGS)

    def _block(self, keys: Sequence[str] = ()) -> Value:
        if self._chance(0.06):
            return self.random.choice(("null", "{}", "[]", "auto", "3"))
        names = self.random.sample(sorted({*keys[:4], *BLOCK_KEYS}), self.random.randint(1, 3))
        return Map([(name, self._inside(name)) for name in names])

    def _inside(self, name: str) -> Value:
        if name == "nested":
            return Map([("x", self._any()), ("y", [self._any(), self._any()])])
        if name.endswith("sizes"):
            return [self._of(INTEGERS) for _ in range(self.random.randint(0, 3))]
        return self._any()

    def _some_flat(self, most: int) -> Map:
        pairs = dict(self._flat() for _ in range(self.random.randint(1, most)))
        return Map(list(pairs.items()))

    def _engine_args(self) -> tuple[str, Value]:
        if self.wild and self._chance(0.2):
            return "engine_args", self.random.choice(("null", "{}", "[]", "x", "3"))
        inner = self._some_flat(3)
        if self._chance(0.08):
            key = self.random.choice(("devices", "num_replicas", "stage_id", "env", "async_chunk", "engine_extras"))
            inner.add(key, Map([("z", "1")]) if key in {"env", "engine_extras"} else self.random.choice(("1", "'1'")))
        return "engine_args", inner

    def _engine_extras(self) -> tuple[str, Value]:
        if self._chance(0.08):
            return "engine_extras", self.random.choice(("null", "{}"))
        if self.wild and self._chance(0.2):
            key = self.random.choice(
                ("use_v2_model_runner", "async_chunk", "session_mode", "omni_kv_config", "stage_id")
            )
            return "engine_extras", Map([(key, self.random.choice(("true", "duplex", "{k: 1}", "null")))])
        return "engine_extras", self._some_flat(3)

    def _runtime(self) -> tuple[str, Value]:
        if self._chance(0.07):
            return "runtime", self.random.choice(("{}", "null", "[]") if self.wild else ("{}",))
        inner = Map()
        for key in self.random.sample(("devices", "num_replicas", "env", "process", "max_batch_size"), 2):
            inner.add(key, self._placed(key))
        return "runtime", inner

    def _placement(self) -> tuple[str, Value]:
        key = self.random.choice(("devices", "num_replicas", "env"))
        return key, self._placed(key)

    def _placed(self, key: str) -> Value:
        if key == "env":
            if self._chance(0.15):
                return self.random.choice(("null", "{}", "[]") if self.wild else ("null", "{}"))
            return Map([(name, self._any()) for name in self.random.sample(("A", "B", "HOME_DIR"), 2)])
        if key == "num_replicas":
            sound = ("1", "2", "3", '"2"', "2.9", "true", "010", "1e1", "0")
            return self.random.choice(
                (*sound, "null", "x", "[]", ".inf", "'2.5'", "' 3 '", "'1_0'") if self.wild else sound
            )
        if key == "devices":
            return self.random.choice(('"0"', "'0,1'", "0", "1", "null", "[0, 1]", "1:30", "'cpu'", "012"))
        return self._any()

    def _sampling(self) -> tuple[str, Value]:
        key = self.random.choice(
            ("default_sampling_params",) * 4 + ("default_pooling_params", "subtalker_sampling_params")
        )
        if self._chance(0.12):
            return key, self.random.choice(("null", "{}", "[]", "x", "0") if self.wild else ("null", "{}"))
        return key, Map(
            [(name, self._sampled(name)) for name in self.random.sample(SAMPLING_KEYS, self.random.randint(1, 4))]
        )

    def _sampled(self, name: str) -> Value:
        if name == "extra_args":
            return self._block()
        if name == "stop_token_ids":
            ids: list[Value] = [
                self.random.choice(("2150", "1", "7", "0x10", "2150")) for _ in range(self.random.randint(0, 3))
            ]
            return self.random.choice(
                (ids, ids, ids, "null", "7" if self.wild else "[]", "'12'" if self.wild else "[3]")
            )
        return self._any()

    def _connectors_of_stage(self) -> tuple[str, Value]:
        key = self.random.choice(("output_connectors", "input_connectors"))
        if self._chance(0.2):
            return key, self.random.choice(("null", "{}", "[]", "x") if self.wild else ("null", "{}"))
        side = "to_stage_1" if key == "output_connectors" else "from_stage_0"
        return key, Map(
            [(side, self.random.choice(("connector_of_shared_memory", "undefined", "{name: X, extra: {a: 1}}")))]
        )

    def _stage_async_chunk(self) -> tuple[str, Value]:
        return "async_chunk", self.random.choice(("true", "true", "null", "'false'", "yes", "0", "false", "no"))

    def _odd_entry(self) -> tuple[str, Value]:
        key = self.random.choice(("null", "~", "''", "'a b'", "a.b", "0x", "engine_extras", "<<"))
        if key == "<<":
            return key, self.random.choice(("{max_num_seqs: 3}", "[{enforce_eager: no}, {dtype: half}]", "null", "5"))
        return key, self._any()

    # ---------------------------------------------------------------------------------------------- platforms
    def _platforms(self, document: Map) -> None:
        if any(key == "platforms" for key, _ in document.pairs):
            return
        if self._chance(0.05):
            document.add("platforms", self.random.choice(("null", "{}", "[]")))
            return
        names = self.random.sample((*PLATFORMS, *PLATFORMS, "NPU", "gpu"), self.random.randint(1, 3))
        document.add("platforms", Map([(name, self._platform()) for name in dict.fromkeys(names)]))

    def _platform(self) -> Value:
        if self._chance(0.08):
            return self.random.choice(("null", "{}", "[]", "x") if self.wild else ("null", "{}"))
        platform = Map()
        if self._chance(0.12):
            platform.add("model_runner", self.random.choice(("v1", "v2", "V2", "null") if self.wild else ("v1", "v2")))
        if self._chance(0.1):
            platform.add("async_chunk", "false")
        if self.wild and self._chance(0.15):
            platform.add(
                "stages", self.random.choice(("null", "{}", "[]", "[null]", "[[]]", "[{max_num_seqs: 1}]", "x"))
            )
            return platform
        platform.add("stages", [self._stage(self._stage_id()) for _ in range(self.random.randint(1, 3))])
        return platform

    # ---------------------------------------------------------------------------------------------- top level
    def _top(self, document: Map) -> None:
        key, value = self.random.choice(
            (
                self._switch,
                self._mode,
                self._pipeline_wide,
                self._pipeline_wide,
                self._connectors,
                self._edges,
                self._duplex,
            )
        )()
        if key not in {name for name, _ in document.pairs}:
            document.add(key, value)

    def _switch(self) -> tuple[str, Value]:
        return "async_chunk", self.random.choice(("true", "false", "no", "on", "null", '"false"', "0"))

    def _mode(self) -> tuple[str, Value]:
        window = self.random.choice(("2", "0", '"3"', "1.5", "null", "yes", "010"))
        return self.random.choice((*MODES, ("active_stream_window", window)))

    def _pipeline_wide(self) -> tuple[str, Value]:
        key = self.random.choice(
            ("dtype", "quantization", "enable_prefix_caching", "enable_chunked_prefill", "data_parallel_size",
             "pipeline_parallel_size", "trust_remote_code", "distributed_executor_backend", "custom_voice_dir")
        )  # fmt: skip
        if key in {"dtype", "quantization", "distributed_executor_backend", "custom_voice_dir"}:
            return key, self._block() if self._chance(0.1) else self._of(STRINGS)
        return key, self._of(INTEGERS if key.endswith("size") else BOOLEANS)

    def _connectors(self) -> tuple[str, Value]:
        if self._chance(0.2):
            return "connectors", self.random.choice(("null", "{}", "[]"))
        extra = Map([(name, self._any()) for name in self.random.sample(("codec_chunk_frames", "host", "made_up"), 2)])
        name = self.random.choice(("connector_of_shared_memory", "shm", "new_connector"))
        inner = Map([("extra", extra)])
        if self._chance(0.5):
            inner.add("name", self.random.choice(("SharedMemoryConnector", "NixlConnector", "Unknown")))
        return "connectors", Map([(name, inner)])

    def _edges(self) -> tuple[str, Value]:
        return "edges", self.random.choice(("null", "[]", "[{from: 0, to: 1, window_size: -1}]", "{from: 0}", "[0, 1]"))

    def _duplex(self) -> tuple[str, Value]:
        sound, bad = DUPLEX_SESSIONS, WRONG_DUPLEX_SESSIONS
        return "duplex_session", self.random.choice(sound + bad if self.wild else sound)

    def _wild_top(self, document: Map) -> None:
        key, value = self.random.choice(WRONG_TOPS)
        if key not in {name for name, _ in document.pairs}:
            document.add(key, value)
