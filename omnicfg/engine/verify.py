"""Are the rows right? Runs workloads that have gone wrong elsewhere and compares every row that a consumer receives.

    python -m omnicfg.engine.verify MODEL [--engine-args JSON] [--save FILE] [--against FILE] [--wrong-block]

The truth is transformers, run over the tokens that each request really saw. ``--against`` compares with what ``--save``
kept of another run as well, one with ``--engine-args '{"enable_prefix_caching": false}'``, say. ``--wrong-block`` is
the negative control: one block of some requests is read from a wrong place, and has to be seen.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from omnicfg.engine.shards import connect
from omnicfg.engine.spec import PayloadRows, request_flag, rows_engine_args, text_config
from omnicfg.engine.transport import Payload, PayloadAssembler

if TYPE_CHECKING:
    import torch

BLOCK = 32
_SEED = 7
_ROUNDING_TIMES = 3
"""How many times as far as transformers in a smaller dtype the engine in that dtype may be off."""
_END_S = 10.0
"""How long the end of an engine may take to reach its consumer."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: ``prompt`` as token ids, ``tokens`` to generate."""

    prompt: tuple[int, ...]
    tokens: int = 8
    wanted: bool = True
    n: int = 1
    salt: str | None = None
    abort_after: int | None = None


Wave = Sequence[Ask]
"""Requests that are submitted together; a wave begins when the one before it has ended."""


@dataclass(slots=True)
class Outcome:
    """What came of one completion: ``read`` are the tokens that have rows, ``rows`` are ``[read, names, width]``."""

    scenario: str
    read: tuple[int, ...]
    cached: int
    complete: bool
    rows: torch.Tensor


@dataclass(slots=True)
class Verdict:
    """How far the rows of one scenario are from the truth, at worst; ``scale`` is the truth's largest value."""

    scenario: str
    requests: int = 0
    tokens: int = 0
    hit_tokens: int = 0
    incomplete: int = 0
    worst: float = 0.0
    worst_on_hits: float = 0.0
    scale: float = 0.0


