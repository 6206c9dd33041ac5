"""The tiny model and what transformers answers of it, once for all tests of executors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.stages import StageOptions
from omnicfg.engine.verify_speech import CASES, Case, Spoken, messages, reference
from omnicfg.models import tiny_omni


@dataclass(frozen=True)
class Known:
    """A prompt and what transformers makes of it: ``rows`` are the prompt's hidden states, ``[tokens, 1, width]``."""

    case: Case
    prompt: list[int]
    rows: Any
    spoken: Spoken


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Tiny matrices: threads that wait for each other cost more than they compute."""
    torch = pytest.importorskip("torch", reason="comes with the extra cpu or cuda")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tiny-omni")
    tiny_omni.write(directory)
    return directory


@pytest.fixture(scope="session")
def known(model: Path, one_thread: None) -> list[Known]:
    import torch
    from transformers import AutoTokenizer, Qwen3OmniMoeForConditionalGeneration

    cases = CASES[:4]
    spoken = reference(model, cases)
    tokenizer = AutoTokenizer.from_pretrained(model)
    thinker = Qwen3OmniMoeForConditionalGeneration.from_pretrained(model).thinker
    found = []
    for case, answer in zip(cases, spoken, strict=True):
        ids = tokenizer.apply_chat_template(
            messages(case), add_generation_prompt=True, return_tensors="pt", return_dict=True
        )["input_ids"]
        with torch.no_grad():
            states = thinker(input_ids=ids, output_hidden_states=True).hidden_states[tiny_omni.ACCEPTED_LAYER][0]
        found.append(Known(case, ids[0].tolist(), states[:, None].numpy(), answer))
    return found


def options(model: Path, stage: str, **more: Any) -> StageOptions:
    """What the shipped record and profile make of a stage."""
    record = stage_record("tiny_omni", stage)
    assert record is not None
    sampling = {"temperature": 0.0, "max_tokens": 512}
    return StageOptions(**{"model": model, "record": record["bundled"], "sampling": sampling, "threads": 1, **more})
