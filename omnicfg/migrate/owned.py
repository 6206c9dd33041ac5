"""What the topology decides today, compared with what an old file says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.migrate.facts import facts, former_names
from omnicfg.migrate.old_file import Setting
from omnicfg.migrate.recognise import Topology, effective_architecture, processor_module
from omnicfg.report.yaml import inline

Verdict = tuple[bool, str]
_INTO: Final = ("custom_process_input_func", "sync_process_input_func")
_OUT_OF: Final = ("custom_process_next_stage_input_func", "async_chunk_process_next_stage_input_func")


class Owned:
    """The comparison for one pipeline; ``ids`` maps the ids of the old file to today's."""

    def __init__(self, pipeline: Mapping[str, Any], ids: Mapping[int, int]) -> None:
        self.pipeline = pipeline
        self.ids = ids

    def compare(self, setting: Setting, topology: Topology, field: str) -> Verdict:
        """Whether the topology means the same as the setting, and in words what it says."""
        special: dict[str, Callable[[Setting, Topology], Verdict]] = {
            "model_arch": self._architecture,
            "model_stage": self._stage_name,
            "execution_type": self._kind,
            "scheduler_cls": self._scheduler,
            "input_sources": self._sources,
            "processor": self._processor,
            "engine_output_type": self._output_type,
        }
        if field in special:
            return special[field](setting, topology)
        value: Any = topology
        for step in field.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        return _verdict(setting.value == value or (not setting.value and not value), value)

    def _architecture(self, setting: Setting, topology: Topology) -> Verdict:
        today = effective_architecture(topology, self.pipeline)
        return _verdict(today in former_names("model_arch", setting.value), today)

    def _stage_name(self, setting: Setting, topology: Topology) -> Verdict:
        today = topology["model_stage"]
        return _verdict(today in former_names("model_stage", setting.value), today)

    def _kind(self, setting: Setting, topology: Topology) -> Verdict:
        today = deploy_schema().execution_types[topology["execution_type"]][setting.path[-1]]
        return _verdict(setting.value == today, topology["execution_type"])

    def _scheduler(self, setting: Setting, topology: Topology) -> Verdict:
        today = topology["scheduler_cls"]
        if today is not None:
            return _verdict(setting.value == today, today)
        kind = facts()["schedulers"].get(setting.value if isinstance(setting.value, str) else None)
        same = kind == topology["execution_type"] or (not setting.value)
        schedulers = deploy_schema().execution_types[topology["execution_type"]]["scheduler"]
        if schedulers["sync"] is None:
            return same, "a diffusion stage has its own way to schedule"
        names = {way: str(path).rpartition(".")[2] for way, path in schedulers.items()}
        if names["async"] == names["sync"]:
            return same, f"a stage of this kind has {names['sync']}"
        return same, f"{names['async']}, or with `async_scheduling: false` {names['sync']}"

    def _sources(self, setting: Setting, topology: Topology) -> Verdict:
        given = setting.value if isinstance(setting.value, list) else [setting.value]
        mapped = [self.ids.get(stage_id) if isinstance(stage_id, int) else None for stage_id in given]
        same = (mapped if setting.value else []) == list(topology["input_sources"])
        return _verdict(same, topology["input_sources"])

    def _processor(self, setting: Setting, topology: Topology) -> Verdict:
        """Processors were renamed and split; what lies in the same upstream module on the same edge took over."""
        if setting.value is None:
            return True, "the topology has its processors"
        module = processor_module(setting.value)
        today = [topology[field] for field in (_INTO if setting.path[-1] in _INTO else _OUT_OF)]
        if setting.path[-1] in _INTO:
            sources = [stage for stage in self.pipeline["stages"] if stage["stage_id"] in topology["input_sources"]]
            today += [stage[field] for stage in sources for field in _OUT_OF]
        heirs = [str(path) for path in today if module and processor_module(path) == module]
        if setting.value in heirs:
            return True, "the topology has it"
        if not heirs:
            return False, "the topology names its own, and none lies in that module"
        names = ", ".join(dict.fromkeys(path.rpartition(".")[2] for path in heirs))
        return True, f"the topology has {names} in its place"

    def _output_type(self, setting: Setting, topology: Topology) -> Verdict:
        today = topology["engine_output_type"]
        if today is None and setting.value == topology["final_output_type"]:
            return True, "it follows from `final_output_type`"
        return _verdict(setting.value == today, today)


def _verdict(same: bool, value: Any) -> Verdict:
    return same, f"the topology says {inline(_plain(value))}"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
