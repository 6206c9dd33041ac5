"""What audio is packed in."""

from __future__ import annotations

import io
import wave

import pytest

from omnicfg.engine.front.formats import FORMATS, FormatError, check, packed, stream_head

PCM = bytes(range(200))


def test_a_wave_holds_the_samples_and_their_rate() -> None:
    with wave.open(io.BytesIO(packed(PCM, "wav", 24000))) as file:
        assert file.getparams()[:4] == (1, 2, 24000, 100)
        assert file.readframes(100) == PCM


def test_raw_samples_are_raw() -> None:
    assert packed(PCM, "pcm16", 24000) == PCM


def test_speech_without_samples_is_a_wave_without_frames() -> None:
    with wave.open(io.BytesIO(packed(b"", "wav", 24000))) as file:
        assert file.getnframes() == 0


def test_a_streams_header_is_a_waves_with_open_sizes() -> None:
    head, whole = stream_head("wav", 24000), packed(PCM, "wav", 24000)
    assert len(head) == 44
    assert head[8:40] == whole[8:40]
    assert head[4:8] == head[40:44] == b"\xff" * 4
    assert stream_head("pcm16", 24000) == b""


@pytest.mark.parametrize("name", sorted(set(FORMATS) - {"wav", "pcm16"}))
def test_other_formats_can_be_decoded_again(name: str) -> None:
    soundfile = pytest.importorskip("soundfile", reason="comes with the extra audio")
    assert check(name, streamed=False) == name
    seconds = packed(b"\0\1" * 24000, name, 24000)
    samples, rate = soundfile.read(io.BytesIO(seconds))
    assert len(samples) / rate == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("name", "streamed", "told"),
    [("au", False, "there are wav, pcm16"), (3, False, "is 3"), ("mp3", True, "cannot be streamed")],
)
def test_other_names_are_refused(name: object, streamed: bool, told: str) -> None:
    with pytest.raises(FormatError, match=told):
        check(name, streamed=streamed)


def test_a_format_whose_library_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnicfg.engine.front.formats.find_spec", lambda _: None)
    with pytest.raises(FormatError, match="needs the Python package soundfile"):
        check("flac", streamed=False)
    assert check("wav", streamed=False) == "wav"
