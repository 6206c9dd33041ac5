"""Sounds are read and resampled with what is installed, or refused in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("vllm", reason="the resamplers are vLLM's")
np = pytest.importorskip("numpy")
pytestmark = pytest.mark.slow  # importing vLLM takes ten seconds

from vllm.multimodal import audio  # noqa: E402
from vllm.multimodal.media import audio as files  # noqa: E402

from omnicfg.engine import sounds  # noqa: E402
from omnicfg.engine.plugin import register  # noqa: E402
from omnicfg.engine.sounds import do_without  # noqa: E402

RATE = 8000
TONE = np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE).astype(np.float32)


MISSING = "a kind of sound that only what is missing could read"


def read(path: str) -> str:
    """In the place of vLLM's, which ends like this where PyAV is missing."""
    if path == MISSING:
        raise ImportError("Please install vllm[audio] for audio support")
    return f"read {path}"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    monkeypatch.setattr(audio, "resample_audio_torchaudio", "torchaudio's")
    monkeypatch.setattr(files, "load_audio", read)

    def only(*names: str) -> None:
        monkeypatch.setattr(sounds, "find_spec", lambda name: name if name in names else None)
        do_without()

    return only


def test_torchaudio_is_left_alone(installed: Callable[..., None]) -> None:
    installed("torchaudio", "av")
    assert audio.resample_audio_torchaudio == "torchaudio's"
    assert files.load_audio is read


def test_pyav_takes_its_place(installed: Callable[..., None]) -> None:
    pytest.importorskip("av", reason="comes with the extra audio")
    installed("av")
    made: Any = audio.AudioResampler(target_sr=2 * RATE).resample(TONE, orig_sr=RATE)
    wanted = np.sin(2 * np.pi * 440 * np.arange(2 * RATE) / (2 * RATE))
    assert made.shape == wanted.shape
    assert np.abs(made - wanted)[500:-500].max() < 0.02


def test_without_either_the_client_is_told(installed: Callable[..., None]) -> None:
    installed()
    resampler = audio.AudioResampler(target_sr=2 * RATE)
    assert resampler.resample(TONE, orig_sr=2 * RATE) is TONE
    with pytest.raises(
        ValueError, match=r"has 8000 samples a second, and here it has to have 16000: .*omnicfg\[audio\]"
    ):
        resampler.resample(TONE, orig_sr=RATE)


def test_a_sound_that_nothing_reads_is_refused(installed: Callable[..., None]) -> None:
    installed("torchaudio")
    installed("torchaudio")
    with pytest.raises(
        ValueError, match=r"nothing that reads this sound \(`pip install 'omnicfg\[audio\]'` brings it\)"
    ):
        files.load_audio(MISSING)
    assert files.load_audio("sound") == "read sound"


def test_the_plugin_sees_to_sounds_only_where_it_is_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(sounds, "do_without", lambda: asked.append("asked"))
    monkeypatch.delenv(sounds.VARIABLE, raising=False)
    register()
    assert asked == []
    monkeypatch.setenv(sounds.VARIABLE, "1")
    register()
    assert asked == ["asked"]
