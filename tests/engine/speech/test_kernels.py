"""The kernels for CUDA against their plain form, by Triton's interpreter: the same source, without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="Triton's interpreter runs the kernels")
pytest.importorskip("torch", reason="the plain form is PyTorch")
pytestmark = pytest.mark.slow  # importing torch takes seconds

PROGRAM = """
import torch
from omnicfg.engine.speech import kernels

torch.manual_seed(5)
places, heads, kv_heads, width, count = 7, 4, 2, 16, 3
norms = (torch.rand(width) + 0.5, torch.rand(width) + 0.5)
turns = torch.outer(torch.arange(places).float(), 10.0 ** -torch.arange(width // 2)).repeat(1, 2)
angles = (turns.cos(), turns.sin())
plain = torch.full((2, count, places, kv_heads, width), torch.nan)
fused = plain.clone()
place = 0
for tokens in (2, 1, 1, 1, 1, 1):
    mixed = torch.randn(count, tokens, (heads + 2 * kv_heads) * width)
    expected = kernels._attend_plainly(mixed, place, *plain, norms, angles, 1e-6)
    read = kernels._attend_fused(mixed, place, *fused, norms, angles, 1e-6)
    assert torch.allclose(read, expected, atol=1e-5), (place, (read - expected).abs().max())
    place += tokens
    assert torch.allclose(fused[:, :, :place], plain[:, :, :place], atol=1e-6)
assert place == places

values, order = torch.randn(200, 90).topk(kernels.TOP_K)
noise = torch.randn(200, 3, kernels.TOP_K)
codes = torch.zeros(200, dtype=torch.int64)
mixed = torch.randperm(kernels.TOP_K)
kernels._choose(values[:, mixed].contiguous(), order[:, mixed].contiguous(), noise[:, 1], codes)
assert torch.equal(codes, kernels._chosen_plainly(values, order, noise[:, 1]))
assert len(codes.unique()) > 20
print("equal")
"""


def test_fused_kernels_compute_what_the_plain_form_does() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.stdout == "equal\n", done.stderr[-2000:]
