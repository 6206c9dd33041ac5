"""What vLLM makes of the engine args that a user leaves unset.

vLLM decides these in code, not in a table. ``vllm_resolutions.toml`` says in our words what that code decides. The
batch sizes are not written down: they come from running vLLM's own function for every size of device memory.

A record is ``{"value", "when", "source"}``: the value in the ordinary case, null where it depends on the model or the
machine, and that case in words. ``by_stage`` gives the value for kinds of stage that settle it. ``cases`` lists other
outcomes, each with its condition in words and, where data can tell, as keys: ``platform``, ``runner``, ``attention``,
``usage`` (vLLM's usage context; vLLM-Omni's stages run as ``LLM_CLASS``, ``vllm serve`` as ``OPENAI_API_SERVER``),
``device_memory_gib`` (from, below; null: no limit), ``device_name``, ``device_capability``. Of several cases that hold,
the first counts.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

_USAGES = ("LLM_CLASS", "OPENAI_API_SERVER")
_MEMORY_GIB = range(1, 513)
_BATCH_SOURCE = ("vllm/engine/arg_utils.py", "def get_batch_defaults(")
_BATCH_LIMITS = {
    "max_num_batched_tokens": (
        "twice that with performance_mode throughput, at least max_model_len without chunked prefill, at most"
        " max_num_seqs times max_model_len"
    ),
    "max_num_seqs": "twice that with performance_mode throughput, at most max_num_batched_tokens",
}


def resolutions(arg_utils: Any) -> dict[str, Any]:
    """Engine arg → what it becomes when it is unset.

    Raises:
        LookupError: where a line that an entry rests on is not in this release exactly once.
    """
    root = Path(str(arg_utils.__file__)).parent.parent.parent
    entries = tomllib.loads(Path(__file__).with_name("vllm_resolutions.toml").read_text(encoding="utf-8"))
    records = {arg: _record(root, entry) for arg, entry in entries.items()}
    for index, (arg, limits) in enumerate(_BATCH_LIMITS.items()):
        records[arg] = {
            "value": None,
            "when": f"by device memory and usage; {limits}",
            "source": _source(root, *_BATCH_SOURCE),
            "cases": _batch_cases(arg_utils, index),
        }
    return dict(sorted(records.items()))


def _record(root: Path, entry: dict[str, Any]) -> dict[str, Any]:
    record = {
        "value": entry.get("value"),
        "when": entry["when"],
        "source": _source(root, entry["source"], entry["line"]),
    }
    if "by_stage" in entry:
        record["by_stage"] = entry["by_stage"]
    cases = [
        case for case in entry.get("cases", []) if "line" not in case or _lines(root, case["source"], case["line"])
    ]
    if cases:
        record["cases"] = [
            {key: value for key, value in case.items() if key not in ("source", "line")} for case in cases
        ]
    return record


def _lines(root: Path, file: str, text: str) -> list[int]:
    lines = (root / file).read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if line.strip() == text]


def _source(root: Path, file: str, text: str) -> str:
    found = _lines(root, file, text)
    if len(found) != 1:
        raise LookupError(f"{file}: the line {text!r} is there {len(found)} times: read how vLLM resolves this arg now")
    return f"{file}:{found[0]}"


def _batch_cases(arg_utils: Any, index: int) -> list[dict[str, Any]]:
    """For each usage: what a platform, a name or a capability changes, then ranges of memory with one outcome."""
    cases: list[dict[str, Any]] = []
    for usage in _USAGES:
        sizes = {gib: _batch_default(arg_utils, index, usage, Device(gib)) for gib in _MEMORY_GIB}
        for device, when, keys in _SPECIAL_DEVICES:
            value = _batch_default(arg_utils, index, usage, device)
            if value != sizes[device.gib]:
                cases.append({"when": when, "value": value, "usage": usage, **keys})
        for value, group in groupby(sizes, key=lambda gib: sizes[gib]):
            span = list(group)
            low = span[0] if span[0] > _MEMORY_GIB[0] else 0
            high = span[-1] + 1 if span[-1] < _MEMORY_GIB[-1] else None
            when = f"device memory from {low} GiB" + ("" if high is None else f" to below {high} GiB")
            cases.append({"when": when, "value": value, "usage": usage, "device_memory_gib": [low, high]})
    scheduler = arg_utils.SchedulerConfig
    other = (scheduler.DEFAULT_MAX_NUM_BATCHED_TOKENS, scheduler.DEFAULT_MAX_NUM_SEQS)[index]
    return [*cases, {"when": "any other usage", "value": other}]


@dataclass(frozen=True, slots=True)
class Device:
    """One device as vLLM asks about it: memory in GiB, name, compute capability."""

    gib: int
    name: str = "some device"
    capability: tuple[int, int] = (0, 0)
    is_cpu: bool = False


_SPECIAL_DEVICES: tuple[tuple[Device, str, dict[str, Any]], ...] = (
    (Device(80, is_cpu=True), "CPU; times the tensor and pipeline parallel sizes", {"platform": "cpu"}),
    (Device(80, "NVIDIA A100"), "A100, whatever its memory", {"device_name": "A100"}),
    (Device(120, capability=(12, 1)), "GB10 (DGX Spark)", {"device_capability": [12, 1]}),
)


def _batch_default(arg_utils: Any, index: int, usage: str, device: Device) -> int:
    from vllm.usage.usage_lib import UsageContext

    with _seen_by(arg_utils, device):
        tables = arg_utils.EngineArgs.get_batch_defaults(world_size=1)
    return int(tables[index][UsageContext[usage]])


@contextmanager
def _seen_by(arg_utils: Any, device: Device) -> Iterator[None]:
    """Let vLLM see this device instead of the machine's."""

    class Platform(type(arg_utils.current_platform)):  # type: ignore[misc]  # a class that only vLLM knows
        @classmethod
        def get_device_total_memory(cls, _device_id: int = 0) -> int:
            return device.gib * 2**30

        @classmethod
        def get_device_name(cls, _device_id: int = 0) -> str:
            return device.name

        @classmethod
        def is_device_capability(cls, capability: tuple[int, int] | int, _device_id: int = 0) -> bool:
            return device.capability == capability

        def is_cpu(self) -> bool:
            return device.is_cpu

    before = arg_utils.current_platform
    arg_utils.current_platform = Platform()
    try:
        yield
    finally:
        arg_utils.current_platform = before
