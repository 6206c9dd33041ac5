"""What vLLM resamples sounds with where torchaudio is not installed: it fits few builds of torch for the CPU.

vLLM has four ways to do it (``vllm/multimodal/audio.py``), and takes torchaudio's whether it is there or not; a sound
of another rate than the model's is then an error of the server's.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NoReturn


def resample_without_torchaudio() -> None:
    """PyAV's way in the place of torchaudio's where only that can be gone, or a refusal where neither can."""
    if find_spec("torchaudio") is not None:
        return
    from vllm.multimodal import audio

    audio.resample_audio_torchaudio = _refuse if find_spec("av") is None else audio.resample_audio_pyav


def _refuse(audio: Any, *, orig_sr: float, target_sr: float) -> NoReturn:  # noqa: ARG001 - vLLM's signature
    """A ``ValueError`` is a client's fault to vLLM's server, which tells the client (400)."""
    raise ValueError(
        f"a sound has {orig_sr:g} samples a second, and here it has to have {target_sr:g}: this server has nothing to "
        "resample sounds with (`pip install 'omnicfg[audio]'` brings it)"
    )
