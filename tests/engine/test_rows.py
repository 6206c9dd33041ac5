"""Every row that a consumer receives, against transformers in float32 and against the same engine with the cache off.

One engine a configuration, many scenarios an engine (``omnicfg.engine.verify`` says what each is about). What runs only
on a GPU (CUDA graphs, the other model runner) is in ``benchmarks/engine/rows.py``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.engine.support import engine_environment, run_python
from omnicfg.engine.memory import estimate
from omnicfg.engine.spec import PayloadRows
from omnicfg.models import materialize, tiny_thinker

pytest.importorskip("vllm", reason="starts the engine")
pytestmark = pytest.mark.slow
needs_compiler = pytest.mark.skipif(
    shutil.which(os.environ.get("CXX", "g++")) is None, reason="vLLM compiles C++ here, and there is no compiler"
)
needs_avx512 = pytest.mark.skipif(
    "avx512f" not in Path("/proc/cpuinfo").read_text(), reason="vLLM's CPU build quantizes its cache with AVX-512 only"
)

TOLERANCE = 5e-5  # of values up to 8, in float32
BASE = {
    "dtype": "float32",
    "enforce_eager": True,
    "max_model_len": 1536,
    "max_num_batched_tokens": 512,
    "max_num_seqs": 16,
    "disable_log_stats": False,
}
PRESSURE = {"num_gpu_blocks_override": 60, "async_scheduling": True}
COMPILED = {"enforce_eager": False, "async_scheduling": False}
FEW = ["hit", "partial hit", "crowd", "same step"]

Report = dict[str, Any]
Run = Callable[..., Report]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rows")


@pytest.fixture(scope="module")
def run(folder: Path) -> Run:
    """Runs one engine, and gives its report with the exit code and the log."""
    model = materialize("builtin:tiny-thinker")
    environment = engine_environment(folder, VLLM_CPU_KVCACHE_SPACE="1")

    def run(name: str, engine_args: dict[str, Any], *more: str, **variables: str) -> Report:
        arguments = ["-m", "omnicfg.engine.verify", str(model), "--out", str(folder / f"{name}.json")]
        arguments += ["--tolerance", str(TOLERANCE), "--engine-args", json.dumps({**BASE, **engine_args}), *more]
        log = folder / f"{name}.log"
        code = run_python(arguments, log, {**environment, **variables}, timeout=900)
        assert (folder / f"{name}.json").exists(), log.read_text()[-4000:]
        report: Report = json.loads((folder / f"{name}.json").read_text())
        return {**report, "exit_code": code, "log": log.read_text()}

    return run


def only(names: list[str]) -> list[str]:
    return [word for name in names for word in ("--scenario", name)]


@pytest.fixture(scope="module")
def cache_off(run: Run, folder: Path) -> Path:
    """The rows of all scenarios with the prefix cache off, kept in a file."""
    kept = folder / "off.pt"
    run("off", {"enable_prefix_caching": False}, "--save", str(kept), "--no-transformers")
    return kept


@pytest.fixture(scope="module")
def under_pressure(run: Run, cache_off: Path) -> Report:
    """All scenarios, with room for 60 blocks and asynchronous scheduling."""
    return run("pressure", PRESSURE, "--against", str(cache_off))


def by_scenario(verdicts: list[Report]) -> dict[str, Report]:
    return {verdict["scenario"]: verdict for verdict in verdicts}


def assert_right(report: Report, reference: str) -> None:
    verdicts = by_scenario(report[reference])
    assert {name: v["worst"] for name, v in verdicts.items() if v["worst"] > TOLERANCE} == {}
    assert {name: v["incomplete"] for name, v in verdicts.items() if v["incomplete"]} == {}


@pytest.mark.parametrize("reference", ["transformers", "against"])
def test_rows_are_right_in_every_scenario(under_pressure: Report, reference: str) -> None:
    assert_right(under_pressure, reference)


def test_the_scenarios_are_what_they_claim_to_be(under_pressure: Report) -> None:
    hits = {name: v["hit_tokens"] for name, v in by_scenario(under_pressure["transformers"]).items()}
    for name in ("hit", "hit of a hit", "partial hit", "exact blocks", "crowd", "same step", "n > 1", "eviction"):
        assert hits[name] > 0, name
    assert under_pressure["preemptions"] > 0


def test_tenants_with_different_salts_never_share_rows(under_pressure: Report) -> None:
    # three times the same 20 blocks: under salt one, two, one; a hit leaves at least one token to compute
    assert by_scenario(under_pressure["transformers"])["salt"]["hit_tokens"] == 19 * 32


@needs_compiler
def test_compiled_and_without_asynchronous_scheduling(run: Run) -> None:
    assert_right(run("compiled", COMPILED, *only(FEW)), "transformers")


@needs_compiler
@pytest.mark.parametrize("options", [[], ["--replicated"]], ids=["a part of every row each", "whole rows each"])
def test_two_tensor_parallel_ranks_give_the_same_rows(run: Run, options: list[str]) -> None:
    ranks = {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}
    name = "ranks" if not options else "ranks-replicated"
    report = run(name, ranks, *options, *only(FEW), VLLM_CPU_OMP_THREADS_BIND="nobind")
    assert_right(report, "transformers")
    if not options:  # vLLM has the same memory for both
        assert_capacity(report, {**BASE, **ranks})


@pytest.fixture(scope="module")
def wrong_block(run: Run) -> Report:
    return run("wrong", {}, "--wrong-block", *only(["hit", "crowd"]))


def test_one_wrong_block_is_seen(wrong_block: Report) -> None:
    worst = max(verdict["worst"] for verdict in wrong_block["transformers"])
    assert worst > 1.0
    assert wrong_block["exit_code"] == 1


def test_the_estimate_is_what_vllm_logs(wrong_block: Report) -> None:
    assert_capacity(wrong_block, BASE)


def assert_capacity(report: Report, engine_args: dict[str, Any]) -> None:
    """The tokens that vLLM has logged to fit into its 1 GiB, against the estimate."""
    (logged,) = set(re.findall(r"KV cache size: ([\d,]+) tokens", report["log"]))
    rows = PayloadRows((2,), final=True)
    expected = estimate(tiny_thinker.config(), engine_args, rows).tokens(2**30, block_size=32)
    assert int(logged.replace(",", "")) == pytest.approx(expected, rel=0.03)


@needs_avx512
def test_a_quantized_cache_keeps_rows_in_the_models_dtype(run: Run, folder: Path) -> None:
    """Keys and values of eight bits change what the model says; hits must not.

    Rounding of the last bit can turn a key into the next of eight bits, so rows are compared loosely: a wrong block is
    off by more than 5, as the negative control shows.
    """
    quantized, kept = {"kv_cache_dtype": "fp8"}, folder / "fp8.pt"
    off = {**quantized, "enable_prefix_caching": False}
    run("fp8-off", off, "--save", str(kept), "--no-transformers", *only(["hit", "crowd"]))
    report = run("fp8", quantized, "--against", str(kept), *only(["hit", "crowd"]))
    verdicts = by_scenario(report["against"])
    assert {name: v["worst"] < 2 for name, v in verdicts.items()} == {"hit": True, "crowd": True}
    assert all(v["hit_tokens"] > 0 and v["incomplete"] == 0 for v in verdicts.values())
    assert_capacity(report, {**BASE, **quantized})
