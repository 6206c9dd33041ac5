"""``diff --git``: effective changes between revisions, in real repositories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omnicfg.differences.gitdiff import GitDiff, ProfileDiff, git_diff
from omnicfg.errors import UsageError
from tests.repositories import BASE, DERIVED, PLATFORMS, Repo


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary directories are gone afterwards, whatever happened."""
    scratch = tmp_path.parent / f"{tmp_path.name}-scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    yield
    assert list(scratch.iterdir()) == []


def by_path(found: GitDiff) -> dict[str, ProfileDiff]:
    return {each.path: each for each in found.profiles}


def values(found: ProfileDiff) -> list[tuple[int | None, str, Any, Any, tuple[str, ...]]]:
    assert found.comparison is not None
    return [
        (grouped.change.stage_id, grouped.change.key, grouped.change.before, grouped.change.after, grouped.platforms)
        for grouped in found.comparison.changes
    ]


def test_a_base_flips_what_derives_from_it(repo: Repo) -> None:
    """The review's case: two derived profiles stayed off only because their base was."""
    old = repo.commit(base=BASE, derived=DERIVED, other=BASE)
    new = repo.commit(base=BASE.replace("false", "true"))
    found = by_path(repo.diff(old, new))
    assert set(found) == {"base.yaml", "derived.yaml"}
    assert found["base.yaml"].inherited_from == ()
    assert found["derived.yaml"].inherited_from == ("base.yaml",)
    for each in found.values():
        assert {value[:4] for value in values(each)} == {(0, "enable_prefix_caching", False, True)}
        assert {name for value in values(each) for name in value[4]} == set(PLATFORMS)


def test_what_a_derived_profile_sets_itself_does_not_change(repo: Repo) -> None:
    own = DERIVED + "stages:\n  - {stage_id: 0, enable_prefix_caching: false}\n"
    old = repo.commit(base=BASE, derived=own)
    new = repo.commit(base=BASE.replace("false", "true"))
    assert set(by_path(repo.diff(old, new))) == {"base.yaml"}


