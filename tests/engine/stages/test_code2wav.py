"""Code2Wav makes the samples that transformers makes of all frames at once, in whatever chunks they come."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="comes with the extra cpu or cuda")
torch = pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")

from omnicfg.engine.stages import Executor, make  # noqa: E402
from omnicfg.models import tiny_omni  # noqa: E402
from tests.engine.stages.conftest import options  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

FRAME = 1920


@pytest.fixture(scope="module")
def codes() -> list[Any]:
    """Codes of six utterances, one of them longer than transformers decodes at once."""
    dice = np.random.RandomState(3)
    return [dice.randint(0, tiny_omni.CODEBOOK, (frames, tiny_omni.CODEBOOKS)) for frames in (1, 3, 4, 26, 60, 330)]


@pytest.fixture(scope="module")
def waves(model: Path, codes: list[Any]) -> list[Any]:
    """What transformers' module makes of each, all at once."""
    from transformers import Qwen3OmniMoeForConditionalGeneration

    whole = Qwen3OmniMoeForConditionalGeneration.from_pretrained(model).code2wav
    with torch.no_grad():
        return [whole(torch.from_numpy(one.T[None]))[0, 0].numpy() for one in codes]


def decode(executor: Executor, codes: list[Any]) -> list[Any]:
    """All utterances at once, their frames coming in random pieces."""
    dice = random.Random(0)
    given, pieces = [0] * len(codes), [[] for _ in codes]  # type: list[int], list[list[Any]]
    for number in range(len(codes)):
        executor.open(str(number), {})
    while executor.open_requests():
        for number, frames in enumerate(codes):
            count = min(dice.randint(0, 9), len(frames) - given[number])
            if count:
                piece = frames[given[number] : given[number] + count].astype(np.int32)
                executor.rows(str(number), given[number], piece[:, None])
                given[number] += count
            if given[number] == len(frames):
                executor.rows_end(str(number), len(frames))
        while keys := executor.ready():
            chunks, ended = executor.run(keys)
            for chunk in chunks:
                place = int(chunk.key)
                assert chunk.start == sum(map(len, pieces[place]))
                pieces[place].append(chunk.rows.ravel())
            for end in ended:
                assert end.frames == len(codes[int(end.key)])
                assert end.rows == sum(map(len, pieces[int(end.key)]))
    return [np.concatenate(some) / 32767 for some in pieces]


@pytest.mark.parametrize(("first", "chunk", "context"), [(4, 25, 25), (1, 3, 0), (10, 7, 40)])
def test_chunks_make_the_same_wave_as_the_whole(
    first: int, chunk: int, context: int, model: Path, codes: list[Any], waves: list[Any]
) -> None:
    executor = make("code2wav", options(model, "code2wav", first_chunk=first, chunk=chunk, context=context))
    for got, wanted in zip(decode(executor, codes), waves, strict=True):
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < 1e-4


def test_batches_that_are_filled_up_for_a_graph_make_the_same_wave(
    model: Path, codes: list[Any], waves: list[Any]
) -> None:
    """As on CUDA, but computed here: a graph has one size, so requests and frames are added that nobody reads."""
    executor: Any = make("code2wav", options(model, "code2wav", first_chunk=4, chunk=10))
    executor._on_gpu = True
    for got, wanted in zip(decode(executor, codes[:5]), waves[:5], strict=True):
        assert got.shape == wanted.shape
        assert np.abs(got - wanted).max() < 1e-4


