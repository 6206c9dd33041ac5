"""Part two, on GPUs: what payload rows cost at the dimensions of Qwen3-Omni-30B-A3B's Thinker, or of another one,
through the OpenAI server.

    python -m benchmarks.engine.cost OUT GROUP [--load NAME[=ARM,ARM]] [--runner v1] [--repetitions 3]
                                        [--model NAME] [--kv-gib GIB] [--graphs 4096] [--profile] [--trace]

A GROUP is servers that share the GPUs, each with its own part of the memory and the same KV cache, so that arms
alternate within seconds and without a restart; only one of them works at a time. ``off``: plain vLLM with its prefix
cache off, and ours; ``plain``: plain vLLM with it on, and ours; ``both``: all three, for a model of 8B; ``apart``: as
``plain``, each on a whole GPU of its own, for loads that need one (``CUDA_VISIBLE_DEVICES=1,0`` changes them over);
``graphs``: plain vLLM, and the same with CUDA graphs for steps of prompts; ``ranks``, on two GPUs: plain vLLM with its
cache on, ours with every row in two shards, and ours with rows whole on each rank, all without vLLM's own all-reduce.
Arms: the group's plain vLLM, ``replayed`` the one with more graphs, ``rows`` ours with every request's rows delivered
to a consumer process, ``text`` ours without anybody asking for rows, ``replicated`` rows that are whole on each rank.
Weights are dummies. Prompts are random token ids, the same for every arm of a repetition, and the prefix cache is
emptied before every measurement. ``--load`` takes the rows of the model's published table too, and can leave arms out.
``--profile`` adds a turn in which py-spy looks into the engine (how much of its time lies in what rows add),
``--trace`` one in which vLLM's profiler tells how long which kernels of the GPU take. ``--graphs`` takes the CPU's time
out of steps of prompts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from benchmarks.engine import kernels, profiled
from benchmarks.engine.loads import Load, closed_loop, take
from benchmarks.engine.servers import Server
from benchmarks.engine.support import Budget, Results, engine_environment
from benchmarks.engine.thinker import MODELS, Thinker
from omnicfg.bench.consumer import Consumer
from omnicfg.bench.loads import read_loads, tables
from omnicfg.engine import memory
from omnicfg.engine.spec import rows_engine_args
from omnicfg.interrupt import interruptible
from omnicfg.serve.machine import this_machine

ON, OFF = ["--enable-prefix-caching"], ["--no-enable-prefix-caching"]
_COMMON = ["--served-model-name", "thinker", "--disable-uvicorn-access-log"]
_GPU = [
    "--load-format",
    "dummy",
    "--max-model-len",
    "20480",
    "--max-num-seqs",
    "64",
    "--max-num-batched-tokens",
    "8192",
]
_ON_CPU = ["--enforce-eager", "--max-model-len", "8192", "--dtype", "float32", "--max-num-seqs", "4"]
_RANKS_ON_CPU = ["--distributed-executor-backend", "mp"]
_NOT_THEIR_OWN = "--disable-custom-all-reduce"
_CHOSEN: Final = "Initial profiling/warmup run took"
"""What vLLM's log says when every compiled kernel has run once, at the size of a full step."""
_START_S: Final = 400.0
_LAST_S: Final = 30.0
"""So much time has to be left for a measurement to begin."""
_PROFILED_ON_CPU: Final = 256
"""Requests of a profile of the tiny model, whose loads are over too soon."""
_TRACED_TOKENS: Final = 4096
"""Of a load as many requests are traced as answer with so many tokens, at least one for each that is under way: every
kernel of every layer is a line.
"""


@dataclass(frozen=True)
class Kind:
    """A server of a group: with vLLM's prefix cache or without, with rows or without, over ``shards`` ranks each, and
    with CUDA graphs for steps of up to ``graphs`` tokens.
    """

    cache: bool = True
    rows: bool = False
    shards: int | None = None
    graphs: int | None = None


