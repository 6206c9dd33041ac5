"""Every text row of the published tables, the prefix cache off and on; two GPUs have half of the rows each.

Rows with hits are measured by plain vLLM with its own cache on too, beside which the bundled engine has to hold its
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from benchmarks.gpu import benches
from benchmarks.gpu.parts import Context, Part, Table, settings
from omnicfg.bench.loads import Load, chosen, quick, read_loads, tables
from omnicfg.bench.progress import work

_ARMS: Final = ("off:stages=0,stages.0.enable_prefix_caching=false", "on")
_PLAIN: Final = "plain:stages=0,stages.0.enable_prefix_caching=true"
_MODELS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "qwen3": ("qwen3_omni_moe", "qwen3-omni", {}),
    "minicpmo": ("minicpmo_4_5_turn", "minicpm-o-4-5", {"stages.0.max_num_seqs": 64}),
}
"""The profile, what the model's directory and its published table are called, and what is set."""
# The estimate takes 13 to 17 seconds of every start; both arms go without it.
_GPU: Final = {"stages.0.env": '{VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS: "0"}'}
_CPU: Final = {"stages.0.moe_backend": "auto", "stages.0.max_model_len": 2048, "stages.0.kv_cache_memory_bytes": 2**28}


def loads(model: str, context: Context) -> list[Load]:
    """The loads that are answered in text, or those of them that are asked for."""
    published = chosen(quick() if context.cpu else read_loads(tables()[_MODELS[model][1]]), ())
    named = context.loads or [load.name for load in published]
    return [load for load in published if load.answer == "text" and load.name in named]


def halves(rows: list[Load]) -> tuple[list[Load], list[Load]]:
    """Two lists that ask about as much of a server each, so that two GPUs are ready at about the same time."""
    one: list[Load] = []
    other: list[Load] = []
    for load in sorted(rows, key=work, reverse=True):
        min(one, other, key=lambda half: sum(map(work, half))).append(load)
    return one, other


def hitting(rows: Sequence[Load]) -> list[Load]:
    """Those whose prompts share something."""
    return [load for load in rows if load.shared_prefix_tokens]


def _run(model: str, context: Context) -> None:
    profile, directory, values = _MODELS[model]
    folder = context.folder(f"text-{model}")
    words = [profile, "--model", str(context.model(directory)), *(["--quick"] if context.cpu else [])]
    words += settings({"stages.0.load_format": "dummy", **values, **(_CPU if context.cpu else _GPU)})

    def measure(device: int, rows: Sequence[Load]) -> None:
        for arms, some in ((_ARMS, rows), ((*_ARMS, _PLAIN), hitting(rows))):
            if not some:
                continue
            named = [*words, "--loads", ",".join(load.name for load in some)]
            name = f"gpu-{device}"
            benches.bench(context, folder, name, named, devices=str(device), arms=arms, rounds=context.rounds)

    rows = loads(model, context)
    shares = halves(rows) if len(context.devices) > 1 and not context.cpu else [rows]
    with ThreadPoolExecutor(len(shares)) as pool:
        list(pool.map(measure, range(len(shares)), shares))


def _table(model: str, context: Context) -> Table:
    rows = loads(model, context)
    count = len(_ARMS) * len(rows) + len(hitting(rows))
    return benches.table(context.folder(f"text-{model}"), count * context.rounds)


PARTS: Final = tuple(Part(f"text-{model}", partial(_run, model), partial(_table, model)) for model in _MODELS)
