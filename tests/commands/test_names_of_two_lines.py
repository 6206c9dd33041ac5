"""Names of files and keys may hold line breaks: what a command says of them must not look like lines of its own.

In CI such a line could be a command for what reads the log (``::add-mask::`` for GitHub's runner).
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.commands.conftest import Run

NAME = "a\n::error::b.yaml"
PROFILE = (
    'pipeline: qwen3_tts\nasync_chunk: false\n"c\\n::error::d": 1\n'
    'stages: [{stage_id: 0, "e\\n::error::f": 1, served_model_name: "g\\n::error::h", max_num_seqs: 4}]\n'
)


@pytest.fixture
def profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path(NAME).write_text(PROFILE.replace("4", "3"))
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message", "1"], check=True)
    Path(NAME).write_text(PROFILE)
    Path("broken\n::error::.yaml").write_text("base_config: 'no\n\n  ::error::.yaml'\n")
    return NAME


@pytest.mark.parametrize(
    "words",
    [
        ["validate", "NAME"],
        ["validate", "NAME", "--format", "github"],
        ["validate", "NAME", "--diff", "--unsafe-fixes"],
        ["validate", "NAME", "--write-baseline", "known.json"],
        ["resolve", "NAME"],
        ["resolve", "NAME", "--explain"],
        ["explain", "NAME", "stages.0.served_model_name"],
        ["graph", "NAME"],
        ["matrix", "NAME"],
        ["diff", "NAME", "qwen3_tts"],
        ["diff", "--git", "HEAD"],
        ["diff", "--git", "HEAD", "--format", "markdown"],
        ["diff", "--versions", "vllm", "0.31.0..0.33.0"],
        ["report", "--out", "r\n::error::.html"],
        ["export", "NAME", "--to", "vllm-omni"],
        ["migrate", "NAME"],
        ["init", "n\n::error::.yaml", "--on", "NAME"],
        ["resolve", "nope\n::error::"],
        ["resolve", "qwen3_tts", "--platform", "x\n::error::"],
        ["resolve", "qwen3_tts", "--x\n::error::"],
        ["diff", "--git", "x\n::error::"],
        ["bench", "compare", "x\n::error::", "h20"],
        ["x\n::error::"],
    ],
    ids=lambda words: " ".join(words).replace("\n", "~"),
)
def test_no_line_begins_with_what_a_name_says(run: Run, profile: str, words: list[str]) -> None:
    result = run(*(profile if word == "NAME" else word for word in words))
    lines = (result.out + result.err).splitlines()
    assert [line for line in lines if line.strip().startswith("::error::") and "file=" not in line] == []


def test_what_is_left_out_of_an_argument_list_is_told_in_one_line(run: Run, profile: str) -> None:
    told = run("resolve", profile, "--format", "args").err.splitlines()
    assert any(r"e\n::error::f" in line for line in told)
    assert not any(line.startswith("::error::") for line in told)