@dataclass(frozen=True)
class Arm:
    """Which server is asked, and whether for rows."""

    server: str
    rows: bool = False


@dataclass(frozen=True)
class Group:
    """Servers that share ``gpus``, each with ``memory`` of them and ``kv_bytes`` of KV cache on each.

    The first arm is what the others are compared with; ``text_only`` loads are put to arms without rows alone.
    """

    servers: Mapping[str, Kind]
    arms: Mapping[str, Arm]
    loads: Sequence[Load]
    gpus: int = 1
    memory: float = 0.47
    kv_bytes: int = int(7.4 * 2**30)
    text_only: Sequence[str] = ()
    apart: bool = False
    """Whether each server has a GPU of its own instead."""

    @property
    def base(self) -> str:
        """The arm that the others are compared with."""
        return next(iter(self.arms))

    def arms_of(self, load: Load) -> list[str]:
        """The arms that a load is put to."""
        return [name for name, arm in self.arms.items() if not (arm.rows and load.name in self.text_only)]


_FEW: Final = [  # few requests at a time, or short ones
    Load("P1024_h0_c1", 0, 1024, 8, 64, 1),
    Load("P4096_h0_c1", 0, 4096, 8, 32, 1),
    Load("DEC100_c32", 0, 100, 100, 128, 32),
]
_H0: Final = Load("P1024_h0_c64", 0, 1024, 8, 512)
_H94: Final = Load("P4096_h94_c64", 3856, 240, 8, 768)
_DEC: Final = Load("DEC100_c64", 0, 100, 100, 256)
_HITS: Final = [  # published rows with 94% hits for whose prompts two servers on a GPU have room
    Load("P1024_h94_c64", 960, 64, 8, 1536),
    Load("P4096_h94_c32", 3856, 240, 8, 768, 32),
    Load("P16384_h94_c32", 15408, 976, 8, 96, 32),
    Load("O256_L4096_h94_c64", 3856, 240, 256, 128),
]
_WHOLE: Final = [  # published rows with hits for whose prompts one server on a GPU has room
    Load("P16384_h94_c64", 15408, 976, 8, 128),
    Load("MP32_c64", 3840, 256, 8, 512, prefixes=32),
]
_VARIED: Final = [Load(f"DECV_c{many}", 0, 100, 100, 4 * many, many, ratio=0.5) for many in (32, 64)]
_OURS: Final = {"rows": Arm("ours", rows=True), "text": Arm("ours")}
GROUPS: Final = {
    "off": Group(
        servers={"off": Kind(cache=False), "ours": Kind(rows=True)},
        arms={"off": Arm("off"), **_OURS},
        loads=[_H0, Load("P4096_h0_c64", 0, 4096, 8, 128), _DEC, *_FEW, *_VARIED],
    ),
    "plain": Group(
        servers={"plain": Kind(), "ours": Kind(rows=True)},
        arms={"plain": Arm("plain"), **_OURS},
        loads=[_H94, _H0, _DEC, *_FEW, *_HITS],
        text_only=[load.name for load in _HITS],
    ),
    "both": Group(
        servers={"plain": Kind(), "off": Kind(cache=False), "ours": Kind(rows=True)},
        arms={"plain": Arm("plain"), "off": Arm("off"), **_OURS},
        loads=[*_HITS, *_WHOLE],
        memory=0.31,
        kv_bytes=21 * 2**30,
        text_only=[load.name for load in (*_HITS, *_WHOLE)],
    ),
    "graphs": Group(
        servers={"plain": Kind(), "replayed": Kind(graphs=4096)},
        arms={"plain": Arm("plain"), "replayed": Arm("replayed")},
        loads=[_H94, *_HITS],
    ),
    "apart": Group(
        servers={"plain": Kind(), "ours": Kind(rows=True)},
        arms={"plain": Arm("plain"), "text": Arm("ours")},
        loads=_WHOLE,
        memory=0.7,
        kv_bytes=52 * 2**30,
        apart=True,
    ),
    "ranks": Group(
        servers={"plain": Kind(), "ours": Kind(rows=True), "replicated": Kind(rows=True, shards=1)},
        arms={"plain": Arm("plain"), **_OURS, "replicated": Arm("replicated", rows=True)},
        loads=[_H94, _H0],
        gpus=2,
        memory=0.31,
        kv_bytes=8 * 2**30,
    ),
}


