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

for rows, width, dtype in ((2, 2048, torch.float32), (40, 90, torch.float32), (20, 40, torch.float32)):
    logits = 3 * torch.randn(rows, width)
    noise = -torch.rand(rows, 3, kernels.TOP_K).log().neg().log()
    codes = kernels._sample_fused(logits, noise[:, 1])
    assert torch.equal(codes, kernels._sample_plainly(logits, noise[:, 1])), width
    assert rows < 20 or len(codes.unique()) > 10
# bfloat16 has few numbers, and of equal logits only the order of the codes could tell.
logits = torch.stack([torch.randperm(90) for _ in range(20)]).to(torch.bfloat16) / 16 - 2
noise = -torch.rand(20, kernels.TOP_K).log().neg().log()
assert torch.equal(kernels._sample_fused(logits, noise), kernels._sample_plainly(logits, noise))
equal = torch.zeros(1, 90)
equal[0, [7, 60]] = 50.0
first, second = torch.full((2, 1, kernels.TOP_K), -9.0).unbind()
first[0, 0], second[0, 1] = 9.0, 9.0
assert [int(kernels._sample_fused(equal, noise)[0]) for noise in (first, second)] == [7, 60]
print("equal")
"""


def test_fused_kernels_compute_what_the_plain_form_does() -> None:
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment, check=False, timeout=300
    )
    assert done.stdout == "equal\n", done.stderr[-2000:]
