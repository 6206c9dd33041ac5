"""Git repositories of profiles, made for one test each."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from omnicfg.differences.gitdiff import GitDiff, git_diff

PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")
BASE = "pipeline: qwen3_omni_moe\nstages:\n  - {stage_id: 0, enable_prefix_caching: false, max_num_seqs: 8}\n"
DERIVED = "base_config: base.yaml\npipeline: qwen3_omni_moe\n"


class Repo:
    """A repository made for one test."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        done = subprocess.run(
            ["git", "-C", str(self.root), *words],
            check=True,
            capture_output=True,
            env={**os.environ, **identity, "GIT_CONFIG_GLOBAL": os.devnull},
        )
        return done.stdout.decode().strip()

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.root / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def commit(self, **files: str) -> str:
        self.write(**files)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")
        return self.git("rev-parse", "HEAD")

    def diff(self, revision: str, other: str | None = None, *, paths: tuple[str, ...] = ()) -> GitDiff:
        return git_diff(revision, other, paths, platforms=PLATFORMS, directory=self.root)
