"""``omnicfg lsp`` as an editor meets it: a real client at the other end of the streams."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.conftest import WriteProfile
from tests.lsp.editor import OMNICFG, Editor, applied

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
BASE = (
    HEAD
    + "stages:\n  - stage_id: 0\n    max_num_seqs: 10\n"
    + "platforms:\n  npu:\n    stages: [{stage_id: 0, max_num_seqs: 4}]\n"
)
DERIVED = "base_config: base.yaml\nstages:\n  - stage_id: 0\n    max_num_seqs: 16\n    enable_prefix_caching: false\n"
QUIET = "base_config: base.yaml\nstages:\n  - stage_id: 0\n    enable_prefix_caching: false\n"


@pytest.fixture(scope="module")
def editor() -> Iterator[Editor]:
    with Editor() as running:
        yield running


def told(diagnostics: list[lsp.Diagnostic]) -> list[tuple[str, int, int, int]]:
    """Code, line, first and last character of each diagnostic."""
    return [
        (str(each.code), each.range.start.line, each.range.start.character, each.range.end.character)
        for each in diagnostics
    ]


def test_what_is_typed_is_checked_and_not_what_is_saved(editor: Editor, profile_file: WriteProfile) -> None:
    path = profile_file(BASE)
    assert told(editor.open(path)) == []
    (found,) = editor.type(path, BASE.replace("max_num_seqs: 10", "max_num_seq: 10"))
    assert told([found]) == [("OC101", 4, 4, 15)]
    assert found.message == "unknown key `max_num_seq` in stage 0\nDid you mean `max_num_seqs`?"
    assert (found.severity, found.source) == (lsp.DiagnosticSeverity.Error, "omnicfg")
    assert found.code_description is not None
    assert found.code_description.href.endswith("/rules/OC101.md")
    assert told(editor.type(path, "a: [")) == []
    assert told(editor.type(path, BASE + "x: [")) == [("OC002", 8, 4, 4)]
    assert told(editor.type(path, BASE)) == []


def test_columns_are_counted_as_the_client_counts(profile_file: WriteProfile, editor: Editor) -> None:
    text = HEAD + "stages: [{stage_id: 0, env: {A: '🎵ä'}, max_num_seq: 8}]\n"
    path = profile_file(text)
    line = text.splitlines()[2]
    start = line.index("max_num_seq")
    assert told(editor.open(path)) == [("OC101", 2, start + 1, start + 12)]
    with Editor(["utf-8", "utf-16"]) as other:
        assert other.server.capabilities.position_encoding == "utf-8"
        assert told(other.open(path)) == [("OC101", 2, start + 4, start + 15)]


def test_other_yaml_files_are_left_alone(editor: Editor, profile_file: WriteProfile) -> None:
    path = profile_file("jobs:\n  build: {steps: []}\n", "ci.yaml")
    assert editor.open(path) == []
    assert editor.hover(path, 0, 1) is None
    assert editor.actions(path, 0) == []


def test_a_modeline_makes_a_profile_of_a_file_that_says_little(editor: Editor, profile_file: WriteProfile) -> None:
    text = "sesion_mode: turn\n"
    path = profile_file(text)
    assert editor.open(path) == []
    modeline = "# yaml-language-server: $schema=../schemas/profile.schema.json\n"
    assert "OC101" in [found.code for found in editor.type(path, modeline + text)]


def test_a_base_that_is_typed_changes_what_is_said_of_the_profile(editor: Editor, profile_file: WriteProfile) -> None:
    base, path = profile_file(BASE, "base.yaml"), profile_file(QUIET, "derived.yaml")
    assert editor.open(path) == []
    editor.open(base)
    editor.type(base, BASE.replace("qwen3_tts", "qwen3_ttx"))
    (found,) = editor.until(path, ["OC012"])
    assert told([found]) == [("OC012", 0, 13, 22)]
    (related,) = found.related_information or ()
    assert (related.location.uri, related.location.range.start) == (base.as_uri(), lsp.Position(0, 10))
    editor.close(base)  # without saving
    assert editor.until(path, []) == []


def test_a_base_that_changes_on_disk_does_too(profile_file: WriteProfile) -> None:
    base, path = profile_file(BASE, "base.yaml"), profile_file(QUIET, "derived.yaml")
    with Editor(watches=True) as editor:
        assert editor.open(path) == []
        assert [each.method for each in editor.registered] == ["workspace/didChangeWatchedFiles"]
        base.write_text("a: [\n")
        editor.changed_on_disk(base)
        assert told(editor.until(path, ["OC002"])) == [("OC002", 0, 13, 22)]
        base.write_text(BASE)
        editor.changed_on_disk(base)
        assert editor.until(path, []) == []


def test_the_configuration_above_a_profile_counts(editor: Editor, profile_file: WriteProfile, tmp_path: Path) -> None:
    text = BASE.replace("max_num_seqs: 10", "max_num_seq: 10")
    path = profile_file(text, "team/profile.yaml")
    settings = tmp_path / "omnicfg.toml"
    settings.write_text('[rules]\nOC101 = "note"\n')
    (found,) = editor.open(path)
    assert (found.code, found.severity) == ("OC101", lsp.DiagnosticSeverity.Information)
    settings.write_text('[rulez]\nOC101 = "note"\n')
    editor.changed_on_disk(settings)
    wrong, _ = editor.until(path, ["OC000", "OC101"])
    (related,) = wrong.related_information or ()
    assert (related.location.uri, related.location.range.start) == (settings.as_uri(), lsp.Position(0, 1))


def test_policies_count_and_are_read_again_where_they_change(
    editor: Editor, profile_file: WriteProfile, tmp_path: Path
) -> None:
    path = profile_file(BASE)
    policies = tmp_path / "policies.yaml"
    deny = "has(stage.engine_args.max_num_seqs) && stage.engine_args.max_num_seqs > 8"
    policy = f"policies: [{{id: TEAM001, message: too many, deny: '{deny}'}}]\n"
    policies.write_text(policy)
    (tmp_path / "omnicfg.toml").write_text('policies = ["policies.yaml"]\n')
    (found,) = editor.open(path)
    assert told([found]) == [("TEAM001", 4, 18, 20)]
    assert editor.type(path, BASE.replace("max_num_seqs: 10", "max_num_seqs: 8")) == []
    policies.write_text(policy.replace("> 8", ">"))
    wrong = editor.type(path, BASE)
    assert len(wrong) == 1
    assert wrong[0].code != "TEAM001"
    policies.write_text(policy)
    assert [each.code for each in editor.type(path, BASE + "\n")] == ["TEAM001"]


def test_a_baseline_and_policies_that_change_on_disk_count_at_once(
    editor: Editor, profile_file: WriteProfile, tmp_path: Path
) -> None:
    path = profile_file(BASE.replace("max_num_seqs: 10", "max_num_seq: 10"))
    baseline, policies = tmp_path / "known.json", tmp_path / "policies.yaml"
    (tmp_path / "omnicfg.toml").write_text('baseline = "known.json"\npolicies = ["policies.yaml"]\n')
    policy = "policies: [{id: TEAM001, message: no such stage, deny: stage.stage_id == 7}]\n"
    policies.write_text(policy)
    editor.open(path)
    editor.until(path, ["OC000", "OC101"])  # there is no baseline yet
    command = [*OMNICFG[:-1], "validate", path.name, "--write-baseline", baseline.name]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    editor.changed_on_disk(baseline)
    assert editor.until(path, []) == []
    policies.write_text(policy.replace("7", "0"))
    editor.changed_on_disk(policies)
    editor.until(path, ["TEAM001"])


def test_hover_shows_what_takes_effect_where_and_why(editor: Editor, profile_file: WriteProfile) -> None:
    base, path = profile_file(BASE, "base.yaml"), profile_file(DERIVED, "derived.yaml")
    editor.open(path)
    found = editor.hover(path, 3, 8)
    assert found is not None
    assert isinstance(found.contents, lsp.MarkupContent)
    assert found.contents.value == (
        "`stages.0.max_num_seqs`\n\n"
        f"- **cuda, rocm, xpu, musa**: `16`, profile [derived.yaml:4:19]({path.as_uri()}#L4)\n"
        f"  - over `10`, base [base.yaml:5:19]({base.as_uri()}#L5): replaced by profile derived.yaml\n"
        f"- **npu**: `4`, platform npu [base.yaml:8:42]({base.as_uri()}#L8)\n"
        f"  - over `16`, profile [derived.yaml:4:19]({path.as_uri()}#L4): set for platform npu\n"
        f"  - over `10`, base [base.yaml:5:19]({base.as_uri()}#L5): replaced by profile derived.yaml"
    )
    assert found.range == lsp.Range(lsp.Position(3, 4), lsp.Position(3, 16))
    assert editor.hover(path, 1, 2) is None


def test_definitions_are_the_other_layers_that_set_the_value(editor: Editor, profile_file: WriteProfile) -> None:
    base, path = profile_file(BASE, "base.yaml"), profile_file(DERIVED, "derived.yaml")
    editor.open(path)
    assert editor.definition(path, 0, 16) == [("base.yaml", 0, 0)]
    assert editor.definition(path, 3, 8) == [("base.yaml", 7, 41), ("base.yaml", 4, 18)]
    editor.open(base)
    assert editor.definition(base, 7, 30) == [("base.yaml", 4, 18)]
    assert editor.definition(base, 3, 8) == []


def test_fixes_are_offered_where_the_finding_is(editor: Editor, profile_file: WriteProfile) -> None:
    text = BASE.replace("max_num_seqs: 10", "max_num_seq: '10'") + "session_mode: duplex\n"
    path = profile_file(text)
    editor.open(path)
    rename, everything = editor.actions(path, 4)
    assert (rename.title, rename.kind, rename.is_preferred) == (
        "Rename `max_num_seq` to `max_num_seqs`",
        "quickfix",
        True,
    )
    assert applied(text, rename.edit, path) == text.replace("max_num_seq:", "max_num_seqs:")
    assert everything.kind == "source.fixAll.omnicfg"
    assert everything.edit is None
    assert applied(text, editor.resolve(everything).edit, path) == BASE + "session_mode: duplex\n"
    (unsafe, _) = editor.actions(path, 8)
    assert (unsafe.title, unsafe.is_preferred) == ("Write `turn` (changes what runs)", False)
    assert [each.kind for each in editor.actions(path, 4, ["source.fixAll"])] == ["source.fixAll.omnicfg"]
    assert [each.kind for each in editor.actions(path, 4, ["quickfix"])] == ["quickfix"]
    assert editor.actions(path, 4, ["refactor"]) == []


def test_the_outline(editor: Editor, profile_file: WriteProfile) -> None:
    path = profile_file(BASE)
    editor.open(path)
    outline = editor.symbols(path)
    assert [each.name for each in outline] == ["pipeline", "async_chunk", "stages", "platforms"]
    assert [each.name for each in outline[2].children or ()] == ["stage 0"]
    (npu,) = outline[3].children or ()
    assert npu.name == "npu"
    for each in [*outline, npu]:
        assert (each.range.start.line, each.range.start.character) <= (
            each.selection_range.start.line,
            each.selection_range.start.character,
        )


def test_without_pygls_it_is_told_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError(name='pygls')\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from omnicfg.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code, "lsp"], input="", capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (2, "")
    assert "pip install 'omnicfg[lsp]'" in found.stderr
    assert "Traceback" not in found.stderr


def test_it_ends_with_the_stream() -> None:
    found = subprocess.run(OMNICFG, input=b"", capture_output=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (0, b"")


INITIALIZE = {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
SHUTDOWN, EXIT = {"id": 2, "method": "shutdown"}, {"method": "exit"}


def exchange(*messages: Mapping[str, object]) -> tuple[subprocess.CompletedProcess[bytes], dict[int, object]]:
    """A whole session, byte for byte: how the server ended, and its answers by the number of the request."""
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    sent = b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies)
    done = subprocess.run(OMNICFG, input=sent, capture_output=True, timeout=60, check=False)
    answers, rest = {}, done.stdout
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        (length,) = re.findall(rb"Content-Length: (\d+)", head)
        answer, rest = json.loads(rest[: int(length)]), rest[int(length) :]
        if "id" in answer:
            answers[answer["id"]] = answer.get("error", {}).get("code")
    return done, answers


@pytest.mark.parametrize(
    ("messages", "code"),
    [((INITIALIZE, SHUTDOWN, EXIT), 0), ((INITIALIZE, EXIT), 1), ((EXIT,), 1), ((INITIALIZE, SHUTDOWN), 0)],
)
def test_an_editor_that_ends_it_gets_the_exit_code_of_the_protocol(
    messages: tuple[Mapping[str, object], ...], code: int
) -> None:
    done, _ = exchange(*messages)
    assert (done.returncode, done.stderr) == (code, b"")


def test_every_request_is_answered() -> None:
    document = {"textDocument": {"uri": "file:///nowhere.yaml"}}
    early = {"id": 3, "method": "textDocument/hover", "params": {**document, "position": {"line": 0, "character": 0}}}
    wrong = {"id": 4, "method": "textDocument/hover", "params": {**document, "position": {"line": -1, "character": 0}}}
    junk = {"id": 5, "method": "textDocument/codeAction", "params": {}}
    done, answers = exchange(early, INITIALIZE, wrong, junk, SHUTDOWN, {**early, "id": 6}, EXIT)
    assert (done.returncode, answers) == (0, {3: -32002, 1: None, 4: -32602, 5: -32602, 2: None, 6: -32600})


def test_a_name_that_no_file_can_have_is_left_alone() -> None:
    uri = "file:///a%00b.yaml"
    item = {"uri": uri, "languageId": "yaml", "version": 1, "text": BASE}
    opening = {"method": "textDocument/didOpen", "params": {"textDocument": item}}
    identified = {"uri": uri, "version": 2}
    nothing = {"method": "textDocument/didChange", "params": {"textDocument": identified, "contentChanges": []}}
    asking = {"id": 3, "method": "textDocument/documentSymbol", "params": {"textDocument": {"uri": uri}}}
    closing = {"method": "textDocument/didClose", "params": {"textDocument": {"uri": uri}}}
    done, answers = exchange(INITIALIZE, opening, nothing, asking, closing, SHUTDOWN, EXIT)
    assert (done.returncode, done.stderr, answers) == (0, b"", {1: None, 3: None, 2: None})
