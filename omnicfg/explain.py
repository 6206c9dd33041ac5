"""``explain``: everything that is known of one value of a plan: the chain of settings behind it, and the evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import DEFAULT_VLLM, known_engine_args
from omnicfg.errors import UsageError
from omnicfg.evidence import CAPABILITY_OF, entry_on
from omnicfg.near import did_you_mean
from omnicfg.passes.deploy import RUNTIME_KEYS
from omnicfg.passes.effective import default_args, default_of, why_unset
from omnicfg.plan import Plan, StagePlan
from omnicfg.secrets import flag_of
from omnicfg.tree import LayerKind, Node, Scalar, find, over, plain
from omnicfg.tree import Mapping as Tree
from omnicfg.wording import is_number

Role = Literal["wins", "source", "lost"]

_SPELLINGS: Final = ("engine_args", "engine_extras", "extras", "runtime")  # blocks that a key of a stage may name
_SOURCES: Final = ("base_config", "platforms")  # keys of a profile that a plan does not have
_DERIVED: Final = ("derived from", "read as")  # reasons of a value that was made from another, not set over it


@dataclass(frozen=True)
class Link:
    """One setting of the chain: its node, whether it wins, was made into the winner, or lost, and why."""

    node: Node
    role: Role
    reason: str | None = None


@dataclass(frozen=True)
class Known:
    """What a capability record says of one stage here."""

    stage: StagePlan
    capability: str
    entry: Mapping[str, Any]


@dataclass(frozen=True)
class Explanation:
    """One value of a plan. ``chain`` starts with the winner; it is empty where nothing sets the value.

    ``is_set`` tells a setting of the profile or the topology from one that is left to vLLM; ``unset_because`` says
    what decides a value that vLLM has no fixed default for.
    """

    plan: Plan
    key: str
    is_set: bool
    chain: tuple[Link, ...]
    unset_because: str | None
    known: tuple[Known, ...]

    @property
    def node(self) -> Node | None:
        return self.chain[0].node if self.chain else None

    @property
    def name(self) -> str:
        """The last step of the key."""
        return self.key.rpartition(".")[2]

    @property
    def route(self) -> tuple[str, ...]:
        """What decides whether the value may be shown: the key's steps, and the flag before an item of a command."""
        *above, last = self.key.split(".")
        before = self.plan.find(".".join([*above, str(int(last) - 1)])) if is_number(last) and last != "0" else None
        return (*above, last, "" if before is None else flag_of(plain(before)))


def explain(plan: Plan, key: str, before: Tree | None = None, version: str = DEFAULT_VLLM) -> Explanation:
    """Explain the value at ``key`` (``stages.0.enable_prefix_caching``, ``async_chunk``).

    ``before`` is the deploy tree that the plan was made from: it still holds stage settings that a null has unset.
    Raises :class:`UsageError` with near names for a key that exists nowhere.
    """
    stage, route = _located(plan, key)
    node = plan.find(key)
    is_spelling = len(route) > 1 and (route[1] in RUNTIME_KEYS if route[0] == "runtime" else route[0] in _SPELLINGS)
    if node is None and stage is not None and is_spelling:
        node = stage.find(route[1:])
        route = route[1:]
    known = _known(plan, stage, route)
    if node is None:
        _check_exists(plan, stage, route, version)
    if stage is None or (node is not None and plain(node) is not None):
        return Explanation(plan, key, True, chain_of(node), None, known)
    null = node or _unset(before, stage.stage_id, route)
    default = _default(plan, stage, route, version)
    if default is None:
        return Explanation(plan, key, node is not None, chain_of(null), None, known)
    reason = why_unset(route[0], stage, plan.platform, version)
    return Explanation(plan, key, False, chain_of(over(default, null, "null leaves it to vLLM")), reason, known)


def _located(plan: Plan, key: str) -> tuple[StagePlan | None, tuple[str, ...]]:
    """The stage that a key names, and the route within it or within the profile."""
    steps = tuple(key.split("."))
    if not all(steps):
        raise UsageError(f"`{key}` is not a key", "Write `stages.0.enable_prefix_caching` or `async_chunk`.")
    if steps[0] != "stages":
        return None, steps
    ids = [stage.stage_id for stage in plan.stages]
    stage = plan.stage(int(steps[1])) if len(steps) > 1 and is_number(steps[1]) else None
    if len(steps) > 1 and stage is None:
        known = ", ".join(map(str, ids))
        raise UsageError(f"pipeline {plan.pipeline} has no stage {steps[1]}", f"Its stages are {known}.")
    if len(steps) < 3:
        what = "is a whole stage, not a setting of it" if stage else "are all stages, not a setting of one"
        raise UsageError(f"`{key}` {what}", f"Write `stages.{stage.stage_id if stage else ids[0]}.KEY`.")
    return stage, steps[2:]


def chain_of(node: Node | None) -> tuple[Link, ...]:
    """A value and everything it was set over or made from, the winner first; empty where there is none."""
    if node is None:
        return ()
    links = [Link(node, "wins")]
    for lost in node.beaten:
        role: Role = "source" if lost.reason.startswith(_DERIVED) else "lost"
        links.append(Link(lost.node, role, lost.reason))
    return tuple(links)


