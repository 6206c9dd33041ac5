"""Pictures, sounds and videos in the prompt: the Talker says the codes that transformers says.

Transformers' encoders see random patches and mel frames here: what a processor makes of a file is not asked.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")

from omnicfg.engine.stages import Executor, RequestError, make
from omnicfg.engine.transport import Media
from omnicfg.engine.verify_speech import Spoken, answer_of, load
from omnicfg.models import tiny_omni
from tests.engine.stages.conftest import options
from tests.engine.stages.test_codec_talker import Listener

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

IMAGE = "<|vision_start|>{}<|vision_end|>"
SOUND = "<|audio_start|>{}<|audio_end|>"
SYSTEM = "<|im_start|>system\nAnswer in a few words.<|im_end|>\n"
ASSISTANT = "<|im_end|>\n<|im_start|>assistant\n"
PATCH_NUMBERS = 3 * tiny_omni.FRAMES_MERGED * tiny_omni.PATCH**2


@dataclass(frozen=True)
class Shown:
    """A prompt of text and media (grids of patches, mel frames) as this engine has it, and what is said of it."""

    prompt: list[int]
    media: tuple[Media, ...]
    rows: Any
    spoken: Spoken


@pytest.fixture(scope="module")
def whole(model: Path, one_thread: None) -> Any:
    return load(model)


@pytest.fixture(scope="module")
def shown(model: Path, whole: Any) -> dict[str, Shown]:
    turns = "<|im_end|>\n<|im_start|>assistant\nA house.<|im_end|>\n<|im_start|>user\n"
    return {
        "picture": show(model, whole, "Look: ", ("image", (1, 6, 10)), " what is it?"),
        "wide and high": show(model, whole, ("image", (1, 2, 12)), " or ", ("image", (1, 14, 4)), "?"),
        "sound": show(model, whole, ("audio", 173), "Listen."),
        "all": show(model, whole, "A ", ("audio", 90), " and ", ("image", (1, 8, 4)), " and ", ("audio", 41), "."),
        "video": show(model, whole, "It moves: ", ("video", (3, 4, 6)), " Where does it go?"),
        "two turns": show(model, whole, ("image", (1, 8, 8)), "This?", turns, "And ", ("image", (1, 4, 8)), " that?"),
    }


def show(model: Path, whole: Any, *parts: str | tuple[str, Any]) -> Shown:
    import torch
    from transformers import AutoTokenizer

    torch.manual_seed(len(parts))
    tokenizer = AutoTokenizer.from_pretrained(model)
    prompt: list[int] = tokenizer(SYSTEM + "<|im_start|>user\n")["input_ids"]
    media: list[Media] = []
    for part in parts:
        if isinstance(part, str):
            prompt += tokenizer(part)["input_ids"]
            continue
        kind, measure = part
        count = audio_tokens(measure) if kind == "audio" else measure[0] * measure[1] * measure[2] // 4
        frame = (SOUND if kind == "audio" else IMAGE).split("{}")
        start = len(prompt) + 1
        prompt += tokenizer(frame[0] + f"<|{kind}_pad|>" * count + frame[1])["input_ids"]
        measures = {} if kind == "audio" else {"grid": measure}
        media.append(Media(kind, start, count, measures | ({"seconds": [2.0]} if kind == "video" else {})))
    prompt += tokenizer(ASSISTANT)["input_ids"]
    inputs = encoder_inputs(prompt, [part for part in parts if not isinstance(part, str)])
    with torch.no_grad():
        states = whole.thinker(**inputs, output_hidden_states=True).hidden_states[tiny_omni.ACCEPTED_LAYER][0]
    return Shown(prompt, tuple(media), states[:, None].numpy(), answer_of(whole, inputs, "ethan", 14))


def audio_tokens(frames: int) -> int:
    from transformers.models.qwen3_omni_moe.processing_qwen3_omni_moe import _get_feat_extract_output_lengths

    return int(_get_feat_extract_output_lengths(frames))


def encoder_inputs(prompt: list[int], media: list[tuple[str, Any]]) -> Mapping[str, Any]:
    """What transformers' processor would make of media of these measures."""
    import torch

    inputs: dict[str, Any] = {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, len(prompt)).long()}
    for kind, pixels, grids in (
        ("image", "pixel_values", "image_grid_thw"),
        ("video", "pixel_values_videos", "video_grid_thw"),
    ):
        if measures := [measure for one, measure in media if one == kind]:
            inputs[grids] = torch.tensor(measures)
            inputs[pixels] = torch.randn(int(inputs[grids].prod(-1).sum()), PATCH_NUMBERS)
    if any(kind == "video" for kind, _ in media):
        inputs["video_second_per_grid"] = torch.tensor([2.0])
    if lengths := [measure for kind, measure in media if kind == "audio"]:
        inputs["input_features"] = torch.randn(len(lengths), tiny_omni.MEL_BINS, max(lengths))
        inputs["feature_attention_mask"] = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    return inputs


