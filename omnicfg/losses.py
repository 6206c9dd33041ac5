"""What a profile says in vain: every setting that was written and lost, with what it lost against and where.

The passes keep what each value beat; this module reads that history for the rules about overrides. A loss is no
mistake by itself (an overlay is there to win); the rules say which losses are.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.errors import ResolveError
from omnicfg.passes.deploy import ENGINE_ARGS_WIN, EXTRAS_WIN, OWN_KEY_WINS, RUNTIME_WINS
from omnicfg.passes.platform import apply_platform
from omnicfg.secrets import redacted
from omnicfg.tree import LayerKind, Mapping, Mark, Node, Route, Scalar, Sequence, dotted, plain

if TYPE_CHECKING:
    from omnicfg.compiler import Profile
    from omnicfg.passes.override import Override

SPELLINGS: Final = {
    ENGINE_ARGS_WIN: "`engine_args`",
    RUNTIME_WINS: "`runtime`",
    OWN_KEY_WINS: "the stage's own key",
    EXTRAS_WIN: "`engine_extras`",
}
_LONGEST: Final = 60  # of a value in a message


class Loss(NamedTuple):
    """``loser`` lost to ``winner``; ``final`` is what stands at ``route`` (within the stage, if any) in the end.

    ``platform`` is ``None`` for a loss that happens whatever the platform. ``beside`` is the mapping that holds the
    route's first key: the stage's entry, or the profile.
    """

    route: Route
    stage_id: int | None
    platform: str | None
    loser: Node
    winner: Node
    final: Node
    reason: str
    beside: Mapping

    @property
    def name(self) -> str:
        """The setting as its stage has it: what the schema does not know is kept among the extras by the passes."""
        is_extra = self.route[0] == "engine_extras" and len(self.route) > 1
        return dotted(self.route[1:] if is_extra else self.route)

    @property
    def where(self) -> str:
        """`` of stage 0``, or nothing for a setting of the whole profile."""
        return "" if self.stage_id is None else f" of stage {self.stage_id}"

    def said(self, node: Node) -> str:
        """``key: value`` for a message, with what is secret hidden."""
        return f"{self.name}: {shown(tuple(self.route), node)}"


def shown(key: object, node: Node) -> str:
    """A value for a message: short, and hidden where its key looks like a credential's."""
    value = redacted(key, plain(node))
    if isinstance(node, Mapping | Sequence):
        from omnicfg.report.yaml import inline

        text = inline(value)
        return text if len(text) <= _LONGEST else f"{text[0]}...{text[-1]}"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


class Losses:
    """The losses of one profile, each kind computed when a rule asks for it."""

    def __init__(self, profile: Profile, overrides: tuple[Override, ...] = ()) -> None:
        self.profile = profile
        self._given = overrides
        self._ranks = _ranks(profile)

    # ------------------------------------------------------------------------------------------------- precedence
    def rank(self, node: Node) -> tuple[int, int]:
        """How near to the top a setting was written: the file's place in the chain, platform blocks above stages."""
        if node.layer.kind is LayerKind.OVERRIDE:
            return len(self._ranks), 0
        return self.rank_of(node.mark), int(node.layer.kind is LayerKind.PLATFORM)

    def rank_of(self, mark: Mark) -> int:
        """A file's place in the chain, 0 for the lowest; -1 for what is no file of the profile."""
        return self._ranks.get(mark.file, -1)

    @functools.cached_property
    def documents(self) -> list[Mapping]:
        """The files from the lowest to the one on top."""
        return sorted(self.profile.chain.documents, key=lambda document: self._ranks[document.mark.file])

    # ------------------------------------------------------------------------------------------------------ trees
    @functools.cached_property
    def trees(self) -> dict[str | None, Mapping]:
        """The deploy tree with the overrides on top: under ``None`` before a platform's block, then with each block.

        Platforms without a block, and what does not compile, are left out.
        """
        trees: dict[str | None, Mapping] = {}
        for platform in (None, *self.platforms):
            with contextlib.suppress(ResolveError):
                tree = self.profile.deploy if platform is None else apply_platform(self.profile.deploy, platform)
                trees[platform] = _overridden(tree, self.overrides)
        return trees

    @functools.cached_property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that the profile has a block for."""
        blocks = self.profile.deploy.items["platforms"]
        names = blocks.items if isinstance(blocks, Mapping) else {}
        return tuple(name for name in deploy_schema().platforms if name in names)

    @functools.cached_property
    def overrides(self) -> tuple[Override, ...]:
        """The overrides, if all of them can be applied; otherwise the files are looked at by themselves."""
        try:
            _overridden(self.profile.deploy, self._given)
        except ResolveError:
            return ()
        return self._given

    # ----------------------------------------------------------------------------------------------------- losses
    @functools.cached_property
    def in_files(self) -> list[Loss]:
        """A file's settings against those of the files below it, as they are written."""
        if len(self.profile.chain.documents) < 2:
            return []
        raw = self.profile.raw
        found = list(_profile_losses(raw, None))
        found += _stage_losses(raw.items.get("stages"), None)
        blocks = raw.items.get("platforms")
        for name in self.platforms:
            block = blocks.items[name] if isinstance(blocks, Mapping) else None
            found += _stage_losses(block.items.get("stages") if isinstance(block, Mapping) else None, name)
        return found

    @functools.cached_property
    def on_platforms(self) -> list[Loss]:
        """What the profile says for all platforms against what a platform's block says."""
        return [
            loss
            for platform, tree in self.trees.items()
            if platform is not None
            for loss in (*_profile_losses(tree, platform), *_stage_losses(tree.items["stages"], platform))
            if loss.winner.layer.kind is LayerKind.PLATFORM
        ]

    @functools.cached_property
    def to_overrides(self) -> list[Loss]:
        """Whatever loses to an override; under a platform's name only what its block says."""
        if not self.overrides:
            return []
        return [
            loss
            for platform, tree in self.trees.items()
            for loss in (*_profile_losses(tree, platform), *_stage_losses(tree.items["stages"], platform))
            if loss.winner.layer.kind is LayerKind.OVERRIDE
            and (platform is None or loss.loser.layer.kind is LayerKind.PLATFORM)
        ]

    @functools.cached_property
    def of_spellings(self) -> list[Loss]:
        """One spelling of a stage's setting against another: its own key, `engine_args`, `runtime`, `engine_extras`."""
        found = []
        for platform, tree in self.trees.items():
            losses = [loss for loss in _stage_losses(tree.items["stages"], platform) if loss.reason in SPELLINGS]
            for stage in _entries(tree.items["stages"]):
                losses += _extras_losses(stage, platform)
            found += [loss for loss in losses if platform is None or loss.loser.layer.kind is LayerKind.PLATFORM]
        return found


