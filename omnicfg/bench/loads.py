"""Loads: which prompts are sent to a server, how many at a time; the published ones and a user's own.

A table of loads is a CSV file. The shipped ones hold the rows behind the published figures (``profiles/bench/loads``, a
file per model, and ``quick.csv`` for a machine without a GPU).
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from omnicfg.bench.table_file import Row, needed, read_table, real_number
from omnicfg.catalog.capabilities import record_of
from omnicfg.catalog.paths import profiles_dir
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.near import did_you_mean
from omnicfg.wording import counted, is_number

WARM: Final = "warm"
"""The load that warms a server up; it is never reported."""
_SIZES: Final = 8
"""Prompts around each size that a server is warmed up with."""
_SIZES_RATIO: Final = 1 / 3
"""From here to there: what lies below a size is half of it with as much above."""
_SIZES_PREFIX: Final = 16
_SIZES_MOST: Final = 4500
"""A step of more tokens has no kernel of its own."""
_SIZES_LEAST: Final = 120
"""Steps of fewer tokens are CUDA graphs, made before a server answers."""
QUICK: Final = "quick"
ANSWERS: Final = ("text", "speech")
MAX_TOKENS: Final = 10_000_000
_SIZES_SEED: Final = 2 * MAX_TOKENS + 2
"""No table's seed is as large, nor that of a warm-up like its first load."""
_APART: Final = 3 * MAX_TOKENS
"""Between the seeds of two rounds: more than between any two loads of a table, their warm-up included."""
_SEEDS_END: Final = 1 << 32
"""numpy's legacy generator takes no larger seed."""
_DIGITS: Final = len(str(MAX_TOKENS))
_NAME: Final = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
_SAME_PROMPTS: Final = "so what it sends is in the prefix cache when this one begins"
_SEEDS: Final = "Give every load a seed of its own: all loads of an arm meet one server."
_REQUIRED: Final = (
    "name",
    "shared_prefix_tokens",
    "own_tokens_mean",
    "output_tokens",
    "concurrency",
    "prompts",
    "seed",
)
_OPTIONAL: Final = ("model", "range_ratio", "prefixes", "answer")


@dataclass(frozen=True, slots=True)
class Load:
    """``prompts`` requests, ``concurrency`` at a time.

    A prompt is one of ``prefixes`` shared prefixes and about ``own_tokens_mean`` tokens of its own; own and answered
    tokens vary uniformly by ``range_ratio`` to either side. Requests never stop before ``output_tokens``.
    """

    name: str
    shared_prefix_tokens: int
    own_tokens_mean: int
    output_tokens: int
    range_ratio: float
    prefixes: int
    answer: str
    concurrency: int
    prompts: int
    seed: int

    @property
    def shortest(self) -> int:
        """Tokens of the shortest prompt."""
        return self.shared_prefix_tokens + math.floor(self.own_tokens_mean * (1 - self.range_ratio))

    @property
    def longest(self) -> int:
        """Tokens of the longest request, its answer included."""
        own, output = (math.ceil(mean * (1 + self.range_ratio)) for mean in (self.own_tokens_mean, self.output_tokens))
        return self.shared_prefix_tokens + own + output

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)


def tables() -> dict[str, Path]:
    """The shipped tables: a model's name, or ``quick`` → the file."""
    return {path.stem: path for path in sorted((profiles_dir() / "bench" / "loads").glob("*.csv"))}


def shipped(pipeline: str) -> tuple[Load, ...]:
    """The loads published for the model that a pipeline runs; those of ``quick`` where there are none."""
    record = record_of(pipeline)
    model = str(record["model"]) if record else QUICK
    return read_loads(tables()[model if model in tables() else QUICK])


def quick() -> tuple[Load, ...]:
    """Small loads, for a machine without a GPU."""
    return read_loads(tables()[QUICK])


@functools.cache
def read_loads(path: Path) -> tuple[Load, ...]:
    """The loads of a file. Raises :class:`OmnicfgError` with the place of what is wrong, all rows at once."""
    loads: list[Load] = []
    problems: list[Diagnostic] = []
    for row in read_table(path, _REQUIRED, _OPTIONAL):
        try:
            load = _load(row)
        except OmnicfgError as error:
            problems += error.diagnostics
            continue
        if load.name in (other.name for other in loads):
            problems.append(row["name"].error(f"load `{load.name}` is there twice"))
        same = next((other for other in loads if _drawn_from(other) == _drawn_from(load)), None)
        if same is not None:
            problems.append(row["seed"].error(f"load `{same.name}` has seed {load.seed} too, {_SAME_PROMPTS}", _SEEDS))
        loads.append(load)
    if problems:
        raise OmnicfgError(problems)
    if all(load.name == WARM for load in loads):
        raise UsageError(
            f"`{path}` holds no load", f"Every line below the header is one; `{WARM}` only warms servers up."
        )
    return tuple(loads)


def chosen(loads: Sequence[Load], names: Sequence[str]) -> tuple[Load, ...]:
    """The loads that are named, in the table's order, or all of them where none is named; never ``warm``."""
    measured = {load.name: load for load in loads if load.name != WARM}
    for name in names:
        if name not in measured:
            is_file = name.endswith(".csv")
            hint = did_you_mean(name, measured) or f"Loads: {', '.join(measured)}."
            raise UsageError(f"no load `{name}`", "`--loads-file` takes a file." if is_file else hint)
    return tuple(load for name, load in measured.items() if not names or name in names)