def scenarios(vocabulary: int) -> dict[str, list[Wave]]:
    """The workloads, by what is hard about them. Prompts are random token ids; lengths straddle block limits."""
    source = random.Random(_SEED)

    def some(count: int) -> tuple[int, ...]:
        return tuple(source.randrange(vocabulary // 4, vocabulary - 8) for _ in range(count))

    base, other, shared = some(30 * BLOCK + 5), some(700), some(20 * BLOCK)
    longer = base + some(333)
    crowd = [Ask(base[: source.randrange(300, len(base))] + some(source.randrange(1, 200))) for _ in range(8)]
    long = [some(source.randrange(300, 700)) for _ in range(6)]
    revisits = [Ask(long[source.randrange(6)][:290] + some(source.randrange(50, 200))) for _ in range(10)]
    fresh = some(500)
    return {
        "cold": [[Ask(base)], [Ask(other)]],
        "hit": [[Ask(base)], [Ask(base)]],
        "hit of a hit": [[Ask(longer)], [Ask(longer + some(50))], [Ask(longer + some(50))]],
        "partial hit": [[Ask(base[: 20 * BLOCK] + some(77))], [Ask(base[: 20 * BLOCK - 3] + some(9))]],
        "exact blocks": [[Ask(shared)], [Ask(shared)], [Ask(shared[: 19 * BLOCK + 1])]],
        "crowd": [crowd],
        "same step": [[Ask(fresh), Ask(fresh), Ask(fresh[:400] + some(3)), Ask(fresh)]],
        "n > 1": [[Ask(other, tokens=20, n=3)]],
        "eviction": [[Ask(prompt + some(30)) for prompt in long + long[::-1]], revisits],
        "long answers": [[Ask(some(120), tokens=120) for _ in range(12)]],
        "text only": [[Ask(base, wanted=False), Ask(some(200), wanted=False)]],
        "abort": [
            [Ask(some(600), tokens=200, abort_after=after) for after in (0, 1, 5, 30)] + [Ask(base + some(40))],
            [Ask(base + some(40))],
        ],
        "salt": [[Ask(shared, salt="one")], [Ask(shared, salt="two")], [Ask(shared, salt="one")]],
    }


class Engine:
    """An engine with payload rows, and the consumer of its rows, in one process; a context manager."""

    def __init__(
        self,
        model: Path,
        payload: PayloadRows,
        engine_args: dict[str, Any],
        *,
        wrong_block: bool = False,
        shards: int | None = None,
    ) -> None:
        from vllm import LLM

        hf_config = json.loads((model / "config.json").read_text())
        self.vocabulary = int(text_config(hf_config)["vocab_size"])
        self._folder = tempfile.TemporaryDirectory(prefix="omnicfg-verify-")
        socket = Path(self._folder.name) / "rows.sock"
        rows = rows_engine_args(payload, hf_config, engine_args, socket=str(socket), shards=shards)
        if wrong_block:
            rows["kv_transfer_config"] |= {
                "kv_connector": "WrongBlockConnector",
                "kv_connector_module_path": "omnicfg.engine.wrong_block",
            }
        started = time.monotonic()
        self.llm = LLM(str(model), **{"skip_tokenizer_init": True, "block_size": BLOCK, **engine_args, **rows})
        self.start_seconds = time.monotonic() - started
        self._consumer = _Consumer(socket)
        self._serial = 0

    def run(self, scenario: str, waves: Sequence[Wave]) -> list[Outcome]:
        """Run a scenario; one outcome per completion whose rows were asked for."""
        return [outcome for wave in waves for outcome in self._wave(scenario, wave)]

    def counts(self) -> dict[str, float]:
        """vLLM's own counters, by name."""
        return {metric.name: getattr(metric, "value", 0.0) for metric in self.llm.get_metrics()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.llm.llm_engine.engine_core.shutdown()
        self._consumer.close()
        self._folder.cleanup()

    def _wave(self, scenario: str, wave: Wave) -> Iterator[Outcome]:
        asks = {f"{self._serial + index}": ask for index, ask in enumerate(wave)}
        self._serial += len(wave)
        finished = self._generate(asks)
        for key, ask in asks.items():
            if not ask.wanted:
                continue
            answers = finished[key]
            for payload in self._consumer.take(key, ask.n):
                # vLLM puts the index of one of several completions in front of its request id
                output, cached = answers[int(payload.request.split("_")[0]) if ask.n > 1 else 0]
                read = (ask.prompt + tuple(output))[: payload.tokens]
                rows = self._consumer.tensor(payload)
                # a client that aborts may have seen fewer tokens than the engine had made
                whole = len(read) == len(rows) or ask.abort_after is not None
                yield Outcome(scenario, read, cached, payload.complete and whole, rows)

    def _generate(self, asks: dict[str, Ask]) -> dict[str, list[tuple[list[int], int]]]:
        """(output tokens, cached tokens) of every completion, by key."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        engine = self.llm.llm_engine
        keys = {}
        for key, ask in asks.items():
            params = SamplingParams(
                n=ask.n,
                max_tokens=ask.tokens,
                temperature=1.0 if ask.n > 1 else 0.0,
                ignore_eos=True,
                detokenize=False,
                output_kind=RequestOutputKind.FINAL_ONLY if ask.n > 1 else RequestOutputKind.CUMULATIVE,
                extra_args={"kv_transfer_params": request_flag(key)} if ask.wanted else None,
            )
            prompt: dict[str, Any] = {"prompt_token_ids": list(ask.prompt)}
            if ask.salt is not None:
                prompt["cache_salt"] = ask.salt
            keys[key] = engine.add_request(key, prompt, params)
        finished: dict[str, list[tuple[list[int], int]]] = {}
        for key, ask in asks.items():
            if ask.abort_after == 0:
                engine.abort_request([keys[key]], internal=True)
                finished[key] = [([], 0)]
        while engine.has_unfinished_requests():
            for output in engine.step():
                ask = asks[output.request_id]
                answers = [(list(one.token_ids), output.num_cached_tokens or 0) for one in output.outputs]
                finished[output.request_id] = answers
                if ask.abort_after and not output.finished and len(answers[0][0]) >= ask.abort_after:
                    engine.abort_request([keys[output.request_id]], internal=True)
        return finished


class _Consumer:
    """Takes the rows in, in a thread of its own, as a downstream stage would in a process of its own."""

    def __init__(self, socket: Path) -> None:
        self._receiver = connect(socket)
        self._payloads: dict[str, list[Payload]] = {}
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def take(self, key: str, count: int, timeout: float = 60.0) -> list[Payload]:
        """The payloads that came for ``key``, once there are ``count``."""
        with self._news:
            if not self._news.wait_for(lambda: len(self._payloads.get(key, ())) >= count, timeout):
                raise TimeoutError(f"{len(self._payloads.get(key, ()))} of {count} payloads came for {key}")
            return self._payloads.pop(key)

    def tensor(self, payload: Payload) -> torch.Tensor:
        """A payload's rows as a tensor of float32, ``[tokens, names, width]``."""
        import torch

        layout = self._receiver.layout
        if not payload.data:
            return torch.zeros(0, len(layout.names), layout.width)
        flat = torch.frombuffer(payload.data, dtype=getattr(torch, layout.dtype))
        return flat.view(-1, len(layout.names), layout.width).float()

    def close(self) -> None:
        """Once the engine has gone: take in what is left, then let the ring and the socket go."""
        self._thread.join(timeout=_END_S)
        self._receiver.close()

    def _follow(self) -> None:
        assembler = PayloadAssembler(self._receiver.layout)
        for message in self._receiver:
            payload = assembler.add(message)
            if payload is not None:
                with self._news:
                    self._payloads.setdefault(payload.key or "", []).append(payload)
                    self._news.notify_all()


class Transformers:
    """The truth: the same checkpoint in transformers, eager attention."""

    def __init__(self, model: Path, payload: PayloadRows, dtype: str, device: str = "cpu") -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._device = device
        self._layers = [*payload.layers, *([-1] if payload.final else [])]
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=getattr(torch, dtype), attn_implementation="eager")
        self._model = loaded.to(device).eval()
        self._seen: dict[tuple[int, ...], torch.Tensor] = {}

    def rows(self, tokens: tuple[int, ...]) -> torch.Tensor:
        """Rows ``[tokens, names, width]`` in float32."""
        import torch

        if tokens not in self._seen:
            with torch.inference_mode():
                output = self._model(
                    torch.tensor([tokens], device=self._device), output_hidden_states=True, logits_to_keep=1
                )
            states = [output.hidden_states[layer][0].float().cpu() for layer in self._layers]
            self._seen[tokens] = torch.stack(states, dim=1)
        return self._seen[tokens]


Truth = Callable[[tuple[int, ...]], "torch.Tensor"]


def compare(outcomes: Sequence[Outcome], truth: Truth) -> list[Verdict]:
    """One verdict a scenario: every row of every outcome against ``truth`` of the tokens it belongs to."""
    verdicts: dict[str, Verdict] = {}
    for outcome in outcomes:
        verdict = verdicts.setdefault(outcome.scenario, Verdict(outcome.scenario))
        verdict.requests += 1
        verdict.incomplete += not outcome.complete
        expected = truth(outcome.read) if outcome.read else outcome.rows
        count = min(len(expected), len(outcome.rows))
        if count == 0:
            continue
        # what is no number is as far off as can be: nothing compares with it
        apart = (expected[:count] - outcome.rows[:count]).abs().nan_to_num(nan=math.inf, posinf=math.inf)
        verdict.tokens += count
        verdict.hit_tokens += outcome.cached
        verdict.worst = max(verdict.worst, apart.max().item())
        if outcome.cached:
            verdict.worst_on_hits = max(verdict.worst_on_hits, apart[: outcome.cached].max().item())
        verdict.scale = max(verdict.scale, expected.abs().max().item())
    return list(verdicts.values())


def recorded(outcomes: Sequence[Outcome]) -> Truth:
    """What another run of the same engine gave: for each request the rows of the longest common beginning."""

    def rows(tokens: tuple[int, ...]) -> torch.Tensor:
        best = max(outcomes, key=lambda outcome: _common(outcome.read, tokens))
        return best.rows[: _common(best.read, tokens)]

    return rows


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    shortest = min(len(left), len(right))
    return next((index for index in range(shortest) if left[index] != right[index]), shortest)


def rounding(outcomes: Sequence[Outcome], truth: Truth, rounded: Truth) -> float:
    """How far ``rounded``, the truth in a smaller dtype, is from ``truth`` at worst."""
    gaps = [(truth(one.read) - rounded(one.read)).abs().max() for one in outcomes if one.read]
    return max(float(gap) for gap in gaps)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, compare, print a table; 1 where rows are missing or further off than the tolerance."""
    options = _parser().parse_args(arguments)
    payload = PayloadRows(tuple(options.layers), final=True)
    shards = 1 if options.replicated else None
    with Engine(options.model, payload, options.engine_args, wrong_block=options.wrong_block, shards=shards) as engine:
        waves = scenarios(engine.vocabulary)
        chosen = options.scenario or list(waves)
        outcomes = [outcome for name in chosen for outcome in engine.run(name, waves[name])]
        counts = engine.counts()
    if options.save is not None:
        _save(outcomes, options.save)
    report: dict[str, Any] = {
        "engine_args": options.engine_args,
        "start_seconds": round(engine.start_seconds, 1),
        "preemptions": counts.get("vllm:num_preemptions", 0.0),
        "tolerance": options.tolerance,
    }
    if options.transformers:
        truth = Transformers(options.model, payload, "float32", options.truth_device)
        if options.rounded_dtype is not None:
            rounded = Transformers(options.model, payload, options.rounded_dtype, options.truth_device)
            report["tolerance"] = _ROUNDING_TIMES * rounding(outcomes, truth.rows, rounded.rows)
        report["transformers"] = _report("transformers", compare(outcomes, truth.rows))
    if options.against is not None:
        report["against"] = _report(options.against.stem, compare(outcomes, recorded(_load(options.against))))
    if options.out is not None:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    verdicts = [*report.get("transformers", ()), *report.get("against", ())]
    return int(any(verdict["incomplete"] or verdict["worst"] > report["tolerance"] for verdict in verdicts))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m omnicfg.engine.verify", description="Compare the engine's payload rows with transformers."
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--layers", type=json.loads, default=[2], help="the residual streams to keep, as JSON")
    parser.add_argument("--engine-args", type=json.loads, default={}, help="as JSON")
    parser.add_argument("--scenario", action="append", help="only these (default: all)")
    parser.add_argument("--no-transformers", dest="transformers", action="store_false", help="with --save: only run")
    parser.add_argument("--truth-device", default="cpu")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument(
        "--rounded-dtype", help="derive the tolerance from what transformers loses in this dtype instead"
    )
    parser.add_argument("--wrong-block", action="store_true", help="the negative control")
    parser.add_argument("--replicated", action="store_true", help="every tensor-parallel rank keeps whole rows")
    parser.add_argument("--save", type=Path, help="keep the rows for another run's --against")
    parser.add_argument("--against", type=Path)
    parser.add_argument("--out", type=Path, help="the report, as JSON")
    return parser


def _report(title: str, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    print(f"against {title}:")
    for verdict in verdicts:
        print(
            f"  {verdict.scenario:14} {verdict.requests:3} requests {verdict.tokens:6} tokens "
            f"{verdict.hit_tokens:6} hit, worst {verdict.worst:.2e} (hits {verdict.worst_on_hits:.2e}) of "
            f"{verdict.scale:.1f}, incomplete {verdict.incomplete}"
        )
    return [asdict(verdict) for verdict in verdicts]


def _save(outcomes: Sequence[Outcome], path: Path) -> None:
    import torch

    torch.save([asdict(outcome) for outcome in outcomes], path)


def _load(path: Path) -> list[Outcome]:
    import torch

    return [Outcome(**kept) for kept in torch.load(path)]


if __name__ == "__main__":
    sys.exit(main())
