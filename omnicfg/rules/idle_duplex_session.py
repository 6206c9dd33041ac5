"""OC313: limits of duplex sessions in a profile that serves turns."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.origins import is_written
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.tree import leaves

RULE = Rule(
    code="OC313",
    name="idle-duplex-session",
    severity=Severity.WARNING,
    what="`duplex_session` is set, but the session mode is turn, so none of it is read.",
    why=(
        "`session_mode` is turn unless a profile says otherwise, and the block alone does not change that. A profile "
        "that forgets the mode starts, and serves turn by turn. A file on top that switches a duplex base to turn is "
        "left alone."
    ),
    bad="""\
pipeline: qwen3_tts
duplex_session: {max_sessions: 2}
""",
    good="""\
pipeline: qwen3_tts
session_mode: turn
""",
)


def check_profile(subject: Subject) -> Iterator[Finding]:
    """The topmost setting of the block against where the session mode is said, if it is said at all."""
    losses = subject.losses
    tree = losses.trees.get(None)
    if tree is None or tree.value("session_mode") != "turn":
        return
    settings = [node for _, node in leaves(tree.items["duplex_session"]) if is_written(node)]
    mode = tree.items["session_mode"]
    said = losses.rank(mode) if is_written(mode) else (-1, 0)
    top = max(settings, key=losses.rank, default=None)
    if top is not None and losses.rank(top) >= said:
        yield Finding(
            top.mark,
            "`duplex_session` is not read: the session mode is turn",
            "Add `session_mode: duplex`, or remove the block.",
        )
