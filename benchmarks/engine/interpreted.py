"""vLLM's Model Runner V2 where there is no GPU: Triton's interpreter computes its kernels, in NumPy.

vLLM's build for the CPU has that runner too, but only beside a Triton with a backend for the CPU, which PyPI's is not.
All else is what runs on a GPU, but CUDA graphs and the kernels of attention: slow, and the same numbers.
"""

from __future__ import annotations

import os


class _Interpreter:
    """In the place of a driver: vLLM looks whether there is one, nothing is ever compiled for it."""

    @staticmethod
    def is_active() -> bool:
        """Whether Triton should take it by itself."""
        return False


def pose_as_cpu_backend() -> None:
    """Let vLLM, which must not be imported yet, find a Triton for the CPU. Raises :class:`ModuleNotFoundError` where
    there is no Triton at all.
    """
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["TORCHINDUCTOR_TRITON_DISABLE_DEVICE_DETECTION"] = "1"  # torch.compile must not take it for a compiler
    from triton.backends import Backend, BaseBackend, backends

    backends["cpu"] = Backend(compiler=BaseBackend, driver=_Interpreter)
