"""Three stages at the dimensions of Qwen3-Omni-30B-A3B, placed as the profile says, with nothing of that set:
how much of each GPU they take, and that it is no more than their shares.

Requests for text and speech go to the server meanwhile, since some memory is taken by the first ones.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import omnicfg
from benchmarks.engine.support import Results
from benchmarks.gpu.benches import Memory
from benchmarks.gpu.parts import GRACE_S, Context, Part, Table, settings
from benchmarks.gpu.served import SPOKEN, Served, served
from omnicfg.doctor.nvidia import ask_devices

_NAME: Final = "placement"
_PROFILE: Final = "qwen3_omni_moe"
_FRAMES: Final = "stages.1.default_sampling_params.max_tokens"
"""Without weights the Talker does not stop by itself."""
_ON_CPU: Final = {
    "stages.0.moe_backend": "auto",
    "stages.0.gpu_memory_utilization": 0.7,
    "stages.1.gpu_memory_utilization": 0.2,
    "stages.0.max_model_len": 2048,
    "stages.0.kv_cache_memory_bytes": 2**28,
    _FRAMES: 10,
}
_CONTEXT_MIB: Final = 1024
"""What CUDA itself takes on the Thinker's GPU for the Talker's process, which maps the rows there."""
_REQUESTS: Final = 16


def _run(context: Context) -> None:
    results = Results(context.folder(_NAME))
    if results.done(_NAME):
        return
    values: dict[str, Any] = {f"stages.{stage}.load_format": "dummy" for stage in range(3)} | {_FRAMES: 200}
    values |= _ON_CPU if context.cpu else {}
    words = [_PROFILE, "--model", str(context.model("qwen3-omni-speech")), *settings(values)]
    with Memory() as memory, served(context, words, results.folder / "serve.log") as server:
        seconds = server.wait(context.budget.left - GRACE_S)
        if seconds is None:
            return
        name = server.model()
        with ThreadPoolExecutor(_REQUESTS) as pool:
            answers = list(pool.map(lambda number: _ask(server, name, number), range(_REQUESTS)))
        known = memory.beside([])
    results.write(
        _NAME,
        {
            "start_s": round(seconds, 1),
            "answers": answers,
            "mib_in_use_at_most": known,
            "mib": [device.total // 2**20 for device in ask_devices() if device.total],
            "shares": shares(),
        },
    )


def shares() -> list[dict[str, Any]]:
    """What the profile asks for: each stage's devices, and its share of each."""
    plan = omnicfg.resolve(_PROFILE, platform="cuda")
    return [
        {
            "stage": stage.stage_id,
            "devices": str(stage.runtime.value("devices")),
            "share": stage.arg("gpu_memory_utilization"),
        }
        for stage in plan.stages
    ]


def _ask(server: Served, name: str, number: int) -> int:
    body = {
        "model": name,
        "messages": [{"role": "user", "content": f"Tell me of the number {number}"}],
        "max_tokens": 16,
        **SPOKEN,
    }
    return server.ask("POST", "/v1/chat/completions", body, seconds=120)[0]


def _table(context: Context) -> Table:
    results = Results(context.folder(_NAME))
    if not results.done(_NAME):
        return ["nothing is measured yet"], False
    told = results.read(_NAME)
    answered = told["answers"].count(200)
    lines = [f"ready after {told['start_s']} s, {answered} of {len(told['answers'])} requests answered"]
    right = answered == len(told["answers"]) > 0
    for device, (used, total) in enumerate(zip(told["mib_in_use_at_most"], told["mib"], strict=True)):
        stages = [one for one in told["shares"] if str(device) in one["devices"].split(",")]
        allowed = sum(one["share"] for one in stages) * total + _CONTEXT_MIB
        names = ", ".join(f"stage {one['stage']} ({one['share']})" for one in stages)
        lines.append(f"GPU {device}: {names}: {used / 1024:.1f} of {total / 1024:.1f} GiB in use at most")
        right = right and used <= allowed
    return lines, right


PARTS: Final = (Part(_NAME, _run, _table, gpus=2),)
