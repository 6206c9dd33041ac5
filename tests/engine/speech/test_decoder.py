"""What a Talker adds to vLLM's decoder, as far as it needs no engine."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="the decoder is vLLM's")
pytestmark = pytest.mark.slow  # importing vLLM takes ten seconds

import torch  # noqa: E402

from omnicfg.engine.speech.decoder import Speaks  # noqa: E402

PICTURE = torch.tensor([[0, 1, 1, 1, 1, 3], [0, 1, 1, 2, 2, 3], [0, 1, 2, 1, 2, 3]])


def decoder(placed: tuple[torch.Tensor, int] | None) -> Speaks:
    made = object.__new__(Speaks)
    made.placed = placed
    return made


def test_text_has_one_position_for_each_token() -> None:
    positions, ahead = decoder(None).get_mrope_input_positions([5, 6, 7], [])
    assert positions.tolist() == [[0, 1, 2]] * 3
    assert ahead == 0


def test_frames_that_were_spoken_before_a_preemption_stand_where_they_stood() -> None:
    positions, ahead = decoder((PICTURE, -2)).get_mrope_input_positions([5] * 8, [])
    assert positions[:, :6].tolist() == PICTURE.tolist()
    assert positions[:, 6:].tolist() == [[4, 5]] * 3
    assert ahead == -2
