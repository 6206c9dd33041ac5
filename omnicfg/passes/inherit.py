"""Pass 3: ``base_config`` chains and overlays → one raw profile.

The rules are vLLM-Omni 0.30.0's (``vllm_omni/config/stage_config.py``, ``resolve_deploy_yaml``): top-level keys
replace; connectors merge deeply; stages, and the stages of a platform block, merge by ``stage_id``; inside a stage
only the deep-merge keys of the schema merge, everything else is replaced.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Hashable
from collections.abc import Sequence as SequenceOf
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from omnicfg.buffers import in_use, text_of
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.confine import may_read, root_shown
from omnicfg.errors import ResolveError
from omnicfg.passes.interpolate import interpolate
from omnicfg.passes.read import load_text, read_file, read_text
from omnicfg.refusals import collecting, refuse
from omnicfg.standing_for import beside
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, deep_merge, over, plain

if TYPE_CHECKING:
    from omnicfg.diagnostics import Diagnostic

MAX_CHAIN: Final = 32
_SUFFIXES: Final = (".yaml", ".yml", ".json")
_STRUCTURED: Final = ("connectors", "stages", "platforms")


class Chain:
    """A profile's files, outermost first, as they were read: what source rules look at.

    ``paths`` says where the files lie that marks name by how they are shown.
    """

    def __init__(self) -> None:
        self.documents: list[Mapping] = []
        self.paths: dict[str, Path] = {}


def inherit(
    profile: Path, shown: str, overlays: SequenceOf[Path] = (), found: list[Diagnostic] | None = None
) -> tuple[Mapping, Chain]:
    """The raw profile at ``profile`` with its bases below it and ``overlays`` on top, and the files it came from.

    An overlay acts as a file whose ``base_config`` is everything before it. Where ``found`` is given, every refusal
    comes there, and what can be read is read all the same.
    """
    chain = Chain()
    merged = _load(profile, shown, Layer(LayerKind.PROFILE, Path(shown).name), chain, (), found)
    for overlay in overlays:
        upper = _load(overlay, str(overlay), Layer(LayerKind.OVERLAY, overlay.name), chain, (), found)
        merged = _or_go_on(partial(merge_documents, merged, upper), found) or upper
    return merged, chain


def _or_go_on(work: Callable[[], Mapping], found: list[Diagnostic] | None) -> Mapping | None:
    """What ``work`` gives; where it is refused, ``None``, and why goes to ``found``."""
    if found is None:
        return work()
    try:
        return work()
    except ResolveError as error:
        found += error.diagnostics
        return None


def _document(path: Path, shown: str, layer: Layer, found: list[Diagnostic] | None) -> Mapping | None:
    """What a file says; what can be read of it where refusals go to ``found``, ``None`` where that is nothing."""
    if found is None:
        return interpolate(read_file(path, layer, shown))
    if in_use() is not None:  # which keeps trees, and has to keep none with a flaw
        with suppress(ResolveError):
            return interpolate(read_file(path, layer, shown))
    with collecting(found):
        return _or_go_on(lambda: interpolate(read_text(load_text(path, shown), layer, shown)), found)


def _load(
    path: Path, shown: str, layer: Layer, chain: Chain, seen: tuple[str, ...], found: list[Diagnostic] | None
) -> Mapping:
    chain.paths[shown] = path
    document = _document(path, shown, layer, found)
    if document is None:
        return Mapping({}, layer, Mark(shown))
    chain.documents.append(document)
    own = document.without("base_config")
    base = document.items.get("base_config")
    if base is None or plain(base) is None:
        return own
    lower = _or_go_on(partial(_lower, path, shown, base, chain, seen, found), found)
    return own if lower is None else _or_go_on(partial(merge_documents, lower, own), found) or own


def _lower(
    path: Path, shown: str, base: Node, chain: Chain, seen: tuple[str, ...], found: list[Diagnostic] | None
) -> Mapping:
    """What the base of a file says, with all that lies below it."""
    identity = os.path.normpath(path.absolute())
    base_path, base_shown = _base_path(path, shown, base)
    if os.path.normpath(base_path.absolute()) in (*seen, identity) or len(seen) >= MAX_CHAIN:
        refuse(
            "base-cycle",
            base.mark,
            f"`base_config: {plain(base)}` leads back to a file that this chain already read"
            if len(seen) < MAX_CHAIN
            else f"the `base_config` chain is longer than {MAX_CHAIN} files",
            "Let the chain end in a file without `base_config`.",
        )
    _check_base(base, base_path)
    return _load(base_path, base_shown, Layer(LayerKind.BASE, base_path.name), chain, (*seen, identity), found)


def _base_path(path: Path, shown: str, base: Node) -> tuple[Path, str]:
    value = plain(base)
    if not isinstance(value, str):
        refuse("bad-base", base.mark, "`base_config` is one path", "Chain bases file by file: each names its own.")
    if "\0" in value or Path(value).suffix.lower() not in _SUFFIXES:
        # Whatever the profile of a stranger names would otherwise be read, and quoted where it is no YAML.
        refuse(
            "bad-base",
            base.mark,
            f"`base_config: {value}` is not a YAML file",
            _shipped_hint(value, shown) or "Name a .yaml file.",
        )
    found = beside(path, value)
    if not may_read(found):
        refuse(
            "outside-root",
            base.mark,
            f"the base `{value}` lies outside `--root {root_shown()}`",
            "Keep the bases below the root, or name a wider one.",
        )
    return found, os.path.normpath(Path(shown).parent / value)


def _check_base(base: Node, path: Path) -> None:
    """Says of a base that cannot be read where it is asked for, rather than where it would be."""
    if text_of(path) is not None:
        return
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        hint = _shipped_hint(str(plain(base)), base.mark.file) or _near_file(path)
        refuse("bad-base", base.mark, f"the base `{plain(base)}` does not exist", hint)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        refuse("bad-base", base.mark, f"the base `{plain(base)}` cannot be read: {reason}", "Check the path.")
    if not stat.S_ISREG(mode):
        what = "directory" if stat.S_ISDIR(mode) else "device or pipe"
        refuse("bad-base", base.mark, f"the base `{plain(base)}` is a {what}", "Name a YAML file.")


def _shipped_hint(value: str, upper: str) -> str | None:
    """How to build on a shipped profile, where that is what a base that is not there means. Bases are only files."""
    from omnicfg.catalog.library import library

    name = value.rpartition("/")[2].removesuffix(".yaml")
    if name not in library():
        return None
    return (
        f"`{name}` is a shipped profile, and a base is a file. Leave `base_config` out, and put this file on top: "
        f"`omnicfg resolve {name} --overlay {upper}`."
    )


def _near_file(missing: Path) -> str:
    from omnicfg.near import near

    siblings = [entry.name for entry in sorted(missing.parent.glob("*.y*ml"))] if missing.parent.is_dir() else []
    close = near(missing.name, siblings)
    if close:
        return f"Did you mean `{close}`? The path is relative to the file that names it."
    return "The path is relative to the directory of the file that names it; `~` is not expanded."


def merge_documents(base: Mapping, upper: Mapping) -> Mapping:
    """``upper`` on top of ``base``, both raw profiles without ``base_config``."""
    reason = f"replaced by {upper.layer}"
    merged = base.copy()
    merged.layer, merged.mark = upper.layer, upper.mark
    for key, node in upper.items.items():
        if key not in _STRUCTURED:
            merged.put(key, over(node, base.items.get(key), reason), upper.key_marks.get(key))
    _put(merged, upper, "connectors", _merge_connectors(base.get("connectors"), upper.get("connectors"), reason))
    _put(merged, upper, "stages", _merge_stage_lists(base.get("stages"), upper.get("stages"), upper, reason))
    _put(merged, upper, "platforms", _merge_platforms(base.get("platforms"), upper.get("platforms"), reason))
    return merged


def _put(merged: Mapping, upper: Mapping, key: str, node: Node | None) -> None:
    if node is not None:
        merged.put(key, node, upper.key_marks.get(key) or merged.key_marks.get(key))


def _falsy(node: Node | None) -> bool:
    return node is None or not plain(node)


def _merge_connectors(base: Node | None, upper: Node | None, reason: str) -> Node | None:
    if upper is None or _falsy(upper):
        return base if base is None or _falsy(base) else expect_mapping(base, "connectors")
    if base is None or _falsy(base):
        return over(expect_mapping(upper, "connectors"), base, reason)
    return deep_merge(expect_mapping(base, "connectors"), expect_mapping(upper, "connectors"), reason)


def _merge_stage_lists(base: Node | None, upper: Node | None, owner: Mapping, reason: str) -> Sequence:
    """Two ``stages:`` lists merged by id. A repeated id replaces in the lower list and merges from the upper one."""
    by_id: dict[Hashable, Mapping] = {}
    for stage in stage_entries(base):
        by_id[stage_id_of(stage)] = stage
    for stage in stage_entries(upper):
        stage_id = stage_id_of(stage)
        by_id[stage_id] = _merge_stage(by_id[stage_id], stage, reason) if stage_id in by_id else stage
    model = upper if upper is not None and not _falsy(upper) else base
    layer, mark = (owner.layer, owner.mark) if model is None else (model.layer, model.mark)
    return Sequence(list(by_id.values()), layer, mark)


def _merge_stage(base: Mapping, upper: Mapping, reason: str) -> Mapping:
    deep_keys = deploy_schema().deep_merge_keys
    merged = base.copy()
    merged.layer, merged.mark = upper.layer, upper.mark
    for key, node in upper.items.items():
        previous = base.items.get(key)
        winner = over(node, previous, reason)
        if key in deep_keys and isinstance(previous, Mapping) and isinstance(node, Mapping):
            winner = deep_merge(previous, node, reason)
        merged.put(key, winner, upper.key_marks.get(key))
    return merged


def _merge_platforms(base: Node | None, upper: Node | None, reason: str) -> Node | None:
    if _falsy(base) and _falsy(upper):
        return base
    lower = _mapping_or_empty(base, "platforms", upper)
    higher = _mapping_or_empty(upper, "platforms", base)
    merged = lower.copy()
    for name in dict.fromkeys([*lower.items, *higher.items]):
        low = _mapping_or_empty(lower.get(name), f"platforms.{name}", lower)
        high = _mapping_or_empty(higher.get(name), f"platforms.{name}", higher)
        block = low.copy()
        for key, node in high.items.items():
            if key != "stages":
                block.put(key, over(node, low.items.get(key), reason), high.key_marks.get(key))
        block.put(
            "stages",
            _merge_stage_lists(low.get("stages"), high.get("stages"), block, reason),
            high.key_marks.get("stages") or low.key_marks.get("stages"),
        )
        merged.put(name, block, higher.key_marks.get(name) or lower.key_marks.get(name))
    return merged


def _mapping_or_empty(node: Node | None, what: str, near_by: Node | None) -> Mapping:
    if node is not None and not _falsy(node):
        return expect_mapping(node, what)
    place = node or near_by
    assert place is not None
    return Mapping({}, place.layer, place.mark)


def expect_mapping(node: Node, what: str) -> Mapping:
    """The node if it is a mapping; refused otherwise. ``what`` names the block in the message."""
    if isinstance(node, Mapping):
        return node
    kind = "a list" if isinstance(node, Sequence) else "null" if plain(node) is None else "a single value"
    refuse(
        "wrong-container",
        node.mark,
        f"`{what}` is {kind}; it has to be a mapping",
        "Write `key: value` pairs below it, or leave the key out.",
    )


def stage_entries(stages: Node | None) -> list[Mapping]:
    """The entries of a ``stages:`` list; null and empty count as no entries, as upstream merges them."""
    if stages is None or _falsy(stages):
        return []
    if not isinstance(stages, Sequence):
        refuse(
            "wrong-container", stages.mark, "`stages` is a list of mappings", "Start each stage with `- stage_id: N`."
        )
    return [expect_mapping(entry, "stages[]") for entry in stages.items]


def stage_id_of(stage: Mapping) -> Hashable:
    """The ``stage_id`` of an entry, whatever its type; upstream compares ids as Python does (``0 == False``)."""
    node = stage.items.get("stage_id")
    if node is None:
        refuse("missing-stage-id", stage.mark, "this stage entry has no `stage_id`", "Add `stage_id: N`.")
    if not isinstance(node, Scalar):
        refuse("wrong-container", node.mark, "`stage_id` is one number", "Write `stage_id: 0`.")
    value: Hashable = node.value
    return value
