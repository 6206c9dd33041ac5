"""Requests for a server: their prompts, and so many of them at a time."""

from __future__ import annotations

import asyncio
import json
import math
import random
from dataclasses import dataclass, replace
from typing import Self

from omnicfg.bench import loads
from omnicfg.bench.consumer import Consumer
from omnicfg.engine.spec import request_flag


@dataclass(frozen=True)
class Load:
    """``prompts`` requests, ``concurrency`` at a time: ``shared`` tokens of one of ``prefixes``, ``own`` ones, and
    ``answer``; the last two vary uniformly by ``ratio`` to either side.
    """

    name: str
    shared: int
    own: int
    answer: int
    prompts: int
    concurrency: int = 64
    prefixes: int = 1
    ratio: float = 0.0

    @classmethod
    def published(cls, row: loads.Load) -> Self:
        """A row of a published table."""
        return cls(
            row.name,
            row.shared_prefix_tokens,
            row.own_tokens_mean,
            row.output_tokens,
            row.prompts,
            row.concurrency,
            row.prefixes,
            row.range_ratio,
        )

    def tiny(self) -> Load:
        """The same shape for two CPU cores."""
        few, prefixes = min(self.answer, 12), min(self.prefixes, 4)
        return replace(
            self,
            shared=self.shared // 16,
            own=self.own // 16,
            answer=few,
            prompts=12,
            concurrency=4,
            prefixes=prefixes,
        )

    def bodies(self, seed: str, *, rows: bool, vocabulary: int) -> list[bytes]:
        """The requests' bodies, with ``rows`` asked for; the first is the warm-up that fills the prefix cache."""
        source = random.Random(f"{self.name} {seed}")
        shared = [_tokens(source, self.shared, vocabulary) for _ in range(self.prefixes)]
        bodies = []
        for index in range(self.prompts + 1):
            prompt = [*shared[index % self.prefixes], *_tokens(source, self._varied(source, self.own), vocabulary)]
            answer = self._varied(source, self.answer)
            body = {"prompt": prompt, "max_tokens": answer, "ignore_eos": True, "temperature": 0}
            if rows:
                body["kv_transfer_params"] = request_flag(str(index))
            bodies.append(json.dumps({"model": "thinker", **body}).encode())
        return bodies

    def _varied(self, source: random.Random, mean: int) -> int:
        if not self.ratio:
            return mean
        return source.randint(math.floor(mean * (1 - self.ratio)), math.ceil(mean * (1 + self.ratio)))


def take(consumer: Consumer, before: dict[str, int], payloads: int) -> dict[str, int]:
    """What came since ``before``, once that is so many payloads; :class:`RuntimeError` where they do not come."""
    came = consumer.since(before, payloads)
    if came["complete"] + came["incomplete"] < payloads:
        raise RuntimeError(f"{came} of {payloads} payloads came")
    return came


async def closed_loop(url: str, bodies: list[bytes], concurrency: int) -> list[str]:
    """Send every body, ``concurrency`` at a time; their answers' texts, in the same order."""
    import aiohttp

    waiting = iter(enumerate(bodies))
    texts = [""] * len(bodies)
    headers = {"Content-Type": "application/json"}
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for index, body in waiting:
                async with session.post(f"{url}/v1/completions", data=body, headers=headers) as answer:
                    text = await answer.text()
                    if answer.status != 200:
                        raise RuntimeError(f"{answer.status}: {text[:500]}")
                    texts[index] = json.loads(text)["choices"][0]["text"]

        await asyncio.gather(*(work() for _ in range(concurrency)))
    return texts


def _tokens(source: random.Random, count: int, vocabulary: int) -> list[int]:
    return [source.randrange(vocabulary // 4, vocabulary - vocabulary // 64) for _ in range(count)]
