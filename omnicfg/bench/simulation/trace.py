"""Traces: which requests come when, and what their prompts have in common; a file's, a shipped one, or a load's.

A trace is a CSV file (``profiles/bench/traces`` has one). A prompt is written as its parts, each a number of tokens; a
part with a name (``handbook:3000``) is the same tokens wherever that name stands.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from omnicfg.bench.loads import MAX_TOKENS, Load
from omnicfg.bench.prompts import lengths_of
from omnicfg.bench.table_file import Row, needed, read_table, real_number
from omnicfg.catalog.paths import profiles_dir
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError, ServeError, UsageError
from omnicfg.near import did_you_mean
from omnicfg.wording import is_number

MAX_ROWS: Final = 200_000
MAX_SECONDS: Final = 10_000_000
"""Of a trace, nearly four months: a clock that runs on from 1970 would leave nothing of a rate of requests."""
_DIGITS: Final = len(str(MAX_TOKENS))
COLUMNS: Final = ("arrival_s", "prompt", "output_tokens")
_ANSWER: Final = "answer"
# The name of a load, which has up to 64 characters, and the number of one of its prefixes.
_PART: Final = re.compile(r"(?:([A-Za-z0-9][\w./-]{0,79}):)?([0-9]{1,8})", re.ASCII)
_FORM: Final = "Parts with blanks between them: `handbook:3000 120` is 3,000 shared tokens and 120 of its own."


@dataclass(frozen=True, slots=True)
class Part:
    """A run of tokens, the same wherever ``name`` stands; without a name, nobody else's."""

    tokens: int
    name: str | None = None

    def __str__(self) -> str:
        return str(self.tokens) if self.name is None else f"{self.name}:{self.tokens}"


@dataclass(frozen=True, slots=True)
class Call:
    """One request: seconds after the beginning at which it comes, its prompt, and how many tokens are answered.

    ``answer`` names the answer, so that the prompts of later turns may contain it.
    """

    arrival_s: float
    prompt: tuple[Part, ...]
    output_tokens: int
    answer: str | None = None

    @property
    def prompt_tokens(self) -> int:
        return sum(part.tokens for part in self.prompt)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The prompt, and the answer behind it."""
        return (*self.prompt, Part(self.output_tokens, self.answer))


def shipped() -> dict[str, Path]:
    """The shipped traces by name."""
    return {path.stem: path for path in sorted((profiles_dir() / "bench" / "traces").glob("*.csv"))}


def read_trace(name: str) -> tuple[Call, ...]:
    """A file's calls in the order in which they come, or a shipped trace's.

    Raises :class:`OmnicfgError` with the place of what is wrong, all rows at once.
    """
    path = shipped().get(name, Path(name))
    if not path.exists():
        hint = did_you_mean(name, shipped()) or f"Shipped: {', '.join(shipped())}."
        raise UsageError(f"`{name}` cannot be read: neither a file nor a shipped trace", hint)
    calls: list[Call] = []
    problems: list[Diagnostic] = []
    for row in read_table(path, COLUMNS, (_ANSWER,), of="requests", rows=MAX_ROWS):
        try:
            calls.append(_call(row))
        except OmnicfgError as error:
            problems += error.diagnostics
    if problems:
        raise OmnicfgError(problems)
    if not calls:
        raise UsageError(f"`{path}` holds no request", "Every line below the header is one.")
    return tuple(sorted(calls, key=lambda call: call.arrival_s))


def _call(row: Row) -> Call:
    return Call(
        needed(row, "arrival_s").taken(_seconds, f"a number of seconds from 0 to {MAX_SECONDS}, after the beginning"),
        needed(row, "prompt").taken(_parts, f"a prompt. {_FORM}"),
        needed(row, "output_tokens").taken(_count, f"a whole number from 1 to {MAX_TOKENS}"),
        row[_ANSWER].taken(_name, "a name (letters, digits, `_`, `.`, `/`, `-`)") if _ANSWER in row else None,
    )


def _seconds(text: str) -> float:
    value = real_number(text)
    if not 0 <= value <= MAX_SECONDS:
        raise ValueError
    return abs(value)  # of -0, which is no other time than 0


def _count(text: str) -> int:
    value = int(text) if is_number(text, _DIGITS) else 0
    if not 1 <= value <= MAX_TOKENS:
        raise ValueError
    return value


def _name(text: str) -> str:
    if _PART.fullmatch(f"{text}:1") is None:
        raise ValueError
    return text


def _parts(text: str) -> tuple[Part, ...]:
    matches = [_PART.fullmatch(word) for word in text.split()]
    parts = [Part(_count(match[2]), match[1]) for match in matches if match]
    if not parts or len(parts) < len(matches) or sum(part.tokens for part in parts) > MAX_TOKENS:
        raise ValueError
    return tuple(parts)


def calls_of(load: Load, rate: float | None = None) -> tuple[Call, ...]:
    """The requests of a load: its lengths, its prefixes and its order.

    They come as independent clients send them, ``rate`` a second (exponential gaps, drawn from the load's seed), or all
    at once. Raises :class:`ServeError` without numpy, which draws the lengths.
    """
    if find_spec("numpy") is None:
        raise ServeError("the lengths of a load need the Python package `numpy`", "`pip install 'omnicfg[bench]'`")
    arrivals = _arrivals(load.seed, rate)
    return tuple(
        Call(
            arrival_s,
            tuple(part for part in _of_load(load, prefix, tokens) if part.tokens),
            output_tokens,
        )
        for (tokens, output_tokens), prefix, arrival_s in zip(lengths_of(load), _prefixes(load), arrivals, strict=False)
    )


def _of_load(load: Load, prefix: int, tokens: int) -> Iterator[Part]:
    shared = load.shared_prefix_tokens
    yield Part(shared, f"{load.name}.{prefix}")
    yield Part(tokens - shared)


def _prefixes(load: Load) -> list[int]:
    """Which prefix each prompt has. Shuffling depends on how many there are, and not on what they are."""
    each = load.prompts // load.prefixes
    numbers = [number for number in range(1, load.prefixes + 1) for _ in range(each)]
    if load.prefixes > 1:
        random.Random(load.seed).shuffle(numbers)
    return numbers


def _arrivals(seed: int, rate: float | None) -> Iterator[float]:
    if rate is None:
        return itertools.repeat(0.0)
    source = random.Random(seed)
    return itertools.accumulate(source.expovariate(rate) for _ in itertools.count())


def lines(calls: Sequence[Call]) -> Iterator[str]:
    """The calls as a trace's file has them, line by line."""
    answers = any(call.answer for call in calls)
    yield ",".join((*COLUMNS, *((_ANSWER,) if answers else ())))
    for call in calls:
        told = (f"{call.arrival_s:.4f}", " ".join(map(str, call.prompt)), str(call.output_tokens))
        yield ",".join((*told, *((call.answer or "",) if answers else ())))
