"""Pass 3: each setting of an old file → what became of it, before anything is said of a base."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from typing import Any

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.migrate.facts import facts
from omnicfg.migrate.old_file import OldFile, OldStage, Setting
from omnicfg.migrate.outcome import Fate, Outcome, Wanted
from omnicfg.migrate.owned import Owned
from omnicfg.migrate.recognise import Recognised, Topology
from omnicfg.near import did_you_mean
from omnicfg.plan import CONNECTOR_SIDES
from omnicfg.report.yaml import inline
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, grow, plain
from omnicfg.wording import is_number

_UNSAID = "the old file left it unsaid"
_IMPLIED = Layer(LayerKind.PROFILE, "implied")


def outcomes(old: OldFile, found: Recognised) -> list[Outcome]:
    """What became of every setting, in the order of the file; last what the file meant without saying it."""
    mapper = _Mapper(old, found)
    told = [mapper.outcome(setting) for setting in old.all_settings]
    return [*told, *mapper.implied()]


class _Mapper:
    def __init__(self, old: OldFile, found: Recognised) -> None:
        self.old = old
        self.found = found
        self.pipeline = pipelines()[found.pipeline]
        self.ids = {old.stages[at].stage_id: topology["stage_id"] for at, topology in found.stages.items()}
        self.owned = Owned(self.pipeline, self.ids)
        self.references = _references(old)
        self.defined = {setting.path[-2] for setting in old.settings if _is_connector_name(setting)}
        self.async_chunk: bool | None = None

    def outcome(self, setting: Setting) -> Outcome:
        return self._of_profile(setting) if setting.stage is None else self._of_stage(setting, setting.stage)

    # ------------------------------------------------------------------------------------------------- the profile
    def _of_profile(self, setting: Setting) -> Outcome:
        path = setting.path
        key = ".".join(path[:2]) if path[0] == "runtime" else path[0]
        rest = path[2:] if path[0] == "runtime" else path[1:]
        fact = facts()["profile"].get(key)
        if fact is None:
            return _outcome(setting, Fate.UNREAD, "no key of this schema; no release read it")
        if key.endswith("connectors"):
            return self._connector(setting, rest, Fate(fact["fate"]))
        if fact["fate"] == "edges":
            return self._edge(setting, rest)
        if key == "async_chunk":
            return self._async_chunk(setting)
        if fact["fate"] == "topology":
            fate = Fate.TOPOLOGY if setting.value == self.found.pipeline else Fate.DIFFERS
            return _outcome(setting, fate, f"the pipeline is {self.found.pipeline}")
        return _by_fact(setting, fact)

    def _connector(self, setting: Setting, rest: tuple[str, ...], fate: Fate) -> Outcome:
        found, note, hint = _connector_verdict(setting, rest, self.references)
        if found is not None:
            return _outcome(setting, found, note, hint)
        return _outcome(setting, fate, wanted=Wanted(None, ("connectors", *rest), _to_write(setting), setting.value))

    def _edge(self, setting: Setting, rest: tuple[str, ...]) -> Outcome:
        if len(rest) == 2 and rest[1] not in ("from", "to"):
            return _by_fact(setting, facts()["edge"].get(rest[1], {"fate": "unread", "why": "no release read it"}))
        if len(rest) != 2:
            return _outcome(setting, Fate.UNREAD, "it is no edge")
        prefix = setting.path[:-1]
        ends = {each.path[-1]: each.value for each in self.old.settings if each.path[:-1] == prefix}
        edge = tuple(_get(self.ids, ends.get(end)) for end in ("from", "to"))
        edges = {(source, stage["stage_id"]) for stage in self.pipeline["stages"] for source in stage["input_sources"]}
        if edge in edges:
            return _outcome(setting, Fate.TOPOLOGY, f"the pipeline has the edge {edge[0]} to {edge[1]}")
        return _outcome(setting, Fate.DIFFERS, f"the pipeline has no edge {ends.get('from')} to {ends.get('to')}")

    def _async_chunk(self, setting: Setting) -> Outcome:
        value = bool(setting.value)
        if len(self.pipeline["stages"]) == 1:
            self.async_chunk = False
            return _outcome(setting, Fate.UNREAD, "a single-stage pipeline hands nothing on")
        if self.async_chunk is not None:
            alike = self.async_chunk is value
            why = "said for the whole pipeline" if alike else "one value holds for the whole pipeline"
            return _outcome(setting, Fate.DEFAULT if alike else Fate.LOST, why)
        self.async_chunk = value
        if value and not any(stage["async_chunk_process_next_stage_input_func"] for stage in self.pipeline["stages"]):
            self.async_chunk = None
            return _outcome(setting, Fate.LOST, f"no stage of pipeline {self.found.pipeline} can hand on chunks")
        renamed = setting.stage is not None
        wanted = Wanted(None, ("async_chunk",), grow(value, _IMPLIED, setting.node.mark), value)
        return _outcome(setting, Fate.RENAMED if renamed else Fate.KEPT, wanted=wanted)

    def implied(self) -> Iterator[Outcome]:
        """What every file of the old schema meant: no chunks unless it said so, the only runner, and turns."""
        values: dict[str, Any] = dict(facts()["implied"])
        if self.async_chunk is None and len(self.pipeline["stages"]) > 1:
            values["async_chunk"] = facts()["profile"]["async_chunk"]["implied"]
        for name, value in values.items():
            node = grow(value, _IMPLIED, Mark(self.old.shown))
            wanted = (Wanted(None, (name,), node, value),)
            yield Outcome(name, None, Fate.KEPT, _UNSAID, wanted=wanted)
        for position, topology in self.found.stages.items():
            if topology["execution_type"] != "diffusion":
                yield from self._implied_of_stage(self.old.stages[position], topology)

    def _implied_of_stage(self, stage: OldStage, topology: Topology) -> Iterator[Outcome]:
        """Sizes of 1 that a stage had by saying nothing: a base may spread that stage over devices."""
        stage_id: int = topology["stage_id"]
        for name, value in facts()["implied_of_stages"].items():
            if all(stage.value(*path) is None for path in (("engine_args", name), ("runtime", name))):
                node = grow(value, _IMPLIED, Mark(self.old.shown))
                wanted = (Wanted(stage_id, (name,), node, value),)
                yield Outcome(f"stages.{stage_id}.{name}", None, Fate.KEPT, _UNSAID, wanted=wanted)

    # ------------------------------------------------------------------------------------------------------ stages
    def _of_stage(self, setting: Setting, position: int) -> Outcome:
        stage, topology = self.old.stages[position], self.found.stages.get(position)
        path = setting.path
        key = ".".join(path[:2]) if path[0] in ("engine_args", "runtime") else path[0]
        fact = facts()["stage"].get(key)
        if fact is not None and fact["fate"] == "lost" and setting.value:
            return _by_fact(setting, fact)
        if topology is None:
            return self._without_stage(setting, stage)
        if fact is None:
            return self._unlisted(setting, stage, topology)
        if key == "engine_args.async_chunk":
            return self._async_chunk(setting)
        return self._listed(setting, stage, topology, fact)

    def _without_stage(self, setting: Setting, stage: OldStage) -> Outcome:
        if stage.value("is_prefill_only"):
            return _outcome(setting, Fate.LOST, "the half of a split stage that only prefills has no counterpart")
        return _outcome(setting, Fate.LOST, f"pipeline {self.found.pipeline} has no stage {stage.name}")

    def _listed(self, setting: Setting, stage: OldStage, topology: Topology, fact: MappingOf[str, Any]) -> Outcome:
        open_field = fact.get("if_open")
        if open_field is not None and setting.value and not topology[open_field]:
            return _outcome(setting, Fate.KEPT, wanted=_stage_wanted(topology, (open_field,), setting))
        special = {"sampling": self._sampling, "references": self._reference, "worker": self._worker}
        if fact["fate"] in special:
            return special[fact["fate"]](setting, topology)
        if fact["fate"] == "topology":
            is_same, note = self.owned.compare(setting, topology, fact["field"])
            return _outcome(setting, Fate.TOPOLOGY if is_same else Fate.DIFFERS, note)
        return _moved(setting, stage, topology, fact) if "to" in fact else _by_fact(setting, fact)

    def _unlisted(self, setting: Setting, stage: OldStage, topology: Topology) -> Outcome:
        block, name = setting.path[0], setting.path[-1]
        if block != "engine_args":
            return _outcome(setting, Fate.UNREAD, f"no key of {'`runtime`' if block == 'runtime' else 'a stage'}")
        if len(setting.path) == 1:
            return _blank(setting)
        if name == "kv_transfer_config" and stage.value("is_decode_only"):
            return _outcome(setting, Fate.LOST, "there is no stage left that would send it its cache")
        owners = deploy_schema().owners[topology["execution_type"]]
        if name in owners:
            return _outcome(setting, Fate.KEPT, wanted=_stage_wanted(topology, (name,), setting))
        return _outcome(
            setting,
            Fate.LOST,
            f"a stage of kind {topology['execution_type']} takes no engine arg `{name}` in vLLM-Omni {VLLM_OMNI}",
            did_you_mean(name, owners) or "`omnicfg schema stage` lists what it takes.",
        )

    def _sampling(self, setting: Setting, topology: Topology) -> Outcome:
        if len(setting.path) == 1:
            return _blank(setting)
        name = setting.path[1]
        required = topology["sampling_constraints"].get(name)
        if name == "stop_token_ids" and required is not None and isinstance(setting.value, list):
            united = list(dict.fromkeys([*map(_hashable, setting.value), *required]))
            if set(united) == set(required):
                return _outcome(setting, Fate.TOPOLOGY, f"the topology insists on {inline(required)}")
            wanted = _stage_wanted(topology, setting.path, setting, united)
            return _outcome(setting, Fate.KEPT, f"the topology adds {inline(required)}", wanted=wanted)
        if required is not None:
            same = type(required) is type(setting.value) and required == setting.value
            return _outcome(
                setting, Fate.TOPOLOGY if same else Fate.DIFFERS, f"the topology insists on {inline(required)}"
            )
        known = deploy_schema().sampling_params
        if topology["execution_type"] != "diffusion" and name not in known:
            return _outcome(setting, Fate.LOST, "vLLM has no such sampling parameter", did_you_mean(name, known))
        return _outcome(setting, Fate.KEPT, wanted=_stage_wanted(topology, setting.path, setting))

    def _reference(self, setting: Setting, topology: Topology) -> Outcome:
        if len(setting.path) == 1:
            return _blank(setting)
        side, edge = setting.path
        prefix, _, number = edge.rpartition("_")
        other = _get(self.ids, int(number) if is_number(number) else None)
        if other is None:
            return _outcome(setting, Fate.LOST, f"`{edge}` leads to no stage of pipeline {self.found.pipeline}")
        today = f"{prefix}_{other}"
        fate = Fate.KEPT if today == edge else Fate.RENAMED
        if isinstance(setting.node, Mapping):
            return self._inline_connector(setting, topology, (side, today))
        if setting.value not in self.defined:
            return _outcome(setting, Fate.LOST, f"no connector `{setting.value}` is defined")
        return _outcome(setting, fate, wanted=_stage_wanted(topology, (side, today), setting))

    def _inline_connector(self, setting: Setting, topology: Topology, route: tuple[str, str]) -> Outcome:
        """A connector defined where it is referred to gets a name of its own."""
        name = f"connector_{route[1].removeprefix('to_').removeprefix('from_')}_of_stage_{topology['stage_id']}"
        definition = Wanted(None, ("connectors", name), setting.raw, setting.value)
        node = Scalar(name, setting.node.layer, setting.node.mark)
        reference = Wanted(topology["stage_id"], route, node, name)
        note = f"defined as `connectors.{name}`; a stage refers to connectors by name"
        return Outcome(_path(setting), setting, Fate.RENAMED, note, None, (definition, reference))

    def _worker(self, setting: Setting, topology: Topology) -> Outcome:
        known = facts()["worker_classes"].get(setting.value if isinstance(setting.value, str) else None)
        kind = deploy_schema().execution_types[topology["execution_type"]]["worker_type"]
        if known is None:
            return _outcome(setting, Fate.KEPT, wanted=_stage_wanted(topology, ("worker_cls",), setting))
        if known["worker_type"] == kind:
            return _outcome(setting, Fate.TOPOLOGY, "each platform has its worker for this kind of stage")
        return _outcome(setting, Fate.DIFFERS, f"the stage is of kind {topology['execution_type']}")


def _outcome(
    setting: Setting, fate: Fate, note: str = "", instead: str | None = None, *, wanted: Wanted | None = None
) -> Outcome:
    if wanted is not None and fate is Fate.RENAMED and not note:
        note = f"now `{wanted.key}`"
    return Outcome(_path(setting), setting, fate, note, instead, () if wanted is None else (wanted,))


def _blank(setting: Setting) -> Outcome:
    """A block of a stage without settings."""
    is_empty = setting.value in (None, {}, [], "")
    return _outcome(setting, Fate.UNREAD, "it is empty" if is_empty else "no release could read it: it is no mapping")


def _moved(setting: Setting, stage: OldStage, topology: Topology, fact: MappingOf[str, Any]) -> Outcome:
    """A setting that is still there, under its own name or another."""
    if setting.value is None or setting.value == {}:
        return _outcome(setting, Fate.UNREAD, "it is empty")
    winner = fact.get("unless")
    if winner is not None and stage.value(*winner.split(".")) is not None:
        return _outcome(setting, Fate.UNREAD, f"`{winner}` goes over it since 0.18")
    fate = Fate(fact["fate"])
    route = (fact["to"], *setting.path[1:]) if fate is Fate.KEPT else (fact["to"],)
    return _outcome(setting, fate, wanted=_stage_wanted(topology, route, setting))


_Verdict = tuple[Fate | None, str, str | None]


def _connector_verdict(setting: Setting, rest: tuple[str, ...], references: set[str]) -> _Verdict:
    """Why a line about a connector is not kept; no fate where it is."""
    schema = deploy_schema()
    if not rest or rest[0] not in references:
        return (
            Fate.UNREAD,
            "no stage refers to this connector" if rest else "it names no connector; no release read that",
            None,
        )
    if rest[1:] == ("name",):
        if setting.value in schema.connector_classes:
            return None, "", None
        hint = did_you_mean(str(setting.value), schema.connector_classes)
        return Fate.LOST, f"vLLM-Omni {VLLM_OMNI} has no such connector", hint
    if rest[1:2] == ("extra",) and len(rest) == 3:
        is_read = rest[2] in schema.connector_extra_keys
        return (None, "", None) if is_read else (Fate.UNREAD, _why_unread(rest[2]), None)
    return Fate.UNREAD, f"a connector has only {', '.join(sorted(schema.connector_keys))}", None


def _by_fact(setting: Setting, fact: MappingOf[str, Any]) -> Outcome:
    return _outcome(setting, Fate(fact["fate"]), fact.get("why", ""), fact.get("instead"))


def _path(setting: Setting) -> str:
    stage = () if setting.stage is None else ("stage_args", str(setting.stage))
    return ".".join((*stage, *setting.path))


def _why_unread(key: str) -> str:
    fact = facts()["connector_extra"].get(key)
    if fact is None:
        return f"no connector of vLLM-Omni {VLLM_OMNI} reads it"
    last = fact["last_read"]
    return f"last read by vLLM-Omni {last}" if last else "no connector ever read it"


def _stage_wanted(topology: Topology, route: tuple[str, ...], setting: Setting, value: Any = None) -> Wanted:
    """``value`` where the value that takes effect is not the one that is written."""
    stage_id: int = topology["stage_id"]
    raw = _to_write(setting)
    if route == ("devices",):
        raw = _device_text(setting, raw)
        return Wanted(stage_id, route, raw, plain(raw) if "${" not in str(plain(raw)) else setting.value)
    return Wanted(stage_id, route, raw, setting.value if value is None else value)


def _device_text(setting: Setting, raw: Node) -> Node:
    """Devices as the text that they have to be today."""
    value = setting.value
    if isinstance(value, list):
        return Scalar(",".join(map(str, value)), raw.layer, raw.mark)
    return raw if isinstance(value, str) else Scalar(str(value), raw.layer, raw.mark)


def _to_write(setting: Setting) -> Node:
    """What to write: an expression on the environment stays one; a reference into the old file does not."""
    return _merged(setting.raw, setting.node)


def _merged(raw: Node, node: Node) -> Node:
    if isinstance(raw, Scalar) and isinstance(raw.value, str) and "${" in raw.value:
        return raw if is_expression(raw) else node
    if isinstance(raw, Mapping) and isinstance(node, Mapping):
        merged = node.copy()
        for key, child in node.items.items():
            merged.items[key] = _merged(raw.items.get(key, child), child)
        return merged
    if isinstance(raw, Sequence) and isinstance(node, Sequence) and len(raw.items) == len(node.items):
        copy = node.copy()
        copy.items = [_merged(a, b) for a, b in zip(raw.items, node.items, strict=True)]
        return copy
    return node


def is_expression(node: Node) -> bool:
    """Whether a value depends on the environment alone, so that it may be another one elsewhere."""
    text = node.value if isinstance(node, Scalar) and isinstance(node.value, str) else ""
    return "${" in text and text.count("${") == text.count("${oc.env:") + text.count("${oc.decode:")


def _references(old: OldFile) -> set[str]:
    settings = [setting for stage in old.stages for setting in stage.settings]
    return {each.value for each in settings if each.path[0] in CONNECTOR_SIDES and isinstance(each.value, str)}


def _is_connector_name(setting: Setting) -> bool:
    return "connectors" in setting.path[:2] and len(setting.path) > 2 and setting.path[-1] == "name"


def _get(ids: MappingOf[int, int], key: Any) -> int | None:
    return ids.get(key) if isinstance(key, int) else None


def _hashable(value: Any) -> Any:
    return value if not isinstance(value, dict | list) else str(value)
