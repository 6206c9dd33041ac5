"""Profiles at random: all of them make sense, so that every one compiles."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import omnicfg
from tests.fuzz.restructure import to_yaml

PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")
PIPELINE = "qwen3_omni_moe"
STAGE_IDS = (0, 1, 2)

Document = dict[str, Any]

_SCALARS = st.one_of(st.booleans(), st.integers(0, 9), st.sampled_from(["", "x", "y z", "8", "true"]), st.just(0.5))
_NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
_BLOCKS = st.dictionaries(
    _NAMES,
    st.one_of(_SCALARS, st.dictionaries(_NAMES, _SCALARS, max_size=3), st.lists(_SCALARS, max_size=2)),
    max_size=3,
)
_ENV = st.dictionaries(st.sampled_from(["A", "B", "C"]), st.integers(0, 9), max_size=3)
_DEVICES = st.sampled_from(["0", "0,1", "2"])

_STAGE = {
    "devices": _DEVICES,
    "num_replicas": st.integers(1, 4),
    "env": _ENV,
    "max_num_seqs": st.integers(1, 64),
    "gpu_memory_utilization": st.sampled_from([0.1, 0.5, 0.9]),
    "enforce_eager": st.booleans(),
    "enable_prefix_caching": st.booleans(),
    "kv_cache_dtype": st.sampled_from(["auto", "fp8"]),
    "compilation_config": _BLOCKS,
    "default_sampling_params": _BLOCKS,
    "engine_extras": _BLOCKS,
    "engine_args": st.fixed_dictionaries({}, optional={"max_num_seqs": st.integers(65, 99), "alpha": _BLOCKS}),
    "runtime": st.fixed_dictionaries(
        {}, optional={"devices": _DEVICES, "env": _ENV, "num_replicas": st.integers(1, 4)}
    ),
    "input_connectors": st.dictionaries(st.just("from_stage_0"), _NAMES, max_size=1),
}
_PLATFORM_STAGE = {key: value for key, value in _STAGE.items() if key not in ("engine_args", "runtime")}
_TOP = {
    "session_mode": st.sampled_from(["turn", "duplex"]),
    "trust_remote_code": st.booleans(),
    "dtype": st.sampled_from(["auto", "bfloat16", None]),
    "quantization": st.sampled_from(["fp8", None]),
    "enable_prefix_caching": st.booleans(),
    "active_stream_window": st.integers(0, 9),
    "duplex_session": st.fixed_dictionaries({}, optional={"max_sessions": st.integers(1, 9)}),
    "edges": st.lists(st.fixed_dictionaries({"from": st.integers(0, 1), "to": st.integers(1, 2)}), max_size=2),
    "connectors": st.dictionaries(
        _NAMES, st.fixed_dictionaries({"name": _NAMES}, optional={"extra": _BLOCKS}), max_size=3
    ),
    "unknown_key": _BLOCKS,
}


@st.composite
def _stages(draw: st.DrawFn, fields: Mapping[str, st.SearchStrategy[Any]]) -> list[Document]:
    ids = draw(st.lists(st.sampled_from(STAGE_IDS), unique=True))
    settings = st.fixed_dictionaries({}, optional=dict(fields))
    return [{"stage_id": stage_id, **draw(settings)} for stage_id in ids]


_PLATFORM = st.fixed_dictionaries({}, optional={"model_runner": st.just("v1"), "stages": _stages(_PLATFORM_STAGE)})
_PLATFORM_BLOCKS = st.dictionaries(st.sampled_from(PLATFORMS), _PLATFORM, max_size=3)


def documents() -> st.SearchStrategy[Document]:
    """A file of a chain: any of the settings of a profile, for any of its stages and platforms."""
    optional = {**_TOP, "stages": _stages(_STAGE), "platforms": _PLATFORM_BLOCKS}
    return st.fixed_dictionaries({}, optional=optional)


def platform_blocks() -> st.SearchStrategy[Document]:
    """What may stand under the name of a platform."""
    return _PLATFORM


def roots() -> st.SearchStrategy[Document]:
    """The file at the bottom of a chain, which says what the chain is about."""
    return documents().map(lambda document: {"pipeline": PIPELINE, "async_chunk": False, **document})


@contextmanager
def written(*chain: Document) -> Iterator[list[Path]]:
    """The documents as files of one folder."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"file{number}.yaml") for number in range(len(chain))]
        for path, document in zip(paths, chain, strict=True):
            path.write_text(to_yaml(document), encoding="utf-8")
        yield paths


def plan_of(profile: Path, platform: str = "cuda", **options: Any) -> dict[str, Any]:
    """A plan as plain data, without the name of its profile."""
    return {**omnicfg.resolve(profile, platform=platform, **options).to_dict(), "profile": None}
