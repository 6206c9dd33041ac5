"""Requests for a server: their prompts, and so many of them at a time."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass

from omnicfg.bench.consumer import Consumer
from omnicfg.engine.spec import request_flag


@dataclass(frozen=True)
class Load:
    """``prompts`` requests, ``concurrency`` at a time: ``shared`` tokens of common prefix, ``own`` ones, ``answer``."""

    name: str
    shared: int
    own: int
    answer: int
    prompts: int
    concurrency: int = 64

    def tiny(self) -> Load:
        """The same shape for two CPU cores."""
        return Load(self.name, self.shared // 16, self.own // 16, min(self.answer, 12), 12, 4)

    def bodies(self, seed: str, *, rows: bool, vocabulary: int) -> list[bytes]:
        """The requests' bodies, with ``rows`` asked for; the first is the warm-up that fills the prefix cache."""
        source = random.Random(f"{self.name} {seed}")
        shared = _tokens(source, self.shared, vocabulary)
        bodies = []
        for index in range(self.prompts + 1):
            prompt = [*shared, *_tokens(source, self.own, vocabulary)]
            body = {"prompt": prompt, "max_tokens": self.answer, "ignore_eos": True, "temperature": 0}
            if rows:
                body["kv_transfer_params"] = request_flag(str(index))
            bodies.append(json.dumps({"model": "thinker", **body}).encode())
        return bodies


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
