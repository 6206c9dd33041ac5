"""The dummy models stand in for real ones: what serves those has to serve these, here with fewer and smaller layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
pytest.importorskip("transformers", reason="comes with the extra cpu or cuda")

import numpy as np

from benchmarks.dummy_models import write_models
from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.stages import StageOptions, make

pytestmark = pytest.mark.slow  # importing transformers takes seconds

FRAMES = 6


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dummy")
    write_models(folder, small=True)
    return folder / "qwen3-omni-speech"


def options(model: Path, stage: str) -> StageOptions:
    record = stage_record("qwen3_omni_moe", stage)
    assert record is not None
    sampling = {"temperature": 0.9, "top_k": 50, "seed": 1, "max_tokens": FRAMES}
    return StageOptions(
        model, record["bundled"], 2, sampling=sampling, engine_args={"load_format": "dummy"}, chunk=FRAMES
    )


def test_a_chat_has_as_many_tokens_as_it_has_words(model: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    messages = [{"role": "user", "content": "w12 w7 w99"}]
    made = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=True)
    words = json.loads((model / "config.json").read_text())
    start, end, line = words["im_start_token_id"], words["im_end_token_id"], 198
    user, assistant = words["user_token_id"], words["assistant_token_id"]
    assert made["input_ids"] == [start, user, line, 12, 7, 99, end, line, start, assistant, line]


def test_its_talker_speaks_and_its_vocoder_makes_sound_of_it(model: Path) -> None:
    talker = make("codec-talker", options(model, "talker"))
    vocoder = make("code2wav", options(model, "code2wav"))
    config = json.loads((model / "config.json").read_text())
    prompt = [config["im_start_token_id"], config["user_token_id"], 198, 12, 7, config["im_end_token_id"], 198]
    talker.open("a", {"voice": "ethan"})
    talker.text("a", [*prompt, config["im_start_token_id"], config["assistant_token_id"], 198], prompt=True, last=False)
    talker.rows_end("a", 10)
    talker.text("a", [5, 6, 7, 8], prompt=False, last=True)
    vocoder.open("a", {})
    frames, reasons = 0, []
    while keys := talker.ready():
        chunks, ended = talker.run(keys)
        reasons += [one.reason for one in ended]
        for chunk in chunks:
            vocoder.rows("a", chunk.start, chunk.rows)
            frames += len(chunk.rows)
    assert reasons == ["length"]
    assert frames == FRAMES - 1  # the last code has no frame of its own
    vocoder.rows_end("a", frames)
    samples = 0
    while keys := vocoder.ready():
        for chunk in vocoder.run(keys)[0]:
            assert chunk.rows.dtype == np.int16
            samples += len(chunk.rows)
    assert 0 < samples <= 1920 * frames
