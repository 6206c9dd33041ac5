"""Blocks: what is told apart, what is found again, and what goes first."""

from __future__ import annotations

from omnicfg.bench.simulation.blocks import Naming, Pool
from omnicfg.bench.simulation.trace import Call, Part


def call(*prompt: Part, output: int = 1, answer: str | None = None) -> Call:
    return Call(0.0, prompt, output, answer)


def test_equal_beginnings_have_equal_blocks_wherever_their_parts_end() -> None:
    naming = Naming(10)
    long, short = naming.of(call(Part(35, "a"), Part(25))), naming.of(call(Part(35, "a"), Part(15)))
    assert len(long) == 6
    assert len(short) == 5
    assert long[:3] == short[:3]
    assert long[3] != short[3]


def test_the_same_tokens_behind_others_are_other_blocks() -> None:
    naming = Naming(10)
    one, other = naming.of(call(Part(10, "a"), Part(20, "b"))), naming.of(call(Part(10, "c"), Part(20, "b")))
    assert not set(one) & set(other)


def test_a_named_answer_goes_on_in_the_next_turn() -> None:
    naming = Naming(10)
    first = naming.of(call(Part(25, "a"), output=25, answer="b"))
    assert naming.of(call(Part(25, "a"), Part(25, "b"), Part(10)))[:5] == first[:5]


def filled(pool: Pool, *contents: int) -> list[int]:
    blocks = pool.take(len(contents))
    for block, content in zip(blocks, contents, strict=True):
        pool.fill(block, content)
    return blocks


def test_a_run_is_found_up_to_the_first_gap() -> None:
    pool = Pool(10)
    blocks = filled(pool, 1, 2, 3)
    assert pool.found([1, 2, 9, 3]) == blocks[:2]
    assert pool.found([2]) == [blocks[1]]


def test_the_least_recently_freed_goes_first_and_of_a_request_its_last_block() -> None:
    pool = Pool(4)
    older, newer = filled(pool, 1, 2), filled(pool, 3, 4)
    pool.release(older)
    pool.release(newer)
    pool.take(1)
    assert pool.found([1]) == [older[0]]
    assert pool.found([1, 2]) == [older[0]]
    pool.take(1)
    assert pool.found([1]) == []
    assert pool.found([3, 4]) == newer
    assert pool.evicted == 2


def test_what_is_used_again_is_kept_longer_and_what_has_no_content_goes_before_all() -> None:
    pool = Pool(3)
    first = filled(pool, 1)
    second = filled(pool, 2)
    nameless = pool.take(1)
    for blocks in (first, second, nameless):
        pool.release(blocks)
    assert pool.take(1) == nameless
    pool.use(first)
    pool.release(first)
    assert pool.take(1) == second
    assert (pool.idle(first), pool.free) == (1, 1)


def test_without_caching_nothing_is_found() -> None:
    pool = Pool(4, caching=False)
    filled(pool, 1, 2)
    assert pool.found([1]) == []