@pytest.fixture(scope="module")
def executor(model: Path) -> Executor:
    return make("codec-talker", options(model, "talker"))


def begin(executor: Executor, key: str, one: Shown, media: tuple[Media, ...] | None = None) -> None:
    executor.open(key, {"voice": "ethan"})
    executor.text(key, one.prompt, prompt=True, last=False)
    executor.media(key, one.media if media is None else media)
    executor.rows(key, 0, one.rows)
    executor.text(key, one.spoken.text, prompt=False, last=True)


def test_alone_each_says_what_transformers_says(executor: Executor, shown: dict[str, Shown]) -> None:
    for name, one in shown.items():
        listener = Listener(executor)
        begin(executor, name, one)
        listener.run()
        assert listener.codes[name] == one.spoken.codes, name
        assert len(one.spoken.codes) > 5, "what is compared is not nothing"


def test_together_they_say_the_same(executor: Executor, shown: dict[str, Shown]) -> None:
    listener = Listener(executor)
    for name, one in shown.items():
        begin(executor, name, one)
    listener.run()
    assert dict(listener.codes) == {name: one.spoken.codes for name, one in shown.items()}


@pytest.mark.parametrize("name", ["picture", "video", "two turns"])
def test_positions_of_text_would_be_heard(name: str, executor: Executor, shown: dict[str, Shown]) -> None:
    listener = Listener(executor)
    begin(executor, name, shown[name], media=())
    listener.run()
    assert listener.codes[name] != shown[name].spoken.codes


def test_a_picture_whose_size_is_not_told_is_an_error_of_that_request(
    executor: Executor, shown: dict[str, Shown]
) -> None:
    [picture] = shown["picture"].media
    for wrong, told in (({}, "is not known"), ({"grid": [1, 2, 2]}, "15 tokens stand for media .* of 1 times 2 by 2")):
        begin(executor, "a", shown["picture"], media=(Media("image", picture.start, picture.count, wrong),))
        with pytest.raises(RequestError, match=told):
            executor.run(executor.ready())
        executor.drop("a")


def test_an_executor_that_has_one_axis_refuses_pictures_and_takes_sounds(model: Path, shown: dict[str, Shown]) -> None:
    executor = make("codec-talker", options(model, "talker"))
    executor.reads_grids = False  # type: ignore[attr-defined]
    begin(executor, "a", shown["picture"])
    with pytest.raises(RequestError, match="pictures and videos together with an answer in speech are not served"):
        executor.run(executor.ready())
    executor.drop("a")
    listener = Listener(executor)
    begin(executor, "b", shown["sound"])
    listener.run()
    assert listener.codes["b"] == shown["sound"].spoken.codes


def test_on_vllm_they_say_what_transformers_says(model: Path, shown: dict[str, Shown], tmp_path: Path) -> None:
    """Model Runner V2 with the decoder compiled, as on a GPU, by Triton's interpreter; and who is not served there."""
    pytest.importorskip("vllm", reason="comes with the extra cpu or cuda")
    pytest.importorskip("triton", reason="Triton's interpreter runs the kernels")
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(pickle.dumps((model, shown)))
    told = run_on_vllm(asked, answered, tmp_path)
    codes, refused = json.loads(answered.read_text()) if answered.exists() else pytest.fail(told)
    assert codes == {name: one.spoken.codes for name, one in shown.items()}
    assert "frames of the video lie between two positions" in refused[0]
    assert refused[1] == "with its answer the video takes more than the 32768 positions that speech has"


def run_on_vllm(asked: Path, answered: Path, cache: Path) -> str:
    root = Path(__file__).resolve().parents[3]
    environment = os.environ | {"PYTHONPATH": str(root), "HF_HUB_OFFLINE": "1", "VLLM_CACHE_ROOT": str(cache)}
    # The decoder's graph is made as on a GPU, and run by PyTorch: compiling it would take longer than all else.
    environment["VLLM_CPU_CI_ENV"] = "1"
    command = [sys.executable, "-m", "tests.engine.stages.on_vllm", str(asked), str(answered)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=400)
    return done.stdout[-3000:] + done.stderr[-3000:]
