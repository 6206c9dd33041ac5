"""The sentences about KV caches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from omnicfg.engine.memory import CacheEstimate
from omnicfg.report.estimates import estimate_lines
from omnicfg.resources.estimate import NoEstimate, StageEstimate

FULL = StageEstimate(
    0, "thinker", CacheEstimate(98_304, 4_096), 67 * 2**30, "90% of 139.8 GiB less …", 702_544, 731_808, None
)
PLAIN = replace(FULL, cache=CacheEstimate(98_304, 0), tokens=731_808)
IS_LEFT = "90% of 139.8 GiB less … is 67.0 GiB"
ROWS = "on the bundled engine, 4,096 B of payload rows"
START = "stage 0 (thinker): a token takes 98,304 B of keys and values"


@pytest.mark.parametrize(
    ("estimate", "line"),
    [
        (
            FULL,
            f"{START} and, {ROWS}; {IS_LEFT}, which holds 702,544 tokens, 731,808 without rows",
        ),
        (PLAIN, f"{START}; {IS_LEFT}, which holds 731,808 tokens"),
        (
            replace(PLAIN, tokens=32, longest=1024),
            f"{START}; {IS_LEFT}, which holds 32 tokens: less than one request of max_model_len 1,024",
        ),
        (replace(PLAIN, kv_memory=-5), f"{START}; 90% of 139.8 GiB less … leaves nothing for them"),
        (
            replace(PLAIN, kv_memory=None, origin="nobody says"),
            f"{START}; how many fit is not known: nobody says",
        ),
        (NoEstimate(1, "talker", "why"), "stage 1 (talker): no estimate of its KV cache: why"),
    ],
)
def test_a_line(estimate: StageEstimate | NoEstimate, line: str) -> None:
    assert estimate_lines([estimate]) == [line]
