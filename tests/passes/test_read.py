"""Pass 1: what a YAML text means, and where each part of it stands."""

from __future__ import annotations

import builtins
import math
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence as SequenceOf
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from omnicfg.errors import ResolveError
from omnicfg.passes.read import is_printable, load_text, read_file, read_scalar, read_text, read_value
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Scalar, leaves, plain
from tests.passes.trees import PROFILE, tree_of


# ------------------------------------------------------------------------------------------- plain scalars
@pytest.mark.parametrize(
    ("text", "value"),
    [
        # booleans of YAML 1.1
        ("yes", True), ("No", False), ("on", True), ("OFF", False), ("true", True), ("False", False),
        ("y", "y"), ("tRUE", "tRUE"),
        # whole numbers
        ("0", 0), ("-1", -1), ("+8", 8), ("1_000", 1000), ("010", 8), ("0o10", "0o10"), ("0x1F", 31), ("0b101", 5),
        ("08", "08"),
        ("12:30:45", 45045), ("1:59", 119), ("-1:30", -90),
        # numbers
        ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("1e3", 1000.0), ("1E-3", 0.001), ("1.5e3", 1500.0), ("1_0.5", 10.5),
        ("190:20:30.15", 685230.15), (".inf", math.inf), ("-.INF", -math.inf), ("1e999", math.inf),
        # null
        ("", None), ("~", None), ("null", None), ("NULL", None), ("nULL", "nULL"), ("none", "none"),
        # text, dates among it
        ("2020-01-01", "2020-01-01"), ("v2", "v2"), ("1.2.3", "1.2.3"), ("0,1", "0,1"), ("-", "-"), (".", "."),
        ("1e", "1e"), ("0x", "0x"), ("--", "--"), ("<<", "<<"), ("=", "="), ("truely", "truely"), ("1:60", "1:60"),
    ],
)  # fmt: skip
def test_a_plain_scalar_means_what_it_means_upstream(text: str, value: object) -> None:
    read = read_scalar(text)
    assert read == value
    assert type(read) is type(value)


def test_not_a_number() -> None:
    assert math.isnan(read_scalar(".nan"))


@pytest.mark.parametrize("text", ["0x_", "0b_", "9" * 3001, "0x" + "f" * 3000, "1" + ":59" * 1500])
def test_what_only_looks_like_a_number_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # callers add the words
        read_scalar(text)


def test_the_largest_numbers_can_be_printed() -> None:
    for text in ("9" * 3000, "0x" + "f" * 2998, "0b" + "1" * 2998):
        value = read_scalar(text)
        assert is_printable(value)
        assert len(str(value)) < 4300


# ---------------------------------------------------------------------------------------------- whole texts
def test_mappings_lists_and_styles() -> None:
    assert plain(tree_of("a: 1\nb:\n  - x\n  - 'y'\nc: {d: [1, 2]}\ne: |\n  two\n  lines\nf: >\n  one\n  line\n")) == {
        "a": 1,
        "b": ["x", "y"],
        "c": {"d": [1, 2]},
        "e": "two\nlines\n",
        "f": "one line\n",
    }


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "null\n", "~\n", "---\n...\n"])
def test_an_empty_file_is_an_empty_mapping(text: str) -> None:
    tree = tree_of(text)
    assert plain(tree) == {}
    assert tree.mark.line == 1


@pytest.mark.parametrize(
    ("text", "kind"), [("- a\n", "list"), ("[]\n", "list"), ("word\n", "scalar"), ("5\n", "scalar")]
)
def test_the_top_level_is_a_mapping(text: str, kind: str) -> None:
    with pytest.raises(
        ResolveError, match=f"profile.yaml:1:1: OC008 the top level of a profile is a mapping, not a {kind}"
    ):
        tree_of(text)


def test_every_node_knows_its_place() -> None:
    tree = tree_of("a: 1\nstages:\n  - stage_id: 0\n    env: {A: 'x'}\n")
    stage = tree.sequence("stages").items[0]
    assert isinstance(stage, Mapping)
    assert tree.items["a"].mark == Mark("profile.yaml", 1, 4, 1, 5)
    assert tree.key_mark("stages") == Mark("profile.yaml", 2, 1, 2, 7)
    assert stage.mark[:3] == ("profile.yaml", 3, 5)
    assert stage.items["stage_id"].mark == Mark("profile.yaml", 3, 15, 3, 16)
    assert stage.key_mark("env") == Mark("profile.yaml", 4, 5, 4, 8)
    assert stage.mapping("env").items["A"].mark == Mark("profile.yaml", 4, 14, 4, 17)
    assert {node.layer for _, node in leaves(tree)} == {PROFILE}


def test_columns_count_characters_not_bytes() -> None:
    tree = tree_of("{\u00fc\u4e2d\U0001f600: 1, b: 2}\n")
    assert tree.key_mark("b") == Mark("profile.yaml", 1, 10, 1, 11)


