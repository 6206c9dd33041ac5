"""Which devices the replicas of a stage take, as vllm-omni splits them."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.resources.placement import (
    devices_per_replica,
    first_devices,
    is_device_number,
    named_devices,
    placement_of,
)
from tests.conftest import WriteProfile


@pytest.fixture
def replicas(profile_file: WriteProfile) -> object:
    """The devices of each replica of a stage with these settings."""

    def placed(settings: str, pipeline: str = "qwen3_tts") -> tuple[tuple[int, ...], ...] | str:
        text = f"pipeline: {pipeline}\nasync_chunk: false\nstages: [{{stage_id: 0, {settings}}}]\n"
        stage = omnicfg.resolve(profile_file(text)).stage(0)
        assert stage is not None
        placement = placement_of(stage)
        return "nowhere" if placement is None else placement.replicas or "unfit"

    return placed


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # one replica
        ("devices: '0'", ((0,),)),
        ("devices: '3'", ((3,),)),
        ("devices: '2,5', tensor_parallel_size: 2", ((2, 5),)),
        ("devices: '0,1,2,3', tensor_parallel_size: 2, pipeline_parallel_size: 2", ((0, 1, 2, 3),)),
        ("devices: '0,1', data_parallel_size: 2", ((0, 1),)),
        ("devices: '0', data_parallel_size: 4, data_parallel_size_local: 1", ((0,),)),
        ("devices: '0', tensor_parallel_size: 2", "unfit"),
        ("devices: '0,1'", "unfit"),
        # vLLM has a process for each rank of prefill context parallelism (`ParallelConfig.world_size`)
        ("devices: '0,1', prefill_context_parallel_size: 2", ((0, 1),)),
        ("devices: '0,1,2,3', prefill_context_parallel_size: 2, tensor_parallel_size: 2", ((0, 1, 2, 3),)),
        ("devices: '0,1', parallel_config: {prefill_context_parallel_size: 2}", ((0, 1),)),
        ("devices: '0', prefill_context_parallel_size: 2", "unfit"),
        ("devices: '0', prefill_context_parallel_size: 0", "nowhere"),
        # ranks of decode context parallelism are those of tensor parallelism
        ("devices: '0,1', decode_context_parallel_size: 2, tensor_parallel_size: 2", ((0, 1),)),
        # the whole pool
        ("devices: '4,5,6,7', num_replicas: 4", ((4,), (5,), (6,), (7,))),
        ("devices: '0,2,4,6', num_replicas: 2, tensor_parallel_size: 2", ((0, 2), (4, 6))),
        # the template of one replica
        ("devices: '0', num_replicas: 3", ((0,), (1,), (2,))),
        ("devices: '1,0', num_replicas: 2, tensor_parallel_size: 2", ((1, 0), (3, 2))),
        ("devices: '1', num_replicas: 2", "unfit"),
        ("devices: '0,1,2', num_replicas: 2", "unfit"),
        # vLLM-Omni divides a list without these ranks, and then wants a device for each
        ("devices: '0,1,2,3', num_replicas: 2, prefill_context_parallel_size: 2", "unfit"),
        ("devices: '0,1', num_replicas: 2, prefill_context_parallel_size: 2", "unfit"),
        ("devices: '0,1', num_replicas: 2, prefill_context_parallel_size: 1", ((0,), (1,))),
        # nothing to place
        ("devices: null", "nowhere"),
        ("devices: 0", "nowhere"),
        ("devices: ''", "nowhere"),
        ("devices: '0,x'", "nowhere"),
        ("devices: '0', num_replicas: 0", "nowhere"),
        ("devices: '0', num_replicas: 1000000", "nowhere"),
        ("devices: '0', tensor_parallel_size: 0", "nowhere"),
        ("devices: '0', tensor_parallel_size: two", "nowhere"),
        ("devices: '0', tensor_parallel_size: true", "nowhere"),
    ],
)
def test_the_devices_of_each_replica(replicas: object, settings: str, expected: object) -> None:
    assert callable(replicas)
    assert replicas(settings) == expected


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ("devices: '0'", ((0,),)),
        ("devices: '0,1'", "unfit"),
        ("devices: '0,1,2,3', ulysses_degree: 2, ring_degree: 2", ((0, 1, 2, 3),)),
        ("devices: '0,1', allgather_degree: 2", ((0, 1),)),
        ("devices: '0,1,2,3', cfg_parallel_size: 2, parallel_config: {tensor_parallel_size: 2}", ((0, 1, 2, 3),)),
        ("devices: '0,1,2,3', parallel_config: {ulysses_degree: 2}, num_replicas: 2", ((0, 1), (2, 3))),
        ("devices: '0,1,2,3', sequence_parallel_size: 4", "unfit"),
        ("devices: '0', prefill_context_parallel_size: 2", ((0,),)),
        ("devices: '0,1', use_hsdp: true, hsdp_shard_size: 2", ((0, 1),)),
        ("devices: '0,1', use_hsdp: true, ulysses_degree: 2", ((0, 1),)),
        ("devices: '0', use_hsdp: true", "nowhere"),
        ("devices: '0', ulysses_degree: 0", "nowhere"),
        ("devices: '0', cfg_parallel_size: two", "nowhere"),
    ],
)
def test_the_devices_of_a_diffusion_stage(replicas: object, settings: str, expected: object) -> None:
    assert callable(replicas)
    assert replicas(settings, "dreamzero") == expected


def test_parallel_config_goes_over_the_stages_own_size(replicas: object) -> None:
    assert callable(replicas)
    nested = "tensor_parallel_size: 4, parallel_config: {tensor_parallel_size: 2}"
    assert replicas(f"devices: '0,1', {nested}") == ((0, 1),)
    assert replicas("devices: '0,1', tensor_parallel_size: 2, parallel_config: {tensor_parallel_size: null}") == (
        (0, 1),
    )


@pytest.mark.parametrize(
    ("word", "is_number"),
    [
        ("0", True),
        ("15", True),
        ("999999", True),
        ("1000000", False),
        ("", False),
        ("-1", False),
        ("1.0", False),
        ("\u0663", False),
    ],
)
def test_device_numbers(word: str, is_number: bool) -> None:
    assert is_device_number(word) is is_number


@pytest.mark.parametrize(
    ("settings", "named", "first"),
    [
        ("devices: '3,5', tensor_parallel_size: 2", (3, 5), (3, 5)),
        ("devices: '4,5', num_replicas: 2", (4,), (4,)),
        ("max_num_seqs: 4", (), (0,)),  # CUDA's own choice
        ("tensor_parallel_size: 2", (), (0, 1)),
        ("prefill_context_parallel_size: 2", (), (0, 1)),
        ("devices: '0,1'", (), ()),
        ("devices: '0,x'", (), ()),
        ("tensor_parallel_size: 0", (), ()),
    ],
)
def test_the_devices_of_the_first_replica(
    profile_file: WriteProfile, settings: str, named: tuple[int, ...], first: tuple[int, ...]
) -> None:
    text = f"pipeline: qwen3_tts\nasync_chunk: false\nstages: [{{stage_id: 0, {settings}}}]\n"
    stage = omnicfg.resolve(profile_file(text)).stage(0)
    assert stage is not None
    assert (named_devices(stage), first_devices(stage)) == (named, first)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sizes",
    [
        {"prefill_context_parallel_size": 2},
        {"prefill_context_parallel_size": 3, "tensor_parallel_size": 2, "pipeline_parallel_size": 2},
        {"decode_context_parallel_size": 2, "tensor_parallel_size": 2},
        {"tensor_parallel_size": 2, "data_parallel_size": 2},
    ],
)
def test_a_replica_has_a_device_for_each_of_vllms_processes(profile_file: WriteProfile, sizes: dict[str, int]) -> None:
    config = pytest.importorskip("vllm.config", reason="comes with the extra cpu or cuda")
    settings = ", ".join(f"{name}: {size}" for name, size in sizes.items())
    text = f"pipeline: qwen3_tts\nasync_chunk: false\nstages: [{{stage_id: 0, {settings}}}]\n"
    stage = omnicfg.resolve(profile_file(text)).stage(0)
    assert stage is not None
    theirs = config.ParallelConfig(**sizes, distributed_executor_backend="mp")
    assert devices_per_replica(stage) == theirs.world_size_across_dp
