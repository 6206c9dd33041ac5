"""A simulated replica against vLLM's own scheduler: in every step the same requests, and of each as many tokens."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from omnicfg.bench.simulation.blocks import Naming
from omnicfg.bench.simulation.replica import WORK, Job, Limits, Replica, Speed
from omnicfg.bench.simulation.trace import Call, Part
from omnicfg.models import materialize
from omnicfg.serve.machine import installed_vllm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]

Step = dict[int, int]
"""How many tokens a step computes of each request, by its number."""


class Simulated(Replica):
    """A replica that says what a step computes."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, Speed((1.0,) * len(WORK)))
        self.naming = Naming(limits.block_tokens)
        self.jobs: list[Job] = []
        self.computed: Step = {}

    def add(self, call: Call) -> None:
        self.jobs.append(Job(call, self.naming.of(call), call.prompt_tokens, 0.0))
        self.waiting.append(self.jobs[-1])

    def step(self) -> Step:
        self.computed = {}
        self.begin()
        self.end(0.0)
        return self.computed

    def _compute(self, job: Job, new: int, told: list[float]) -> None:
        self.computed[self.jobs.index(job)] = new
        super()._compute(job, new, told)


class Vllm:
    """vLLM's scheduler without a model: what it decides is answered with the tokens that the calls name."""

    def __init__(self, limits: Limits) -> None:
        import torch
        from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        block = limits.block_tokens
        model = ModelConfig(
            model=str(materialize("builtin:tiny-thinker")),
            skip_tokenizer_init=True,
            dtype="float32",
            max_model_len=1024,
        )
        scheduler = SchedulerConfig(
            max_num_seqs=limits.requests,
            max_num_batched_tokens=limits.step_tokens,
            max_model_len=1024,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            async_scheduling=False,
        )
        cache = CacheConfig(block_size=block, enable_prefix_caching=True)
        config = VllmConfig(model_config=model, scheduler_config=scheduler, cache_config=cache)
        cache.num_gpu_blocks = limits.blocks
        layer = FullAttentionSpec(block_size=block, num_kv_heads=1, head_size=1, dtype=torch.float32)
        groups = KVCacheConfig(
            num_blocks=limits.blocks, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer"], layer)]
        )
        init_none_hash(sha256)
        self._hasher = get_request_block_hasher(block, sha256)
        self._scheduler = Scheduler(
            vllm_config=config,
            kv_cache_config=groups,
            structured_output_manager=StructuredOutputManager(config),
            block_size=block,
            hash_block_size=block,
            log_stats=True,
        )
        self.requests: list[Any] = []
        self._answers: list[list[int]] = []

    def add(self, call: Call) -> None:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        number = len(self.requests)
        prompt = [token for part in call.prompt for token in tokens(part, number)]
        asked = SamplingParams(max_tokens=call.output_tokens, ignore_eos=True)
        self.requests.append(Request(str(number), prompt, asked, None, block_hasher=self._hasher))
        self._answers.append(tokens(Part(call.output_tokens, call.answer), number))
        self._scheduler.add_request(self.requests[-1])

    def step(self) -> Step:
        from vllm.v1.outputs import ModelRunnerOutput

        planned = self._scheduler.schedule()
        computed = planned.num_scheduled_tokens
        sampled = [self._sampled(int(name)) for name in computed]
        runner = ModelRunnerOutput(list(computed), {name: place for place, name in enumerate(computed)}, sampled)
        self._scheduler.update_from_output(planned, runner)
        return {int(name): count for name, count in computed.items()}

    def _sampled(self, number: int) -> list[int]:
        request = self.requests[number]
        if request.num_computed_tokens < request.num_tokens:
            return []
        return [self._answers[number][request.num_output_tokens]]


def tokens(part: Part, number: int) -> list[int]:
    """A part's tokens: the beginning of what its name stands for."""
    source = random.Random(part.name or f"own of {number}")
    return [source.getrandbits(48) for _ in range(part.tokens)]


def calls(source: random.Random, count: int) -> Iterator[Call]:
    """Requests that share beginnings of all lengths; some go on from the prompt and the answer of an earlier one."""
    earlier: list[Call] = []
    for number in range(count):
        if earlier and source.random() < 0.3:
            before = source.choice(earlier)
            shared = before.parts
        else:
            shared = tuple(Part(source.randint(1, 120), f"p{source.randrange(4)}.{place}") for place in range(2))
        call = Call(0.0, (*shared, Part(source.randint(1, 60), f"q{number}")), source.randint(1, 40), f"a{number}")
        if call.prompt_tokens < 300:
            earlier.append(call)
        yield call


LIMITS = {
    "roomy": Limits(block_tokens=16, blocks=400, requests=8, step_tokens=256),
    "evicting": Limits(block_tokens=16, blocks=60, requests=8, step_tokens=128),
    "preempting": Limits(block_tokens=16, blocks=42, requests=8, step_tokens=512),
    "narrow": Limits(block_tokens=32, blocks=24, requests=3, step_tokens=64),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LIMITS)
def test_every_step_is_vllms(name: str, seed: int) -> None:
    source = random.Random(f"{name} {seed}")
    waiting = list(calls(source, 200))
    ours, theirs = Simulated(LIMITS[name]), Vllm(LIMITS[name])
    steps = 0
    while waiting or ours.in_flight:
        for _ in range(source.randrange(4) if ours.in_flight else 1):
            if waiting:
                call = waiting.pop(0)
                ours.add(call)
                theirs.add(call)
        expected = theirs.step()
        assert ours.step() == expected, f"step {steps}"
        steps += 1
    assert steps > 200
    assert [job.answered for job in ours.jobs] == [request.num_output_tokens for request in theirs.requests]
    assert sum(job.hit_tokens or 0 for job in ours.jobs) > 1000
    if name != "roomy":
        assert ours.pool.evicted > 50
    if name == "preempting":
        assert ours.preemptions > 3
