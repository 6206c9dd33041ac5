"""vLLM's engine args, as exported from its releases."""

from __future__ import annotations

import pytest

from omnicfg.catalog.vllm_args import (
    DEFAULT_VLLM,
    arg_types,
    config_args,
    config_class,
    engine_args,
    known_engine_args,
    resolved_defaults,
    vllm_versions,
)


def test_versions_from_the_oldest() -> None:
    versions = vllm_versions()
    assert DEFAULT_VLLM in versions
    assert list(versions) == sorted(versions, key=lambda version: [int(part) for part in version.split(".")])


@pytest.mark.parametrize("version", vllm_versions())
def test_every_arg_says_what_it_is(version: str) -> None:
    for name, arg in engine_args(version).items():
        assert {"flags", "type", "nullable", "default", "choices", "help", "group"} <= set(arg), name


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("max_model_len", [8192], ["8k", [1]]),
        ("enforce_eager", [True], ["yes", 1]),
        ("gpu_memory_utilization", [0.9, 1], ["0.9"]),
        ("seed", [0], ["x"]),
        ("served_model_name", ["x", ["x", "y"]], [5]),
    ],
)
def test_the_types_of_args(name: str, values: list[object], wrong: list[object]) -> None:
    kind = arg_types()[name]
    assert [value for value in values if not kind.admits(value)] == []
    assert [value for value in wrong if kind.admits(value)] == []


def test_nested_configs() -> None:
    assert config_args()["compilation_config"] == "CompilationConfig"
    config = config_class("CompilationConfig")
    assert "cudagraph_capture_sizes" in config.types
    assert config.nested["pass_config"] == "PassConfig"


def test_an_unset_prefix_cache_is_on() -> None:
    unset = resolved_defaults()["enable_prefix_caching"]
    assert unset["value"] is True


def test_names() -> None:
    assert known_engine_args() == frozenset(engine_args())
    assert {"model", "max_num_seqs", "enable_prefix_caching"} <= known_engine_args()
