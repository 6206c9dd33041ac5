"""Part two, on a GPU: what payload rows cost at the dimensions of Qwen3-Omni-30B-A3B's Thinker, through the OpenAI
server.

    python -m benchmarks.engine.cost OUT PAIR [--load NAME] [--blocks N] [--runner v1] [--repetitions 3] [--seconds 570]

Arms: ``off`` plain vLLM with its prefix cache off, ``plain`` with it on, ``rows`` ours with every request's rows
delivered to a consumer process, ``text`` ours without anybody asking for rows. A PAIR is two servers that share one
GPU, each with its own half of the memory and the same KV cache, so that arms alternate within seconds and without a
restart: ``off`` (off against rows and text) or ``plain`` (plain against rows and text). Only one of the two works at a
time. Weights are dummies. Prompts are random token ids, the same for every arm of a repetition, and the prefix cache is
emptied before every measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.engine.servers import Server
from benchmarks.engine.support import Budget, Results, engine_environment
from omnicfg.bench.consumer import Consumer
from omnicfg.engine.memory import estimate
from omnicfg.engine.spec import PayloadRows, request_flag, rows_engine_args

LAYER_24 = PayloadRows((24,), final=False)
VOCABULARY = 152_064
THINKER = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 65536,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1_000_000.0,
    "tie_word_embeddings": False,
    "dtype": "bfloat16",
    "hidden_act": "silu",
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
MEMORY, KV_BYTES = 0.47, int(7.4 * 2**30)
ON, OFF = ["--enable-prefix-caching"], ["--no-enable-prefix-caching"]
COMMON = ["--served-model-name", "thinker", "--max-model-len", "8192", "--disable-uvicorn-access-log"]
GPU = ["--load-format", "dummy", "--max-num-seqs", "64", "--max-num-batched-tokens", "8192"]


@dataclass(frozen=True)
class Load:
    """``prompts`` requests, ``concurrency`` at a time: ``shared`` tokens of common prefix, ``own`` ones, ``answer``."""

    name: str
    shared: int
    own: int
    answer: int
    prompts: int
    concurrency: int = 64

    def tiny(self) -> Load:
        """The same shape for two CPU cores."""
        return Load(self.name, self.shared // 16, self.own // 16, min(self.answer, 12), 12, 4)

    def bodies(self, seed: str, arm: str, vocabulary: int) -> list[bytes]:
        """The requests' bodies; the first is the warm-up that fills the prefix cache."""
        source = random.Random(f"{self.name} {seed}")
        shared = _tokens(source, self.shared, vocabulary)
        bodies = []
        for index in range(self.prompts + 1):
            prompt = [*shared, *_tokens(source, self.own, vocabulary)]
            body = {"prompt": prompt, "max_tokens": self.answer, "ignore_eos": True, "temperature": 0}
            if arm == "rows":
                body["kv_transfer_params"] = request_flag(str(index))
            bodies.append(json.dumps({"model": "thinker", **body}).encode())
        return bodies


_BY_CPU = [  # the CPU is what takes the time
    Load("P1024_h0_c1", 0, 1024, 8, 64, 1),
    Load("P4096_h0_c1", 0, 4096, 8, 32, 1),
    Load("DEC100_c32", 0, 100, 100, 128, 32),
]
LOADS = {
    "off": [
        Load("P1024_h0_c64", 0, 1024, 8, 512),
        Load("P4096_h0_c64", 0, 4096, 8, 128),
        Load("DEC100_c64", 0, 100, 100, 256),
        *_BY_CPU,
    ],
    "plain": [
        Load("P4096_h94_c64", 3856, 240, 8, 768),
        Load("P1024_h0_c64", 0, 1024, 8, 512),
        Load("DEC100_c64", 0, 100, 100, 256),
        *_BY_CPU,
    ],
}


