"""Prompts: the draws of vLLM's benchmark datasets, as token ids."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnicfg.bench.loads import Load
from omnicfg.bench.prompts import Vocabulary, prompts_of
from omnicfg.errors import UsageError
from omnicfg.serve.machine import installed_vllm

pytest.importorskip("numpy")

VOCABULARY = Vocabulary(1000, frozenset(range(13)))
LOAD = Load("A", 60, 20, 7, 0.0, 1, "text", 4, 24, 50001)


def test_one_prefix_is_shared_by_all_prompts() -> None:
    prompts = prompts_of(LOAD, VOCABULARY)
    assert {len(prompt.tokens) for prompt in prompts} == {80}
    assert len({tuple(prompt.tokens[:60]) for prompt in prompts}) == 1
    assert len({tuple(prompt.tokens[60:]) for prompt in prompts}) == 24
    assert {prompt.output_tokens for prompt in prompts} == {7}


def test_several_prefixes_are_shared_by_as_many_prompts_each_in_a_mixed_order() -> None:
    prompts = prompts_of(replace(LOAD, prefixes=4), VOCABULARY)
    prefixes = [tuple(prompt.tokens[:60]) for prompt in prompts]
    assert sorted(prefixes.count(prefix) for prefix in set(prefixes)) == [6] * 4
    assert len(set(prefixes[:6])) > 1


def test_lengths_vary_to_either_side() -> None:
    prompts = prompts_of(replace(LOAD, shared_prefix_tokens=0, range_ratio=0.5, prompts=500), VOCABULARY)
    lengths = {len(prompt.tokens) for prompt in prompts}
    assert (min(lengths), max(lengths)) == (10, 30)
    assert {prompt.output_tokens for prompt in prompts} == set(range(3, 12))


@pytest.mark.parametrize("prefixes", [1, 4])
def test_the_same_seed_gives_the_same_prompts_and_another_one_others(prefixes: int) -> None:
    load = replace(LOAD, prefixes=prefixes)
    assert prompts_of(load, VOCABULARY) == prompts_of(load, VOCABULARY)
    others = prompts_of(replace(load, seed=2), VOCABULARY)
    assert all(prompt not in others for prompt in prompts_of(load, VOCABULARY))


@pytest.mark.parametrize("prefixes", [1, 4])
def test_special_tokens_are_never_sent(prefixes: int) -> None:
    sent = {token for prompt in prompts_of(replace(LOAD, prefixes=prefixes), VOCABULARY) for token in prompt.tokens}
    assert sent
    assert min(sent) >= 13
    assert max(sent) < 1000


def model(tmp_path: Path, config: Any, added: Any) -> Path:
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def test_words_end_where_added_tokens_follow_them(tmp_path: Path) -> None:
    config = {"vocab_size": 152_064}
    found = Vocabulary.of(model(tmp_path, config, {"151643": {}, "151645": {}}), config)
    assert found == Vocabulary(151_643)


def test_added_tokens_before_the_words_are_passed_over(tmp_path: Path) -> None:
    config = {"vocab_size": 1024}
    assert Vocabulary.of(model(tmp_path, config, {"0": {}, "12": {}}), config) == Vocabulary(1024, frozenset({0, 12}))


def test_a_model_without_a_tokenizer_has_all_its_ids(tmp_path: Path) -> None:
    assert Vocabulary.of(tmp_path, {"thinker_config": {"text_config": {"vocab_size": 77}}}) == Vocabulary(77)


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"added_tokens_decoder": {"x": 1}}', b"[" * 100_000])
def test_a_tokenizer_that_cannot_be_read_is_told(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(UsageError, match="cannot be read"):
        Vocabulary.of(tmp_path, {"vocab_size": 5})


@pytest.mark.slow
@pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda")
@pytest.mark.parametrize("load", [LOAD, replace(LOAD, range_ratio=0.5), replace(LOAD, shared_prefix_tokens=0)])
def test_vllms_random_dataset_draws_the_same(load: Load) -> None:
    from vllm.benchmarks.datasets import RandomDataset

    made = RandomDataset(random_seed=load.seed).sample(
        tokenizer=Spelling(VOCABULARY),
        num_requests=load.prompts,
        prefix_len=load.shared_prefix_tokens,
        input_len=load.own_tokens_mean,
        output_len=load.output_tokens,
        range_ratio=load.range_ratio,
    )
    theirs = [([int(word) for word in one.prompt.split()], one.expected_output_len) for one in made]
    assert theirs == [(prompt.tokens, prompt.output_tokens) for prompt in prompts_of(load, VOCABULARY)]


@pytest.mark.slow
@pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda")
def test_vllms_prefix_repetition_dataset_draws_the_same() -> None:
    from vllm.benchmarks.datasets import PrefixRepetitionRandomDataset

    load, plain = replace(LOAD, prefixes=4), Vocabulary(1000)
    made = PrefixRepetitionRandomDataset(random_seed=load.seed).sample(
        tokenizer=Spelling(plain),
        num_requests=load.prompts,
        prefix_len=load.shared_prefix_tokens,
        suffix_len=load.own_tokens_mean,
        num_prefixes=load.prefixes,
        output_len=load.output_tokens,
    )
    theirs = [[int(word) for word in one.prompt.split()] for one in made]
    assert theirs == [prompt.tokens for prompt in prompts_of(load, plain)]


class Spelling:
    """NOT a real tokenizer: it spells ids as numbers, so that vLLM's way over texts changes none of them."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocab_size = vocabulary.size
        self.all_special_ids = sorted(vocabulary.special)

    def num_special_tokens_to_add(self) -> int:
        return 0

    def decode(self, tokens: list[int], **_: object) -> str:
        return " ".join(map(str, tokens))

    def encode(self, text: str, **_: object) -> list[int]:
        return [int(word) for word in text.split()]
