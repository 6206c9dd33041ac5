"""The prompts of a load as token ids: the draws of vLLM's own benchmark datasets, without its tokenizer.

One prefix is vLLM's ``random`` dataset (``vllm/benchmarks/datasets/datasets.py``, ``RandomDataset``): lengths, offsets
and prefix come from numpy's ``default_rng(seed)``, a prompt's own part is a run of consecutive ids. Several prefixes
are its ``prefix_repetition``: everything comes from numpy's legacy generator, and the order from Python's. vLLM makes
texts of the ids; here they are sent as they are, so that lengths are exact.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnicfg.bench.loads import Load, interval
from omnicfg.engine.spec import text_config
from omnicfg.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_TOKENIZER = "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class Prompt:
    """Token ids, and how many tokens are to be answered."""

    tokens: list[int]
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Ids from 0 up to ``size``, which is the tokenizer's own; ``special`` ones among them are never sent."""

    size: int
    special: frozenset[int] = frozenset()

    @classmethod
    def of(cls, model: Path, config: Mapping[str, Any]) -> Vocabulary:
        """The vocabulary of a model directory.

        Special tokens are those of ``tokenizer_config.json``. Where they follow the words, as Qwen's do, the words end
        with the first of them: what lies behind it stands for images and sound, or for nothing.
        """
        size = text_config(config).get("vocab_size", config.get("vocab_size"))
        if not isinstance(size, int) or size < 1:
            raise UsageError(
                f"the config.json of `{model}` has no vocab_size", "Prompts are made of token ids below it."
            )
        added = sorted(_added(model))
        size = min([size, *(token for token in added if token > size // 2)])
        special = frozenset(token for token in added if token < size)
        if len(special) >= size:
            raise UsageError(f"every token of `{model}` is a special one", "Prompts are made of the others.")
        return cls(size, special)


def _added(model: Path) -> Iterable[int]:
    """The ids of added tokens, by the file that every tokenizer of transformers writes; none where there is none."""
    path = model / _TOKENIZER
    if not path.is_file():
        return ()
    try:
        document = json.loads(path.read_bytes())
        return {int(token) for token in document.get("added_tokens_decoder", {})}
    except (OSError, ValueError, AttributeError, RecursionError):
        raise UsageError(f"`{path}` cannot be read as a tokenizer's configuration") from None


def prompts_of(load: Load, vocabulary: Vocabulary) -> list[Prompt]:
    """The prompts in the order in which they are sent: the same for every arm and on every machine."""
    return _random(load, vocabulary) if load.prefixes == 1 else _repeated(load, vocabulary)


def lengths_of(load: Load) -> Iterator[tuple[int, int]]:
    """Tokens of each prompt and of its answer, in the order in which they are sent: drawn before all tokens."""
    import numpy as np

    if load.prefixes > 1:
        yield from itertools.repeat(
            (load.shared_prefix_tokens + load.own_tokens_mean, load.output_tokens), load.prompts
        )
        return
    for own, output in zip(*_lengths(load, np.random.default_rng(load.seed)), strict=True):
        yield load.shared_prefix_tokens + int(own), int(output)


def _lengths(load: Load, source: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many tokens of its own each prompt has, and how many are answered."""
    own = source.integers(*interval(load.own_tokens_mean, load.range_ratio, 0), size=load.prompts)
    return own, source.integers(*interval(load.output_tokens, load.range_ratio, 1), size=load.prompts)


def _random(load: Load, vocabulary: Vocabulary) -> list[Prompt]:
    import numpy as np

    source = np.random.default_rng(load.seed)
    own, outputs = _lengths(load, source)
    offsets = source.integers(0, vocabulary.size, size=load.prompts)
    allowed = _allowed(vocabulary)
    prefix: list[int] = []
    if load.shared_prefix_tokens:
        prefix = allowed[source.integers(0, len(allowed), size=load.shared_prefix_tokens)].tolist()
    return [
        Prompt(
            [*prefix, *allowed[(offsets[index] + index + np.arange(own[index])) % len(allowed)].tolist()], int(output)
        )
        for index, output in enumerate(outputs)
    ]


def _repeated(load: Load, vocabulary: Vocabulary) -> list[Prompt]:
    """Unlike vLLM, this passes over special tokens here too: an image's mark without an image is no prompt."""
    import numpy as np

    source = np.random.RandomState(load.seed)
    allowed = _allowed(vocabulary)

    def drawn(count: int) -> list[int]:
        found: list[int] = allowed[source.randint(0, len(allowed), size=count)].tolist()
        return found

    made: list[Prompt] = []
    for _ in range(load.prefixes):
        prefix = drawn(load.shared_prefix_tokens)
        made += [
            Prompt([*prefix, *drawn(load.own_tokens_mean)], load.output_tokens)
            for _ in range(load.prompts // load.prefixes)
        ]
    random.Random(load.seed).shuffle(made)
    return made


def _allowed(vocabulary: Vocabulary) -> NDArray[np.int64]:
    import numpy as np

    return np.setdiff1d(np.arange(vocabulary.size), np.fromiter(vocabulary.special, dtype=np.int64))
