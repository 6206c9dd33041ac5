"""Part one, on a GPU: are the rows right under both model runners, CUDA graphs, and pressure on the KV cache?

    python -m benchmarks.engine.rows OUT [--only NAME] [--seconds 560] [--jobs 4] [--gpus 2] [--cpu]

Every configuration is one process of ``omnicfg.engine.verify`` on a tiny random model: in float32 (mixture of experts)
against transformers in float32, and in bfloat16 (dense, since a router's near-ties would drown everything else) against
transformers in float32, with a tolerance of three times what transformers itself loses in bfloat16. The first run of a
dtype has the prefix cache off; the others are compared with it as well. The negative controls must fail.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine.support import Budget, Results, engine_environment, run_python
from omnicfg.engine.spec import environment
from omnicfg.models import tiny_thinker

FEW_BLOCKS = {"num_gpu_blocks_override": 60}  # of 32 tokens: less than the running requests of some scenarios need


@dataclass(frozen=True)
class Configuration:
    """One engine: dtype and runner, and what differs from the default (graphs, asynchronous scheduling, cache on)."""

    name: str
    dtype: str
    runner: str
    engine_args: dict[str, Any] = field(default_factory=dict)
    wrong_block: bool = False
    gpus: int = 1
    replicated: bool = False

    @property
    def reference(self) -> str:
        """The configuration whose rows these are compared with."""
        return f"{self.dtype}-off"


def configurations() -> list[Configuration]:
    """The matrix, most telling first."""
    off = {"enable_prefix_caching": False}
    full = [Configuration("float32-off", "float32", "v2", off)]
    for runner in ("v2", "v1"):
        full += [
            Configuration(f"float32-{runner}", "float32", runner),
            Configuration(f"float32-{runner}-pressure", "float32", runner, FEW_BLOCKS),
        ]
    full.append(Configuration("float32-v2-wrong-block", "float32", "v2", wrong_block=True))
    full.append(Configuration("bfloat16-off", "bfloat16", "v2", off))
    for runner in ("v2", "v1"):
        full += [
            Configuration(f"bfloat16-{runner}", "bfloat16", runner),
            Configuration(f"bfloat16-{runner}-pressure", "bfloat16", runner, FEW_BLOCKS),
        ]
    full.append(Configuration("bfloat16-v2-wrong-block", "bfloat16", "v2", wrong_block=True))
    full += [
        Configuration("float32-v2-synchronous", "float32", "v2", {"async_scheduling": False, **FEW_BLOCKS}),
        Configuration("float32-v1-synchronous", "float32", "v1", {"async_scheduling": False, **FEW_BLOCKS}),
        Configuration("float32-v2-piecewise", "float32", "v2", _graphs("PIECEWISE")),
        Configuration("float32-v1-piecewise", "float32", "v1", _graphs("PIECEWISE")),
    ]
    two = {"tensor_parallel_size": 2, "disable_custom_all_reduce": True}
    full += [
        Configuration("float32-v2-two-gpus", "float32", "v2", two, gpus=2),
        Configuration("float32-v2-two-gpus-pressure", "float32", "v2", {**two, **FEW_BLOCKS}, gpus=2),
        Configuration(
            "float32-v2-two-gpus-replicated", "float32", "v2", {**two, **FEW_BLOCKS}, gpus=2, replicated=True
        ),
        Configuration("float32-v1-two-gpus", "float32", "v1", two, gpus=2),
        Configuration("bfloat16-v2-two-gpus", "bfloat16", "v2", two, gpus=2),
        Configuration("bfloat16-v2-two-gpus-pressure", "bfloat16", "v2", {**two, **FEW_BLOCKS}, gpus=2),
    ]
    return full


def main() -> int:
    """Run what is not there yet while time lasts, then print the table; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description="Check payload rows on a GPU.")
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", action="append", help="only these configurations")
    parser.add_argument("--seconds", type=float, default=560.0, help="time for this call")
    parser.add_argument("--each", type=float, default=150.0, help="time for one configuration")
    parser.add_argument("--jobs", type=int, default=1, help="so many configurations at a time, all on one GPU")
    parser.add_argument("--gpus", type=int, default=1, help="how many there are: two also for tensor parallelism")
    parser.add_argument("--cpu", action="store_true", help="on the CPU, eager: to try the script out")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    results, budget = Results(options.out), Budget(options.seconds)
    chosen = [
        one
        for one in configurations()
        if one.gpus <= options.gpus and (options.only is None or one.name in options.only)
    ]

    def run(configuration: Configuration) -> None:
        if budget.left < min(options.each, 60.0):
            print(f"no time left for {configuration.name}: run the same command again")
        else:
            _run(configuration, results, min(options.each, budget.left), options.cpu)

    for dtype in {one.dtype for one in chosen}:
        _model(options.out, dtype)
    missing = [one for one in chosen if not results.done(one.name)]
    references = [one for one in missing if one.name == one.reference]
    for batch in (references, [one for one in missing if one not in references]):
        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(run, batch))
    return table([one for one in chosen if results.done(one.name)], results)


