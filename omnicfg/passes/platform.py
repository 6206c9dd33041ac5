"""Pass 5: the platform's block → the deploy tree it leaves behind.

vLLM-Omni 0.30.0 (``_apply_platform_overrides``) reads two keys of a block, ``model_runner`` and ``stages``. A stage
entry with ``engine_args`` contributes only that block and ``runtime``; a flat entry contributes its keys. Merging is
one level deep, for the deep-merge keys and ``env``; everything else is replaced.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.passes.deploy import RUNTIME_WINS, model_runner_of
from omnicfg.passes.inherit import expect_mapping, stage_id_of
from omnicfg.refusals import refuse
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, over, plain, relabel


class _Overrides(NamedTuple):
    fields: Mapping
    devices: Node | None
    env: Node | None


def apply_platform(tree: Mapping, platform: str) -> Mapping:
    """The deploy tree on ``platform``; the ``platforms`` block itself is gone from it."""
    result = tree.without("platforms")
    block = _block(tree, platform)
    if block is not None:
        runner = model_runner_of(block, platform)
        if runner is not None:
            result.put("model_runner", over(runner, result.items["model_runner"], f"set for platform {platform}"))
    if block is None:
        return result
    stages = result.sequence("stages")
    patched = [stage.copy() for stage in stages.items]
    by_id = {stage.value("stage_id"): stage for stage in patched if isinstance(stage, Mapping)}
    for entry in _entries(block, platform):
        stage = by_id.get(stage_id_of(entry))
        if stage is not None:
            _patch(stage, _overrides(entry), f"set for platform {platform}")
    replaced = stages.copy()
    replaced.items = list(patched)
    result.put("stages", replaced)
    return result


def _block(tree: Mapping, platform: str) -> Mapping | None:
    platforms = tree.items["platforms"]
    if not plain(platforms):
        return None
    node = expect_mapping(platforms, "platforms").items.get(platform)
    if node is None or plain(node) is None:
        return None
    block = relabel(expect_mapping(node, f"platforms.{platform}"), Layer(LayerKind.PLATFORM, platform))
    assert isinstance(block, Mapping)
    return block


def _entries(block: Mapping, platform: str) -> list[Mapping]:
    stages = block.items.get("stages")
    if stages is None:
        return []
    if isinstance(stages, Mapping) and not stages.items:
        return []
    if not isinstance(stages, Sequence):
        refuse(
            "wrong-container",
            stages.mark,
            f"`platforms.{platform}.stages` is not a list",
            "Write a list, each item starting `- stage_id: N`.",
            platform=platform,
        )
    return [expect_mapping(entry, f"platforms.{platform}.stages[]") for entry in stages.items]


def _overrides(entry: Mapping) -> _Overrides:
    if "engine_args" not in entry.items:
        return _Overrides(entry.without("stage_id", "devices", "env"), entry.get("devices"), entry.get("env"))
    node = entry.items["engine_args"]
    fields = Mapping({}, node.layer, node.mark)
    if not (isinstance(node, Sequence) and not node.items):
        fields = expect_mapping(node, "engine_args").copy()
    runtime = Mapping({}, entry.layer, entry.mark)
    if "runtime" in entry.items:
        runtime = expect_mapping(entry.items["runtime"], "runtime")
    if "num_replicas" in runtime.items:
        replicas = over(runtime.items["num_replicas"], fields.get("num_replicas"), RUNTIME_WINS)
        fields.put("num_replicas", replicas, runtime.key_marks.get("num_replicas"))
    return _Overrides(fields, runtime.get("devices"), runtime.get("env"))


def _patch(stage: Mapping, overrides: _Overrides, reason: str) -> None:
    if overrides.devices is not None and plain(overrides.devices) is not None:
        stage.put("devices", over(overrides.devices, stage.items["devices"], reason))
    if overrides.env is not None and plain(overrides.env) is not None:
        stage.put("env", _merged_once(stage.items["env"], overrides.env, reason))
    for key, node in overrides.fields.items.items():
        _set_field(stage, key, node, overrides.fields.key_marks.get(key), reason)


def _set_field(stage: Mapping, key: Hashable, node: Node, key_mark: Mark | None, reason: str) -> None:
    if not isinstance(key, str) or key.startswith("__"):
        # Upstream sets attributes of its own Python class here, those with underscores included.
        refuse("unsupported-yaml", key_mark or node.mark, f"the stage key {key!r} is not a name")
    if key == "stage_id" and not isinstance(node, Scalar):
        refuse("wrong-container", node.mark, "`stage_id` is one number")
    if key not in stage.items:
        extras = stage.items["engine_extras"].copy()
        if not isinstance(extras, Mapping):
            refuse("wrong-container", extras.mark, "`engine_extras` has to be a mapping")
        extras.put(key, over(node, extras.items.get(key), reason), key_mark)
        stage.put("engine_extras", extras)
    elif key in deploy_schema().deep_merge_keys:
        stage.put(key, _merged_once(stage.items[key], node, reason), key_mark)
    else:
        stage.put(key, over(node, stage.items[key], reason), key_mark)


def _merged_once(base: Node, node: Node, reason: str) -> Node:
    """One level of merging: the entries of ``node`` go over those of ``base``; nested blocks are replaced."""
    if not (isinstance(base, Mapping) and isinstance(node, Mapping)):
        return over(node, base, reason)
    merged = base.copy()
    for key, child in node.items.items():
        merged.put(key, over(child, base.items.get(key), reason), node.key_marks.get(key))
    return merged
