"""What changes for a user's engine args from one vLLM release to the next, computed from the exported data alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from omnicfg.export.vllm_types import Type, members

Release = Mapping[str, Any]
_SAME_MEANING = 0.6


def changes(releases: Sequence[Release]) -> dict[str, Any]:
    """``"A..B"`` → the changes between neighbours, for releases from the oldest to the newest."""
    return {f"{old['vllm']}..{new['vllm']}": _between(old, new) for old, new in pairwise(releases)}


def _between(old: Release, new: Release) -> dict[str, Any]:
    """Names are engine args, with the fields of their configs behind dots."""
    before, after = flattened(old), flattened(new)
    added, removed = sorted(after.keys() - before.keys()), sorted(before.keys() - after.keys())
    renamed = _renamed({name: before[name] for name in removed}, {name: after[name] for name in added})
    both = [name for name in after if name in before]
    moved = {rename["from"] for rename in renamed} | {rename["to"] for rename in renamed}
    return {
        "added": [name for name in added if name not in moved],
        "removed": [name for name in removed if name not in moved],
        "renamed": renamed,
        "default_changed": _defaults_changed(both, before, after),
        "choices_changed": _choices_changed(both, before, after),
        "type_changed": {
            name: [before[name]["type"], after[name]["type"]]
            for name in both
            if _shape(before[name]["type"]) != _shape(after[name]["type"])
        },
        "deprecated": [name for name in both if after[name]["deprecated"] and not before[name]["deprecated"]],
        "resolved_changed": _resolved_changes(old["resolved"], new["resolved"]),
    }


def flattened(release: Release) -> dict[str, Mapping[str, Any]]:
    """Every arg, and every field below it by its dotted path."""
    found: dict[str, Mapping[str, Any]] = {}

    def visit(path: str, record: Mapping[str, Any], above: frozenset[str]) -> None:
        found[path] = record
        for name in sorted(_config_names(record["type"]) - above):
            for field, inner in release["configs"][name]["fields"].items():
                visit(f"{path}.{field}", inner, above | {name})

    for arg, record in release["args"].items():
        visit(arg, record, frozenset())
    return found


def _config_names(type_: Type) -> set[str]:
    return {str(member["config"]) for member in members(type_) if isinstance(member, dict) and "config" in member}


def _defaults_changed(
    names: list[str], before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[Any]]:
    pairs = {name: [before[name]["default"], after[name]["default"]] for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _choices_changed(
    names: list[str], before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    for name in names:
        old, new = _listed_choices(before[name]["type"]), _listed_choices(after[name]["type"])
        if old and new and set(old) != set(new):
            fresh, gone = [value for value in new if value not in old], [value for value in old if value not in new]
            found[name] = {"added": fresh, "removed": gone}
    return found


def _listed_choices(type_: Any) -> list[Any]:
    """The values that a type lists, at any depth, closed or open."""
    if isinstance(type_, dict):
        inner = [value for key, part in type_.items() if key != "choices" for value in _listed_choices(part)]
        return [*type_.get("choices", []), *inner]
    return [value for part in type_ for value in _listed_choices(part)] if isinstance(type_, list) else []


def _shape(type_: Any) -> Any:
    """A type without the values of its choices, whose changes are listed apart."""
    if isinstance(type_, dict):
        return {key: None if key == "choices" else _shape(part) for key, part in type_.items()}
    return [_shape(part) for part in type_] if isinstance(type_, list) else type_


def _renamed(removed: Mapping[str, Mapping[str, Any]], added: Mapping[str, Mapping[str, Any]]) -> list[dict[str, str]]:
    """Pairs under one parent of the same type and default whose help says the same: the likeliest partner of each."""
    found: list[dict[str, str]] = []
    for old_name, old in removed.items():
        likeness = {
            new_name: SequenceMatcher(None, old["help"], new["help"]).ratio()
            for new_name, new in added.items()
            if _parent(new_name) == _parent(old_name)
            and (new["type"], new["default"]) == (old["type"], old["default"])
            and old["help"]
        }
        best = max(likeness, key=lambda name: likeness[name], default=None)
        if best is not None and likeness[best] >= _SAME_MEANING:
            evidence = f"same type and default; help: {old['help']!r} became {added[best]['help']!r}"
            found.append({"from": old_name, "to": best, "evidence": evidence})
    return found


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _resolved_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Outcomes for unset args that differ; where they are decided in the source does not count."""
    kept = {
        name: [{key: value for key, value in side.get(name, {}).items() if key != "source"} for side in (old, new)]
        for name in sorted(old.keys() | new.keys())
    }
    return {name: pair for name, pair in kept.items() if pair[0] != pair[1]}
