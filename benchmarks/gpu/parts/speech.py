"""All three stages at the dimensions of Qwen3-Omni-30B-A3B, in text and speech, the prefix cache off and on.

``speech-one``: all stages share a GPU; where there are two, the arms are measured at the same time, each on a GPU of
its own, which they change from round to round. ``speech-two``: the Thinker on one GPU, Talker and Code2Wav on the
other. Arms that have no GPU of their own are measured one after the other.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu import benches
from benchmarks.gpu.parts import Context, Part, Table, settings
from omnicfg.bench.loads import Load, chosen, read_loads

_LOADS: Final = Path(__file__).parents[2] / "engine" / "speech_loads.csv"
_ARMS: Final = {"off": "off:stages.0.enable_prefix_caching=false", "on": "on"}
_GPU: Final = {
    "stages.0.env": '{VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: "0"}',
    # With these the shares only say how much has to be free: 57 and 7 GiB of weights, the caches, and some for steps.
    "stages.0.kv_cache_memory_bytes": 30 * 2**30,
    "stages.1.kv_cache_memory_bytes": 10 * 2**30,
    "stages.0.gpu_memory_utilization": 0.65,
    "stages.1.gpu_memory_utilization": 0.15,
    "stages.0.max_model_len": 8192,
    "stages.1.max_model_len": 8192,
    "stages.1.default_sampling_params.max_tokens": 200,
}
_CPU: Final = {
    "stages.0.moe_backend": "auto",
    "stages.0.gpu_memory_utilization": 0.7,
    "stages.1.gpu_memory_utilization": 0.2,
    "stages.0.max_model_len": 2048,
    "stages.0.kv_cache_memory_bytes": 2**28,
    "stages.1.default_sampling_params.max_tokens": 20,
}


def _run(later: int, context: Context) -> None:
    folder = context.folder(_name(later))
    values: dict[str, Any] = {f"stages.{stage}.load_format": "dummy" for stage in range(3)}
    values |= {f"stages.{stage}.devices": f'"{later}"' for stage in (1, 2)}
    words = ["qwen3_omni_moe", "--model", str(context.model("qwen3-omni-speech"))]
    words += ["--loads-file", str(_small_loads(folder) if context.cpu else _LOADS)]
    words += settings(values | (_CPU if context.cpu else _GPU))

    if later or context.cpu or len(context.devices) == 1:
        devices, arms = ",".join(map(str, range(later + 1))), list(_ARMS.values())
        benches.bench(context, folder, "off-and-on", words, devices=devices, arms=arms, rounds=context.rounds)
    else:
        _arms_at_once(context, folder, words)


def _arms_at_once(context: Context, folder: Path, words: Sequence[str]) -> None:
    def arm(name: str, device: int, rounds: int) -> None:
        arms = [_ARMS[name]]
        benches.bench(context, folder, f"{name}-gpu-{device}", words, devices=str(device), arms=arms, rounds=rounds)

    for round_ in range(1, context.rounds + 1):
        first, second = (0, 1) if round_ % 2 else (1, 0)
        # The first arm that a folder hears of is the baseline: of two at once, `off` has to come there first.
        with ThreadPoolExecutor(2) as pool:
            off = pool.submit(arm, "off", first, round_)
            while not (folder / "bench" / "setup.json").exists() and not off.done():
                context.stop.wait(0.2)
            pool.submit(arm, "on", second, round_).result()
            off.result()


def _small_loads(folder: Path) -> Path:
    """The same loads with a twentieth of the tokens, four requests at a time."""
    path = folder / "loads.csv"
    rows = [_smaller(load).to_dict() for load in read_loads(_LOADS)]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def _smaller(load: Load) -> Load:
    shared, own = load.shared_prefix_tokens // 20, load.own_tokens_mean // 20
    return replace(load, shared_prefix_tokens=shared, own_tokens_mean=own, output_tokens=8, concurrency=4, prompts=8)


def _table(later: int, context: Context) -> Table:
    count = len(chosen(read_loads(_LOADS), ())) * len(_ARMS) * context.rounds
    return benches.table(context.folder(_name(later)), count)


def _name(later: int) -> str:
    return "speech-two" if later else "speech-one"


PARTS: Final = tuple(
    Part(_name(later), partial(_run, later), partial(_table, later), gpus=later + 1) for later in (0, 1)
)
