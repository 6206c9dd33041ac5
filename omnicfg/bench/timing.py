"""What came of the requests of one load: times, tokens and errors, and what is told of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

_SAMPLES: Final = 3


@dataclass(slots=True)
class Answered:
    """One request. Times are seconds on one clock; ``tokens`` are those of the text, ``None`` where the server does
    not tell; ``error`` says what went wrong.
    """

    sent: float
    first: float | None = None
    last: float | None = None
    tokens: int | None = None
    first_audio: float | None = None
    last_audio: float | None = None
    audio_seconds: float = 0.0
    error: str | None = None

    @property
    def ttft(self) -> float | None:
        """Seconds from sending to the first token."""
        return None if self.first is None else self.first - self.sent

    @property
    def tpot(self) -> float | None:
        """Seconds a token after the first one, as ``vllm bench serve`` counts them."""
        if self.first is None or self.last is None or self.tokens is None or self.tokens < 2:
            return None
        return (self.last - self.first) / (self.tokens - 1)

    @property
    def ttfp(self) -> float | None:
        """Seconds from sending to the first packet of sound."""
        return None if self.first_audio is None else self.first_audio - self.sent

    @property
    def real_time_factor(self) -> float | None:
        """Seconds from sending to the last packet of sound, for each second of it: below 1 it can be played at once."""
        return (self.last_audio - self.sent) / self.audio_seconds if self.last_audio and self.audio_seconds else None


def summary(answers: Sequence[Answered], seconds: float) -> dict[str, Any]:
    """Rates and times of a load that took ``seconds``; only requests without an error count as completed."""
    good = [answer for answer in answers if answer.error is None]
    errors = [answer.error for answer in answers if answer.error is not None]
    return {
        "requests": len(answers),
        "completed": len(good),
        "errors": len(errors),
        "error_samples": sorted(set(errors))[:_SAMPLES],
        "seconds": round(seconds, 3),
        "requests_per_second": round(len(good) / seconds, 4) if seconds > 0 else 0.0,
        "output_tokens": sum(answer.tokens or 0 for answer in good),
        "ttft_ms": spread([answer.ttft for answer in good]),
        "tpot_ms": spread([answer.tpot for answer in good]),
        "ttfp_ms": spread([answer.ttfp for answer in good]),
        "audio_seconds": round(sum(answer.audio_seconds for answer in good), 3),
        "real_time_factor": spread([answer.real_time_factor for answer in good], unit=1),
    }


def spread(values: Sequence[float | None], unit: float = 1000) -> dict[str, float] | None:
    """Mean, median and 99th percentile, seconds in milliseconds; ``None`` where there is nothing to tell."""
    known = sorted(unit * value for value in values if value is not None)
    if not known:
        return None
    middle = (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2
    high = known[math.ceil(0.99 * len(known)) - 1]
    return {"mean": round(sum(known) / len(known), 3), "median": round(middle, 3), "p99": round(high, 3)}