def _overridden(tree: Mapping, overrides: tuple[Override, ...]) -> Mapping:
    if not overrides:
        return tree
    from omnicfg.passes.override import apply_overrides

    return apply_overrides(tree, overrides)


def _extras_losses(stage: Mapping, platform: str | None) -> Iterator[Loss]:
    """The stage's own fields against `engine_extras`, which both reach the engine; the second wins."""
    extras = stage.items["engine_extras"]
    for key, winner in extras.items.items() if isinstance(extras, Mapping) else ():
        loser = stage.items.get(key)
        if loser is not None and key not in deploy_schema().reserved_keys:
            yield Loss((key,), _id_of(stage), platform, loser, winner, winner, EXTRAS_WIN, stage)


def _ranks(profile: Profile) -> dict[str, int]:
    """File → its place in the chain, 0 for the lowest. A chain holds each file after those on top of it."""
    groups: list[list[str]] = []
    for document in profile.chain.documents:
        if document.layer.kind is not LayerKind.BASE:
            groups.append([])
        groups[-1].append(document.mark.file)
    return {file: rank for rank, file in enumerate(file for group in groups for file in reversed(group))}


def _profile_losses(tree: Mapping, platform: str | None) -> Iterator[Loss]:
    for key, node in tree.items.items():
        if key not in ("stages", "platforms"):
            yield from _losses((key,), node, None, platform, tree)


def _stage_losses(stages: Node | None, platform: str | None) -> Iterator[Loss]:
    for entry in _entries(stages):
        stage_id = _id_of(entry)
        for key, node in entry.items.items():
            if node.beaten or isinstance(node, Mapping):
                yield from _losses((key,), node, stage_id, platform, entry)


def _entries(stages: Node | None) -> list[Mapping]:
    return stages.mappings() if isinstance(stages, Sequence) else []


def _id_of(entry: Mapping) -> int | None:
    node = entry.items.get("stage_id")
    value = node.value if isinstance(node, Scalar) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _losses(route: Route, node: Node, stage_id: int | None, platform: str | None, beside: Mapping) -> Iterator[Loss]:
    """The history of a node, then of what lies below it."""
    for beaten in node.beaten:
        if beaten.by is not None:
            yield Loss(route, stage_id, platform, beaten.node, beaten.by, node, beaten.reason, beside)
    if isinstance(node, Mapping):
        for key, child in node.items.items():
            yield from _losses((*route, key), child, stage_id, platform, beside)


def same(one: Node, other: Node) -> bool:
    """Whether two settings say the same, so that it does not matter which wins (``1`` is ``1.0``, but not ``true``)."""
    left, right = plain(one), plain(other)
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def accepted(loss: Loss, code: str) -> str:
    """How to say of a loss that it is meant: in a comment, for which a ``--set`` has no place."""
    comment = f"`# omnicfg: ignore[{code}] because ...`"
    return f"say so in an overlay, with {comment}" if loss.winner.layer.kind is LayerKind.OVERRIDE else comment


def outermost(losses: Iterable[Loss]) -> Iterator[Loss]:
    """Leaves out what lies within a block that is itself among the losses, on the same platform."""
    routes: set[tuple[str | None, int | None, Route]] = set()
    for loss in losses:
        above = ((loss.platform, loss.stage_id, loss.route[:length]) for length in range(1, len(loss.route)))
        if not any(place in routes for place in above):
            routes.add((loss.platform, loss.stage_id, loss.route))
            yield loss
