"""``omnicfg report``."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from omnicfg.report.html import findings, matrix
from tests.commands.conftest import Run
from tests.commands.test_validate import BAD, GOOD
from tests.conftest import WriteProfile
from tests.repositories import BASE, DERIVED, Repo

OPEN = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n    enable_prefix_caching: false\n"
HOSTILE = "</script><img src=x onerror=alert(1)>"


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found[1])


def body_of(page: str) -> str:
    """The page without style, script and data."""
    return re.sub(r"<(style|script)\b.*?</\1>", "", page, flags=re.S)


def test_the_file_holds_values_and_findings(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    path, out = profile_file(BAD), tmp_path / "report.html"
    result = run("report", path, "--out", out)
    assert (result.code, result.out) == (1, "")
    assert result.err == f"1 error in 1 profile; 1 can be fixed with `--fix`. Written to {out}.\n"
    page = out.read_text(encoding="utf-8")
    assert page.startswith('<!doctype html>\n<html lang="en">')
    assert "unknown key <code>max_num_seq</code> in stage 0" in body_of(page)
    (profile,) = data_of(page)["profiles"]
    assert (profile["name"], profile["pipeline"]) == (str(path), "qwen3_tts")
    assert [block[0] for block in profile["blocks"]] == [-1, 0, 1]


def test_clean_profiles_are_no_failure(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = run("report", profile_file(GOOD), "--out", out)
    assert (result.code, "No findings in 1 profile." in result.err) == (0, True)
    assert "No findings." in out.read_text(encoding="utf-8")
    warning = run("report", "minicpmo_4_5_turn_mrv2", "--out", out, "--fail-on", "warning")
    assert warning.code == 1


def test_the_same_profiles_give_the_same_bytes(run: Run, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        run("report", "minicpmo_4_5_turn", "qwen3_tts", "--out", tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_a_directory_without_profiles(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    result = run("report", tmp_path, "--out", out)
    assert (result.code, result.err.startswith("No profiles found")) == (0, True)
    page = out.read_text(encoding="utf-8")
    assert "No profiles found" in page
    assert data_of(page)["profiles"] == []


def test_a_broken_profile_among_good_ones(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    good, broken = profile_file(GOOD, "good.yaml"), profile_file("stages: [\n", "broken.yaml")
    out = tmp_path / "report.html"
    assert run("report", good, broken, "--out", out).code == 1
    first, second = data_of(out.read_text(encoding="utf-8"))["profiles"]
    assert len(first["blocks"]) == 3
    assert second["blocks"] == []
    assert second["refused"]["cuda"].startswith("OC002 ")


def test_what_changes_from_a_revision(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Repo(tmp_path)
    repo.commit(base=BASE, derived=DERIVED)
    repo.write(base=BASE.replace("false", "true"))
    monkeypatch.chdir(tmp_path)
    result = run("report", "--git", "main", "--out", "report.html")
    assert "2 profiles differ from main to the working tree." in result.err
    assert result.code == run("validate").code
    page = Path("report.html").read_text(encoding="utf-8")
    text = body_of(page)
    assert text.index("What changes") < text.index("Findings</h2>") < text.index("Values</h2>")
    assert "only by inheritance, from base.yaml" in text
    assert "<del><code>false</code></del>" in text
    assert "<ins><code>true</code></ins>" in text
    base, derived = data_of(page)["profiles"]
    everywhere = list(range(5))
    assert [0, "enable_prefix_caching", everywhere, "false"] in [
        [stage, key, sorted({*platforms}), before] for stage, key, platforms, before in merged(derived)
    ]
    assert base["change"]["status"] == "changed"


def merged(profile: dict[str, Any]) -> list[list[Any]]:
    """The changes of a profile; those of one key that differ by what is known of them brought together."""
    found: dict[tuple[int, str, str], list[int]] = {}
    for stage, key, platforms, before in profile["change"]["settings"]:
        found.setdefault((stage, key, before), []).extend(platforms)
    return [[stage, key, platforms, before] for (stage, key, before), platforms in found.items()]


def test_what_is_configured_counts(
    run: Run, profile_file: WriteProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile_file(BAD)
    (tmp_path / "omnicfg.toml").write_text('platforms = ["npu"]\n[rules]\nOC101 = "off"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert run("report", "--out", "report.html").code == 0
    assert data_of(Path("report.html").read_text(encoding="utf-8"))["platforms"] == ["npu"]
    assert run("report", "--out", "report.html", "--no-config").code == 1


def test_defaults_of_vllm_are_filled_in_where_they_are_asked_for(
    run: Run, profile_file: WriteProfile, tmp_path: Path
) -> None:
    path, out = profile_file(GOOD), tmp_path / "report.html"
    run("report", path, "--out", out)
    assert "vllm default" not in data_of(out.read_text(encoding="utf-8"))["texts"]
    run("report", path, "--out", out, "--effective")
    assert "vllm default" in data_of(out.read_text(encoding="utf-8"))["texts"]


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("folder", "`folder` is a directory"),
        ("missing/report.html", "there is no directory `missing`"),
        ("profile.yaml", "by its name it is a profile"),
    ],
)
def test_what_cannot_be_written_is_told_before_anything_is_done(
    run: Run, profile_file: WriteProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    profile_file(GOOD)
    (tmp_path / "folder").mkdir()
    before = sorted(tmp_path.rglob("*"))
    result = run("report", "--out", target)
    assert (result.code, result.out) == (2, "")
    assert told in result.err
    assert sorted(tmp_path.rglob("*")) == before
    assert Path("profile.yaml").read_text(encoding="utf-8") == GOOD


def test_a_file_has_to_be_named(run: Run) -> None:
    result = run("report", "qwen3_tts")
    assert (result.code, "--out is missing" in result.err) == (2, True)


def test_a_report_that_fails_leaves_the_old_one(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    out.write_text("old", encoding="utf-8")
    assert run("report", profile_file(GOOD), "--out", out, "--git", "main").code == 2  # no repository
    assert run("report", tmp_path / "missing.yaml", "--out", out).code == 2
    assert out.read_text(encoding="utf-8") == "old"
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_what_a_profile_says_stays_text(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    path = profile_file(
        f"{OPEN}    '{HOSTILE}': '{HOSTILE}'\nconnectors: {{'{HOSTILE}': {{name: '{HOSTILE}'}}}}\n"
        f"'{HOSTILE}': 1\nplatforms: {{'{HOSTILE}': {{}}}}\n",
        "a<b>&.yaml",
    )
    out = tmp_path / "report.html"
    run("report", path, "--out", out)
    page = out.read_text(encoding="utf-8")
    assert "<img" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert HOSTILE in data_of(page)["texts"]


def test_secrets_stand_nowhere(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repo = Repo(tmp_path)
    token = "hf_" + "B" * 34
    before = "    secrets: {deep: {first: secret-1}}\n    args: [--api-key, secret-1]\n"
    repo.commit(profile=f"{OPEN}    api_key: old-secret-1\n    hf_token: {token}\n{before}")
    after = before.replace("secret-1", "other-secret-1")
    repo.write(profile=f"{OPEN}    api_key: secret-1\n    hf_token: 5\n    url: https://me:pass-word-1@host\n{after}")
    monkeypatch.chdir(tmp_path)
    run("report", "--git", "HEAD", "--out", "report.html")
    page = Path("report.html").read_text(encoding="utf-8")
    assert {"api_key", "secrets.deep.first", "args"} <= {
        text.rpartition("extras.")[2] for text in data_of(page)["texts"]
    }
    assert not re.search(f"secret-1|pass-word-1|{token}", page)


def test_names_and_values_of_any_kind(run: Run, profile_file: WriteProfile, tmp_path: Path) -> None:
    key = "k" * 250
    text = f"{OPEN}    {key}: Größe 音声 🎧\n    empty: ''\n    nothing: null\n    many: {list(range(2000))}\n"
    path = profile_file(text, "profil-ü-音.yaml")
    out = tmp_path / "report.html"
    run("report", path, "--out", out)
    data = data_of(out.read_text(encoding="utf-8"))
    assert any("Größe 音声" in each for each in data["texts"])
    assert any(each.endswith(key) for each in data["texts"])
    assert max(map(len, data["texts"])) < 2100


@pytest.mark.skipif(sys.platform == "darwin", reason="names there are always Unicode")
def test_a_name_that_is_no_text(run: Run, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.yaml"
    with open(path, "w") as stream:  # noqa: PTH123  # bytes
        stream.write(GOOD)
    out = tmp_path / "report.html"
    assert run("report", tmp_path, "--out", out).code == 0
    assert "caf\\udce9.yaml" in data_of(out.read_text(encoding="utf-8"))["profiles"][0]["name"]


def test_a_report_has_an_end(
    run: Run, profile_file: WriteProfile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "MAX_BYTES", 3000)
    monkeypatch.setattr(findings, "MAX_FINDINGS", 2)
    for name in ("a", "b", "c"):
        profile_file(f"{OPEN}    {name}: 1\n    {name}{name}: 1\n", f"{name}.yaml")
    out = tmp_path / "report.html"
    assert run("report", tmp_path, "--out", out).code == 1
    page = out.read_text(encoding="utf-8")
    assert [each["left_out"] for each in data_of(page)["profiles"]] == [False, True, True]
    assert "4 more are not shown" in page
    assert page.count('class="finding error"') == 2
