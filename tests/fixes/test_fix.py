"""``omnicfg.fixes.fix``: every byte that no finding speaks of stays, and what is written is clean."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic, Edit, Fix, Severity
from omnicfg.errors import UsageError
from omnicfg.fixes.fix import Mended, mend, named_files
from omnicfg.passes.read import load_text
from omnicfg.tree import Mark
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"


def mended(*paths: Path, unsafe: bool = False) -> Mended:
    return mend(lambda: omnicfg.validate(paths), named_files(paths), unsafe=unsafe)


def after(path: Path, *, unsafe: bool = False) -> str:
    """The text of a profile with its fixes; as it is, where there is none."""
    changes = mended(path, unsafe=unsafe).changes
    return changes[0].after if changes else path.read_bytes().decode()


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            "stages:\n  - stage_id: 0\n    max_num_seq: 8  # all of it\n",
            "stages:\n  - stage_id: 0\n    max_num_seqs: 8  # all of it\n",
            id="a misspelt key",
        ),
        pytest.param(
            "stages: [{stage_id: 0, 'max_num_seq': 8}]\n",
            "stages: [{stage_id: 0, 'max_num_seqs': 8}]\n",
            id="a misspelt key in quotes, in braces",
        ),
        pytest.param(
            'stages: [{"stage_id":0,"max_num_seq":"8"}]\n',
            'stages: [{"stage_id":0,"max_num_seqs":8}]\n',
            id="JSON without a space",
        ),
        pytest.param(
            "stages:\n  - stage_id: '0'\n    max_num_seqs: \"8\"\n    enforce_eager: 'Yes'\n",
            "stages:\n  - stage_id: 0\n    max_num_seqs: 8\n    enforce_eager: true\n",
            id="quotes",
        ),
        pytest.param(
            "stages:\n  - stage_id: 0\n    gpu_memory_utilization: '0.5'\n    devices: 0\n",
            'stages:\n  - stage_id: 0\n    gpu_memory_utilization: 0.5\n    devices: "0"\n',
            id="numbers",
        ),
        pytest.param(
            "stages:\n  - {stage_id: 0, max_num_seqs: 8.0}\n",
            "stages:\n  - {stage_id: 0, max_num_seqs: 8}\n",
            id="a whole number with a point",
        ),
        pytest.param(
            "stages:\n  - stage_id: 0\nplatforms:\n  NPU:\n    stages: [{stage_id: 0, max_num_seq: 1}]\n",
            "stages:\n  - stage_id: 0\nplatforms:\n  npu:\n    stages: [{stage_id: 0, max_num_seqs: 1}]\n",
            id="a platform, and then what stands in its block",
        ),
        pytest.param(
            "stagse:\n  - stage_id: 0\n    max_num_seqs: '8'\n",
            "stages:\n  - stage_id: 0\n    max_num_seqs: 8\n",
            id="a fix that shows the next finding",
        ),
    ],
)
def test_what_is_clearly_meant_is_written(profile_file: WriteProfile, before: str, expected: str) -> None:
    path = profile_file(HEAD + before)
    assert after(path) == HEAD + expected
    assert [finding for finding in omnicfg.validate(profile_file(HEAD + expected)) if finding.code < "OC300"] == []


EXTRA = HEAD + "connectors:\n  shm:\n    name: SharedMemoryConnector\n"
USED = "stages:\n  - stage_id: 1\n    input_connectors: {from_stage_0: shm}\n"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            "    extra:\n      zzz: 0.01  # relic\n      codec_chunk_frames: 25\n",
            "    extra:\n      codec_chunk_frames: 25\n",
            id="with the comment beside it",
        ),
        pytest.param(
            "    extra:\n      codec_chunk_frames: 25\n\n      # relic\n      # of old\n      zzz:\n        - 1\n\n",
            "    extra:\n      codec_chunk_frames: 25\n\n\n",
            id="with the comments over it",
        ),
        pytest.param(
            "    extra:\n      # both\n      zzz: 0.01\n      codec_chunk_frames: 25\n",
            "    extra:\n      # both\n      codec_chunk_frames: 25\n",
            id="a comment that speaks of the next key too",
        ),
        pytest.param(
            "    extra:\n      zzz: |\n        a\n\n        # text\n      # comment\n      codec_chunk_frames: 25\n",
            "    extra:\n      # comment\n      codec_chunk_frames: 25\n",
            id="a block of text",
        ),
        pytest.param(
            "    extra:\n      zzz:\n        a: {b: [1,\n         2]}\n        c:\n        - d: 1\n"
            "      codec_chunk_frames: 25\n",
            "    extra:\n      codec_chunk_frames: 25\n",
            id="a nested value",
        ),
        pytest.param(
            "    extra: {zzz: 1, codec_chunk_frames: 25}\n",
            "    extra: {codec_chunk_frames: 25}\n",
            id="first in braces",
        ),
        pytest.param(
            "    extra: {codec_chunk_frames: 25, zzz: [1, 2]}\n",
            "    extra: {codec_chunk_frames: 25}\n",
            id="last in braces",
        ),
        pytest.param(
            "    extra: {\n      codec_chunk_frames: 25,\n      zzz: 1\n    }\n",
            "    extra: {\n      codec_chunk_frames: 25\n    }\n",
            id="braces over lines",
        ),
        pytest.param(
            "    extra: {yyy: 1, codec_chunk_frames: 25, xxx: 2, zzz: 3}\n",
            "    extra: {codec_chunk_frames: 25}\n",
            id="several",
        ),
        pytest.param(
            "    extra:  # old\n      # relics\n      yyy: 1\n\n      # one more\n      zzz: 2\n",
            "    extra: {}  # old\n",
            id="all there is",
        ),
        pytest.param("    extra: {yyy: 1, zzz: 2}\n", "    extra: {}\n", id="all there is in braces"),
    ],
)
def test_a_dead_key_goes_with_all_that_is_its_own_and_nothing_else(
    profile_file: WriteProfile, before: str, expected: str
) -> None:
    path = profile_file(EXTRA + before + USED)
    assert after(path) == EXTRA + expected + USED


def test_what_a_file_begins_with_stays(profile_file: WriteProfile) -> None:
    path = profile_file("# ours\n# only ours\nunheard_of_key: 1\n\n" + HEAD)
    assert after(path, unsafe=True) == "# ours\n# only ours\n\n" + HEAD


def test_a_key_behind_the_dash_leaves_its_place_to_the_next(profile_file: WriteProfile) -> None:
    path = profile_file(HEAD + "edges:\n  - zzz: 1\n    from: 0\n    to: 1\n")
    assert after(path) == HEAD + "edges:\n  - from: 0\n    to: 1\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("stages:\n  - stage_id: 0\n    max_num_seqs: 4\n    max_num_seq: 8\n", id="the name is taken"),
        pytest.param(
            "stages:\n  - stage_id: 0\n    max_num_seq: 8\n    engine_args: {max_num_seqs: 4}\n",
            id="taken in another spelling",
        ),
        pytest.param("stages:\n  - stage_id: 0\n    max_num_seq: [8]\n", id="the value fits no such key"),
        pytest.param("stages:\n  - stage_id: 0\n    max_model_length: 8\n", id="more than a slip"),
        pytest.param("stages:\n  - stage_id: 0\n  - stage_id: '0'\n", id="the stage has an entry"),
        pytest.param(
            "stages:\n  - stage_id: 0\n    max_num_seqs: '010'\n", id="readers of YAML disagree on the number"
        ),
        pytest.param("stages:\n  - stage_id: 0\n    max_num_seqs: &n '8'\n", id="an anchor"),
        pytest.param("stages:\n  - stage_id: 0\n    max_num_seqs: !!str 8\n", id="a tag"),
        pytest.param("stages:\n  - stage_id: 0\n    max_num_seqs: |-\n      8\n", id="a block of text"),
        pytest.param(
            "stages:\n  - stage_id: 0\n    max_num_seqs: '${oc.env:OMNICFG_TEST_UNSET,8}'\n", id="an expression"
        ),
        pytest.param(
            "stages:\n  - &first\n    stage_id: 0\n    max_num_seq: 8\n  - <<: *first\n    stage_id: 1\n",
            id="a merge key",
        ),
        pytest.param(
            "stages:\n  - stage_id: 0\n    max_num_seq: 8\n  - *y\n",
            id="no YAML",
        ),
    ],
)
def test_what_is_not_clear_is_left_alone(profile_file: WriteProfile, text: str) -> None:
    path = profile_file(HEAD + text)
    assert omnicfg.validate(path)
    assert mended(path).changes == ()


def test_a_merge_key_is_not_emptied(profile_file: WriteProfile) -> None:
    path = profile_file(HEAD + "<<:\n  unheard_of_key: 1\n")
    assert mended(path, unsafe=True).changes == ()


def test_beside_an_alias_the_rest_is_mended(profile_file: WriteProfile) -> None:
    text = (
        HEAD + "stages:\n  - stage_id: 0\n    devices: &d '0'\n    max_num_seq: 8\n  - stage_id: 1\n    devices: *d\n"
    )
    assert after(profile_file(text)) == text.replace("max_num_seq:", "max_num_seqs:")


@pytest.mark.parametrize("text", ["\ufeff{}", "# größer 音声 🎵\n{}", "#\t\n{}# no line feed"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_bytes_stay_as_they_are(tmp_path: Path, text: str, end: str) -> None:
    before = text.format(HEAD + "stages:\n  - {stage_id: '0', env: {A: '音🎵'}, max_num_seq: \"8\"}\t # ö\n").replace(
        "\n", end
    )
    path = tmp_path / "profile.yaml"
    path.write_bytes(before.encode())
    expected = before.replace("'0'", "0").replace("max_num_seq:", "max_num_seqs:").replace('"8"', "8")
    assert after(path) == expected
    mended(path).write()
    assert path.read_bytes() == expected.encode()


def test_a_key_at_the_end_of_a_file_without_a_line_feed(profile_file: WriteProfile) -> None:
    path = profile_file(HEAD + "edges:\n  - from: 0\n    to: 1\n    zzz: 1")
    assert after(path) == HEAD + "edges:\n  - from: 0\n    to: 1\n"


def test_unsafe_fixes_only_where_they_are_asked_for(profile_file: WriteProfile) -> None:
    text = HEAD + "session_mode: duplex\nunheard_of_key: 1\nstages:\n  - stage_id: 0\n"
    path = profile_file(text)
    assert mended(path).changes == ()
    assert after(path, unsafe=True) == text.replace("duplex", "turn").replace("unheard_of_key: 1\n", "")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        pytest.param(
            "pipeline: cosyvoice3\nmodel_runner: v2\n", "pipeline: cosyvoice3\nmodel_runner: v1\n", id="a runner"
        ),
        pytest.param(
            "pipeline: qwen3_omni_moe\nsession_mode: duplex\nstages: [{stage_id: 0, enable_prefix_caching: true}]\n",
            "pipeline: qwen3_omni_moe\nsession_mode: duplex\nstages: [{stage_id: 0, enable_prefix_caching: false}]\n",
            id="a prefix cache that is broken",
        ),
        pytest.param(
            HEAD + "connectors: {ring: {name: X}}\nstages: [{stage_id: 1, input_connectors: {from_stage_0: rings}}]\n",
            HEAD + "connectors: {ring: {name: X}}\nstages: [{stage_id: 1, input_connectors: {from_stage_0: ring}}]\n",
            id="a connector's name",
        ),
        pytest.param(HEAD + "session_mode: 'Turn'\n", HEAD + "session_mode: 'turn'\n", id="a choice, in its quotes"),
        pytest.param(HEAD + "platforms: {gpu: {}}\n", HEAD + "platforms: {cuda: {}}\n", id="a platform's other name"),
        pytest.param(
            HEAD + "stages:\n  - stage_id: 0\n    max_model_length: 8\n",
            HEAD + "stages:\n  - stage_id: 0\n    max_model_len: 8\n",
            id="a key that is only similar",
        ),
    ],
)
def test_what_unsafe_fixes_do(profile_file: WriteProfile, before: str, expected: str) -> None:
    path = profile_file(before)
    assert mended(path).changes == ()
    assert after(path, unsafe=True) == expected


def test_a_prefix_cache_that_is_set_for_all_stages_is_not_switched_off_for_one(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_omni_moe\nsession_mode: duplex\nenable_prefix_caching: true\n")
    assert "OC501" in {finding.code for finding in omnicfg.validate(path)}
    assert mended(path, unsafe=True).changes == ()


def test_a_base_is_changed_only_where_it_is_named(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + "stages:\n  - stage_id: 0\n    max_num_seq: 8\n", "base.yaml")
    path = profile_file("base_config: base.yaml\nstages:\n  - stage_id: '0'\n", "derived.yaml")
    alone = mended(path)
    assert [change.path for change in alone.changes] == [path]
    assert alone.elsewhere == {str(base): 1}
    both = mended(path, base)
    assert {change.path for change in both.changes} == {path, base}
    assert both.elsewhere == {}


def test_of_a_directory_only_what_lies_in_it_is_changed(profile_file: WriteProfile, tmp_path: Path) -> None:
    text = HEAD + "stages:\n  - stage_id: '0'\n"
    outside = profile_file(text, "outside.yaml")
    inside = profile_file(text, "there/inside.yaml")
    (tmp_path / "there" / "link.yaml").symlink_to(outside)
    assert list(named_files([tmp_path / "there"])) == [inside]
    assert list(named_files([tmp_path / "there" / "link.yaml"])) == [tmp_path / "there" / "link.yaml"]


def test_shipped_profiles_are_not_changed() -> None:
    assert list(named_files([Path("qwen3_tts")])) == []


def test_mode_and_link_are_kept(profile_file: WriteProfile, tmp_path: Path) -> None:
    path = profile_file(HEAD + "stages:\n  - stage_id: '0'\n")
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path.name)
    mended(link, path).write()
    assert link.is_symlink()
    assert path.read_text() == HEAD + "stages:\n  - stage_id: 0\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_changed_meanwhile_is_not_written(profile_file: WriteProfile) -> None:
    path = profile_file(HEAD + "stages:\n  - stage_id: '0'\n")
    found = mended(path)
    path.write_text("pipeline: qwen3_tts\n")
    with pytest.raises(UsageError, match="has changed"):
        found.write()
    assert path.read_text() == "pipeline: qwen3_tts\n"


def test_a_file_that_cannot_be_written_is_trouble(profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = profile_file(HEAD + "stages:\n  - stage_id: '0'\n")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everything
    with pytest.raises(UsageError, match="Permission denied"):
        mended(path).write()


class Checker:
    """Findings by what a file says, for fixes that no rule brings."""

    def __init__(self, path: Path, *edits: tuple[str, int, str]) -> None:
        self.path = path
        self.edits = edits
        self.runs = 0

    def __call__(self) -> Sequence[Diagnostic]:
        """One finding for each word that stands in the file at a column: to write another word for it."""
        self.runs += 1
        text = load_text(self.path, str(self.path))
        return [
            Diagnostic("OC101", "word", Severity.ERROR, word, str(self.path), 1, at, fix=self.fix(at, word, new))
            for word, at, new in self.edits
            if text[at - 1 :].startswith(word)
        ]

    def fix(self, at: int, word: str, new: str) -> Fix:
        return Fix(new, (Edit(Mark(str(self.path), 1, at, 1, at + len(word)), new),))


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        pytest.param([("abc", 1, "xyz"), ("d", 4, "w")], "xyzwef", id="that touch: one after the other"),
        pytest.param([("abc", 1, "xbz"), ("bcd", 2, "uvw")], "xbzdef", id="that overlap: the first"),
        pytest.param([("abc", 1, "abcd"), ("def", 4, "d")], "abcd", id="of which one does not mend its finding"),
        pytest.param([("ab", 1, "cd"), ("cd", 1, "ab")], "cdcdef", id="that undo each other"),
    ],
)
def test_fixes(profile_file: WriteProfile, edits: list[tuple[str, int, str]], expected: str) -> None:
    path = profile_file("abcdef")
    check = Checker(path, *edits)
    found = mend(check, [path])
    assert [change.after for change in found.changes] == [expected]
    assert check.runs < 10
