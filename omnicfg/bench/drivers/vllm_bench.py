"""``vllm bench serve`` of this environment: the client that the published figures were made with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from omnicfg.bench.drivers import Task
from omnicfg.bench.loads import Load
from omnicfg.engine.spec import request_flag
from omnicfg.errors import ServeError
from omnicfg.serve.child import child
from omnicfg.serve.machine import installed_vllm

ANSWERS: Final = frozenset({"text"})
_RESULT: Final = "vllm-bench.json"
_SHOWN: Final = 1500
# What `vllm bench serve` runs. The `vllm` command asks for a distribution of that name, which the CPU build is not.
_CLIENT: Final = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser(prog="vllm bench serve")
add_cli_args(parser)
main(parser.parse_args())
"""
_TIMEOUT_S: Final = 3600


def drive(task: Task) -> dict[str, Any]:
    """Runs the client to its end and reads what it wrote."""
    if installed_vllm() is None:
        raise ServeError("`--driver vllm-bench` needs vLLM in this environment", "Use `--driver own`.")
    with TemporaryDirectory(dir=task.scratch) as own:  # another call may measure into the same folder
        told = _ran(command(task, Path(own)), Path(own) / _RESULT)
    task.done(task.load.prompts)
    return _read(told)


def _ran(words: list[str], result: Path) -> dict[str, Any]:
    with child(words, grace_s=0, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        out, err = client.communicate(timeout=_TIMEOUT_S)
    if client.returncode or not result.is_file():
        said = (err or out).decode(errors="replace")
        raise ServeError(f"`vllm bench serve` ended with {client.returncode}:\n{said[-_SHOWN:]}")
    told: dict[str, Any] = json.loads(result.read_text())
    return told


def command(task: Task, folder: Path) -> list[str]:
    """The whole command line; the result goes to ``folder``."""
    load = task.load
    return [
        *(sys.executable, "-P", "-c", _CLIENT),
        *("--backend", "openai", "--base-url", task.server.url, "--model", task.server.model),
        *("--tokenizer", str(task.directory)),
        *("--num-prompts", str(load.prompts), "--max-concurrency", str(load.concurrency), "--seed", str(load.seed)),
        *("--ignore-eos", "--temperature", "0", "--disable-tqdm", "--ready-check-timeout-sec", "0"),
        *("--percentile-metrics", "ttft,tpot,e2el", "--save-result"),
        *("--result-dir", str(folder), "--result-filename", _RESULT),
        *(word for name, value in task.server.watch.headers.items() for word in ("--header", f"{name}={value}")),
        *(["--extra-body", json.dumps({"kv_transfer_params": request_flag()})] if task.rows else []),
        *_dataset(load),
    ]


def _dataset(load: Load) -> list[str]:
    if load.prefixes > 1:
        return [
            *("--dataset-name", "prefix_repetition"),
            *("--prefix-repetition-prefix-len", str(load.shared_prefix_tokens)),
            *("--prefix-repetition-suffix-len", str(load.own_tokens_mean)),
            *("--prefix-repetition-num-prefixes", str(load.prefixes)),
            *("--prefix-repetition-output-len", str(load.output_tokens)),
        ]
    return [
        *("--dataset-name", "random"),
        *("--random-prefix-len", str(load.shared_prefix_tokens)),
        *("--random-input-len", str(load.own_tokens_mean)),
        *("--random-output-len", str(load.output_tokens)),
        *("--random-range-ratio", str(load.range_ratio)),
    ]


def _read(told: dict[str, Any]) -> dict[str, Any]:
    failed = told.get("failed", 0)
    return {
        "requests": told["completed"] + failed,
        "completed": told["completed"],
        "errors": failed,
        "error_samples": sorted({error[:300] for error in told.get("errors", ()) if error})[:3],
        "seconds": round(told["duration"], 3),
        "requests_per_second": round(told["request_throughput"], 4),
        "output_tokens": told["total_output_tokens"],
        "ttft_ms": _spread(told, "ttft"),
        "tpot_ms": _spread(told, "tpot"),
        "ttfp_ms": None,
        "audio_seconds": 0.0,
        "real_time_factor": None,
    }


def _spread(told: dict[str, Any], name: str) -> dict[str, float]:
    return {kind: round(told[f"{kind}_{name}_ms"], 3) for kind in ("mean", "median", "p99")}