def main() -> int:
    """Measure what is not there yet while time lasts, then print the table."""
    parser = argparse.ArgumentParser(description="Measure what payload rows cost.")
    parser.add_argument("out", type=Path)
    parser.add_argument("pair", choices=sorted(LOADS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=570.0, help="time for this call")
    parser.add_argument("--load", action="append", help="only these loads")
    parser.add_argument(
        "--blocks", type=int, help="KV blocks of either server: takes the rows' capacity out of the ratios"
    )
    parser.add_argument("--runner", choices=sorted(_RUNNERS), default="v2", help="vLLM's model runner")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: to try the script out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results, budget = Results(options.out), Budget(options.seconds)
    bench = Bench(options.pair, results, budget, options.tiny, options.load, options.blocks, options.runner)
    try:
        bench.run(options.repetitions)
    finally:
        print(bench.table(), flush=True)
    return 0


class Bench:
    """A pair of servers and the measurements on them."""

    def __init__(
        self,
        pair: str,
        results: Results,
        budget: Budget,
        tiny: bool,
        loads: list[str] | None,
        blocks: int | None,
        runner: str,
    ) -> None:
        self._runner = runner
        self._pair, self.results, self._budget, self._tiny, self._blocks = pair, results, budget, tiny, blocks
        chosen = [load for load in LOADS[pair] if loads is None or load.name in loads]
        self._loads = [load.tiny() if tiny else load for load in chosen]
        self._arms = [pair, "rows", "text"]
        self._socket = results.folder / f"rows-{pair}.sock"
        self._vocabulary = VOCABULARY

    def run(self, repetitions: int) -> None:
        """Start both servers, warm them up, then go through the arms in turn, load by load."""
        environment = server_environment(self.results.folder) | {"VLLM_USE_V2_MODEL_RUNNER": _RUNNERS[self._runner]}
        folder = self.results.folder
        arguments, hf_config = self._model_arguments()
        cache = OFF if self._pair == "off" else ON
        port = 8101 + 10 * sorted(LOADS).index(self._pair)
        flags = rows_flags(_payload(self._tiny), hf_config, self._socket)
        with Server(self._pair, [*arguments, *cache], port, folder / f"{self._pair}.log", environment) as plain:
            ours_arguments = [*arguments, *ON, *flags]
            with Server("ours", ours_arguments, port + 1, folder / f"ours-{self._pair}.log", environment) as ours:
                starts = {self._pair: plain.wait_ready(400), "ours": ours.wait_ready(400)}
                print("seconds to start:", {name: round(seconds) for name, seconds in starts.items()}, flush=True)
                with Consumer(self._socket) as consumer:
                    self._repeat(repetitions, plain, ours, consumer)
                self._state(plain, ours, starts)

    def _repeat(self, repetitions: int, plain: Server, ours: Server, consumer: Consumer) -> None:
        for load in self._loads:
            for arm in self._arms:
                self._measure(load, arm, "warm-up", ours if arm in ("rows", "text") else plain, consumer)
        self._resident(plain, ours)
        for repetition in range(repetitions):
            for load in self._loads:
                order = self._arms if repetition % 2 == 0 else self._arms[::-1]
                for arm in order:
                    name = self._name(load, arm, repetition)
                    if self.results.done(name):
                        continue
                    if self._budget.left < 30:
                        print("no time left: run the same command again", flush=True)
                        return
                    server = ours if arm in ("rows", "text") else plain
                    result = self._measure(load, arm, str(repetition), server, consumer)
                    self.results.write(name, result)
                    print(name, result, flush=True)

    def _measure(self, load: Load, arm: str, seed: str, server: Server, consumer: Consumer) -> dict[str, Any]:
        first, *bodies = load.bodies(seed, arm, self._vocabulary)
        if seed == "warm-up":
            bodies = bodies[: 3 * load.concurrency]
        taken, delivered = consumer.counts(), dict[str, int]()
        server.post("/reset_prefix_cache")
        asyncio.run(closed_loop(server.url, [first], 1))
        if arm == "rows":
            take(consumer, taken, 1)
        before, cpu = server.metrics(), server.cpu_seconds()
        began = time.perf_counter()
        asyncio.run(closed_loop(server.url, bodies, load.concurrency))
        answered = time.perf_counter() - began
        if arm == "rows":
            delivered = take(consumer, taken, 1 + len(bodies))
        seconds = time.perf_counter() - began
        cpu = server.cpu_seconds() - cpu
        after = server.metrics()
        counted = {
            name: round(after.get(f"{full}_total", 0.0) - before.get(f"{full}_total", 0.0), 3)
            for name, full in _COUNTERS.items()
        }
        return {
            "requests_per_second": round(len(bodies) / seconds, 3),
            "seconds": round(seconds, 3),
            "seconds_to_last_answer": round(answered, 3),
            "cpu_ms_per_request": round(1000 * cpu / len(bodies), 2),
            **counted,
            **{_DELIVERED[name]: count for name, count in delivered.items()},
        }

    def _resident(self, plain: Server, ours: Server) -> None:
        gib = {"plain": plain.resident(), "ours": ours.resident()}
        self.results.write(f"{self._pair}-resident", gib)
        print("VmRSS in GiB:", gib, flush=True)

    def _state(self, plain: Server, ours: Server, starts: dict[str, float]) -> None:
        tokens = {"plain": plain.cache_tokens(), "ours": ours.cache_tokens()}
        state = {"seconds_to_start": starts, "cache_tokens": tokens}
        self.results.write(f"{self._pair}-state", state)

    def names(self, repetitions: int) -> list[str]:
        """The measurements that so many repetitions make."""
        return [
            self._name(load, arm, repetition)
            for repetition in range(repetitions)
            for load in self._loads
            for arm in self._arms
        ]

    def _name(self, load: Load, arm: str, repetition: int) -> str:
        return f"{self._pair}-{load.name}-{arm}-{repetition}"

    def _model_arguments(self) -> tuple[list[str], dict[str, Any]]:
        folder = self.results.folder
        if self._tiny:
            from omnicfg.models import materialize, tiny_thinker

            self._vocabulary = tiny_thinker.VOCABULARY
            model, hf_config = materialize("builtin:tiny-thinker", folder), tiny_thinker.config()
            more = ["--enforce-eager", "--dtype", "float32", "--max-num-seqs", "4"]
        else:
            model, hf_config = write_thinker(folder / "thinker"), THINKER
            # Both start at once, so neither can measure what is free.
            more = [*GPU, "--gpu-memory-utilization", str(MEMORY), "--kv-cache-memory-bytes", str(KV_BYTES)]
            if self._blocks is not None:
                more += ["--num-gpu-blocks-override", str(self._blocks)]
        return [*COMMON, "--model", str(model), *more], hf_config

    def table(self) -> str:
        """Requests per second of every arm, and its ratio to the pair's first arm: median, and range of the pairs; the
        same of the time that a request takes of the CPUs.
        """
        lines = [
            f"pair {self._pair}: median, ratio to {self._pair} (range over repetitions), of requests/s and CPU time"
        ]
        for load in self._loads:
            for arm in self._arms:
                told = [self._compared(load, arm, figure) for figure in ("requests_per_second", "cpu_ms_per_request")]
                if all(told):
                    lines.append(f"  {load.name:14} {arm:6} {told[0]} req/s  {told[1]} ms of CPU a request")
        if self.results.done(f"{self._pair}-state"):
            tokens = self.results.read(f"{self._pair}-state")["cache_tokens"]
            lines.append(f"  KV capacity in tokens: {tokens}, {tokens['ours'] / tokens['plain'] - 1:+.2%}")
        if self.results.done(f"{self._pair}-resident"):
            gib = self.results.read(f"{self._pair}-resident")
            lines.append(f"  VmRSS in GiB, all processes: { ({name: sum(one.values()) for name, one in gib.items()}) }")
        if not self._tiny:
            lines.append(f"  estimated: {estimate(THINKER, {}, LAYER_24)}")
        return "\n".join(lines)

    def _compared(self, load: Load, arm: str, figure: str) -> str:
        own, base = self._figures(load, arm, figure), self._figures(load, self._pair, figure)
        ratios = [own[repetition] / base[repetition] for repetition in sorted(own.keys() & base.keys())]
        if not ratios:
            return ""
        spread = f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}) n={len(ratios)}"
        return f"{statistics.median(own.values()):9.3f} {spread}"

    def _figures(self, load: Load, arm: str, figure: str) -> dict[int, float]:
        names = {repetition: self._name(load, arm, repetition) for repetition in range(100)}
        return {
            repetition: self.results.read(name)[figure] for repetition, name in names.items() if self.results.done(name)
        }


