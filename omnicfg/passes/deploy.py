"""Pass 4: raw profile → the fields of the deploy schema, defaults included.

This is where the spellings of a stage become one: ``engine_args:`` and ``runtime:`` blocks are folded into the
stage's own fields, unknown keys join ``engine_extras``, and everything left out takes the schema's default
(vLLM-Omni 0.30.0, ``_parse_stage_deploy`` and ``load_deploy_config``).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from omnicfg.catalog.upstream import Field, deploy_schema
from omnicfg.passes.inherit import expect_mapping, stage_id_of
from omnicfg.refusals import refuse
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, deep_merge, grow, over, plain
from omnicfg.wording import in_yaml

_PARSED_ELSEWHERE: Final = frozenset({"stages", "platforms", "duplex_session", "model_runner", "active_stream_window"})
ENGINE_ARGS_WIN: Final = "`engine_args` goes over the stage's own keys"
RUNTIME_WINS: Final = "`runtime` goes over the stage's own keys"
EXTRAS_WIN: Final = "`engine_extras` goes over the stage's own field"
OWN_KEY_WINS: Final = "for keys outside the schema, the stage's own key goes over `engine_extras`"
RUNTIME_KEYS: Final = ("devices", "num_replicas", "env")
_OPTIONAL_BLOCKS: Final = ("default_sampling_params", "default_pooling_params", "output_connectors", "input_connectors")


def deploy(raw: Mapping) -> Mapping:
    """The deploy tree: every field of the schema, ``stages`` (a list of stage trees) and ``platforms``."""
    if "stage_args" in raw.items:
        refuse(
            "removed-schema",
            raw.key_mark("stage_args"),
            "`stage_args` is the schema of vLLM-Omni before 0.30; it is no longer read",
            "`omnicfg migrate FILE -o NEW` writes the profile that means the same today.",
        )
    tree = Mapping({}, raw.layer, raw.mark)
    for name, field in deploy_schema().deploy_fields.items():
        if name in _PARSED_ELSEWHERE:
            continue
        _put_field(tree, raw, name, field)
    tree.put("model_runner", model_runner_of(raw) or default_node(deploy_schema().deploy_fields["model_runner"]))
    for name in ("active_stream_window", "duplex_session"):
        tree.put(name, checked_field(raw, name), raw.key_marks.get(name))
    tree.put("stages", _stages(raw), raw.key_marks.get("stages"))
    tree.put("platforms", _or_default(raw, "platforms"), raw.key_marks.get("platforms"))
    return tree


def checked_field(raw: Mapping, name: str) -> Node:
    """A field of the profile as upstream takes it: some are converted, some refused, most are left as they are."""
    if name == "active_stream_window":
        return _active_stream_window(raw)
    return _duplex_session(raw) if name == "duplex_session" else raw.items[name]


@functools.cache
def default_node(field: Field) -> Node:
    """The schema's default of a field, placed at its line in upstream's source."""
    mark = Mark(field.file, field.line, 1, field.line, 1)
    return grow(field.default, Layer(LayerKind.DEFAULT, "vllm-omni"), mark)


def _put_field(tree: Mapping, source: Mapping, name: str, field: Field) -> None:
    node = source.items.get(name)
    tree.put(name, default_node(field) if node is None else node, source.key_marks.get(name))


def _or_default(raw: Mapping, name: str) -> Node:
    node = raw.items.get(name)
    return default_node(deploy_schema().deploy_fields[name]) if node is None else node


def model_runner_of(block: Mapping, platform: str | None = None) -> Node | None:
    """The ``model_runner`` of a profile or platform block, checked; ``None`` where it is not set."""
    node = block.items.get("model_runner")
    if node is None:
        return None
    runners = deploy_schema().model_runners
    if plain(node) not in runners:
        refuse(
            "bad-model-runner",
            node.mark,
            f"`model_runner` is {in_yaml(plain(node))}; it has to be one of {', '.join(runners)}",
            "Write `model_runner: v1` or `model_runner: v2` (lower case).",
            platform=platform,
        )
    return node


def _active_stream_window(raw: Mapping) -> Node:
    node = _or_default(raw, "active_stream_window")
    return _whole_number(node, lambda value: int(value or 0), "active_stream_window")


def _whole_number(node: Node, convert: Callable[[Any], int], name: str, stage_id: Any = None) -> Node:
    """The node with its value as a whole number, by upstream's ``convert``; the node itself where nothing changes."""
    value = plain(node)
    try:
        converted = convert(value)
    except (TypeError, ValueError, OverflowError):
        stage = stage_id if isinstance(stage_id, int) else None
        refuse("bad-value", node.mark, f"`{name}` is {in_yaml(value)}; it has to be a whole number", stage_id=stage)
    if converted is value or (type(converted) is type(value) and converted == value):
        return node
    return over(Scalar(converted, node.layer, node.mark), node, "read as a whole number")


