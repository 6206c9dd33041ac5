"""The blocks of a profile as it is written, each with the keys and value types that it may have."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from typing import NamedTuple

from omnicfg.catalog.upstream import Field, deploy_schema, pipelines
from omnicfg.catalog.vllm_args import arg_types, config_args, config_class, known_engine_args
from omnicfg.passes.deploy import RUNTIME_KEYS
from omnicfg.rule import DEFAULT_ENGINE, Subject
from omnicfg.tree import Mapping, Node, Scalar, Sequence
from omnicfg.value_types import ValueType, parse_annotation
from omnicfg.wording import in_yaml


@dataclass(frozen=True)
class Block:
    """A mapping of a profile: its keys (``None``: free) and the types of those whose type is known.

    ``place``: profile, stage, runtime, env, platform, connector, duplex_session, params, parallel
    (``parallel_config``), or config (a nested one of vLLM).
    """

    node: Mapping
    place: str
    what: str
    known: frozenset[str] | None
    types: MappingOf[str, ValueType]
    stage_id: int | None = None
    platform: str | None = None
    config: str | None = None
    """The class of a nested config of vLLM."""

    def takes(self, key: object) -> bool:
        """Whether anything reads this key here, so that its value matters."""
        return self.known is None or key in self.known


def blocks_of(document: Mapping, subject: Subject) -> Iterator[Block]:
    """Every block of a file, in the order in which it is written; blocks of a wrong shape are left out."""
    types = _profile_types(subject.vllm_version, subject.pipeline, subject.engine)
    yield Block(document, "profile", "the profile", _profile_keys(), types)
    for key, node in document.items.items():
        if key == "stages":
            yield from _stage_blocks(node, subject, None)
        elif key == "platforms" and isinstance(node, Mapping):
            yield from _platform_blocks(node, subject)
        elif key == "duplex_session" and isinstance(node, Mapping):
            yield Block(node, "duplex_session", "`duplex_session`", _duplex_keys(), _duplex_types())
        elif key == "connectors" and isinstance(node, Mapping):
            yield from _connector_blocks(node)


def _platform_blocks(platforms: Mapping, subject: Subject) -> Iterator[Block]:
    for name, node in platforms.items.items():
        if name not in deploy_schema().platforms or not isinstance(node, Mapping):
            continue
        assert isinstance(name, str)
        keys = frozenset({"model_runner", "stages"})
        types = {"model_runner": _deploy_types()["model_runner"]}
        yield Block(node, "platform", f"the {name} block", keys, types, platform=name)
        stages = node.items.get("stages")
        if stages is not None:
            yield from _stage_blocks(stages, subject, name)


def _connector_blocks(connectors: Mapping) -> Iterator[Block]:
    for name, node in connectors.items.items():
        if isinstance(node, Mapping):
            yield Block(node, "connector", f"connector `{name}`", _connector_keys(), {})


class _Stage(NamedTuple):
    """What the blocks of one entry of ``stages`` have in common."""

    kind: str | None
    where: str
    stage_id: int | None
    platform: str | None
    version: str
    types: MappingOf[str, ValueType]

    def block(
        self,
        node: Mapping,
        place: str,
        what: str,
        known: frozenset[str] | None,
        types: MappingOf[str, ValueType],
        config: str | None = None,
    ) -> Block:
        return Block(node, place, what, known, types, self.stage_id, self.platform, config)


def _stage_blocks(stages: Node, subject: Subject, platform: str | None) -> Iterator[Block]:
    for entry in stages.mappings() if isinstance(stages, Sequence) else ():
        stage = _stage_of(entry, subject, platform)
        keys = _engine_keys(stage.kind, subject.engine, stage.version)
        entry_keys = _entry_keys(stage.kind, subject.engine, stage.version)
        yield stage.block(entry, "stage", stage.where, entry_keys, stage.types)
        for name in ("engine_args", "engine_extras"):
            block = entry.items.get(name)
            if isinstance(block, Mapping):
                yield stage.block(block, "stage", f"`{name}` of {stage.where}", keys, stage.types)
                yield from _nested_blocks(block, stage)
        runtime = entry.items.get("runtime")
        if isinstance(runtime, Mapping):
            yield stage.block(runtime, "runtime", f"`runtime` of {stage.where}", frozenset(RUNTIME_KEYS), stage.types)
            yield from _environment(runtime, stage)
        yield from _environment(entry, stage)
        yield from _nested_blocks(entry, stage)
        for name in ("default_sampling_params", "default_pooling_params"):
            params = entry.items.get(name)
            if isinstance(params, Mapping):
                yield stage.block(params, "params", f"`{name}` of {stage.where}", *_params(name, stage.kind))


def _stage_of(entry: Mapping, subject: Subject, platform: str | None) -> _Stage:
    raw_id = entry.value("stage_id") if isinstance(entry.items.get("stage_id"), Scalar) else None
    stage_id = raw_id if isinstance(raw_id, int) and not isinstance(raw_id, bool) else None
    kind = subject.stage_kind(raw_id)
    shown = in_yaml(raw_id) if isinstance(raw_id, bool) else raw_id
    where = f"stage {shown}" if raw_id is not None else "a stage"
    version = subject.vllm_version
    return _Stage(kind, where, stage_id, platform, version, stage_types(version, kind, subject.engine))


def _environment(owner: Mapping, stage: _Stage) -> Iterator[Block]:
    """The variables of a stage's processes: any names, and values that say the same as text."""
    variables = owner.items.get("env")
    if isinstance(variables, Mapping):
        types = {name: _VARIABLE for name in variables.items if isinstance(name, str)}
        yield stage.block(variables, "env", f"`env` of {stage.where}", None, types)