def take(consumer: Consumer, before: dict[str, int], payloads: int) -> dict[str, int]:
    """What came since ``before``, once that is so many payloads; :class:`RuntimeError` where they do not come."""
    came = consumer.since(before, payloads)
    if came["complete"] + came["incomplete"] < payloads:
        raise RuntimeError(f"{came} of {payloads} payloads came")
    return came


async def closed_loop(url: str, bodies: list[bytes], concurrency: int) -> None:
    """Send every body, ``concurrency`` at a time."""
    import aiohttp

    waiting = iter(bodies)
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for body in waiting:
                async with session.post(f"{url}/v1/completions", data=body, headers=headers) as answer:
                    text = await answer.text()
                    if answer.status != 200:
                        raise RuntimeError(f"{answer.status}: {text[:500]}")

        await asyncio.gather(*(work() for _ in range(concurrency)))


_RUNNERS = {"v1": "0", "v2": "1"}
_DELIVERED = {"complete": "payloads_complete", "incomplete": "payloads_incomplete", "bytes": "payload_bytes"}
_COUNTERS = {
    "cache_queries": "vllm:prefix_cache_queries",
    "cache_hits": "vllm:prefix_cache_hits",
    "preemptions": "vllm:num_preemptions",
    "rows": "omnicfg:payload_rows",
    "dropped_rows": "omnicfg:payload_dropped_rows",
    "wait_seconds": "omnicfg:payload_wait_seconds",
}