def _duplex_session(raw: Mapping) -> Mapping:
    fields = deploy_schema().duplex_fields
    written = _or_default(raw, "duplex_session")
    given = Mapping({}, written.layer, written.mark, written.beaten)
    if "duplex_session" in raw.items and plain(written):
        given = expect_mapping(written, "duplex_session")
    for key in given.items:
        if key not in fields:
            from omnicfg.near import did_you_mean

            refuse(
                "bad-duplex-session",
                given.key_mark(key),
                f"`duplex_session` has no setting `{key}`",
                did_you_mean(str(key), fields) or f"It has: {', '.join(fields)}.",
            )
    tree = Mapping({}, given.layer, given.mark, given.beaten)
    for name, field in fields.items():
        _put_field(tree, given, name, field)
        _check_duplex_limit(name, tree.items[name])
    return tree


def _check_duplex_limit(name: str, node: Node) -> None:
    value = plain(node)
    if name == "server_vad_model_path":
        if value is not None and not (isinstance(value, str) and value.strip()):
            refuse("bad-duplex-session", node.mark, f"`{name}` has to be a path or null, not {in_yaml(value)}")
        return
    if name == "warmup_frames" or (name == "idle_ttl_s" and value is None):
        return
    if not isinstance(value, int | float) or value <= 0:
        refuse("bad-duplex-session", node.mark, f"`duplex_session.{name}` is {in_yaml(value)}; it has to be positive")


def _stages(raw: Mapping) -> Sequence:
    written = raw.items.get("stages")
    if written is None:
        return Sequence([], raw.layer, raw.mark)
    if isinstance(written, Mapping) and not written.items:
        return Sequence([], written.layer, written.mark)
    if not isinstance(written, Sequence):
        kind = "null" if plain(written) is None else "no list"
        refuse(
            "wrong-container", written.mark, f"`stages` is {kind}", "Write a list, each item starting `- stage_id: N`."
        )
    stages: list[Node] = [_stage(expect_mapping(entry, "stages[]")) for entry in written.items]
    return Sequence(stages, written.layer, written.mark, written.beaten)


def _stage(entry: Mapping) -> Mapping:
    """One stage: the schema's stage fields plus ``engine_extras``, which holds every key the schema does not know."""
    schema = deploy_schema()
    flat = _flat_keys(entry)
    runtime = _runtime_block(entry)
    stage = Mapping({}, entry.layer, entry.mark)
    stage_id_of(entry)
    stage.put("stage_id", entry.items["stage_id"], entry.key_marks.get("stage_id"))
    for name in RUNTIME_KEYS:
        _put_runtime(stage, entry, runtime, name)
    for name, field in schema.stage_fields.items():
        if name not in schema.reserved_keys:
            _put_field(stage, flat, name, field)
    for name in ("async_chunk", *_OPTIONAL_BLOCKS):
        _put_field(stage, entry, name, schema.stage_fields[name])
    stage.put("engine_extras", _engine_extras(entry, flat), entry.key_marks.get("engine_extras"))
    return stage


def _flat_keys(entry: Mapping) -> Mapping:
    """The stage's own keys with its ``engine_args`` block merged over them."""
    flat = entry.without(*deploy_schema().reserved_keys)
    block = entry.items.get("engine_args")
    if block is None:
        return flat
    return deep_merge(flat, expect_mapping(block, "engine_args"), ENGINE_ARGS_WIN)


def _runtime_block(entry: Mapping) -> Mapping:
    block = entry.items.get("runtime")
    if block is None:
        return Mapping({}, entry.layer, entry.mark)
    if isinstance(block, Sequence) and not block.items:
        return Mapping({}, block.layer, block.mark)
    return expect_mapping(block, "runtime")


def _put_runtime(stage: Mapping, entry: Mapping, runtime: Mapping, name: str) -> None:
    field = deploy_schema().stage_fields[name]
    own, nested = entry.items.get(name), runtime.items.get(name)
    node = own if nested is None else over(nested, own, RUNTIME_WINS)
    node = default_node(field) if node is None else node
    if name == "num_replicas":
        node = num_replicas(node, stage.value("stage_id"))
    stage.put(name, node, runtime.key_marks.get(name) or entry.key_marks.get(name))


def num_replicas(node: Node, stage_id: Any = None) -> Node:
    """The value as a whole number, as upstream reads it."""
    return _whole_number(node, int, "num_replicas", stage_id)


def _engine_extras(entry: Mapping, flat: Mapping) -> Mapping:
    schema = deploy_schema()
    unknown = flat.without(*(name for name in schema.stage_fields if name not in schema.reserved_keys))
    explicit = entry.items.get("engine_extras")
    if explicit is None or not plain(explicit):
        place = unknown if explicit is None else explicit
        base = Mapping({}, place.layer, place.mark, place.beaten)
    else:
        base = expect_mapping(explicit, "engine_extras")
    return deep_merge(base, unknown, OWN_KEY_WINS)