def _nested_blocks(owner: Mapping, stage: _Stage) -> Iterator[Block]:
    """The engine args of an owner that are blocks themselves."""
    yield from _config_blocks(owner, config_args(stage.version), stage)
    parallel = owner.items.get("parallel_config")
    if isinstance(parallel, Mapping):
        what = f"`parallel_config` of {stage.where}"
        yield stage.block(parallel, "parallel", what, _parallel_keys(stage.kind), stage.types)
    for name, keys in deploy_schema().diffusion_blocks.items() if stage.kind == "diffusion" else ():
        block = owner.items.get(name)
        if isinstance(block, Mapping):
            yield stage.block(block, "config", f"`{name}` of {stage.where}", keys, {})


def _config_blocks(owner: Mapping, configs: MappingOf[str, str], stage: _Stage) -> Iterator[Block]:
    """The nested configs of vLLM among an owner's keys (``compilation_config``, …), and those within them."""
    for key, node in owner.items.items():
        name = configs.get(key) if isinstance(key, str) else None
        if name is None or not isinstance(node, Mapping):
            continue
        config = config_class(name, stage.version)
        known = None if config.is_open else frozenset(config.types)
        yield stage.block(node, "config", f"`{key}` of {stage.where}", known, config.types, name)
        yield from _config_blocks(node, config.nested, stage)


_VARIABLE = ValueType(frozenset({"str", "int", "float"}))


@functools.cache
def _profile_keys() -> frozenset[str]:
    return frozenset(deploy_schema().deploy_fields) | {"base_config", "stages", "platforms"}


@functools.cache
def _duplex_keys() -> frozenset[str]:
    return frozenset(deploy_schema().duplex_fields)


@functools.cache
def _connector_keys() -> frozenset[str]:
    return deploy_schema().connector_keys


@functools.cache
def _engine_keys(kind: str | None, engine: str, version: str) -> frozenset[str]:
    """What reaches the engine of a stage from its own keys, ``engine_args`` and ``engine_extras``.

    Where the kind of stage is not known, what any kind takes. The bundled engine also takes the args of its own,
    newer vLLM, whose version is asked for.
    """
    owners = deploy_schema().owners
    known = owners[kind] if kind else frozenset().union(*owners.values())
    return known | known_engine_args(version) if engine != DEFAULT_ENGINE and kind != "diffusion" else known


@functools.cache
def _entry_keys(kind: str | None, engine: str, version: str) -> frozenset[str]:
    """What an entry of ``stages`` may have: the engine's settings and its own."""
    return _engine_keys(kind, engine, version) | deploy_schema().reserved_keys


def _types(fields: MappingOf[str, Field]) -> dict[str, ValueType]:
    return {name: parse_annotation(field.type) for name, field in fields.items()}


@functools.cache
def _deploy_types() -> MappingOf[str, ValueType]:
    return _types(deploy_schema().deploy_fields)


@functools.cache
def _duplex_types() -> MappingOf[str, ValueType]:
    return _types(deploy_schema().duplex_fields)


@functools.cache
def stage_types(version: str, kind: str | None, engine: str = DEFAULT_ENGINE) -> MappingOf[str, ValueType]:
    """Types of stage keys: the deploy schema's own, vLLM's for the engine args beyond it, and what is left.

    Some that the schema calls text are one of a few words: to a diffusion stage, and to vLLM, which runs the others.
    """
    schema = deploy_schema()
    own = _types(schema.stage_fields)
    wide = {name: type_ for name, type_ in _deploy_types().items() if name in schema.pipeline_wide}
    choices = schema.diffusion_choices if kind == "diffusion" else {}
    words = {name: ValueType(frozenset({"str", "none"}), words) for name, words in choices.items()}
    vllm = arg_types(version)
    narrow = {} if kind in ("diffusion", None) else _narrowed({**wide, **own}, vllm)
    types = {**vllm, **wide, **own, **words, **narrow}
    if kind == "diffusion":
        types |= {name: _also(types[name], type_) for name, type_ in _own_of_diffusion().items() if name in vllm}
        types = {name: type_._replace(words=()) for name, type_ in types.items()} | _quantization_of(types)
    return types if kind is None else _with_all_that_is_taken(types, kind, engine)


