"""What audio is packed in: WAV and raw PCM by the standard library, others by libsndfile (the extra ``audio``)."""

from __future__ import annotations

import io
import struct
import wave
from importlib.util import find_spec
from typing import Final

_OWN: Final = ("wav", "pcm16")
_SNDFILE: Final = {"flac": ("FLAC", "PCM_16"), "mp3": ("MP3", "MPEG_LAYER_III"), "opus": ("OGG", "OPUS")}
FORMATS: Final = (*_OWN, *_SNDFILE)
STREAMED: Final = ("pcm16", "wav")
"""Formats of which every piece can be played as it comes."""

_UNKNOWN_SIZE: Final = 0xFFFFFFFF


class FormatError(ValueError):
    """A format that cannot be had; the message is for the client."""


def check(name: object, *, streamed: bool) -> str:
    """The format's name. Raises :class:`FormatError`."""
    if not isinstance(name, str) or name not in FORMATS:
        raise FormatError(f"audio.format is {name!r}; there are {', '.join(FORMATS)}")
    if streamed and name not in STREAMED:
        raise FormatError(f"audio.format {name!r} cannot be streamed; {' and '.join(STREAMED)} can")
    if name in _SNDFILE and find_spec("soundfile") is None:
        raise FormatError(f"audio.format {name!r} needs the Python package soundfile, which this server lacks")
    return name


def packed(pcm: bytes, name: str, sample_rate: int) -> bytes:
    """16-bit PCM of one channel as a whole file of that format."""
    if name == "pcm16":
        return pcm
    file = io.BytesIO()
    if name == "wav":
        with wave.open(file, "wb") as writer:
            writer.setnchannels(1)
            writer.setsampwidth(2)
            writer.setframerate(sample_rate)
            writer.writeframes(pcm)
        return file.getvalue()
    import numpy as np
    import soundfile

    container, coding = _SNDFILE[name]
    soundfile.write(file, np.frombuffer(pcm, dtype="<i2"), sample_rate, format=container, subtype=coding)
    return file.getvalue()


def stream_head(name: str, sample_rate: int) -> bytes:
    """What comes before the samples of a stream: a WAV header with open sizes, as players take them from pipes."""
    if name != "wav":
        return b""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, sample_rate, 2 * sample_rate, 2, 16)
    data = struct.pack("<4sI", b"data", _UNKNOWN_SIZE)
    return struct.pack("<4sI4s", b"RIFF", _UNKNOWN_SIZE, b"WAVE") + form + data