@dataclass(frozen=True)
class Plan:
    """A group of servers and what is asked of them.

    ``loads`` are names, ``None`` all of the group's own; one may be a row of the model's published table as well, and
    ``NAME=ARM,ARM`` is one without the other arms, but for the group's plain vLLM. ``kv_bytes`` and ``blocks``, the
    latter in blocks of tokens, are the KV cache of every server, the group's own where they are ``None``; ``graphs`` as
    in :func:`graph_words`.
    """

    group: str
    loads: Sequence[str] | None = None
    runner: str = "v2"
    model: str = "qwen3-omni"
    kv_bytes: int | None = None
    blocks: int | None = None
    graphs: int | None = None
    tiny: bool = False

    def chosen(self) -> list[Load]:
        """The loads. Raises :class:`ValueError` where one is not known."""
        own = {load.name: load for load in GROUPS[self.group].loads}
        known = {row.name: Load.published(row) for row in read_loads(tables()[self.model]) if row.answer == "text"}
        names = list(own if self.loads is None else self._asked)
        if unknown := [name for name in names if name not in {**known, **own}]:
            raise ValueError(f"no load {', '.join(unknown)}; loads: {', '.join({**own, **known})}")
        found = [{**known, **own}[name] for name in names]
        return [load.tiny() for load in found] if self.tiny else found

    def arms_of(self, load: Load) -> list[str]:
        """The arms that a load is put to. Raises :class:`ValueError` where one is not known."""
        group, asked = GROUPS[self.group], self._asked.get(load.name)
        if unknown := [arm for arm in asked or () if arm not in group.arms]:
            raise ValueError(f"no arm {', '.join(unknown)}; arms: {', '.join(group.arms)}")
        return [name for name in group.arms_of(load) if asked is None or name in (group.base, *asked)]

    @property
    def _asked(self) -> dict[str, list[str] | None]:
        words = [load.partition("=") for load in self.loads or ()]
        return {name: arms.split(",") if equals else None for name, equals, arms in words}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is not there yet while time lasts, then print the table."""
    parser = argparse.ArgumentParser(description="Measure what payload rows cost.")
    parser.add_argument("out", type=Path)
    parser.add_argument("group", choices=sorted(GROUPS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=570.0, help="time for this call")
    parser.add_argument("--load", action="append", metavar="NAME[=ARM,ARM]", help="only these loads, and arms")
    parser.add_argument(
        "--blocks", type=int, help="KV blocks of every server: takes the rows' capacity out of the ratios"
    )
    parser.add_argument("--kv-gib", type=float, metavar="GIB", help="KV cache of every server")
    parser.add_argument("--model", choices=sorted(MODELS), default="qwen3-omni", help="whose dimensions")
    parser.add_argument("--graphs", type=int, metavar="TOKENS", help="CUDA graphs for steps of so many tokens, too")
    parser.add_argument("--runner", choices=sorted(_RUNNERS), default="v2", help="vLLM's model runner")
    parser.add_argument("--profile", action="store_true", help="look into the engines as well; needs py-spy")
    parser.add_argument("--trace", action="store_true", help="have the GPU's kernels told as well")
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU: to try the script out")
    options = parser.parse_args(arguments)
    if options.profile and not profiled.available():
        parser.error("--profile needs py-spy: `pip install py-spy`")
    group = GROUPS[options.group]
    if group.apart and not options.tiny and len(this_machine().visible) < len(group.servers):
        parser.error(f"group {options.group} needs a GPU for each of its {len(group.servers)} servers")
    plan = Plan(
        group=options.group,
        loads=options.load,
        runner=options.runner,
        model=options.model,
        kv_bytes=int(options.kv_gib * 2**30) if options.kv_gib else None,
        blocks=options.blocks,
        graphs=options.graphs,
        tiny=options.tiny,
    )
    try:
        for load in plan.chosen():
            plan.arms_of(load)
    except ValueError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    bench = Bench(plan, Results(options.out), Budget(options.seconds))
    with interruptible():
        try:
            bench.run(options.repetitions, profile=options.profile, trace=options.trace)
        finally:
            print(bench.table(), flush=True)
    return 0


class Bench:
    """A group of servers and the measurements on them."""

    def __init__(self, plan: Plan, results: Results, budget: Budget) -> None:
        self._plan, self._group = plan, GROUPS[plan.group]
        self.results, self._budget = results, budget
        self._thinker = Thinker(plan.tiny, plan.model)
        self._loads = plan.chosen()

    def run(self, repetitions: int, *, profile: bool = False, trace: bool = False) -> None:
        """Start all servers, warm them up, then go through the arms in turn, load by load."""
        with ExitStack() as held:
            servers = {name: self._start(name, held, traced=trace) for name in self._group.servers}
            starts = {name: round(server.wait_ready(_START_S), 1) for name, server in servers.items()}
            print("seconds to start:", starts, flush=True)
            tokens = {name: server.cache_tokens() for name, server in servers.items()}
            self.results.write(f"{self._plan.group}-state", {"seconds_to_start": starts, "cache_tokens": tokens})
            consumers = {
                name: held.enter_context(Consumer(self._socket(name)))
                for name, kind in self._group.servers.items()
                if kind.rows
            }
            self._repeat(repetitions, servers, consumers)
            if profile:
                self._profile(servers, consumers)
            if trace:
                self._trace(servers, consumers)

    def _start(self, name: str, held: ExitStack, *, traced: bool) -> Server:
        """A server that has chosen its kernels, or has a GPU of its own for it: torch.compile takes, of several forms
        of a kernel, the one that was fastest when it began, and beside another server's work that is a lottery.
        """
        server = held.enter_context(self._server(name, traced=traced))
        if not self._group.apart:
            server.wait_told(_CHOSEN, _START_S)
        return server

    def _server(self, name: str, *, traced: bool) -> Server:
        folder = self.results.folder
        port = 8101 + 10 * sorted(GROUPS).index(self._plan.group) + list(self._group.servers).index(name)
        environment = server_environment(folder) | {"VLLM_USE_V2_MODEL_RUNNER": _RUNNERS[self._plan.runner]}
        if self._plan.tiny:
            environment |= cores_on_cpu(self._group.gpus)
        elif self._group.apart:
            environment["CUDA_VISIBLE_DEVICES"] = this_machine().visible[list(self._group.servers).index(name)]
        words = self._arguments(name)
        if traced:
            words += kernels.server_words(self._traces(name), cpu=self._plan.tiny)
        return Server(name, words, port, folder / f"{self._plan.group}-{name}.log", environment)

    def _arguments(self, name: str) -> list[str]:
        """The server's command line."""
        kind, group = self._group.servers[name], self._group
        # Of its own: groups may be measured at once.
        model = self._thinker.directory(self.results.folder, f"thinker-{self._plan.group}")
        words = [
            *server_words(model, tiny=self._plan.tiny, gpus=group.gpus),
            *([] if self._plan.tiny else self._on_gpu()),
        ]
        words += ON if kind.cache else OFF
        graphs = kind.graphs or self._plan.graphs
        words += graph_words(graphs) if graphs else []
        if kind.rows:
            words += rows_flags(self._thinker, self._socket(name), self._engine_args, kind.shards)
        return words

    def _traces(self, server: str) -> Path:
        folder = self.results.folder / f"traces-{self._plan.group}-{server}"
        folder.mkdir(exist_ok=True)
        return folder

    def _on_gpu(self) -> list[str]:
        # All start at once, so none can measure what is free.
        group = self._group
        kv_bytes = self._plan.kv_bytes or group.kv_bytes
        words = ["--gpu-memory-utilization", str(group.memory), "--kv-cache-memory-bytes", str(kv_bytes)]
        return words if self._plan.blocks is None else [*words, "--num-gpu-blocks-override", str(self._plan.blocks)]

    @property
    def _engine_args(self) -> dict[str, Any]:
        """What the layout of rows depends on."""
        return {"tensor_parallel_size": self._group.gpus} if self._group.gpus > 1 else {}

    def _socket(self, name: str) -> Path:
        return self.results.folder / f"rows-{self._plan.group}-{name}.sock"

    def _repeat(self, repetitions: int, servers: Mapping[str, Server], consumers: Mapping[str, Consumer]) -> None:
        for load in self._loads:
            for arm in self._plan.arms_of(load):
                self._measure(load, arm, "warm-up", servers, consumers)
        resident = {name: server.resident() for name, server in servers.items()}
        self.results.write(f"{self._plan.group}-resident", resident)
        for repetition in range(repetitions):
            for load in self._loads:
                order = self._plan.arms_of(load)
                for arm in order if repetition % 2 == 0 else reversed(order):
                    name = self._measurement(load, arm, repetition)
                    if self.results.done(name):
                        continue
                    if self._budget.left < _LAST_S:
                        print("no time left: run the same command again", flush=True)
                        return
                    result, _ = self._measure(load, arm, str(repetition), servers, consumers)
                    self.results.write(name, result)
                    print(name, result, flush=True)

    def _profile(self, servers: Mapping[str, Server], consumers: Mapping[str, Consumer]) -> None:
        """Look into the engine of every arm under every load."""
        for load, arm, name in self._unseen("profile"):
            longer = replace(load, prompts=_PROFILED_ON_CPU) if self._plan.tiny else load
            server = servers[self._group.arms[arm].server]
            with profiled.sampled(server.engine_processes(), self.results.folder, name) as files:
                self._measure(longer, arm, "profile", servers, consumers)
            self.results.write(name, profiled.told(files, longer.prompts))
            print(name, self.results.read(name), flush=True)

    def _trace(self, servers: Mapping[str, Server], consumers: Mapping[str, Consumer]) -> None:
        """Have every arm's kernels told under every load."""
        for load, arm, name in self._unseen("kernels"):
            fewer = replace(load, prompts=min(load.prompts, max(load.concurrency, _TRACED_TOKENS // load.answer)))
            server = self._group.arms[arm].server
            with kernels.traced(servers[server], self._traces(server)) as files:
                _, answers = self._measure(fewer, arm, "trace", servers, consumers)
            told = kernels.told(files, fewer.prompts)
            self.results.write(name, {**told, "answers": [sha256(text.encode()).hexdigest()[:8] for text in answers]})
            for file in files:
                file.unlink()

    def _unseen(self, way: str) -> Iterator[tuple[Load, str, str]]:
        """Every load and arm that was not looked into in this way, and what its result is called; while time lasts."""
        for load in self._loads:
            for arm in self._plan.arms_of(load):
                name = self._seen(way, load, arm)
                if not self.results.done(name) and self._budget.left >= _LAST_S:
                    yield load, arm, name

    def _seen(self, way: str, load: Load, arm: str) -> str:
        return f"{way}-{self._plan.group}-{load.name}-{arm}"

    def _measure(
        self, load: Load, name: str, seed: str, servers: Mapping[str, Server], consumers: Mapping[str, Consumer]
    ) -> tuple[dict[str, Any], list[str]]:
        """The figures, and the answers' texts."""
        arm = self._group.arms[name]
        server, consumer = servers[arm.server], consumers[arm.server] if arm.rows else None
        first, *bodies = load.bodies(seed, rows=arm.rows, vocabulary=self._thinker.vocabulary)
        if seed == "warm-up":
            bodies = bodies[: 2 * load.concurrency]
        taken, delivered = consumer.counts() if consumer else {}, dict[str, int]()
        server.post("/reset_prefix_cache")
        asyncio.run(closed_loop(server.url, [first], 1))
        if consumer:
            take(consumer, taken, 1)
        before, cpu = server.metrics(), server.cpu_seconds()
        began = time.perf_counter()
        answers = asyncio.run(closed_loop(server.url, bodies, load.concurrency))
        answered = time.perf_counter() - began
        if consumer:
            delivered = take(consumer, taken, 1 + len(bodies))
        seconds = time.perf_counter() - began
        cpu = server.cpu_seconds() - cpu
        after = server.metrics()
        counted = {
            counter: round(after.get(f"{full}_total", 0.0) - before.get(f"{full}_total", 0.0), 3)
            for counter, full in _COUNTERS.items()
        }
        result = {
            "requests_per_second": round(len(bodies) / seconds, 3),
            "seconds": round(seconds, 3),
            "seconds_to_last_answer": round(answered, 3),
            "cpu_ms_per_request": round(1000 * cpu / len(bodies), 2),
            **counted,
            **{_DELIVERED[counter]: count for counter, count in delivered.items()},
        }
        return result, answers

    def names(self, repetitions: int) -> list[str]:
        """The measurements that so many repetitions make."""
        return [
            self._measurement(load, arm, repetition)
            for repetition in range(repetitions)
            for load in self._loads
            for arm in self._plan.arms_of(load)
        ]

    def _measurement(self, load: Load, arm: str, repetition: int) -> str:
        return f"{self._plan.group}-{load.name}-{arm}-{repetition}"

    def table(self) -> str:
        """Requests per second of every arm, and its ratio to the group's first arm: median, and range over the turns;
        the same of the time that a request takes of the CPUs.
        """
        base = self._group.base
        lines = [
            f"group {self._plan.group}: median, ratio to {base} (range over repetitions), of requests/s and CPU time"
        ]
        for load in self._loads:
            for arm in self._plan.arms_of(load):
                told = [self._compared(load, arm, figure) for figure in ("requests_per_second", "cpu_ms_per_request")]
                if all(told):
                    lines.append(f"  {load.name:18} {arm:10} {told[0]} req/s  {told[1]} ms of CPU a request")
                if self.results.done(profile := self._seen("profile", load, arm)):
                    lines.append(f"  {'':18} {'':10} {self._profiled(profile)}")
                if self.results.done(self._seen("kernels", load, arm)):
                    lines += [f"  {'':18} {'':10} {line}" for line in self._traced(load, arm)]
        if self.results.done(f"{self._plan.group}-state"):
            state = self.results.read(f"{self._plan.group}-state")
            tokens = state["cache_tokens"]
            own = [f"{name} {count:,} ({count / tokens[base] - 1:+.2%})" for name, count in tokens.items()]
            lines += [f"  KV capacity in tokens: {', '.join(own)}", f"  seconds to start: {state['seconds_to_start']}"]
        if self.results.done(f"{self._plan.group}-resident"):
            gib = self.results.read(f"{self._plan.group}-resident")
            own = [f"{name} {sum(one.values()):.2f}" for name, one in gib.items()]
            lines.append(f"  VmRSS in GiB, all processes: {', '.join(own)}")
        if not self._plan.tiny:
            lines.append(
                f"  estimated: {memory.estimate(self._thinker.config, self._engine_args, self._thinker.payload)}"
            )
        return "\n".join(lines)

    def _profiled(self, name: str) -> str:
        one = self.results.read(name)
        share = one["of them in what rows add"] / max(1, one["samples"])
        return (
            f"{share:.2%} of {one['samples']} samples of the engine in what rows add: "
            f"{one['ms_per_request in what rows add']:.3f} of {one['ms_per_request']:.2f} ms a request"
        )

    def _traced(self, load: Load, arm: str) -> list[str]:
        base, own = (self.results.read(self._seen("kernels", load, one)) for one in (self._group.base, arm))
        taken = f"{own['kernels_per_request']:.1f} kernels, {own['ms_per_request']:.3f} ms of the GPU a request"
        shares = f"{own['busy']:.1%} of the time busy, {own['waits']:.1%} waiting, else {own['gap_us']} us a gap"
        lines = [f"{taken}; {shares}"]
        if arm != self._group.base:
            same = [one == other for one, other in zip(base["answers"], own["answers"], strict=True)]
            lines[0] += f"; {sum(same)} of {len(same)} answers as {self._group.base}'s"
            more = kernels.apart(base["us_per_request"], own["us_per_request"])
            lines += [f"  {us:+8.2f} us a request: {name[:80]}" for name, us in more.items()]
        return lines

    def _compared(self, load: Load, arm: str, figure: str) -> str:
        own, base = self._figures(load, arm, figure), self._figures(load, self._group.base, figure)
        ratios = [own[repetition] / base[repetition] for repetition in sorted(own.keys() & base.keys())]
        if not ratios:
            return ""
        spread = f"{statistics.median(ratios):.4f} ({min(ratios):.4f} to {max(ratios):.4f}) n={len(ratios)}"
        return f"{statistics.median(own.values()):9.3f} {spread}"

    def _figures(self, load: Load, arm: str, figure: str) -> dict[int, float]:
        names = {repetition: self._measurement(load, arm, repetition) for repetition in range(100)}
        return {
            repetition: self.results.read(name)[figure] for repetition, name in names.items() if self.results.done(name)
        }


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


def server_environment(folder: Path) -> dict[str, str]:
    """The servers' environment: with the route that empties the prefix cache."""
    return engine_environment(folder, VLLM_SERVER_DEV_MODE="1", VLLM_CPU_KVCACHE_SPACE="1")


def cores_on_cpu(ranks: int) -> dict[str, str]:
    """How servers share out the cores of a CPU, those with rows as those without: vLLM reserves another core where
    there is a KV connector, and with two cores none is left.
    """
    return {"VLLM_CPU_NUM_OF_RESERVED_CPU": "1"} if ranks == 1 else {"VLLM_CPU_OMP_THREADS_BIND": "nobind"}


def server_words(model: Path, *, tiny: bool, gpus: int) -> list[str]:
    """What every server's command line has, on so many ranks."""
    words = [*_COMMON, "--model", str(model), *(_ON_CPU if tiny else _GPU)]
    if gpus > 1:
        words += ["--tensor-parallel-size", str(gpus), _NOT_THEIR_OWN, *(_RANKS_ON_CPU if tiny else [])]
    return words


def graph_words(tokens: int) -> list[str]:
    """CUDA graphs of doubling sizes for steps of up to so many tokens; vLLM's own end at twice ``max_num_seqs``."""
    return ["--cudagraph-capture-sizes", *(str(2**power) for power in range(tokens.bit_length()))]


def rows_flags(
    thinker: Thinker, socket: Path, engine_args: dict[str, Any] | None = None, shards: int | None = None
) -> list[str]:
    """The command-line words that switch rows on; ``shards`` as in ``rows_engine_args``."""
    rows = rows_engine_args(thinker.payload, thinker.config, engine_args or {}, socket=str(socket), shards=shards)
    return [word for name, value in rows.items() for word in ("--" + name.replace("_", "-"), json.dumps(value))]


if __name__ == "__main__":
    sys.exit(main())
