"""OC307: an empty value that clears nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Final

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import remove_key
from omnicfg.losses import Losses
from omnicfg.origins import is_written
from omnicfg.passes.inherit import stage_id_of
from omnicfg.passes.override import Override, document_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import LayerKind, Mapping, Node, Route, Sequence, find, leaves, plain

RULE = Rule(
    code="OC307",
    name="empty-over-base",
    severity=Severity.WARNING,
    what="A null or an empty value over something that it looks like clearing, and that stays as it is.",
    why=(
        "An empty `stages`, `connectors` or `platforms` keeps what the file below says, so does an empty block among "
        "those that merge (`default_sampling_params: {}`), and so do a null `devices` or `env` in a platform's block. "
        "A stage's null for a pipeline-wide setting (`quantization: null`) is no way to opt out of it either: "
        "vLLM-Omni's server goes on with the profile's value. Whoever writes one of these expects a clean slate."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
stages: []
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
""",
)

_HELP: Final = "Leave it out; what should be gone must not be set below."
_EMPTY: Final[tuple[object, ...]] = (None, [], {})
_BLOCKS: Final = ("stages", "connectors", "platforms")


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every empty value of a file against the files below, of a platform's entry against its stage, of an override."""
    losses = subject.losses
    yield from _over_files(subject)
    for platform in losses.platforms:
        if platform in losses.trees:
            yield from _on_platform(subject.profile.deploy, platform)
    for override in losses.overrides:
        if _is_empty_block(override.node):
            yield from _of_override(override, losses)
    for in_block, tree in losses.trees.items():
        for stage in tree.sequence("stages").mappings():
            yield from _over_all_stages(stage, tree, in_block)


def _over_files(subject: Subject) -> Iterator[Finding]:
    documents = subject.losses.documents
    below: dict[Route, Node] = {}
    for document in documents if len(documents) > 1 else ():
        places = dict(_places(document))
        for route, owner in places.items():
            node = owner.items[route[-1]]
            if route in below and plain(node) in _EMPTY:
                found = _finding(route, node, below[route])
                yield replace(found, fix=remove_key(subject, owner, route[-1]))
        below |= {route: owner.items[route[-1]] for route, owner in places.items() if plain(owner.items[route[-1]])}


def _places(document: Mapping) -> Iterator[tuple[Route, Mapping]]:
    """What an empty value in a file on top would not clear: the route, and the mapping that has its last key."""
    yield from (((block,), document) for block in _BLOCKS if block in document.items)
    yield from _stage_places(document.items.get("stages"), ("stages",))
    platforms = document.items.get("platforms")
    for name, block in platforms.items.items() if isinstance(platforms, Mapping) else ():
        assert isinstance(platforms, Mapping)
        route: Route = ("platforms", name)
        yield route, platforms
        if isinstance(block, Mapping) and "stages" in block.items:
            yield (*route, "stages"), block
            yield from _stage_places(block.items["stages"], (*route, "stages"))


def _stage_places(stages: Node | None, above: Route) -> Iterator[tuple[Route, Mapping]]:
    for entry in stages.mappings() if isinstance(stages, Sequence) else ():
        for key in deploy_schema().deep_merge_keys:
            if isinstance(entry.items.get(key), Mapping):
                yield (*above, stage_id_of(entry), key), entry


def _on_platform(deploy: Mapping, platform: str) -> Iterator[Finding]:
    block = find(deploy, ("platforms", platform, "stages"))
    stages = {stage.value("stage_id"): stage for stage in deploy.sequence("stages").mappings()}
    for entry in block.mappings() if isinstance(block, Sequence) else ():
        stage = stages.get(stage_id_of(entry))
        for key, node in _flat(entry).items.items():
            below = None if stage is None else stage.items.get(key)
            if below is not None and plain(below) and _keeps(key, node):
                yield _finding(("stages", stage_id_of(entry), key), node, below, platform)


def _over_all_stages(stage: Mapping, tree: Mapping, platform: str | None) -> Iterator[Finding]:
    """A stage's null against the profile's setting for all stages."""
    for key in deploy_schema().pipeline_wide:
        own, wide = find(stage, ("engine_extras", key)), tree.items[key]
        if own is None or plain(own) is not None or not is_written(own):
            continue
        is_told_here = platform is None or own.layer.kind is LayerKind.PLATFORM
        if is_told_here and plain(wide) is not None and is_written(wide):
            yield _finding(("stages", stage.value("stage_id"), key), own, wide, platform)


def _flat(entry: Mapping) -> Mapping:
    """What a platform's entry sets: with `engine_args`, that block and `runtime`, and nothing else."""
    if "engine_args" not in entry.items:
        return entry
    blocks = [block for block in (entry.items.get("engine_args"), entry.items.get("runtime")) if block is not None]
    flat = Mapping({}, entry.layer, entry.mark)
    for block in blocks:
        flat.items |= block.items if isinstance(block, Mapping) else {}
    return flat


def _keeps(key: Hashable, node: Node) -> bool:
    if key in ("devices", "env"):
        return plain(node) is None or (key == "env" and not plain(node))
    return key in deploy_schema().deep_merge_keys and _is_empty_block(node)


def _is_empty_block(node: Node) -> bool:
    return isinstance(node, Mapping) and not node.items


def _of_override(override: Override, losses: Losses) -> Iterator[Finding]:
    """An empty mapping merges into what is there, and changes nothing."""
    tree = losses.trees[None]
    route: Route = override.route
    document = document_of(override)
    kept = find(tree, route)
    if route[0] == "stages":
        (entry,) = document.sequence("stages").mappings()
        stage_id = entry.value("stage_id")
        ((keys, _),) = leaves(entry.without("stage_id"))
        stages = (stage for stage in tree.sequence("stages").mappings() if stage.value("stage_id") == stage_id)
        stage = next(stages, None)
        kept = find(stage, keys) or find(stage, ("engine_extras", *keys))
        route = ("stages", stage_id, *keys)
    if kept is not None and any(is_written(leaf) for _, leaf in leaves(kept) if leaf is not kept):
        yield _finding(route, override.node, kept)


def _finding(route: Route, node: Node, kept: Node, platform: str | None = None) -> Finding:
    stage_id = next((step for step in route if isinstance(step, int)), None)
    where = "" if stage_id is None else f" of stage {stage_id}"
    return Finding(
        node.mark,
        f"`{route[-1]}: {_shown(node)}`{where} clears nothing: what {kept.mark} says stays",
        _HELP,
        stage_id,
        platform or (str(route[1]) if route[0] == "platforms" and len(route) > 1 else None),
    )


def _shown(node: Node) -> str:
    return "[]" if isinstance(node, Sequence) else "{}" if isinstance(node, Mapping) else "null"