def _check_exists(plan: Plan, stage: StagePlan | None, route: tuple[str, ...], version: str) -> None:
    schema = deploy_schema()
    if stage is None:
        _refuse_wide(plan, route)
    if route[0] == "runtime" and len(route) > 1 and route[1] not in RUNTIME_KEYS:
        hint = _elsewhere(".".join(route[1:]), stage.stage_id) or did_you_mean(route[1], RUNTIME_KEYS)
        raise UsageError(f"`runtime` has no setting `{route[1]}`", hint or f"It has: {', '.join(RUNTIME_KEYS)}.")
    name = route[0] if route[0] not in _SPELLINGS or len(route) == 1 else route[1]
    known = {*schema.stage_fields, *known_engine_args(version), *map(str, stage.tree.items)}
    known = known.union(map(str, stage.engine_args.items), map(str, stage.extras.items), *schema.owners.values())
    if name not in known:
        raise UsageError(
            f"a stage has no setting `{name}`",
            _elsewhere(".".join(route), stage.stage_id)
            or did_you_mean(name, known)
            or "`omnicfg schema stage` and `omnicfg schema vllm` list them.",
        )
    _check_has_entries(stage, route)
    siblings = _siblings(stage, route)
    if siblings is not None and route[-1] not in siblings:
        hint = did_you_mean(route[-1], siblings)
        if hint:
            raise UsageError(f"`{'.'.join(route[:-1])}` has no entry `{route[-1]}` here", hint)


def _check_has_entries(stage: StagePlan, route: tuple[str, ...]) -> None:
    """Refuse a step into a value that has nothing in it; what is not set, or null, may have entries elsewhere."""
    for length in range(1, len(route)):
        above = stage.find(route[:length])
        if isinstance(above, Scalar) and above.value is not None:
            key = ".".join(route[:length])
            raise UsageError(f"`{key}` is a single value here, and has no entries", f"Ask for `{key}` itself.")


def _elsewhere(key: str, stage_id: int) -> str | None:
    """Where a key is that does exist."""
    from omnicfg.where import belongs

    place = belongs(key, stage_id)
    return None if place is None else f"It is a setting of {place[0]}: `{place[1]}`."


def _refuse_wide(plan: Plan, route: tuple[str, ...]) -> NoReturn:
    if route[0] in _SOURCES:
        raise UsageError(
            f"`{route[0]}` says where values come from, and has none in the end",
            "Ask for a value, such as `stages.0.max_num_seqs`; `--platform` says on which platform.",
        )
    fields, parent = deploy_schema().deploy_fields, ".".join(route[:-1])
    hint = None if route[0] in fields else _elsewhere(".".join(route), plan.stages[0].stage_id)
    hint = hint or did_you_mean(route[-1], _below(plan.deploy, route) if parent else fields)
    if route[0].startswith("stage"):
        hint = "Write it like `stages.0.max_num_seqs`."
    what = f"`{parent}`" if parent else "a profile"
    raise UsageError(f"{what} has no setting `{route[-1]}`", hint or "`omnicfg schema profile` lists them.")


def _siblings(stage: StagePlan, route: tuple[str, ...]) -> set[str] | None:
    """What else stands in the block that a nested key names; ``None`` for a key that is not nested."""
    if len(route) < 2:
        return None
    parent = stage.find(route[:-1])
    names = set(map(str, parent.items)) if isinstance(parent, Tree) else set()
    return names | set(deploy_schema().sampling_params) if route[-2] == "default_sampling_params" else names


def _below(deploy: Tree, route: tuple[str, ...]) -> list[str]:
    parent = find(deploy, route[:-1])
    return [str(name) for name in parent.items] if isinstance(parent, Tree) else []


def _unset(before: Tree | None, stage_id: int, route: tuple[str, ...]) -> Node | None:
    """The null that a layer of the profile set, with its history; ``None`` where no layer says anything."""
    if before is None:
        return None
    stages = before.sequence("stages").mappings()
    stage = next((stage for stage in stages if stage.value("stage_id") == stage_id), None)
    node = find(stage, route)
    is_schema_default = node is not None and node.layer.kind is LayerKind.DEFAULT and not node.beaten
    return None if node is None or is_schema_default or plain(node) is not None else node


def _default(plan: Plan, stage: StagePlan, route: tuple[str, ...], version: str) -> Node | None:
    """vLLM's default of an engine arg; ``None`` where vLLM has none to give."""
    if len(route) > 1 or stage.stage_type == "diffusion" or route[0] not in default_args(version):
        return None
    return default_of(route[0], stage, plan.platform, version)


def _known(plan: Plan, stage: StagePlan | None, route: tuple[str, ...]) -> tuple[Known, ...]:
    capability = CAPABILITY_OF.get(route[-1])
    if capability is None:
        return ()
    stages = plan.stages if stage is None else [stage]
    entries = [(each, entry_on(plan, each, capability)) for each in stages]
    return tuple(Known(each, capability, entry) for each, entry in entries if entry is not None)