def test_a_scalar_knows_whether_it_was_quoted() -> None:
    tree = tree_of("a: 8\nb: '8'\nc: \"8\"\nd: |\n  8\n")
    scalars = {key: node for key, node in tree.items.items() if isinstance(node, Scalar)}
    assert {key: (node.value, node.quoted, node.text) for key, node in scalars.items()} == {
        "a": (8, False, "8"),
        "b": ("8", True, "8"),
        "c": ("8", True, "8"),
        "d": ("8\n", True, "8\n"),
    }


# --------------------------------------------------------------------------------------- anchors, merges, tags
def test_an_alias_is_the_value_of_its_anchor() -> None:
    tree = tree_of("a: &x {k: 1}\nb: *x\nc: [*x, *x]\n")
    assert plain(tree) == {"a": {"k": 1}, "b": {"k": 1}, "c": [{"k": 1}, {"k": 1}]}
    assert tree.mapping("b").items["k"].mark == Mark("profile.yaml", 1, 11, 1, 12)


def test_an_anchor_is_defined_once() -> None:
    with pytest.raises(ResolveError, match="the anchor `&x` is already defined") as caught:
        tree_of("a: &x 1\nb: *x\nc: &x 2\nd: *x\n")
    assert (caught.value.diagnostics[0].line, caught.value.diagnostics[0].column) == (3, 4)


def test_an_alias_as_key() -> None:
    assert plain(tree_of("a: &x b\n*x : 1\n")) == {"a": "b", "b": 1}


def test_own_keys_win_over_merged_ones_and_earlier_sources_over_later() -> None:
    text = "a: &a {k: 1, l: 1, m: 1}\nb: &b {l: 2, n: 2}\nc: {<<: [*b, *a], m: 3}\nd: {m: 4, <<: *a}\n"
    tree = plain(tree_of(text))
    assert tree["c"] == {"k": 1, "l": 2, "m": 3, "n": 2}
    assert tree["d"] == {"k": 1, "l": 1, "m": 4}


def test_a_quoted_merge_key_is_a_key() -> None:
    assert plain(tree_of("a: {'<<': {b: 1}}\n")) == {"a": {"<<": {"b": 1}}}


@pytest.mark.parametrize("value", ["5", "[1]", "[{a: 1}, 2]", "text"])
def test_a_merge_key_merges_mappings(value: str) -> None:
    with pytest.raises(ResolveError, match="OC005 `<<` merges a mapping or a list of mappings"):
        tree_of(f"a: {{<<: {value}}}\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 8", "8"),
        ("!!int '8'", 8),
        ("!!float 1", 1.0),
        ("!!bool 'on'", True),
        ("!!null x", None),
        ("! 8", 8),
        ("! '8'", "8"),
    ],
)
def test_the_tags_of_the_core(text: str, value: object) -> None:
    assert tree_of(f"a: {text}\n").value("a") == value


@pytest.mark.parametrize(
    "text",
    [
        "!!binary aGk=",
        "!!set {a}",
        "!!python/name:os.system x",
        "!own [1]",
        "!!timestamp 2020-01-01",
        "!!seq {a: 1}",
        "!!map [a]",
    ],
)
def test_other_tags_are_refused(text: str) -> None:
    with pytest.raises(ResolveError, match=r"profile\.yaml:1:4: OC005 the YAML tag"):
        tree_of(f"a: {text}\n")


def test_keys_of_other_kinds_than_text() -> None:
    tree = tree_of("1: a\ntrue: b\n2.5: c\n")
    assert plain(tree) == {1: "b", 2.5: "c"}  # as in Python, 1 and true are one key, and the last value stays


def test_a_duplicate_key_is_refused_where_it_comes_again() -> None:
    with pytest.raises(ResolveError, match=r"profile\.yaml:3:3: OC003 `b` is already set on line 2"):
        tree_of("a:\n  b: 1\n  b: 2\n")


# ---------------------------------------------------------------------------------------------- single values
def test_a_value_of_any_kind() -> None:
    assert plain(read_value("  [1, x]", PROFILE, "--set")) == [1, "x"]
    assert read_value("  {a: 1}", PROFILE, "--set").mark[:3] == ("--set", 1, 3)
    assert plain(read_value("", PROFILE, "--set")) is None


