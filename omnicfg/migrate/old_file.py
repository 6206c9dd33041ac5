"""Pass 1: an old stage config → its settings, each with its place, and the comments that go with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from omnicfg.passes.inherit import expect_mapping
from omnicfg.passes.interpolate import interpolate
from omnicfg.passes.read import load_text, read_text
from omnicfg.refusals import refuse
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Sequence, plain
from omnicfg.wording import in_yaml

# The keys by which an old file is known: one of the whole, and two of a stage of 0.18's ``pipeline.yaml``.
WORDS: Final = ("stage_args", "model_stage", "engine_input_source")
_STAGE_BLOCKS: Final = (
    "engine_args",
    "runtime",
    "default_sampling_params",
    "default_pooling_params",
    "input_connectors",
    "output_connectors",
)


class Setting(NamedTuple):
    """One line of an old file.

    ``stage`` is the position of its stage, ``None`` for the file as a whole; ``raw`` the value as written, ``node``
    with its ``${...}`` expressions resolved.
    """

    stage: int | None
    path: tuple[str, ...]
    key_mark: Mark
    raw: Node
    node: Node

    @property
    def value(self) -> Any:
        return plain(self.node)


class OldStage(NamedTuple):
    """A stage of an old file, by its position there."""

    position: int
    stage_id: int
    mark: Mark
    entry: Mapping
    settings: list[Setting]

    def value(self, *path: str) -> Any:
        """The value of a setting; ``None`` where the stage has none."""
        return next((setting.value for setting in self.settings if setting.path == path), None)

    @property
    def name(self) -> str:
        return str(self.value("engine_args", "model_stage") or self.value("model_stage") or f"stage {self.stage_id}")


class OldFile:
    """An old stage config. Raises :class:`~omnicfg.errors.ResolveError` where it cannot be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = str(path)
        self.text = load_text(path, self.shown)
        self.raw = read_text(self.text, Layer(LayerKind.PROFILE, path.name), self.shown)
        self.document = interpolate(self.raw)
        self.stages = [self._stage(position, node) for position, node in enumerate(self._entries())]
        _check_ids(self.stages)
        self.settings = list(_profile_settings(self.document, self.raw))

    @property
    def all_settings(self) -> list[Setting]:
        """Every setting, in the order of the file."""
        of_stages = [setting for stage in self.stages for setting in stage.settings]
        return sorted([*self.settings, *of_stages], key=lambda each: (each.key_mark.line, each.key_mark.column))

    def _entries(self) -> list[Node]:
        for name in ("stage_args", "stages"):
            node = self.document.items.get(name)
            if node is not None and is_old(self.document):
                if not isinstance(node, Sequence) or not node.items:
                    refuse("wrong-container", node.mark, f"`{name}` is no list of stages", "It has to have a stage.")
                return list(node.items)
        refuse(
            "removed-schema",
            Mark(self.shown, 1, 1, 1, 1),
            f"{self.shown} is no stage config of vLLM-Omni before 0.30: it has no `stage_args`",
            "Check a profile of today with `omnicfg validate`.",
        )

    def _stage(self, position: int, node: Node) -> OldStage:
        entry = expect_mapping(node, "stage_args[]")
        raw = self.raw.items["stage_args" if "stage_args" in self.raw.items else "stages"]
        raw_entry = raw.items[position] if isinstance(raw, Sequence) else entry
        stage_id = entry.items.get("stage_id")
        if stage_id is None:
            refuse("missing-stage-id", entry.mark, "this stage has no `stage_id`", "Add `stage_id: N`.")
        value = plain(stage_id)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            refuse("bad-value", stage_id.mark, f"`stage_id` is {in_yaml(value)}; it has to be a whole number")
        settings = list(_stage_settings(position, entry, raw_entry if isinstance(raw_entry, Mapping) else entry))
        return OldStage(position, value, entry.mark, entry, settings)


def is_old(document: Mapping) -> bool:
    """Whether a file is written in the old schema, the one of 0.18's ``pipeline.yaml`` included."""
    whole, *of_stages = WORDS
    if whole in document.items:
        return True
    stages = document.items.get("stages")
    entries = stages.mappings() if isinstance(stages, Sequence) else []
    return any(word in entry.items for entry in entries for word in of_stages)


def _check_ids(stages: list[OldStage]) -> None:
    seen: set[int] = set()
    for stage in stages:
        if stage.stage_id in seen:
            refuse("bad-value", stage.mark, f"two stages have the `stage_id` {stage.stage_id}", "Keep one of the two.")
        seen.add(stage.stage_id)


def _stage_settings(position: int, entry: Mapping, raw: Mapping) -> Iterator[Setting]:
    for key, node in entry.items.items():
        if key == "stage_id":
            continue
        written = raw.items.get(key, node)
        if key in _STAGE_BLOCKS and isinstance(node, Mapping) and node.items:
            yield from _children(position, (str(key),), node, written)
        else:
            yield Setting(position, (str(key),), entry.key_mark(key), written, node)


def _profile_settings(document: Mapping, raw: Mapping) -> Iterator[Setting]:
    for key, node in document.items.items():
        if key in ("stage_args", "stages"):
            continue
        written = raw.items.get(key, node)
        if key == "runtime" and isinstance(node, Mapping):
            for name, child in node.items.items():
                inner = written.items.get(name, child) if isinstance(written, Mapping) else child
                yield from _block(("runtime", str(name)), node.key_mark(name), child, inner)
        else:
            yield from _block((str(key),), document.key_mark(key), node, written)


def _block(path: tuple[str, ...], key_mark: Mark, node: Node, raw: Node) -> Iterator[Setting]:
    """A setting of the file; connectors and edges are taken apart."""
    if path[-1] == "connectors" and isinstance(node, Mapping) and node.items:
        for name, connector in node.items.items():
            written = raw.items.get(name, connector) if isinstance(raw, Mapping) else connector
            yield from _connector((*path, str(name)), node.key_mark(name), connector, written)
    elif path[-1] == "edges" and isinstance(node, Sequence) and node.items:
        for index, edge in enumerate(node.items):
            if isinstance(edge, Mapping):
                yield from _children(None, (*path, str(index)), edge, edge)
            else:
                yield Setting(None, (*path, str(index)), edge.mark, edge, edge)
    else:
        yield Setting(None, path, key_mark, raw, node)


def _connector(path: tuple[str, ...], key_mark: Mark, node: Node, raw: Node) -> Iterator[Setting]:
    if not isinstance(node, Mapping) or not node.items:
        yield Setting(None, path, key_mark, raw, node)
        return
    for key, child in node.items.items():
        written = raw.items.get(key, child) if isinstance(raw, Mapping) else child
        if key == "extra" and isinstance(child, Mapping) and child.items:
            yield from _children(None, (*path, "extra"), child, written)
        else:
            yield Setting(None, (*path, str(key)), node.key_mark(key), written, child)


def _children(stage: int | None, path: tuple[str, ...], node: Mapping, raw: Node) -> Iterator[Setting]:
    for key, child in node.items.items():
        written = raw.items.get(key, child) if isinstance(raw, Mapping) else child
        yield Setting(stage, (*path, str(key)), node.key_mark(key), written, child)
