"""What profiles may reach: nothing outside of ``--root`` is read, and no variable of the environment unless allowed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import omnicfg
from omnicfg.cli import command_module, command_names
from omnicfg.commands._options import limits_of
from omnicfg.confine import confined, copied, may_read, may_use
from omnicfg.differences.gitdiff import git_diff
from omnicfg.errors import OmnicfgError, UsageError
from tests.commands.conftest import Run, run  # noqa: F401  # a fixture
from tests.conftest import WriteProfile
from tests.repositories import PLATFORMS, Repo

PROFILE = "pipeline: qwen3_tts\nasync_chunk: false\n"
OUTSIDE = f"{PROFILE}stages: [{{stage_id: 0, max_num_seqs: 77}}]\n"


class Reads:
    """Every file that is opened and every directory that is listed while it watches."""

    def __init__(self) -> None:
        self.watching = False
        self.seen: list[str] = []

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.watching and event in ("open", "os.listdir", "os.scandir") and arguments:
            path = arguments[0]
            if isinstance(path, str | bytes | os.PathLike):
                self.seen.append(os.path.realpath(os.fsdecode(path)))


_READS = Reads()
sys.addaudithook(_READS.hook)  # cannot be taken away again; does nothing while nobody watches


@pytest.fixture
def reads() -> Iterator[Reads]:
    _READS.seen.clear()
    _READS.watching = True
    yield _READS
    _READS.watching = False


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose profiles try to get out of it, and what lies outside. The checkout is the current folder."""
    outside, root = tmp_path / "outside", tmp_path / "checkout"
    outside.mkdir()
    (root / "profiles" / "deep").mkdir(parents=True)
    (outside / "base.yaml").write_text(OUTSIDE)
    (outside / "omnicfg.toml").write_text('fail-on = "warning"\n')
    shutil.copy(outside / "omnicfg.toml", tmp_path)
    (root / "profiles" / "own.yaml").write_text(PROFILE)
    (root / "profiles" / "up.yaml").write_text("# a thin one\nbase_config: ../../outside/base.yaml\n")
    (root / "profiles" / "absolute.yaml").write_text(f"base_config: {outside / 'base.yaml'}\n")
    (root / "profiles" / "missing.yaml").write_text("base_config: ../../outside/nosuch.yaml\n")
    (root / "profiles" / "link.yaml").symlink_to(outside / "base.yaml")
    (root / "profiles" / "by_link.yaml").write_text("base_config: link.yaml\n")
    (root / "profiles" / "folder").symlink_to(outside)
    (root / "profiles" / "deep" / "by_folder.yaml").write_text("base_config: ../folder/base.yaml\n")
    monkeypatch.chdir(root)
    return root


GETTING_OUT = ["up", "absolute", "missing", "by_link", "deep/by_folder"]


@pytest.mark.parametrize("name", GETTING_OUT)
def test_a_base_outside_is_refused_where_it_is_named(tree: Path, run: Run, name: str) -> None:  # noqa: F811
    result = run("validate", f"profiles/{name}.yaml", "--root", ".", "--format", "json")
    (found,) = result.data["diagnostics"]
    assert (result.code, found["code"], found["path"]) == (1, "OC022", f"profiles/{name}.yaml")
    line = 2 if name == "up" else 1
    assert (found["line"], found["column"]) == (line, len("base_config: ") + 1)


def test_whether_a_file_outside_exists_is_not_told(tree: Path, run: Run) -> None:  # noqa: F811
    there, missing = (run("resolve", f"profiles/{name}.yaml", "--root", ".").err for name in ("up", "missing"))
    assert "the base `../../outside/base.yaml` lies outside" in there
    assert "the base `../../outside/nosuch.yaml` lies outside" in missing
    assert "Did you mean" not in missing


