"""The answers of the language server, whatever a document says."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from omnicfg.lsp.outline import Symbol
from omnicfg.lsp.positions import Positions
from omnicfg.lsp.server import line_edits, mark_of
from omnicfg.lsp.session import Session
from tests.conftest import WriteProfile
from tests.fuzz.mutate import mutate

SEEDS = 60


def test_mutated_files_get_answers_at_places_that_exist(upstream_deploy: Path, tmp_path: Path) -> None:
    session = Session()
    for path in upstream_deploy.glob("*.yaml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    files = sorted(tmp_path.glob("*.yaml"))
    for seed in range(SEEDS):
        rng = random.Random(f"lsp {seed}")
        path = files[seed % len(files)]
        text = mutate(path.read_text(encoding="utf-8"), rng)[0].decode("utf-8", "replace")
        session.put(path, text)
        positions = Positions(text)
        for finding, _ in session.check(path):
            start, end = positions.of_mark(mark_of(finding))
            assert start <= end, f"seed {seed}"
        for _ in range(4):
            index = rng.randrange(len(text) + 1)
            place = positions.place(*positions.of_index(index))
            session.hover(path, *place)
            session.definitions(path, *place)
        assert_nested(session.outline(path), positions)
        session.close(path)


def assert_nested(symbols: Iterable[Symbol], positions: Positions) -> None:
    """The protocol: the name of a symbol lies within it."""
    for symbol in symbols:
        (start, end), (first, last) = positions.of_mark(symbol.whole), positions.of_mark(symbol.name_mark)
        assert start <= first <= last <= end
        assert_nested(symbol.children, positions)


def test_edits_of_lines_make_one_text_of_the_other() -> None:
    rng = random.Random(0)
    for _ in range(50):
        before, after = ("".join(rng.choice(("a\n", "b\r\n", "c\n")) for _ in range(rng.randrange(8))) for _ in "ab")
        text = before
        for start, end, new in reversed(line_edits(before, after)):
            text = text[:start] + new + text[end:]
        assert text == after


def test_evidence_and_defaults_are_told(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_omni_moe\nstages:\n  - stage_id: 0\n    enable_prefix_caching: true\n    seed: null\n"
    path, session = profile_file(text), Session()
    session.put(path, text)
    found = session.hover(path, 4, 8)
    assert found is not None
    assert "stage 0 (thinker) is **unvalidated**" in found[0]
    found = session.hover(path, 5, 6)
    assert found is not None
    assert "not set; the default of vLLM 0.32.0 applies: `0`" in found[0]


def test_a_file_that_is_open_by_two_names(profile_file: WriteProfile, tmp_path: Path) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - {stage_id: 0, max_num_seq: 8}\n"
    path, link, session = profile_file(text), tmp_path / "link.yaml", Session()
    link.symlink_to(path)
    for each in (path, link):
        session.put(each, text)
        assert [told.finding.code for told in session.check(each)] == ["OC101"]
    session.close(path)
    assert [told.finding.path for told in session.check(link)] == [str(link)]
    assert session.has_safe_fix(link)
    assert len(session.fixable(link, 4, 4)) == 1


def test_credentials_are_hidden(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    env: {HF_TOKEN: hf_abc}\n"
    path, session = profile_file(text), Session()
    session.put(path, text)
    found = session.hover(path, 4, 12)
    assert found is not None
    assert '"***"' in found[0]
    assert "hf_abc" not in found[0]
