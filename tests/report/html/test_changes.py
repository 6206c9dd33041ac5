"""What changes, as HTML: every way in which a profile can differ, the worst first."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from omnicfg.report.html import changes
from omnicfg.report.html.changes import changes_section
from tests.repositories import BASE, DERIVED, PLATFORMS, Repo


def text(node: Element) -> str:
    return " ".join(" ".join(node.itertext()).split())


def summaries(section: Element) -> list[str]:
    return [text(each) for each in section.iter("summary")]


def test_every_kind_of_difference_is_named_and_the_worst_comes_first(repo: Repo) -> None:
    gone = "pipeline: qwen3_tts\nasync_chunk: false\n"
    fresh = "pipeline: glm_image\nstages: [{stage_id: 0, max_num_seqs: 3}]\n"
    moved = "# so much of it stays that git takes it for the same file\n" * 9
    old = repo.commit(base=BASE, derived=DERIVED, broken=BASE, gone=gone, wrong="stages: [\n", a=BASE + moved)
    for name in ("gone", "a"):
        (repo.root / f"{name}.yaml").unlink()
    turned = BASE.replace("false", "true")
    repo.write(base=turned, broken=BASE + "model_runner: v3\n", new=fresh)
    new = repo.commit(wrong=f"{BASE}# mended\n", b=turned + moved)
    section = changes_section(repo.diff(old, new), PLATFORMS)
    assert summaries(section) == [
        "broken.yaml no longer compiles",
        "derived.yaml changed 2 settings only by inheritance, from base.yaml",
        "b.yaml changed 2 settings renamed from a.yaml",
        "base.yaml changed 2 settings",
        "gone.yaml removed",
        "new.yaml new",
        "wrong.yaml compiles now, did not before",
    ]
    assert "OC" in text(next(section.iter("details")))


def test_a_row_tells_both_values_who_set_them_and_what_is_known(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    new = repo.commit(base=BASE.replace("false", "true").replace(", max_num_seqs: 8", ", max_model_len: 5"))
    rows = [text(row) for row in changes_section(repo.diff(old, new), PLATFORMS).iter("tr")]
    assert any(
        row.startswith(
            "0 enable_prefix_caching false profile, base.yaml:3:42 true profile, base.yaml:3:42 cuda validated:"
        )
        for row in rows
    )
    assert "0 max_num_seqs 8 profile, base.yaml:3:63 not set all" in rows
    assert "0 max_model_len not set 5 profile, base.yaml:3:63 all" in rows


def test_a_platform_that_refuses_is_told(repo: Repo) -> None:
    old = repo.commit(base=BASE)
    section = changes_section(repo.diff(old, repo.commit(base=BASE + "model_runner: v2\n")), PLATFORMS)
    told = text(section)
    assert "No longer compiles on npu: base.yaml:4:15: OC015 Model Runner V2 does not run on this platform" in told
    assert "No longer compiles on xpu:" in told


def test_no_difference_and_too_many(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    old = repo.commit(base=BASE)
    section = changes_section(repo.diff(old), PLATFORMS)
    assert "No profile differs from" in text(section)
    assert summaries(section) == []
    monkeypatch.setattr(changes, "MAX_CHANGES", 1)
    new = repo.commit(base=BASE.replace("8", "9").replace("false", "true"))
    section = changes_section(repo.diff(old, new), PLATFORMS)
    assert "more settings are not shown." in text(section)
    assert len(list(section.iter("tr"))) == 2
