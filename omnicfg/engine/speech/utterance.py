"""What a spoken request is conditioned on, while it runs: shared by whoever feeds it and by vLLM's model runner.

The engine runs in the process of the stage, so this is plain memory. A request's ``extra_args`` name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import torch

KEY: Final = "utterance"
"""Under this name ``SamplingParams.extra_args`` carry the key of the utterance."""

_UTTERANCES: dict[str, Utterance] = {}


@dataclass(slots=True, eq=False)
class Utterance:
    """``text`` are the text tokens to read, one with every frame; ``ended`` when no more will come.

    ``arrived`` are the frames that the client has, of which the next may be at most ``window`` ahead. ``seed`` decides
    on the codes of all codebooks but the first. ``codes`` keeps those of a request that lost its place in the batch.
    ``places`` are the prompt's positions (``[3, tokens]``) where the decoder has three axes, and by how much what
    follows it stands ahead of its place in the request.
    """

    key: str
    window: int
    seed: int = 0
    text: list[int] = field(default_factory=list)
    ended: bool = False
    arrived: int = 0
    read: int = 0
    """How many tokens of ``text`` the model runner has taken over, the end's among them."""
    codes: torch.Tensor | None = None
    places: tuple[torch.Tensor, int] | None = None

    def may_speak(self, frame: int) -> bool:
        """Whether what frame number ``frame`` reads is there, and its client near enough."""
        return frame - self.arrived < self.window and (self.ended or frame < len(self.text))

    def unread(self, end: int) -> list[tuple[int, int]]:
        """(frame, token) that the model runner has not seen; ``end`` is the token that follows the text."""
        tokens = [*self.text, end] if self.ended else self.text
        fresh = [(frame, tokens[frame]) for frame in range(self.read, len(tokens))]
        self.read = len(tokens)
        return fresh


def begin(utterance: Utterance) -> Mapping[str, str]:
    """Make an utterance known; the ``extra_args`` of its request."""
    _UTTERANCES[utterance.key] = utterance
    return {KEY: utterance.key}


def end(key: str) -> None:
    """Forget an utterance."""
    _UTTERANCES.pop(key, None)


def of(sampling_params: Any) -> Utterance | None:
    """The utterance of a request; ``None`` for vLLM's own trial runs."""
    arguments = getattr(sampling_params, "extra_args", None) or {}
    return _UTTERANCES.get(str(arguments.get(KEY)))
