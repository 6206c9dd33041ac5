"""``diff``: what differs between two plans, value by value, whatever file or layer each value came from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from omnicfg.errors import UsageError
from omnicfg.origins import origin_text
from omnicfg.plan import Plan, StagePlan
from omnicfg.secrets import redacted
from omnicfg.tree import Mapping, Node, plain

Kind = Literal["added", "removed", "changed"]

# Parts of a stage whose entries are named without the part: an engine arg goes by its own name.
_PREFIX: Final = {"engine_args": "", "runtime": "runtime.", "extras": "extras."}


@dataclass(frozen=True, slots=True)
class Change:
    """One value that differs.

    ``key`` is the path of the value within its stage (``enable_prefix_caching``, ``runtime.devices``,
    ``extras.default_sampling_params.temperature``) or, where ``stage_id`` is ``None``, within the profile
    (``async_chunk``). It is empty where a whole stage was added or removed. Origins are ``None`` on the side that
    lacks the value.
    """

    stage_id: int | None
    key: str
    kind: Kind
    before: Any
    after: Any
    before_origin: str | None
    after_origin: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form; credentials are hidden."""
        return {
            "stage_id": self.stage_id,
            "key": self.key,
            "kind": self.kind,
            "before": self.shown(self.before),
            "after": self.shown(self.after),
            "before_origin": self.before_origin,
            "after_origin": self.after_origin,
        }

    def shown(self, value: Any) -> Any:
        """A value of this change as it may be shown."""
        return redacted(self.key, value)


def diff(a: Plan, b: Plan) -> list[Change]:
    """The changes from plan ``a`` to plan ``b``: the profile's own first, then stage by stage.

    The names of the two profiles and their platforms do not count. Types do: ``1``, ``1.0`` and ``true`` differ. The
    order of keys does not count, that of lists does. Raises :class:`~omnicfg.errors.UsageError` for what is no plan.
    """
    _require_plans(a, b)
    changes = list(_changes(_wide(a), _wide(b), "", None))
    ids = sorted({stage.stage_id for stage in (*a.stages, *b.stages)})
    for stage_id in ids:
        changes += _stage_changes(a.stage(stage_id), b.stage(stage_id), stage_id)
    return changes


def _require_plans(*given: object) -> None:
    for each in given:
        if not isinstance(each, Plan):
            raise UsageError(f"`diff` compares two plans, not {type(each).__name__}", "`omnicfg.resolve` gives a plan.")


def _wide(plan: Plan) -> Mapping:
    """What a plan says of the profile as a whole, with the pipeline that was found for it, named or not."""
    wide = plan.deploy.without("pipeline")
    wide.put("pipeline", plan.tree.items["pipeline"])
    return wide


def _stage_changes(before: StagePlan | None, after: StagePlan | None, stage_id: int) -> Iterator[Change]:
    if before is None or after is None:
        yield _change(_tree(before), _tree(after), "", stage_id)
        return
    fields = before.tree.without(*_PREFIX), after.tree.without(*_PREFIX)
    yield from _changes(*fields, "", stage_id)
    for part, prefix in _PREFIX.items():
        yield from _changes(before.tree.items[part], after.tree.items[part], prefix, stage_id)


def _tree(stage: StagePlan | None) -> Mapping | None:
    return None if stage is None else stage.tree


def _changes(before: Node | None, after: Node | None, key: str, stage_id: int | None) -> Iterator[Change]:
    old, new = _entries(before), _entries(after)
    if old is not None and new is not None and (old or new):
        prefix = key if not key or key.endswith(".") else f"{key}."
        for name in dict.fromkeys([*old, *new]):
            yield from _changes(old.get(name), new.get(name), f"{prefix}{name}", stage_id)
    elif before is None or after is None or not same(plain(before), plain(after)):
        yield _change(before, after, key, stage_id)


def _entries(node: Node | None) -> dict[Hashable, Node] | None:
    """What a node is compared by, entry for entry, if it is a mapping or absent; ``None`` for any other value.

    An empty mapping against nothing at all is a difference of its own.
    """
    if node is None:
        return {}
    return node.items if isinstance(node, Mapping) else None


def _change(before: Node | None, after: Node | None, key: str, stage_id: int | None) -> Change:
    kind: Kind = "added" if before is None else "removed" if after is None else "changed"
    return Change(
        stage_id,
        key,
        kind,
        None if before is None else plain(before),
        None if after is None else plain(after),
        None if before is None else origin_text(before),
        None if after is None else origin_text(after),
    )


def same(a: Any, b: Any) -> bool:
    """Equality that tells types apart and takes not-a-number for equal to itself."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b) or (isinstance(a, float) and math.isnan(a) and math.isnan(b))
