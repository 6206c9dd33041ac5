"""A comment on a pull request: what it says first, what it folds away, and how long it may be."""

from __future__ import annotations

import pytest

from omnicfg.differences.compare import Change
from omnicfg.differences.comparison import NOTHING, Comparison, Grouped
from omnicfg.differences.gitdiff import GitDiff, ProfileDiff
from omnicfg.report.changes_markdown import MARKER, MAX_COMMENT, comparison_markdown, git_diff_markdown
from tests.repositories import BASE, DERIVED, PLATFORMS, Repo


def comment(repo: Repo, old: str, new: str | None = None) -> str:
    return git_diff_markdown(repo.diff(old, new), PLATFORMS)


def test_flips_by_inheritance_come_first_with_their_verdict_and_cost(repo: Repo) -> None:
    old = repo.commit(base=BASE, derived=DERIVED)
    text = comment(repo, old, repo.commit(base=BASE.replace("false", "true")))
    assert text.startswith(f"{MARKER}\n**2 profiles differ from `{old}`")
    assert "; 1 by inheritance alone; 2 new values unvalidated (looked at on cuda, npu, " in text
    inherited, own = text.index("By inheritance alone"), text.index("In changed files")
    assert (
        inherited < text.index("| `derived.yaml` from `base.yaml` | cuda | 0 |") < own < text.index("| `base.yaml` |")
    )
    row = next(line for line in text.splitlines() if line.startswith("| `derived.yaml` from `base.yaml` | cuda | 0 |"))
    assert row.split(" | ")[3:7] == ["`enable_prefix_caching`", "`false`", "`true`", "validated"]
    assert "GiB of host memory" in row
    assert "<details><summary>Evidence</summary>" in text
    assert "Cost: " in text[text.index("Evidence") :]


def test_what_a_record_refuses_stands_out(repo: Repo) -> None:
    minicpm = "pipeline: minicpmo_4_5\nsession_mode: duplex\nstages: [{stage_id: 0, enable_prefix_caching: %s}]\n"
    old = repo.commit(base=minicpm % "false")
    text = comment(repo, old, repo.commit(base=minicpm % "true"))
    assert "1 new value refused" in text
    assert "| `base.yaml` | all | 0 | `enable_prefix_caching` | `false` | `true` | **refused** |" in text


def test_switching_off_is_said_to_be_just_that(repo: Repo) -> None:
    old = repo.commit(base=BASE.replace("false", "true"))
    text = comment(repo, old, repo.commit(base=BASE))
    assert "| `base.yaml` | cuda | 0 | `enable_prefix_caching` | `true` | `false` | off |" in text
    assert "new value" not in text


def test_what_no_longer_compiles_comes_before_everything(repo: Repo) -> None:
    old = repo.commit(a=BASE, base=BASE, derived=DERIVED, gone=BASE, other=BASE + "# x\n")
    (repo.root / "gone.yaml").unlink()
    (repo.root / "other.yaml").unlink()
    new = repo.commit(a=BASE + "model_runner: v2\n", base=BASE + "model_runner: v3\n", dir__moved=BASE + "# x\n")
    lines = comment(repo, old, new).splitlines()
    listed = [line for line in lines if line.startswith("- ")]
    assert listed[0].startswith("- `base.yaml` no longer compiles: OC014 ")
    assert listed[1].startswith("- `derived.yaml` no longer compiles, since `base.yaml` changed: OC014 ")
    assert any(line.startswith("- `a.yaml` no longer compiles on npu: OC015 ") for line in listed)
    assert any(line == "- `gone.yaml`: removed" for line in listed)


def test_nothing_that_differs_is_one_line(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    assert comment(repo, old) == (
        f"{MARKER}\n**No profile differs from `{old}` to `the working tree`** (looked at on {', '.join(PLATFORMS)}).\n"
    )


def one(key: str, after: object) -> Grouped:
    return Grouped(Change(0, key, "changed", "x", after, None, None), PLATFORMS, NOTHING)


def many(profiles: int, changes: int, size: int = 1) -> GitDiff:
    found = [
        ProfileDiff(
            f"dir/profile_{number}.yaml",
            "changed",
            ("dir/base.yaml",) if number % 2 else (),
            Comparison(tuple(one(f"key_{position}", "v" * size) for position in range(changes)), ()),
        )
        for number in range(profiles)
    ]
    return GitDiff("main", "HEAD", tuple(found), ())


def test_many_rows_are_folded_away() -> None:
    text = git_diff_markdown(many(10, 10), PLATFORMS)
    assert text.count("<details>") == text.count("</details>") == 2
    assert "<summary>20 more</summary>" in text


@pytest.mark.parametrize(
    ("profiles", "changes", "size"), [(110, 40, 1), (110, 6, 10_000), (5000, 1, 10), (1, 5000, 10)]
)
def test_it_is_never_longer_than_a_comment_may_be(profiles: int, changes: int, size: int) -> None:
    text = git_diff_markdown(many(profiles, changes, size), PLATFORMS)
    assert len(text) < MAX_COMMENT
    if profiles == 110:
        assert text.index("profile_1.yaml") < text.index("profile_0.yaml")
        assert all(f"profile_{number}.yaml" in text for number in range(profiles))


def test_values_are_never_markup() -> None:
    text = comparison_markdown(Comparison((one("a|b", "`@team` <b> | [x](y)\n# z"),), ()), PLATFORMS)
    row = text.splitlines()[2]
    assert "`a\\|b`" in row
    assert '`` "`@team` <b> \\| [x](y)\\n# z" ``' in row
    assert len(text.splitlines()) == 3


def test_credentials_are_hidden() -> None:
    text = comparison_markdown(Comparison((one("runtime.env.HF_TOKEN", "hunter2"),), ()), PLATFORMS)
    assert "hunter2" not in text
