"""``omnicfg diff``."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.report.html.changes import changes_section
from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.repositories import BASE, DERIVED, PLATFORMS, Repo


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_same(run: Run) -> None:
    result = run("diff", "qwen3_tts", "qwen3_tts")
    assert (result.code, result.out) == (0, "No effective change.\n")


def test_different(run: Run) -> None:
    result = run("diff", "minicpmo_4_5", "minicpmo_4_5_turn")
    assert result.code == 1
    assert ["0", "enable_prefix_caching", "false", "true", "cuda", "validated:"] in [
        row[:6] for row in rows(result.out)
    ]
    assert ["session_mode", "duplex", "turn", "all"] in rows(result.out)


def test_one_platform(run: Run) -> None:
    out = run("diff", "minicpmo_4_5", "minicpmo_4_5_turn", "--platform", "npu").out
    assert "enable_prefix_caching" not in out


def test_json(run: Run) -> None:
    data = run("diff", "minicpmo_4_5", "minicpmo_4_5_turn", "--format", "json").data
    change = next(each for each in data["changes"] if each["key"] == "enable_prefix_caching")
    assert (change["stage_id"], change["platforms"], change["before"], change["after"]) == (0, ["cuda"], False, True)
    assert change["after_origin"].startswith("platform cuda, minicpmo_4_5_turn.yaml:")
    assert change["evidence"].startswith("validated: ")


def test_markdown(run: Run) -> None:
    lines = run("diff", "minicpmo_4_5", "minicpmo_4_5_turn", "--format", "markdown").out.splitlines()
    assert lines[0] == "| platforms | stage | key | before | after | verdict | cost |"
    assert any(
        line.startswith("| cuda | 0 | `enable_prefix_caching` | `false` | `true` | validated |") for line in lines
    )


def test_effective_compares_what_vllm_makes_of_it(run: Run, profile_file: WriteProfile) -> None:
    unset = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0}]\n", "unset.yaml")
    on = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, enable_prefix_caching: true}]\n", "on.yaml"
    )
    assert run("diff", unset, on).code == 1
    assert run("diff", unset, on, "--effective").code == 0


def test_a_platform_that_only_one_compiles_on_is_a_difference(run: Run, profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\n"
    v1, v2 = profile_file(text, "v1.yaml"), profile_file(text + "model_runner: v2\n", "v2.yaml")
    result = run("diff", v1, v2)
    assert result.code == 1
    assert "no longer compiles on npu:" in result.out
    assert run("diff", v1, v2, "--platform", "npu").code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`diff` compares two profiles"),
        (["qwen3_tts"], "`diff` compares two profiles"),
        (["qwen3_tts", "nosuch"], "no profile `nosuch`"),
        (["--git"], "`diff --git` needs a revision"),
        (["--git", "--all"], "`omnicfg diff` has no option `--all`"),
    ],
)
def test_trouble(run: Run, words: list[str], message: str) -> None:
    result = run("diff", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    monkeypatch.chdir(tmp_path)
    made = Repo(tmp_path)
    made.commit(base=BASE, derived=DERIVED)
    made.commit(base=BASE.replace("false", "true"))
    return made


def test_git_lists_what_changed_and_marks_inheritance(run: Run, repo: Repo) -> None:
    result = run("diff", "--git", "HEAD~1", "HEAD")
    assert result.code == 1
    assert result.out.startswith("2 profiles differ from HEAD~1 to HEAD.\n")
    assert "derived.yaml  (only by inheritance, from base.yaml)" in result.out
    assert "validated: Daily-Omni" in result.out


def test_git_in_json_and_markdown(run: Run, repo: Repo) -> None:
    data = run("diff", "--git", "HEAD~1", "HEAD", "derived.yaml", "--format", "json").data
    assert [(each["path"], each["by_inheritance"]) for each in data["profiles"]] == [("derived.yaml", True)]
    out = run("diff", "--git", "HEAD~1", "--format", "markdown").out
    assert "| `derived.yaml` from `base.yaml` | cuda | 0 | `enable_prefix_caching` | `false` | `true` |" in out


def test_what_compiles_in_neither_state_is_told_with_the_reason(run: Run, repo: Repo) -> None:
    lost = "base_config: sub/lost.yaml\npipeline: qwen3_tts\n"  # what a submodule that is not checked out looks like
    refused = "pipeline: qwen3_tts\nmodel_runner: v3\n"
    repo.commit(lost=lost, refused=refused)
    repo.write(refused=refused + "async_chunk: false\n")
    words = {"lost": "OC006 the base `sub/lost.yaml` does not exist", "refused": "OC014 `model_runner` is "}
    result = run("diff", "--git", "HEAD")
    assert result.code == 0
    assert result.out.startswith("No profile differs from HEAD to the working tree.\n\nNot compared, since neither")
    assert f"  lost.yaml\n    lost.yaml:1:14: {words['lost']}\n" in result.out
    assert f"  refused.yaml\n    refused.yaml:2:15: {words['refused']}" in result.out
    comment = run("diff", "--git", "HEAD", "--format", "markdown").out
    assert f"\n- `lost.yaml`: {words['lost']} at `lost.yaml:1:14`\n" in comment
    data = run("diff", "--git", "HEAD", "--format", "json").data["never_compiled"]
    assert [(each["path"], each["reasons"][0]["code"]) for each in data] == [
        ("lost.yaml", "OC006"),
        ("refused.yaml", "OC014"),
    ]
    section = changes_section(repo.diff("HEAD"), PLATFORMS)
    listed = [" ".join(each.itertext()) for each in section.iter("li")]
    assert any("OC006" in each and "`" not in each for each in listed)


def test_git_without_a_difference(run: Run, repo: Repo) -> None:
    result = run("diff", "--git", "HEAD")
    assert (result.code, result.out) == (0, "No profile differs from HEAD to the working tree.\n")


def test_git_takes_a_second_word_for_what_it_is(run: Run, repo: Repo) -> None:
    assert run("diff", "--git", "HEAD~1", "base.yaml").out.startswith("1 profile differs from HEAD~1 to the working")
    repo.git("branch", "base.yaml")
    result = run("diff", "--git", "HEAD~1", "base.yaml")
    assert result.code == 2
    assert "`base.yaml` is both a revision and a path" in result.err
    assert run("diff", "--git", "HEAD~1", "./base.yaml").code == 1


def test_git_trouble(run: Run, repo: Repo) -> None:
    result = run("diff", "--git", "nosuch")
    assert (result.code, result.out) == (2, "")
    assert "git knows no revision `nosuch`" in result.err


def test_a_range_as_git_diff_takes_it_is_answered_with_how_it_is_written_here(run: Run, repo: Repo) -> None:
    assert "help: Write the two apart: `--git HEAD~1 HEAD`." in run("diff", "--git", "HEAD~1..HEAD").err


def test_versions_tell_what_an_upgrade_changes(
    run: Run, profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0, mamba_cache_mode: all}]\n")
    monkeypatch.chdir(path.parent)
    result = run("diff", "--versions", "vllm", "0.31.0..0.32.0")
    assert result.code == 1
    assert result.out.startswith("vllm 0.31.0 to 0.32.0: something changes for 1 of 1 profile.\n")
    assert ["mamba_cache_mode", "all", "not", "taken", "profile.yaml:3:42", "stage", "0"] in rows(result.out)
    data = run("diff", "--versions", "vllm", "0.31.0..0.32.0", "profile.yaml", "--format", "json").data
    assert [each["kind"] for each in data["profiles"][0]["effects"]] == ["refused", "default", "default"]
    out = run("diff", "--versions", "vllm-omni", "0.30.0..0.32.0rc1", "profile.yaml", "--format", "markdown").out
    assert out.startswith("**vllm-omni 0.30.0 to 0.32.0rc1: something changes for 0 of 1 profile.**")
    assert run("diff", "--versions", "vllm", "0.32.0..0.32.0").code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vllm"], "`diff --versions` needs two versions"),
        (["vllm", "0.31.0"], "`diff --versions` needs two versions"),
        (["vllm", "0.31.0..0.99.0"], "Shipped: 0.31.0, 0.32.0, 0.33.0."),
        (["vllm-omni", "0.30.0..0.31.0"], "Shipped: 0.28.0, 0.30.0, 0.32.0rc1."),
        (["sglang", "1..2"], "`--versions` cannot be `sglang`"),
    ],
)
def test_versions_trouble(run: Run, words: list[str], message: str) -> None:
    result = run("diff", "--versions", *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err


@pytest.mark.parametrize(
    "option", [["--git"], ["--effective"], ["--vllm-version", "0.32.0"], ["--pipeline", "qwen3_tts"], ["--model", "."]]
)
def test_an_upgrade_does_not_pass_over_what_it_does_not_read(
    run: Run, profile_file: WriteProfile, option: list[str]
) -> None:
    profile = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n")
    result = run("diff", "--versions", "vllm", "0.31.0..0.32.0", profile, *option)
    assert (result.code, result.out) == (2, "")
    assert f"`diff --versions` takes no `{option[0]}`" in result.err