# ------------------------------------------------------------------------------------------------------ files
def test_a_file_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: [\n")
    with pytest.raises(ResolveError, match=r"^shown\.yaml:1:5: OC002 "):
        read_file(path, PROFILE, "shown.yaml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResolveError, match=r"OC001 .*missing\.yaml cannot be read: No such file or directory"):
        load_text(tmp_path / "missing.yaml", "missing.yaml")


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_conflict_that_a_merge_has_left_is_told_where_it_begins(newline: str) -> None:
    lines = ["a: 1", "<<<<<<< HEAD", "b: 1", "=======", "b: 2", ">>>>>>> other", ""]
    with pytest.raises(ResolveError) as refused:
        read_text(newline.join(lines), PROFILE, "x.yaml")
    (found,) = refused.value.diagnostics
    assert (found.code, found.path, found.line, found.column) == ("OC002", "x.yaml", 2, 1)
    assert found.message == "a merge has left a conflict here"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\n")
    assert plain(read_file(path, PROFILE)) == {"a": 1}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: 1\n".encode("utf-16"), r"x\.yaml:1:1: OC001 .* is not UTF-8 text \(it is UTF-16\)"),
        ("b: 2\na: é\n".encode("latin-1"), r"x\.yaml:2:4: OC001 .* is not UTF-8 text \(byte 0xe9\)"),
    ],
)
def test_another_encoding_is_told_where_it_shows(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.yaml").write_bytes(content)
    with pytest.raises(ResolveError, match=said):
        load_text(tmp_path / "x.yaml", "x.yaml")


# ----------------------------------------------------------------------------------- with and without libyaml
def _without_libyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    imported = builtins.__import__

    def deny(
        name: str,
        globals: MappingOf[str, Any] | None = None,
        locals: MappingOf[str, Any] | None = None,
        fromlist: SequenceOf[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        if name == "_ruamel_yaml":
            raise ImportError(name)
        return imported(name, globals, locals, fromlist or (), level)

    monkeypatch.setattr(builtins, "__import__", deny)


def _shape(text: str) -> list[object]:
    tree = read_text(text, PROFILE, "x.yaml")
    return [(path, plain(node), node.mark.line, node.mark.column) for path, node in leaves(tree)]


def test_real_files_read_alike_without_libyaml(upstream_deploy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = sorted(upstream_deploy.glob("*.yaml"))[::7]
    with_libyaml = [_shape(path.read_text(encoding="utf-8")) for path in files]
    _without_libyaml(monkeypatch)
    assert [_shape(path.read_text(encoding="utf-8")) for path in files] == with_libyaml


@pytest.mark.parametrize(
    "text", ["a: [1\n", "a: 'x\n", "a: b: c\n", "a: \0\n", "a:\n\tb: 1\n", "a: *b\n", "{a: 1\n", "%YAML 9.9\n"]
)
def test_broken_files_are_refused_without_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_libyaml(monkeypatch)
    with pytest.raises(ResolveError) as refused:
        read_text(text, PROFILE, "x.yaml")
    assert refused.value.diagnostics[0].line == len(text.rstrip().split("\n"))


@pytest.mark.parametrize(
    ("text", "place", "message", "help"),
    [
        (
            "a:\n\t- b\n",
            (2, 1),
            "a tab stands where the indentation is",
            "Indent with spaces; YAML takes no tabs there.",
        ),
        ("a: @b\n", (1, 4), "a value cannot begin with `@`", "Quote it."),
        ("a: %b\n", (1, 4), "a value cannot begin with `%`", "Quote it."),
        (
            "  a: 1\nb: 2\n",
            (2, 1),
            "what the file begins with ends before this line",
            "Indent it as the lines above, or write `key: value`.",
        ),
        ("{a: 1} b\n", (1, 8), "what begins here belongs to nothing", "Quote it with what is before it, or remove it."),
        (
            "{a: 1}\nb: 1\n",
            (2, 1),
            "what the file begins with ends before this line",
            "Indent it as the lines above, or write `key: value`.",
        ),
        (
            "a:\n - b: 0\n  c: 1\n",
            (3, 3),
            "this line is indented differently from those it belongs to",
            "Indent it as the lines above.",
        ),
        (
            "a: b: c\n",
            (1, 5),
            "no `key: value` can begin here",
            "Quote a value with `: ` in it; indent a line as those that it belongs to.",
        ),
        (
            "a: [1, 2\nb: 3\n",
            (2, 2),
            "a list in `[` is not closed before this",
            "Close it with `]`, or put commas between.",
        ),
        (
            "a: {x: 1\nb: 3\n",
            (2, 2),
            "a mapping in `{` is not closed before this",
            "Close it with `}`, or put commas between.",
        ),
        (
            "a: [\n",
            (1, 5),
            "the text ends where a value is missing",
            "Write the value, and close what is open: `[`, `{`.",
        ),
        (
            "a: 'x\nb: 3\n",
            (1, 4),
            "a quote is never closed, so all that follows belongs to it",
            "Close it where the text ends.",
        ),
        ("a: ]\n", (1, 4), "a value cannot begin with `]`", "Quote it."),
        (
            "a: 1\nb\n",
            (2, 2),
            "a line here is no `key: value`",
            "Write it as one, or indent it as a part of the text above.",
        ),
        ("a: - b\n", (1, 4), "no list can begin behind its key", "Write `- ` on a line of its own."),
        (
            'a: "C:\\q"\n',
            (1, 8),
            "a backslash in double quotes begins an escape, and there is no such one",
            "Write two of them, or take single quotes.",
        ),
        ('a: "x" y\n', (1, 8), "what begins here belongs to nothing", "Quote it with what is before it, or remove it."),
    ],
)
def test_what_the_parser_cannot_read_is_told_in_words_for_the_writer_of_a_file(
    text: str, place: tuple[int, int], message: str, help: str
) -> None:
    with pytest.raises(ResolveError) as refused:
        read_text(text, Layer(LayerKind.PROFILE), "p.yaml")
    (found,) = refused.value.diagnostics
    assert ((found.line, found.column), found.message, found.help) == (place, message, help)