def warm_up(table: Sequence[Load], measured: Sequence[Load]) -> tuple[Load, ...]:
    """The loads that warm a server up: prompts of all sizes, then the table's own ``warm``, else a few requests like
    those of its first load. None of them is measured.

    A kernel is compiled when a server first meets a batch of a size for which it has another form, in the middle of
    the requests that are measured. vLLM's mixture of experts on an H200 has a form each for about 256, 512, 1,024 and
    2,048 tokens of the batch (``fused_moe/configs``), and Triton makes two of each: one where the tokens times the
    experts of each are a multiple of 16, for Qwen3's eight an even number of tokens, and one where they are not. With
    the prefix cache on, batches have other sizes than with it off.
    """
    own = next((load for load in table if load.name == WARM), None)
    if own is None:
        first = table[0]
        few = min(first.prompts, 4 * first.concurrency)
        # No table's seed is as large: with the same one, prompts that are measured would be in the cache already.
        seed = first.seed + MAX_TOKENS + 1
        own = replace(first, name=WARM, prompts=few, prefixes=min(first.prefixes, few), seed=seed)
    return *_sizes(max(load.longest for load in measured)), own


def _sizes(longest: int) -> Iterator[Load]:
    """Prompts from the longest that is measured downwards, as many of each size; one at a time, so each is a batch."""
    # A prompt is a run of ids, and of a small vocabulary two may be the same run; what such a prefix begins is none.
    prefix = min(_SIZES_PREFIX, longest // 4)
    ratio = _SIZES_RATIO if prefix else 0.0
    most = min(longest, _SIZES_MOST) - prefix - math.ceil(1 + ratio)
    mean = max(1, math.floor(most / (1 + ratio)))
    for seed in itertools.count(_SIZES_SEED):
        yield Load(WARM, prefix, mean, 1, ratio, 1, ANSWERS[0], 1, _SIZES, seed)
        mean //= 2
        if mean <= _SIZES_LEAST:
            return


def drawn_anew(load: Load, round_: int) -> Load:
    """The load for a server that goes on from round to round: the first round's as it is, later ones of other draws.

    With the same prompts again, everything would be in its prefix cache.
    """
    return replace(load, seed=(load.seed + (round_ - 1) * _APART) % _SEEDS_END)


def _load(row: Row) -> Load:
    load = Load(
        name=needed(row, "name").taken(_named, "a name (letters, digits, `_`, `.`, `-`)"),
        shared_prefix_tokens=_count(row, "shared_prefix_tokens", 0),
        own_tokens_mean=_count(row, "own_tokens_mean", 1),
        output_tokens=_count(row, "output_tokens", 1),
        range_ratio=row["range_ratio"].taken(_ratio, "a number from 0 up to 1") if "range_ratio" in row else 0.0,
        prefixes=_count(row, "prefixes", 1) if "prefixes" in row else 1,
        answer=row["answer"].taken(_answer, f"one of {', '.join(ANSWERS)}") if "answer" in row else ANSWERS[0],
        concurrency=_count(row, "concurrency", 1),
        prompts=_count(row, "prompts", 1),
        seed=_count(row, "seed", 0),
    )
    problems = list(_contradictions(row, load))
    if problems:
        raise OmnicfgError(problems)
    return load


def interval(mean: int, ratio: float, least: int) -> tuple[int, int]:
    """Between which lengths are drawn; the upper end is exclusive, as numpy has it."""
    return max(math.floor(mean * (1 - ratio)), least), max(math.ceil(mean * (1 + ratio)), least) + 1


def _drawn_from(load: Load) -> tuple[object, ...]:
    """What the first tokens of a load's prompts come of (:mod:`omnicfg.bench.prompts`): equal ones begin alike.

    Several prefixes are the first that is drawn. The one prefix is drawn after a number for each prompt, tokens of its
    own are counted from that number, and lengths are drawn before it: two of each prompt, where they vary at all.
    """
    if load.prefixes > 1:
        return load.seed, load.prefixes > 1
    shares = load.shared_prefix_tokens > 0
    intervals = (interval(load.own_tokens_mean, load.range_ratio, 0), interval(load.output_tokens, load.range_ratio, 1))
    varying = sum(end - first > 1 for first, end in intervals)
    return load.seed, load.prefixes > 1, shares, load.prompts * (varying + shares)


def _contradictions(row: Row, load: Load) -> Iterator[Diagnostic]:
    if load.prefixes > load.prompts:
        yield row["prefixes"].error(
            f"{load.prefixes} prefixes for {counted(load.prompts, 'prompt')}", "Each needs one prompt."
        )
    elif load.prompts % load.prefixes:
        yield row["prefixes"].error(
            f"{load.prompts} prompts do not share out evenly among {load.prefixes} prefixes",
            f"{load.prompts - load.prompts % load.prefixes} do.",
        )
    if load.shortest < 1:
        yield row["range_ratio"].error(
            "a prompt could come without a token", "Vary less, or give every prompt more tokens of its own."
        )
    if load.prefixes > 1 and load.range_ratio:
        yield row["range_ratio"].error("lengths vary only where there is one prefix", "Let it be 0.")


def _count(row: Row, name: str, least: int) -> int:
    def convert(text: str) -> int:
        value = int(text) if is_number(text, _DIGITS) else -1
        if not least <= value <= MAX_TOKENS:
            raise ValueError
        return value

    return needed(row, name).taken(convert, f"a whole number from {least} to {MAX_TOKENS}")


def _named(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise ValueError
    return text


def _ratio(text: str) -> float:
    value = real_number(text)
    if not 0 <= value < 1:
        raise ValueError
    return value


def _answer(text: str) -> str:
    if text not in ANSWERS:
        raise ValueError
    return text
