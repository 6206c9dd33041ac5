"""What is known of a plan's settings: the entry of the model's capability record that fits the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from omnicfg.catalog.capabilities import entry_for
from omnicfg.catalog.upstream import own_pipelines
from omnicfg.plan import Plan, StagePlan
from omnicfg.rule import DEFAULT_ENGINE, situation

# The key of a profile → the capability that records speak of.
CAPABILITY_OF: Final = {
    "enable_prefix_caching": "prefix_caching",
    "model_runner": "model_runner_v2",
    "use_v2_model_runner": "model_runner_v2",
    "session_mode": "duplex",
    "async_chunk": "async_chunk",
}


def engine_of(pipeline: str) -> str:
    """The engine that a pipeline is looked at for where none is named: the bundled one for those of this project."""
    return "bundled" if pipeline in own_pipelines() else DEFAULT_ENGINE


def entry_on(plan: Plan, stage: StagePlan, capability: str, engine: str | None = None) -> Mapping[str, Any] | None:
    """The entry that counts for a stage of the plan; ``None`` where nothing is recorded."""
    facts = situation(plan, stage, engine or engine_of(plan.pipeline))
    return entry_for(plan.pipeline, stage.model_stage, capability, facts)


def host_memory_text(entry: Mapping[str, Any]) -> str | None:
    """``9.9 to 10.9 GiB of host memory (15.2 to 16.1 with it, 5.2 to 5.3 without)``; ``None`` where not measured."""
    memory = (entry.get("costs") or {}).get("host_memory_gib")
    if not memory:
        return None
    both = "with" in memory and "without" in memory
    added = memory.get("added")
    if added is None and both:
        added = [memory["with"][0] - memory["without"][1], memory["with"][1] - memory["without"][0]]
    text = f"{_range(added)} GiB of host memory" if added else "host memory"
    return f"{text} ({_range(memory['with'])} with it, {_range(memory['without'])} without)" if both else text


def load_texts(entry: Mapping[str, Any]) -> list[str]:
    """One line for each measured load: ``decode, 100 tokens in and out: 0 to 0.5% hits, throughput -3 to -0.8%``."""
    return [_load(load) for load in (entry.get("costs") or {}).get("loads", ())]


def _load(load: Mapping[str, Any]) -> str:
    parts = []
    if "hit_percent" in load:
        parts.append(f"{_range(load['hit_percent'])}% hits")
    for key, name in (("throughput_percent", "throughput"), ("first_packet_percent", "time to first audio")):
        if key in load:
            parts.append(f"{name} {_range(load[key], sign='+')}%")
    return f"{load['load']}: {', '.join(parts)}"


def _range(ends: Sequence[float], sign: str = "") -> str:
    low, high = (f"{end:{sign}.1f}".removesuffix(".0") for end in ends)
    return low if low == high else f"{low} to {high}"