def _run(configuration: Configuration, results: Results, timeout: float, cpu: bool) -> None:
    folder, name = results.folder, configuration.name
    model = _model(folder, configuration.dtype)
    device_args = _cpu_args() if cpu else _gpu_args(configuration.dtype)
    arguments = ["-m", "omnicfg.engine.verify", str(model), "--out", str(folder / f"{name}.report")]
    arguments += ["--engine-args", json.dumps({**device_args, **configuration.engine_args})]
    arguments += ["--truth-device", "cpu" if cpu else "cuda"]
    if configuration.dtype == "bfloat16":
        arguments += ["--rounded-dtype", "bfloat16"]
    kept = folder / f"{configuration.reference}.pt"
    if name == configuration.reference:
        arguments += ["--save", str(kept)]
    elif kept.exists():
        arguments += ["--against", str(kept)]
    if configuration.replicated:
        arguments += ["--replicated"]
    if configuration.wrong_block:
        arguments += ["--wrong-block", "--scenario", "hit", "--scenario", "crowd"]
    runner = {"VLLM_CPU_OMP_THREADS_BIND": "nobind"} if cpu else environment(configuration.runner)
    variables = engine_environment(folder, TRITON_F32_DEFAULT="ieee", **runner)
    started = time.monotonic()
    code = run_python(arguments, folder / f"{name}.log", variables, timeout)
    report = folder / f"{name}.report"
    found = json.loads(report.read_text()) if report.exists() else {}
    seconds = round(time.monotonic() - started, 1)
    print(f"{name}: exit {code} after {seconds} s", flush=True)
    if found:
        results.write(name, {"exit_code": code, "seconds": seconds, "runner": configuration.runner, **found})


def table(done: list[Configuration], results: Results) -> int:
    print(f"{'configuration':30} verdict    tokens     hit     worst    vs off   allowed preempt")
    wrong = 0
    for configuration in done:
        result = results.read(configuration.name)
        verdicts, against = result["transformers"], result.get("against", [])
        right = (result["exit_code"] == 0) != configuration.wrong_block
        wrong += not right
        print(
            f"{configuration.name:30} {'right' if right else 'WRONG':8} {sum(v['tokens'] for v in verdicts):8} "
            f"{sum(v['hit_tokens'] for v in verdicts):7} {max(v['worst'] for v in verdicts):9.2e} "
            f"{max((v['worst'] for v in against), default=0.0):9.2e} {result['tolerance']:9.2e} "
            f"{result['preemptions']:7.0f}"
        )
    return int(wrong > 0)


def _graphs(mode: str) -> dict[str, Any]:
    return {"compilation_config": {"cudagraph_mode": mode}}


def _gpu_args(dtype: str) -> dict[str, Any]:
    attention = {"attention_backend": "TRITON_ATTN"} if dtype == "float32" else {}
    return {**_common_args(dtype), **attention, **_graphs("FULL_AND_PIECEWISE"), "num_gpu_blocks_override": 4000}


def _cpu_args() -> dict[str, Any]:
    return {**_common_args("float32"), "enforce_eager": True, "distributed_executor_backend": "mp"}


def _common_args(dtype: str) -> dict[str, Any]:
    return {
        "dtype": dtype,
        "max_model_len": 1536,
        "max_num_batched_tokens": 512,
        "max_num_seqs": 16,
        "gpu_memory_utilization": 0.1,
        "kv_cache_memory_bytes": 2**30,  # what is free changes while others start beside it
        "disable_log_stats": False,
    }


def _model(folder: Path, dtype: str) -> Path:
    """The tiny model of a dtype, made on first use."""
    path = folder / ("experts" if dtype == "float32" else "dense")
    if not (path / "config.json").exists():
        (_write_experts if dtype == "float32" else _write_dense)(path)
    return path


def _write_experts(path: Path) -> None:
    path.mkdir(exist_ok=True)
    tiny_thinker.write(path)
    config = {**tiny_thinker.config(), "num_experts_per_tok": tiny_thinker.EXPERTS}
    (path / "config.json").write_text(json.dumps(config))


def _write_dense(path: Path) -> None:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=1024,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=64,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        architectures=["Qwen3ForCausalLM"],
    )
    model = Qwen3ForCausalLM(config)
    for name, weight in model.named_parameters():
        if weight.dim() == 2:  # activations near one through every layer, as in a trained model
            torch.nn.init.normal_(weight, std=1.0 if "embed" in name else weight.shape[1] ** -0.5)
    model.to(torch.bfloat16).save_pretrained(path)


if __name__ == "__main__":
    sys.exit(main())
