"""What a shell is offered."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.cli import command_names
from omnicfg.completion import candidates


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["res"], ["resolve"]),
        (["resolve", "minicpmo_4_5_turn_mrv2"], ["minicpmo_4_5_turn_mrv2", "minicpmo_4_5_turn_mrv2_h200"]),
        (["resolve", "x", "--platform", ""], ["all", "cuda", "musa", "npu", "rocm", "xpu"]),
        (["resolve", "x", "--format", "j"], ["json"]),
        (["resolve", "x", "--pl"], ["--platform"]),
        (["resolve", "x", "tiny"], []),
        (["diff", "tiny_omni", "tiny"], ["tiny_omni"]),
        (["diff", "--effective", "tiny"], ["tiny_omni"]),
        (["schema", "pi"], ["pipelines"]),
        (["rules", "unknown-k"], ["unknown-key"]),
        (["export", "x", "--to", ""], ["compose", "k8s", "vllm-omni"]),
        (["graph", "x", "--format", ""], ["dot", "mermaid", "tree"]),
        (["graph", "tiny"], ["tiny_omni"]),
        (["init", "x.yaml", "--on", "tiny"], ["tiny_omni"]),
        (["init", "x.yaml", "--pipeline", "tiny"], ["tiny_omni"]),
        (["doctor", "tiny"], ["tiny_omni"]),
        (["nosuch", "x"], []),
        (["resolve", "x", "--overlay", ""], []),
    ],
)
def test_candidates(words: list[str], expected: list[str]) -> None:
    assert candidates(words) == expected


def test_every_command_is_offered() -> None:
    assert set(command_names()) < set(candidates([""]))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_through_the_script(tmp_path: Path) -> None:
    command = tmp_path / "omnicfg"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m omnicfg.cli "$@"\n')
    command.chmod(0o755)
    script = (
        "source <(omnicfg completion bash); COMP_WORDS=(omnicfg resolve minicpmo_4_5_turn_m); COMP_CWORD=2; "
        '_omnicfg; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.split() == ["minicpmo_4_5_turn_mrv2", "minicpmo_4_5_turn_mrv2_h200"]
