"""Pass 6: ``--set`` and API overrides → the deploy tree in which they win over every file.

A key is a path in the profile: ``stages.0.max_num_seqs``, ``duplex_session.max_sessions``, ``async_chunk``. A
mapping merges into the mapping that is there. A pipeline-wide key (``enable_prefix_caching``, ``dtype``, …) holds
for every stage, as vLLM-Omni's own command line has it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from collections.abc import Mapping as MappingOf
from typing import Any, Final, NamedTuple

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import known_engine_args
from omnicfg.near import did_you_mean
from omnicfg.passes.deploy import RUNTIME_KEYS, checked_field, default_node, num_replicas
from omnicfg.passes.inherit import expect_mapping
from omnicfg.passes.read import MAX_DEPTH, is_printable, is_text, read_scalar, read_value
from omnicfg.refusals import refuse
from omnicfg.secrets import redacted_setting
from omnicfg.tree import (
    Layer,
    LayerKind,
    Mapping,
    Mark,
    Node,
    Scalar,
    Sequence,
    deep_merge,
    dotted,
    grow,
    over,
    without_history,
)
from omnicfg.wording import is_number

_REASON: Final = "set on the command line"
_BLOCKS: Final = ("engine_args", "engine_extras", "runtime")  # spellings of the same stage settings
_NOT_SETTABLE: Final = {  # and what to do instead
    "platforms": "Override the setting itself, and say with `--platform` on which platform.",
    "base_config": "Put a file on top with `--overlay FILE`.",
}
LAYER: Final = Layer(LayerKind.OVERRIDE)


class Override(NamedTuple):
    """One setting: where it goes and the value with its own place (the text of the option)."""

    route: tuple[str, ...]
    node: Node

    @property
    def key(self) -> str:
        return dotted(self.route)


def parse_overrides(overrides: MappingOf[str, Any] | Iterable[str] | None) -> list[Override]:
    """Overrides from ``{"stages.0.max_num_seqs": 8}`` or from ``["stages.0.max_num_seqs=8"]``.

    Text values are read as YAML, the way a profile is; one text is a list of one. Raises
    :class:`~omnicfg.errors.ResolveError`.
    """
    if overrides is None:
        return []
    if isinstance(overrides, MappingOf):
        return [_from_api(key, value) for key, value in overrides.items()]
    return [_parse_text(text) for text in ([overrides] if isinstance(overrides, str) else overrides)]


def _from_api(key: Any, value: Any) -> Override:
    mark = Mark(f"--set {key}")
    if not isinstance(key, str):
        refuse("bad-override", mark, f"the key {key!r} is not text", "Write it like `stages.0.max_num_seqs`.")
    if not is_plain(value, MAX_DEPTH):
        kinds = "null, a boolean, a number, text, or lists and mappings of these"
        refuse("bad-override", mark, f"the value of `{key}` is a {type(value).__name__}; it has to be {kinds}")
    return Override(_route(key, mark), grow(value, LAYER, mark))


def is_plain(value: Any, depth: int) -> bool:
    """Whether a value could stand in a YAML file; not so where it nests deeper than a file may."""
    if isinstance(value, dict):
        return depth > 0 and all(is_plain(key, 0) and is_plain(child, depth - 1) for key, child in value.items())
    if isinstance(value, list | tuple):
        return depth > 0 and all(is_plain(child, depth - 1) for child in value)
    if isinstance(value, int):
        return is_printable(value)
    return value is None or isinstance(value, float | str)


def _parse_text(text: str) -> Override:
    if not isinstance(text, str):
        refuse("bad-override", Mark("--set"), f"{text!r} is not text", "Write `stages.0.max_num_seqs=8`.")
    safe = redacted_setting(text)
    shown = f"--set {safe if len(safe) <= 120 else safe[:117] + '...'}"
    if not is_text(text):
        place = next(place for place, character in enumerate(text, 1) if not is_text(character))
        message = "this is not UTF-8 text, and a profile can hold nothing else"
        refuse("bad-override", Mark(shown, 1, place, 1, place + 1), message, "Write it in UTF-8.")
    key, equals, value = text.partition("=")
    if not equals:
        refuse("bad-override", Mark(shown), f"`{key}` has no value", "Write `--set stages.0.max_num_seqs=8`.")
    begin = len(key) + 2 + len(value) - len(value.lstrip())
    mark = Mark(shown, 1, begin, 1, max(len(text.rstrip()) + 1, begin))
    value = value.rstrip()
    if value.lstrip()[:1] in ("{", "[", '"', "'"):
        node = read_value(" " * (len(key) + 1) + value, LAYER, shown)
    else:
        try:
            node = Scalar(read_scalar(value.lstrip()), LAYER, mark, text=value.lstrip())
        except (ValueError, IndexError):
            refuse("bad-override", mark, f"the value of `{key}` cannot be read", "Quote it if it is text.")
    return Override(_route(key, mark), node)


def _route(key: str, mark: Mark) -> tuple[str, ...]:
    steps = tuple(key.strip().split("."))
    if not all(steps) or len(steps) > MAX_DEPTH:
        refuse("bad-override", mark, f"`{key}` is not a path", "Write it like `stages.0.max_num_seqs`.")
    return steps


def document_of(override: Override) -> Mapping:
    """The override as a file that says nothing else, for the rules that look at files."""
    mark, route = override.node.mark, override.route
    if route[0] != "stages":
        return _nested(route, override.node)
    stage_id, keys = _stage_route(override)
    entry = _nested(keys, override.node)
    entry.items = {"stage_id": Scalar(stage_id, LAYER, mark), **entry.items}
    return Mapping({"stages": Sequence([entry], LAYER, mark)}, LAYER, mark)


def _nested(route: tuple[str, ...], node: Node) -> Mapping:
    *above, last = route
    tree = Mapping({last: node}, LAYER, node.mark)
    for step in reversed(above):
        tree = Mapping({step: tree}, LAYER, node.mark)
    return tree


def apply_overrides(tree: Mapping, overrides: Iterable[Override]) -> Mapping:
    """The deploy tree with every override on top, checked and converted as the values of a file are."""
    result = tree
    for override in overrides:
        apply = _set_stage if override.route[0] == "stages" else _set_top
        result = apply(result, override)
    return result


def _set_top(tree: Mapping, override: Override) -> Mapping:
    schema = deploy_schema()
    name = override.route[0]
    if name in _NOT_SETTABLE or name not in schema.deploy_fields:
        if name in _NOT_SETTABLE:
            refuse("bad-override", override.node.mark, f"`{name}` cannot be overridden", _NOT_SETTABLE[name])
        names = [field for field in schema.deploy_fields if field not in (*_NOT_SETTABLE, "stages")]
        hint = _elsewhere(override.key, 0) or did_you_mean(name, names)
        if hint is None and name.startswith("stage"):
            hint = "Write it like `stages.0.max_num_seqs`."
        refuse(
            "bad-override",
            override.node.mark,
            f"a profile has no setting `{name}`",
            hint or f"It has: {', '.join(names)}.",
        )
    result = tree.copy()
    result.put(name, _placed(tree.items[name], override.route[1:], override.node))
    result.put(name, checked_field(result, name))
    if name in schema.pipeline_wide:
        result.put("stages", _on_every_stage(tree, name, result.items[name]))
    return result


def _elsewhere(key: str, stage_id: int) -> str | None:
    """Where a key is to be set that does exist."""
    from omnicfg.where import belongs

    place = belongs(key, stage_id)
    return None if place is None else f"It is a setting of {place[0]}: `--set {place[1]}=...`."


def _on_every_stage(tree: Mapping, name: str, node: Node) -> Sequence:
    stages = tree.sequence("stages")
    result = stages.copy()
    result.items = [_pipeline_wide(stage, name, node) for stage in stages.items]
    return result


def _pipeline_wide(stage: Node, name: str, node: Node) -> Node:
    assert isinstance(stage, Mapping)
    extras = stage.items["engine_extras"]
    if not isinstance(extras, Mapping) or name not in extras.items:
        return stage
    patched, own = stage.copy(), extras.copy()
    own.put(name, over(without_history(node), extras.items[name], _REASON))  # the stage never beat what was below it
    patched.put("engine_extras", own)
    return patched


def _set_stage(tree: Mapping, override: Override) -> Mapping:
    stage_id, route = _stage_route(override)
    stages = tree.sequence("stages")
    replaced = stages.copy()
    for index in reversed(range(len(stages.items))):
        stage = stages.items[index]
        if isinstance(stage, Mapping) and stage.value("stage_id") == stage_id:
            replaced.items[index] = _stage_with(stage, route, override.node)
            break
    else:
        replaced.items.append(_stage_with(_new_stage(stage_id, override), route, override.node))
    result = tree.copy()
    result.put("stages", replaced)
    return result


def _stage_route(override: Override) -> tuple[int, tuple[str, ...]]:
    mark = override.node.mark
    if len(override.route) < 3 or not is_number(override.route[1]):
        refuse(
            "bad-override",
            mark,
            f"`{override.key}` names no setting of a stage",
            "Write `stages.ID.KEY`, such as `stages.0.devices`.",
        )
    stage_id, route = int(override.route[1]), override.route[2:]
    schema = deploy_schema()
    known = (set(schema.stage_fields) | known_engine_args() | set().union(*schema.owners.values())) - {"stage_id"}
    if route[0] in _BLOCKS and len(route) > 1:
        block, *rest = route
        route = tuple(rest)
        _check_block(block, route, stage_id, known, mark)
    name = route[0]
    if name in _BLOCKS:
        help = f"Set what is in it, one by one: `--set {override.key}.KEY=...`."
        refuse("bad-override", mark, f"`{name}` cannot be set as a whole", help)
    if name not in known:
        refuse(
            "bad-override",
            mark,
            f"a stage has no setting `{name}`",
            _elsewhere(dotted(route), stage_id)
            or did_you_mean(name, known)
            or "`omnicfg schema stage` lists the settings of a stage.",
        )
    return stage_id, route


def _check_block(block: str, route: tuple[str, ...], stage_id: int, known: Container[str], mark: Mark) -> None:
    """Refuse a key that a profile could not have in this block of a stage, and say where it has it."""
    schema, name = deploy_schema(), route[0]
    beside = schema.reserved_keys - set().union(*schema.owners.values())  # what no engine takes as an arg of its own
    if name in RUNTIME_KEYS if block == "runtime" else name not in beside:
        return
    key = dotted(route)
    if name in known or (name in _BLOCKS and len(route) > 1):
        hint = f"It stands in the stage itself: `--set stages.{stage_id}.{key}=...`."
    elif block == "runtime":
        near = _elsewhere(key, stage_id) or did_you_mean(name, RUNTIME_KEYS)
        hint = near or f"It has: {', '.join(RUNTIME_KEYS)}."
    else:
        hint = "`omnicfg schema stage` lists the settings of a stage."
    refuse("bad-override", mark, f"`{block}` has no setting `{name}`", hint)


def _new_stage(stage_id: int, override: Override) -> Mapping:
    """A stage that the profile does not mention: the schema's defaults under its id."""
    mark = override.node.mark
    stage = Mapping({"stage_id": Scalar(stage_id, LAYER, mark)}, LAYER, mark)
    for name, field in deploy_schema().stage_fields.items():
        if name != "stage_id":
            stage.put(name, default_node(field))
    return stage


def _stage_with(stage: Mapping, route: tuple[str, ...], node: Node) -> Mapping:
    name = route[0]
    patched = stage.copy()
    extras = expect_mapping(stage.items["engine_extras"], "engine_extras")
    beaten = extras.items.get(name)
    if name in stage.items:
        placed = _placed(
            stage.items[name] if beaten is None else over(beaten, stage.items[name], "`engine_extras`"), route[1:], node
        )
        patched.put(name, num_replicas(placed) if name == "num_replicas" else placed)
        patched.put("engine_extras", extras.without(name))
    else:
        own = extras.copy()
        own.put(name, _placed(beaten, route[1:], node))
        patched.put("engine_extras", own)
    return patched


def _placed(current: Node | None, route: tuple[str, ...], node: Node) -> Node:
    """``node`` put at ``route`` below ``current``; mappings on the way are merged, anything else is replaced."""
    node = _nested(route, node) if route else node
    if isinstance(current, Mapping) and isinstance(node, Mapping):
        return deep_merge(current, node, _REASON)
    return over(node, current, _REASON)