def _with_all_that_is_taken(types: MappingOf[str, ValueType], kind: str, engine: str) -> dict[str, ValueType]:
    """The types, with what vLLM-Omni's typed config takes beyond a declaration, and of settings that have none.

    The bundled engine hands a stage's settings to vLLM, which takes what it declares.
    """
    taken = {name: parse_annotation(text) for name, text in deploy_schema().value_types[kind].items()}
    is_omni = engine == DEFAULT_ENGINE or kind == "diffusion"
    more = {name: type_ for name, type_ in taken.items() if is_omni or name not in types}
    all_ = {**types, **{name: _also(types.get(name, _NOTHING), type_) for name, type_ in more.items()}}
    return {**all_, **(_with_items(all_) if kind == "diffusion" else {})}


def _with_items(types: MappingOf[str, ValueType]) -> dict[str, ValueType]:
    """Lists and mappings of a diffusion stage, with what its own configuration declares that they hold."""
    declared = {name: type_.items for name, type_ in _types(deploy_schema().diffusion_args).items() if type_.items}
    return {
        name: types[name]._replace(items=items)
        for name, items in declared.items()
        if name in types and types[name].items is None
    }


def _quantization_of(types: MappingOf[str, ValueType]) -> dict[str, ValueType]:
    """The settings of a diffusion stage that name a quantization method, with the names under which one is found."""
    known = deploy_schema().diffusion_quantization
    words, spellings = tuple(known["methods"]), frozenset({"ignore_case", "dashes"})
    named = {name: types[name] for name in known["settings"] if name in types}
    return {name: type_._replace(words=words, spellings=spellings) for name, type_ in named.items()}


_NOTHING = ValueType(frozenset({"none"}))


def _also(type_: ValueType, other: ValueType) -> ValueType:
    """A type that takes the kinds of another one as well: a declaration may say less than what is taken."""
    return type_._replace(kinds=type_.kinds | other.kinds)


@functools.cache
def _own_of_diffusion() -> MappingOf[str, ValueType]:
    """What diffusion stages declare for settings whose names vLLM has, too, and that the deploy schema has not."""
    schema = deploy_schema()
    fields = {name: field for name, field in schema.diffusion_args.items() if name not in schema.stage_fields}
    return _types({name: field for name, field in fields.items() if name not in schema.pipeline_wide})


def _narrowed(types: MappingOf[str, ValueType], vllm: MappingOf[str, ValueType]) -> dict[str, ValueType]:
    """Those that may be any text by their declaration, with the words that vLLM has for them."""
    return {
        name: vllm[name]._replace(kinds=type_.kinds)
        for name, type_ in types.items()
        if "str" in type_.kinds and not type_.choices and name in vllm
    }


@functools.cache
def _profile_types(version: str, pipeline: str | None, engine: str) -> MappingOf[str, ValueType]:
    """Types of the top level. What holds for every stage is what vLLM takes, where vLLM runs them all."""
    own = _deploy_types()
    kinds = {stage["execution_type"] for stage in pipelines()[pipeline]["stages"]} if pipeline else {"diffusion"}
    wide = {name: own[name] for name in deploy_schema().pipeline_wide}
    for kind in kinds:
        taken = _with_all_that_is_taken(wide, kind, engine)
        wide = {name: taken[name] for name in wide}
    return {**own, **wide, **(_quantization_of(wide) if "diffusion" in kinds else _narrowed(wide, arg_types(version)))}


@functools.cache
def _parallel_keys(kind: str | None) -> frozenset[str]:
    """What `parallel_config` of a stage may hold; where the kind of stage is not known, what any kind takes."""
    owners = deploy_schema().parallel_owners
    return owners[kind] if kind else frozenset().union(*owners.values())


@functools.cache
def _params(name: str, kind: str | None) -> tuple[frozenset[str] | None, MappingOf[str, ValueType]]:
    """Default parameters of a stage's requests: the fields of the class that upstream makes of them."""
    if kind is None:
        return None, {}
    schema = deploy_schema()
    fields = schema.diffusion_sampling_params if kind == "diffusion" else schema.sampling_params
    types = _types(schema.pooling_params if name == "default_pooling_params" else fields)
    return frozenset(types), types