def test_a_change_that_changes_nothing_is_none(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    new = repo.commit(base="# a comment\n" + BASE.replace("max_num_seqs: 8}", "max_num_seqs: 0x8}"))
    assert repo.diff(old, new).profiles == ()


def test_a_platform_block_changes_its_platform_only(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    block = "platforms:\n  npu:\n    stages:\n      - {stage_id: 0, max_num_seqs: 2}\n"
    new = repo.commit(base=BASE + block)
    assert values(repo.diff(old, new).profiles[0]) == [(0, "max_num_seqs", 8, 2, ("npu",))]


def test_the_record_of_the_model_speaks_of_a_new_prefix_cache(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    new = repo.commit(base=BASE.replace("false", "true"))
    comparison = repo.diff(old, new).profiles[0].comparison
    assert comparison is not None
    verdicts = {grouped.platforms: (grouped.evidence or "").partition(":")[0] for grouped in comparison.changes}
    assert verdicts == {("cuda",): "validated", PLATFORMS[1:]: "unvalidated"}


def test_a_revision_against_the_working_tree(repo: Repo) -> None:
    repo.commit(base=BASE)
    (repo.root / ".gitignore").write_text("ignored.yaml\n")
    repo.write(base=BASE.replace("8", "4"), untracked=BASE, ignored=BASE)
    found = repo.diff("HEAD")
    assert found.after == "the working tree"
    assert {path: each.status for path, each in by_path(found).items()} == {
        "base.yaml": "changed",
        "untracked.yaml": "added",
    }


def test_new_removed_broken_and_repaired(repo: Repo) -> None:
    old = repo.commit(gone=BASE, breaks=BASE, heals="pipeline: [\n", never="pipeline: [\n", same=BASE)
    (repo.root / "gone.yaml").unlink()
    new = repo.commit(
        breaks="pipeline: qwen3_omni_mo\n",
        heals=BASE,
        never="pipeline: {\n",
        new="pipeline: qwen3_tts\nasync_chunk: false\n",
    )
    found = repo.diff(old, new)
    assert {path: each.status for path, each in by_path(found).items()} == {
        "gone.yaml": "removed",
        "breaks.yaml": "broken",
        "heals.yaml": "repaired",
        "new.yaml": "added",
    }
    assert by_path(found)["breaks.yaml"].reasons[0].name == "unknown-pipeline"
    assert by_path(found)["breaks.yaml"].reasons[0].path == "breaks.yaml"
    ((path, reasons),) = [(each.path, each.reasons) for each in found.never_compiled]
    assert (path, [(each.path, each.code) for each in reasons]) == ("never.yaml", [("never.yaml", "OC002")])


def test_a_file_that_was_renamed_is_compared_with_itself(repo: Repo) -> None:
    old = repo.commit(old=BASE + "# \n" * 20, other=BASE)
    (repo.root / "old.yaml").unlink()
    new = repo.commit(dir__new=BASE.replace("8", "4") + "# \n" * 20)
    each = by_path(repo.diff(old, new))["dir/new.yaml"]
    assert (each.status, each.renamed_from, each.inherited_from) == ("changed", "old.yaml", ())
    assert {value[1:4] for value in values(each)} == {("max_num_seqs", 8, 4)}
    assert each.to_dict()["renamed_from"] == "old.yaml"
    for paths in (("old.yaml",), ("dir",)):
        assert set(by_path(repo.diff(old, new, paths=paths))) == {"dir/new.yaml"}


def test_a_rename_alone_is_no_difference(repo: Repo) -> None:
    old = repo.commit(base=BASE, derived=DERIVED)
    (repo.root / "derived.yaml").rename(repo.root / "renamed.yaml")
    assert repo.diff(old).profiles == ()  # not even tracked yet
    assert repo.diff(old, repo.commit()).profiles == ()


def test_a_base_that_was_renamed_and_changed_is_what_was_inherited_from(repo: Repo) -> None:
    old = repo.commit(base=BASE + "# \n" * 20, derived=DERIVED)
    (repo.root / "base.yaml").unlink()
    (repo.root / "derived.yaml").unlink()
    new = repo.commit(dir__base=BASE.replace("8", "4") + "# \n" * 20, dir__derived=DERIVED)
    each = by_path(repo.diff(old, new))["dir/derived.yaml"]
    assert (each.renamed_from, each.inherited_from) == ("derived.yaml", ("dir/base.yaml",))


def test_a_base_that_is_gone_breaks_what_derives_from_it(repo: Repo) -> None:
    old = repo.commit(base=BASE, derived=DERIVED)
    (repo.root / "base.yaml").unlink()
    found = by_path(repo.diff(old, repo.commit()))
    assert (found["base.yaml"].status, found["derived.yaml"].status) == ("removed", "broken")
    assert found["derived.yaml"].reasons[0].name == "bad-base"


def test_what_no_longer_compiles_on_one_platform_is_a_change_there(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    new = repo.commit(base=BASE + "model_runner: v2\n")
    each = repo.diff(old, new).profiles[0]
    assert each.status == "changed"
    assert each.comparison is not None
    refused = each.comparison.refused
    assert [(entry.platforms, entry.side) for entry in refused] == [(("npu",), "after"), (("xpu",), "after")]
    assert refused[0].diagnostics[0].name == "runner-on-platform"


def test_paths_limit_what_is_compared_but_not_what_is_read(repo: Repo) -> None:
    nested = "base_config: ../base.yaml\npipeline: qwen3_omni_moe\n"
    old = repo.commit(base=BASE, dir__derived=nested, dir__other=nested)
    new = repo.commit(base=BASE.replace("8", "4"))
    assert set(by_path(repo.diff(old, new, paths=("dir/derived.yaml",)))) == {"dir/derived.yaml"}
    assert set(by_path(repo.diff(old, new, paths=("dir",)))) == {"dir/derived.yaml", "dir/other.yaml"}
    inside = git_diff(old, new, ["derived.yaml"], platforms=PLATFORMS, directory=repo.root / "dir")
    assert set(by_path(inside)) == {"dir/derived.yaml"}


def test_files_that_archives_leave_out_are_compared(repo: Repo) -> None:
    (repo.root / ".gitattributes").write_text("*.yaml export-ignore\n")
    old = repo.commit(base=BASE)
    new = repo.commit(base=BASE.replace("8", "4"))
    assert set(by_path(repo.diff(old, new))) == {"base.yaml"}


def test_links_inside_are_followed_and_links_that_lead_out_are_not(repo: Repo, tmp_path: Path) -> None:
    (tmp_path.parent / "outside.yaml").write_text(BASE)
    repo.write(base=BASE)
    (repo.root / "link.yaml").symlink_to("base.yaml")
    (repo.root / "out.yaml").symlink_to("../outside.yaml")
    (repo.root / "absolute.yaml").symlink_to(tmp_path.parent / "outside.yaml")
    (repo.root / "itself.yaml").symlink_to("itself.yaml")
    (repo.root / "here").symlink_to(".")
    old = repo.commit()
    new = repo.commit(base=BASE.replace("8", "4"))
    found = by_path(repo.diff(old, new))
    assert set(found) == {"base.yaml", "link.yaml"}


def test_odd_names_are_only_names(repo: Repo) -> None:
    name = "--output=x\n名 'a\".yaml"
    (repo.root / name).write_text(BASE)
    old = repo.commit()
    (repo.root / name).write_text(BASE.replace("8", "4"))
    assert set(by_path(repo.diff(old, repo.commit()))) == {name}
    assert set(by_path(repo.diff(old, paths=(f"./{name}",)))) == {name}


@pytest.mark.parametrize(
    ("words", "paths", "message"),
    [
        (("nosuch",), (), "git knows no revision `nosuch`"),
        (("--all",), (), "git knows no revision `--all`"),
        (("-",), (), "git knows no revision `-`"),
        (("HEAD:base.yaml",), (), "git knows no revision `HEAD:base.yaml`"),
        (("HEAD", "nosuch"), (), "git knows no revision `nosuch`"),
        (("HEAD",), ("nosuch",), "`nosuch` holds no YAML file in either state"),
        (("HEAD",), ("../outside",), "lies outside the repository"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    repo: Repo, words: tuple[str, ...], paths: tuple[str, ...], message: str
) -> None:
    repo.commit(base=BASE)
    with pytest.raises(UsageError) as caught:
        repo.diff(*words, paths=paths)
    assert message in str(caught.value)


def test_a_second_revision_that_git_does_not_know_is_taken_for_a_path_and_told_so(repo: Repo) -> None:
    repo.commit(base=BASE)
    with pytest.raises(UsageError) as caught:
        repo.diff("HEAD", paths=("HEAD~9",))
    hint = "Name a path of the repository; a revision that git knows comes before the paths."
    assert caught.value.diagnostics[0].help == hint


def test_outside_of_a_repository(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no git repository here"):
        git_diff("HEAD", platforms=PLATFORMS, directory=tmp_path)


def test_without_git(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    repo.commit(base=BASE)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="`git` is not installed"):
        repo.diff("HEAD")


def test_the_json_form_says_what_was_inherited(repo: Repo) -> None:
    old = repo.commit(base=BASE, derived=DERIVED)
    found = by_path(repo.diff(old, repo.commit(base=BASE.replace("8", "4"))))
    data = found["derived.yaml"].to_dict()
    assert (data["status"], data["by_inheritance"], data["inherited_from"]) == ("changed", True, ["base.yaml"])
    assert data["changes"][0]["platforms"] == list(PLATFORMS)
    assert data["changes"][0]["after_origin"] == "base, base.yaml:3:63"


def changed(found: GitDiff) -> dict[str, tuple[str, ...]]:
    """What each profile that differs in its values inherited that from."""
    assert {each.status for each in found.profiles} <= {"changed"}
    assert found.never_compiled == ()
    return {each.path: each.inherited_from for each in found.profiles}


def test_a_base_behind_a_linked_directory_is_that_of_the_revision(repo: Repo) -> None:
    (repo.root / "shared").symlink_to("common")
    old = repo.commit(common__base=BASE, derived=DERIVED.replace("base.yaml", "shared/base.yaml"))
    assert changed(repo.diff(old)) == {}
    new = repo.commit(common__base=BASE.replace("8", "4"))
    expected = {"common/base.yaml": (), "derived.yaml": ("shared/base.yaml",)}
    assert changed(repo.diff(old, new)) == changed(repo.diff(old)) == expected


@pytest.mark.parametrize("spelling", ["{0}/base.yaml", "{0}/../{0.name}/base.yaml", "../{0.name}/base.yaml"])
def test_a_base_by_its_full_path_is_that_of_the_revision(repo: Repo, spelling: str) -> None:
    old = repo.commit(base=BASE, derived=DERIVED.replace("base.yaml", spelling.format(repo.root)))
    new = repo.commit(base=BASE.replace("8", "4"))
    for found in (repo.diff(old, new), repo.diff(old)):
        assert set(changed(found)) == {"base.yaml", "derived.yaml"}
        assert values(by_path(found)["derived.yaml"])[0][:4] == (0, "max_num_seqs", 8, 4)
    assert changed(repo.diff(new)) == {}


def test_a_base_outside_is_the_same_for_every_revision(repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.yaml"
    outside.write_text(BASE)
    old = repo.commit(derived=DERIVED.replace("base.yaml", f"../{outside.name}"))
    assert changed(repo.diff(old)) == {}
    new = repo.commit(derived=DERIVED.replace("base.yaml", f"../{outside.name}") + "async_chunk: false\n")
    assert set(changed(repo.diff(old, new))) == set(changed(repo.diff(old))) == {"derived.yaml"}


def test_a_base_in_json_is_that_of_the_revision(repo: Repo) -> None:
    text = '{"pipeline": "qwen3_omni_moe", "stages": [{"stage_id": 0, "max_num_seqs": 8}]}'
    (repo.root / "base.json").write_text(text)
    old = repo.commit(derived=DERIVED.replace(".yaml", ".json"))
    (repo.root / "base.json").write_text(text.replace("8", "4"))
    assert changed(repo.diff(old, repo.commit())) == changed(repo.diff(old)) == {"derived.yaml": ("base.json",)}


def test_a_base_in_a_submodule_is_that_of_the_revision(repo: Repo, tmp_path_factory: pytest.TempPathFactory) -> None:
    upstream = Repo(tmp_path_factory.mktemp("upstream"))
    upstream.commit(base=BASE)
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(upstream.root), "vendor")
    old = repo.commit(derived=DERIVED.replace("base.yaml", "vendor/base.yaml"))
    assert changed(repo.diff(old)) == {}
    Repo(repo.root / "vendor").commit(base=BASE.replace("8", "4"))
    new = repo.commit()
    assert changed(repo.diff(old, new)) == changed(repo.diff(old)) == {"derived.yaml": ("vendor/base.yaml",)}


def test_in_a_hook_a_submodule_is_still_read(
    repo: Repo, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git tells a hook by its environment where the repository is, which is wrong for the submodule."""
    upstream = Repo(tmp_path_factory.mktemp("upstream"))
    upstream.commit(base=BASE)
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(upstream.root), "vendor")
    old = repo.commit(derived=DERIVED.replace("base.yaml", "vendor/base.yaml"))
    monkeypatch.setenv("GIT_DIR", str(repo.root / ".git"))
    assert changed(repo.diff(old)) == {}


def test_a_hook_that_went_to_a_subdirectory(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what the environment says of the repository, git concludes that its top is here."""
    old = repo.commit(in__one=BASE)
    monkeypatch.setenv("GIT_DIR", str(repo.root / ".git"))
    assert git_diff(old, platforms=PLATFORMS, directory=repo.root / "in").profiles == ()
    repo.write(in__one=BASE.replace("8", "4"))
    assert set(changed(git_diff(old, platforms=PLATFORMS, directory=repo.root / "in"))) == {"in/one.yaml"}


def test_what_a_sparse_checkout_leaves_out_is_not_removed(repo: Repo) -> None:
    old = repo.commit(in__one=BASE, out__two=BASE)
    repo.git("sparse-checkout", "set", "in")
    assert changed(repo.diff(old)) == {}
    repo.write(in__one=BASE.replace("8", "4"))
    assert set(changed(repo.diff(old))) == {"in/one.yaml"}


def test_a_link_that_leads_out_is_not_new_either(repo: Repo, tmp_path: Path) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-outside.yaml"
    outside.write_text(BASE)
    (repo.root / "out.yaml").symlink_to(outside)
    assert repo.diff(repo.commit(base=BASE)).profiles == ()


def test_a_commit_is_found_by_its_message(repo: Repo) -> None:
    repo.commit(base=BASE)
    assert repo.diff(":/x").profiles == ()


def test_a_revision_that_a_shallow_clone_lacks(repo: Repo, tmp_path: Path) -> None:
    repo.commit(base=BASE)
    repo.commit(base=BASE.replace("8", "4"))
    repo.git("clone", "-q", "--depth", "1", f"file://{repo.root}", str(tmp_path / "clone"))
    with pytest.raises(UsageError) as caught:
        git_diff("HEAD^1", "HEAD", platforms=PLATFORMS, directory=tmp_path / "clone")
    assert "`git fetch --unshallow`" in (caught.value.diagnostics[0].help or "")


def test_a_range_is_written_apart(repo: Repo) -> None:
    repo.commit(base=BASE)
    for words, help_text in (("HEAD..HEAD", "`--git HEAD HEAD`"), ("HEAD...HEAD", "$(git merge-base HEAD HEAD)")):
        with pytest.raises(UsageError) as caught:
            repo.diff(words)
        assert help_text in (caught.value.diagnostics[0].help or "")


def test_a_repository_of_somebody_else(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that a checkout is mounted into: git says how to trust it."""
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    with pytest.raises(UsageError, match="detected dubious ownership") as caught:
        repo.diff("HEAD")
    assert f"`git config --global --add safe.directory {repo.root}`" in (caught.value.diagnostics[0].help or "")