def _payload(tiny: bool) -> PayloadRows:
    return PayloadRows((2,), final=False) if tiny else LAYER_24


def server_environment(folder: Path) -> dict[str, str]:
    """The servers' environment: with the route that empties the prefix cache."""
    return engine_environment(folder, VLLM_SERVER_DEV_MODE="1", VLLM_CPU_KVCACHE_SPACE="1")


def rows_flags(
    payload: PayloadRows,
    hf_config: dict[str, Any],
    socket: Path,
    engine_args: dict[str, Any] | None = None,
    shards: int | None = None,
) -> list[str]:
    """The command-line words that switch rows on; ``shards`` as in ``rows_engine_args``."""
    rows = rows_engine_args(payload, hf_config, engine_args or {}, socket=str(socket), shards=shards)
    return [word for name, value in rows.items() for word in ("--" + name.replace("_", "-"), json.dumps(value))]


def _tokens(source: random.Random, count: int, vocabulary: int) -> list[int]:
    return [source.randrange(vocabulary // 4, vocabulary - vocabulary // 64) for _ in range(count)]


def write_thinker(path: Path) -> Path:
    """The Thinker without weights."""
    return write_model(path, THINKER)


def write_model(path: Path, config: dict[str, Any]) -> Path:
    """A checkpoint without weights: configuration, and a tokenizer that has a word for every id."""
    if (path / "config.json").exists():
        return path
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    words = {f"w{index}": index for index in range(VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w0"))
    path.mkdir(parents=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="w151645").save_pretrained(path)
    (path / "config.json").write_text(json.dumps(config))
    return path


if __name__ == "__main__":
    sys.exit(main())
