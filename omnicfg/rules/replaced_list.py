"""OC305: a list that replaces another one, and drops what the other held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omnicfg.diagnostics import Severity
from omnicfg.losses import Loss, accepted, outermost
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import Node, Sequence, plain

RULE = Rule(
    code="OC305",
    name="replaced-list",
    severity=Severity.WARNING,
    what="A list of stop conditions or edges that drops every item of the list below it, and adds others.",
    why=(
        "Lists never merge: the list on top is the whole list. Where each item is a thing of its own (a token that "
        "ends the output, an edge between two stages) a new list that shares none with the old one is mostly meant as "
        "an addition. A list that repeats at least one item of the old one, or is empty, is taken as meant."
    ),
    base="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    default_sampling_params: {stop_token_ids: [1, 2]}
""",
    bad="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    default_sampling_params: {stop_token_ids: [9]}
""",
    good="""\
pipeline: qwen3_tts
base_config: base.yaml
stages:
  - stage_id: 0
    default_sampling_params: {stop_token_ids: [1, 2, 9]}
""",
)

_OF_ITEMS: Final = ("stop_token_ids", "stop", "bad_words", "edges")
_MOST: Final = 6  # items shown


def check_profile(subject: Subject) -> Iterator[Finding]:
    """Every such list against the one that it replaced: in another file, on a platform, as an override."""
    losses = subject.losses
    every = (*losses.in_files, *losses.on_platforms, *losses.to_overrides)
    for loss in outermost(loss for loss in every if is_written(loss.loser) and _drops_all(loss)):
        yield Finding(
            loss.winner.mark,
            f"`{loss.name}`{loss.where} replaces the list in {loss.loser.mark}, of which nothing stays: "
            f"{_items(loss.loser)}",
            f"Repeat the items that should stay; if none should, {accepted(loss, RULE.code)}.",
            loss.stage_id,
            loss.platform,
        )


def _drops_all(loss: Loss) -> bool:
    """Whether the new list has items, and neither it nor what counts in the end has one of the old list."""
    if loss.route[-1] not in _OF_ITEMS or not isinstance(loss.loser, Sequence):
        return False
    new, old, final = (_identities(node) for node in (loss.winner, loss.loser, loss.final))
    return bool(new and old) and not any(item in new or item in final for item in old)


def _identities(node: Node) -> list[Any]:
    """What tells the items of a list apart: an edge is known by its two ends."""
    items = plain(node) if isinstance(node, Sequence) else []
    return [(item.get("from"), item.get("to")) if isinstance(item, dict) else item for item in items]


def _items(node: Node) -> str:
    items = [f"{item[0]} → {item[1]}" if isinstance(item, tuple) else str(item) for item in _identities(node)]
    more = f" and {len(items) - _MOST} more" if len(items) > _MOST else ""
    return ", ".join(f"`{item}`" for item in items[:_MOST]) + more
