"""What vLLM reads and resamples sounds with where a library is not installed, and what it says where none is.

vLLM reads a sound with torchcodec, soundfile or, last, PyAV, and has four ways to resample one, of which it takes
torchaudio's whether it is there or not (``vllm/multimodal/media/audio.py`` and ``vllm/multimodal/audio.py``). What is
missing is an error of the server's then; here it is the client's, with the reason.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, Final, NoReturn

VARIABLE: Final = "OMNICFG_SOUNDS"
"""Where it is in the environment, the plugin sees to sounds: to know what is missing, vLLM's modules for them are
imported, which takes two seconds of every process.
"""

_BRINGS = "(`pip install 'omnicfg[audio]'` brings it)"


def do_without() -> None:
    """PyAV's way to resample in the place of torchaudio's where only that can be gone; refusals in the place of what is
    missing. Idempotent.
    """
    has_pyav = find_spec("av") is not None
    if find_spec("torchaudio") is None:
        from vllm.multimodal import audio

        audio.resample_audio_torchaudio = audio.resample_audio_pyav if has_pyav else _refuse_rate
    if not has_pyav:
        from vllm.multimodal.media import audio as files

        if not hasattr(files.load_audio, "__wrapped__"):
            files.load_audio = _told(files.load_audio)


def _refuse_rate(audio: Any, *, orig_sr: float, target_sr: float) -> NoReturn:  # noqa: ARG001 - vLLM's signature
    """A ``ValueError`` is a client's fault to vLLM's server, which tells the client (400)."""
    raise ValueError(
        f"a sound has {orig_sr:g} samples a second, and here it has to have {target_sr:g}: this server has nothing to "
        f"resample sounds with {_BRINGS}"
    )


def _told(load: Callable[..., Any]) -> Callable[..., Any]:
    """vLLM's function that reads a sound, where the last library that it asks for is missing."""

    @functools.wraps(load)
    def loaded(*arguments: Any, **options: Any) -> Any:
        try:
            return load(*arguments, **options)
        except ImportError as error:
            raise ValueError(f"this server has nothing that reads this sound {_BRINGS}") from error

    return loaded