COMMANDS = {
    "resolve": ["resolve", "{}"],
    "resolve with an overlay": ["resolve", "qwen3_tts", "--overlay", "{}"],
    "explain": ["explain", "{}", "stages.0.max_num_seqs"],
    "validate": ["validate", "{}"],
    "diff": ["diff", "profiles/own.yaml", "{}"],
    "diff --versions": ["diff", "--versions", "vllm", "0.32.0..0.33.0", "{}"],
    "migrate": ["migrate", "{}"],
    "graph": ["graph", "{}"],
    "matrix": ["matrix", "{}"],
    "serve": ["serve", "{}", "--model", ".", "--dry-run"],
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", [*GETTING_OUT, "link"])
def test_no_command_reads_outside(tree: Path, run: Run, reads: Reads, words: list[str], name: str) -> None:  # noqa: F811
    run(*(word.format(f"profiles/{name}.yaml") for word in words), "--root", ".")
    assert [path for path in reads.seen if path.startswith(str(tree.parent / "outside"))] == []


def test_a_directory_is_searched_inside_only(tree: Path, run: Run, reads: Reads) -> None:  # noqa: F811
    result = run("validate", "--root", ".", "--format", "json")
    refused = {(found["code"], found["path"]) for found in result.data["diagnostics"]}
    assert refused == {("OC022", f"profiles/{name}.yaml") for name in [*GETTING_OUT, "link"]}
    assert [path for path in reads.seen if path.startswith(str(tree.parent / "outside"))] == []
    assert str(tree.parent / "omnicfg.toml") not in reads.seen


def test_without_a_root_bases_may_lie_anywhere(tree: Path) -> None:
    assert omnicfg.resolve("profiles/up.yaml").to_dict()["stages"][0]["engine_args"]["max_num_seqs"] == 77


def test_shipped_profiles_are_always_readable(tree: Path, run: Run) -> None:  # noqa: F811
    assert run("resolve", "minicpmo_4_5_turn", "--root", ".").code == 0


@pytest.mark.parametrize("option", ["--config", "--baseline", "--policy"])
def test_what_a_check_reads_besides_is_inside_too(tree: Path, run: Run, reads: Reads, option: str) -> None:  # noqa: F811
    result = run("validate", "profiles/own.yaml", "--root", ".", option, "../outside/omnicfg.toml")
    assert "outside/omnicfg.toml` lies outside" in result.err or "OC022" in result.out + result.err
    assert str(tree.parent / "outside" / "omnicfg.toml") not in reads.seen


def test_a_root_has_to_be_a_directory(tree: Path, run: Run) -> None:  # noqa: F811
    result = run("resolve", "qwen3_tts", "--root", "nosuch")
    assert (result.code, "not a directory" in result.err) == (2, True)


@pytest.mark.parametrize("name", ["", "HOME=x"])
def test_what_can_be_no_variable_is_told(name: str) -> None:
    with pytest.raises(UsageError, match=f"no environment variable is called `{name}`"), confined(allow_env=[name]):
        pass


def test_every_command_that_takes_profiles_has_the_options() -> None:
    without = {name for name in command_names() if not limits_of(command_module(name).run)}
    assert without <= {"completion", "doctor", "init", "lsp", "policy", "profiles", "rules", "schema"}


# --------------------------------------------------------------------------------------------------- git revisions
def test_a_revision_is_confined_like_the_working_tree(tmp_path: Path, reads: Reads) -> None:
    (tmp_path / "repo").mkdir()
    repo = Repo(tmp_path / "repo")
    repo.commit(own__a=PROFILE, other__b=PROFILE)
    repo.commit(own__a="base_config: ../other/b.yaml\n", other__b=OUTSIDE)
    repo.write(own__a="base_config: ../../outside.yaml\n")
    (tmp_path / "outside.yaml").write_text(OUTSIDE)
    reads.seen.clear()
    with confined(root=repo.root / "own"):
        old = git_diff("HEAD~1", "HEAD", ["own"], platforms=PLATFORMS, directory=repo.root)
        new = git_diff("HEAD~1", None, ["own"], platforms=PLATFORMS, directory=repo.root)
    for found, base in ((old, "../other/b.yaml"), (new, "../../outside.yaml")):
        (profile,) = found.profiles
        assert (profile.status, [each.code for each in profile.reasons]) == ("broken", ["OC022"])
        assert base in profile.reasons[0].message
    assert str(tmp_path / "outside.yaml") not in reads.seen


def test_a_root_around_the_repository_holds_all_of_a_revision(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    repo = Repo(tmp_path / "repo")
    repo.commit(a=PROFILE)
    repo.commit(a=OUTSIDE)
    with confined(root=tmp_path):
        (profile,) = git_diff("HEAD~1", "HEAD", platforms=PLATFORMS, directory=repo.root).profiles
    assert profile.status == "changed"


@pytest.mark.parametrize(("root", "readable"), [("repo", True), ("repo/own", True), (".", True), ("elsewhere", False)])
def test_a_copy_stands_for_the_original(tmp_path: Path, root: str, readable: bool) -> None:
    for name in ("repo/own", "elsewhere", "copy/own"):
        (tmp_path / name).mkdir(parents=True)
    with confined(root=tmp_path / root), copied(tmp_path / "repo", tmp_path / "copy"):
        assert may_read(tmp_path / "copy" / "own" / "a.yaml") is readable
        assert may_read(tmp_path / "copy" / "b.yaml") is (readable and root != "repo/own")


# ------------------------------------------------------------------------------------------- environment variables
def test_no_variable_is_taken_in_unless_it_is_allowed(
    profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQS", "8")
    path = profile_file(f"{PROFILE}stages: [{{stage_id: 0, max_num_seqs: '${{oc.decode:${{oc.env:SEQS,4}}}}'}}]\n")
    with pytest.raises(OmnicfgError, match="`SEQS`, which is not allowed") as refused:
        omnicfg.resolve(path)
    assert "--allow-env SEQS" in str(refused.value.diagnostics[0].help)
    with omnicfg.confined(allow_env=["SEQS"]):
        assert omnicfg.resolve(path).to_dict()["stages"][0]["engine_args"]["max_num_seqs"] == 8


def test_a_command_allows_variables_by_name(
    profile_file: WriteProfile,
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MODE", "true")
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: ${oc.decode:${oc.env:MODE}}\n")
    assert run("resolve", path).code == 2
    assert run("resolve", path, "--allow-env", "OTHER").code == 2
    assert run("resolve", path, "--allow-env", "OTHER", "--allow-env", "MODE").code == 0
    assert run("resolve", path).code == 2  # what one command was allowed, the next is not


@pytest.mark.parametrize(
    ("pattern", "name", "allowed"),
    [("A", "A", True), ("A", "a", False), ("VLLM_*", "VLLM_X", True), ("VLLM_*", "HF_TOKEN", False), ("*", "A", True)],
)
def test_variables_are_allowed_by_name_or_pattern(pattern: str, name: str, allowed: bool) -> None:
    with confined(allow_env=[pattern]):
        assert may_use(name) is allowed
    assert not may_use(name)
