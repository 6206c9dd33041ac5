"""Unified diffs of fixes: what `patch` and people read."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from omnicfg.fixes.fix import Change
from omnicfg.report.patch import render_patch


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: 1\n", "b: 1\n"),
        ("a: 1\nb: 2\n", "b: 2\n"),
        ("".join(f"k{n}: {n}\n" for n in range(40)), "".join(f"k{n}: {n if n % 19 else -1}\n" for n in range(40))),
        ("a: 1\r\nb: 2\r\n", "a: 1\r\nc: 2\r\n"),
        ("a: 1\nb: 2", "a: 1\nc: 2"),
        ("a: 1\nb: 2", "a: 1\n"),
        ("a: 'x\u2028y\x0cz'\nb: 2\n", "a: 'x\u2028y\x0cz'\nc: 2\n"),
    ],
)
def test_patch_makes_the_same_of_it(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "profile.yaml"
    path.write_bytes(before.encode())
    text = render_patch([Change(path, before, after)])
    command = ["patch", "--quiet", "--binary", "-p0", str(path)]
    if "\x0c" in before:  # what a terminal would act on is shown as an escape
        assert "\\x0c" in text
        return
    subprocess.run(command, input=text.encode(), check=True)
    assert path.read_bytes() == after.encode()


def test_credentials_are_hidden_on_all_lines() -> None:
    before = "env:\n  HF_TOKEN: hf_abc\n  api_key: |\n    hf_def\nmax_num_seq: 8\n"
    text = render_patch([Change(Path("p.yaml"), before, before.replace("seq:", "seqs:"))])
    assert text == (
        "--- p.yaml\n+++ p.yaml\n@@ -2,4 +2,4 @@\n   HF_TOKEN: ***\n   api_key: ***\n     ***\n"
        "-max_num_seq: 8\n+max_num_seqs: 8\n"
    )


def test_colours() -> None:
    text = render_patch([Change(Path("p.yaml"), "a: 1\n", "b: 1\n")], colour=True)
    assert "\x1b[31m-a: 1\x1b[0m\n\x1b[32m+b: 1\x1b[0m\n" in text