@pytest.mark.parametrize(("first", "chunk", "context"), [(4, 25, 25), (1, 3, 0), (10, 7, 40)])
def test_the_sizes_that_are_captured_beforehand_are_those_that_are_computed(
    first: int, chunk: int, context: int, model: Path, codes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    executor: Any = make("code2wav", options(model, "code2wav", first_chunk=first, chunk=chunk, context=context))
    executor._on_gpu = True
    transform, convolve = executor._transform, executor._convolve
    transformed, convolved = set(), set()

    def watched_transform(inputs: list[Any]) -> Any:
        transformed.add(tuple(one.shape for one in inputs))
        return transform(inputs)

    def watched_convolve(inputs: list[Any]) -> Any:
        convolved.add(tuple(one.shape for one in inputs))
        return convolve(inputs)

    monkeypatch.setattr(executor, "_transform", watched_transform)
    monkeypatch.setattr(executor, "_convolve", watched_convolve)
    decode(executor, codes)
    computed, seen = set(transformed), set(convolved)
    transformed.clear()
    convolved.clear()
    for size in (1, 2, 4, 8):
        for length, back in executor._shapes():
            executor._rehearse(size, length, back)
    assert computed <= transformed
    assert seen <= convolved


def test_the_memory_that_is_measured_is_that_of_the_step_which_is_captured(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor: Any = make("code2wav", options(model, "code2wav"))
    shapes: dict[str, list[Any]] = {}

    def watch(name: str) -> None:
        compute = getattr(executor, name)

        def watched(inputs: list[Any]) -> Any:
            shapes.setdefault(name, []).append([one.shape for one in inputs])
            return compute(inputs)

        monkeypatch.setattr(executor, name, watched)

    for name in ("_transform", "_convolve", "_transformed", "_convolved"):
        watch(name)
    for back in (0, 4):
        executor._rehearse(2, 10, back)
        executor._rehearse(2, 10, back, eager=True)
    assert len(shapes["_transformed"]) == 2
    assert shapes["_transform"] == shapes["_transformed"]
    assert shapes["_convolve"] == shapes["_convolved"]


def test_no_more_are_computed_at_once_than_there_is_memory_for(model: Path, codes: list[Any], waves: list[Any]) -> None:
    executor: Any = make("code2wav", options(model, "code2wav", first_chunk=4, chunk=10))
    executor._most = 2
    run, sizes = executor.run, set()

    def watched(keys: list[str]) -> Any:
        sizes.add(len(keys))
        return run(keys)

    executor.run = watched
    for got, wanted in zip(decode(executor, codes[:5]), waves[:5], strict=True):
        assert np.abs(got - wanted).max() < 1e-4
    assert sizes == {1, 2}


def test_who_has_heard_least_comes_first(model: Path) -> None:
    executor = make("code2wav", options(model, "code2wav", first_chunk=2, chunk=4))
    frames = np.zeros((10, 1, tiny_omni.CODEBOOKS), dtype=np.int32)
    executor.open("early", {})
    executor.rows("early", 0, frames)
    executor.run(executor.ready())
    executor.open("late", {})
    executor.rows("late", 0, frames)
    assert executor.ready() == ["late"]


def test_less_context_than_convolutions_see_is_not_taken(model: Path, codes: list[Any], waves: list[Any]) -> None:
    """The negative control: with fewer frames in front of a chunk, the comparison above would fail."""
    executor: Any = make("code2wav", options(model, "code2wav", first_chunk=4, chunk=5, context=0))
    assert executor._context >= 5
    executor._context = 1
    [got] = decode(executor, codes[4:5])
    assert np.abs(got - waves[4]).max() > 1e-3


def test_the_first_chunk_leaves_early(model: Path) -> None:
    executor = make("code2wav", options(model, "code2wav", first_chunk=2, chunk=25))
    executor.open("a", {})
    frames = np.zeros((1, 1, tiny_omni.CODEBOOKS), dtype=np.int32)
    executor.rows("a", 0, frames)
    assert executor.ready() == []
    executor.rows("a", 1, frames)
    [chunk], ended = executor.run(executor.ready())
    assert FRAME < len(chunk.rows) < 2 * FRAME
    assert ended == []
    executor.rows("a", 2, frames)
    assert executor.ready() == [], "the next one is a whole chunk"


def test_speech_without_frames_ends(model: Path) -> None:
    executor = make("code2wav", options(model, "code2wav"))
    executor.open("a", {})
    executor.rows_end("a", 0)
    chunks, [end] = executor.run(executor.ready())
    assert (chunks, end.rows, end.frames) == ([], 0, 0)
    assert executor.open_requests() == 0


def test_what_is_dropped_is_gone(model: Path) -> None:
    executor = make("code2wav", options(model, "code2wav"))
    executor.open("a", {})
    executor.rows("a", 0, np.zeros((30, 1, tiny_omni.CODEBOOKS), dtype=np.int32))
    executor.drop("a")
    executor.rows("a", 30, np.zeros((5, 1, tiny_omni.CODEBOOKS), dtype=np.int32))
    executor.rows_end("a", 35)
    assert executor.ready() == []
    assert executor.open_requests() == 0
