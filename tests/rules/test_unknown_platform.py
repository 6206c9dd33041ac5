"""OC202: platform blocks that are never read."""

from __future__ import annotations

import pytest

from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nplatforms:\n"

NAMES = {
    "NPU": "Did you mean `npu`?",
    "Cuda": "Did you mean `cuda`?",
    "gpu": "Did you mean `cuda`?",
    "nvidia": "Did you mean `cuda`?",
    "amd": "Did you mean `rocm`?",
    "ascend": "Did you mean `npu`?",
    "tpu": "Platforms: cuda, npu, rocm, xpu, musa.",
}


@pytest.mark.parametrize(("name", "help_text"), NAMES.items())
def test_a_name_that_no_platform_has(profile_file: WriteProfile, name: str, help_text: str) -> None:
    (found,) = findings(profile_file(f"{HEAD}  {name}: {{model_runner: v1}}\n"), "OC202")
    assert (found.line, found.column, found.message, found.help) == (
        4,
        3,
        f"`{name}` is no platform, so its block is never read",
        help_text,
    )


def test_the_five_platforms_are_known(profile_file: WriteProfile) -> None:
    text = HEAD + "".join(f"  {name}: {{model_runner: v1}}\n" for name in ("cuda", "npu", "rocm", "xpu", "musa"))
    assert told(profile_file(text), "OC202") == []


def test_in_a_base(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + "  1: {}\n", "base.yaml")
    (found,) = findings(profile_file("base_config: base.yaml\n", "top.yaml"), "OC202")
    assert (found.path, found.line, found.column) == (str(base), 4, 3)
