"""Pass 1: YAML text → tree in which every node knows its file, line and column.

Scalars are read as vLLM-Omni reads them. It loads deploy YAMLs through OmegaConf, whose loader is PyYAML's YAML 1.1
reader with three changes: a wider float syntax (``1e3``), no dates, and duplicate keys refused
(https://omegaconf.readthedocs.io/, https://yaml.org/type/). The tree is built from parser events with an explicit
stack, so that size, depth and alias expansion are bounded before anything is built.
"""

from __future__ import annotations

import functools
import re
import stat
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, Final, TypeVar

from omnicfg.buffers import in_use, text_of
from omnicfg.confine import may_read, root_shown
from omnicfg.refusals import refuse, refuse_and_go_on
from omnicfg.tree import Layer, Mapping, Mark, Node, Scalar, Sequence

T = TypeVar("T")

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 64
MAX_PURE: Final = 1 << 16  # characters that the slow, pure Python parser is asked to read
MAX_NODES: Final = 10_000  # after alias expansion; OmegaConf's own default limit
MAX_NUMBER: Final = 3000  # characters; whatever the notation, such a number has fewer digits than Python prints (4300)

_UTF_16: Final = (b"\xff\xfe", b"\xfe\xff")  # how a text begins that Windows calls Unicode
_NO_VALUES: Final = ("=", "<<")  # YAML 1.1's types `value` and `merge`, for which upstream's reader has no values
_CORE: Final = "tag:yaml.org,2002:"

# YAML 1.1's implicit types. Words first: they are no numbers, so the order among the kinds stays upstream's.
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("~", "null", "Null", "NULL", ""), None),
}
_FLOAT: Final = (
    r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?"
    r"|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
)
_INT: Final = (
    r"(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+"
    r"|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)\Z"
)
_WIDE_FLOAT: Final = (
    r"(?:[-+]?[0-9]+(?:_[0-9]+)*\.[0-9_]*(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+"
    r"|\.[0-9]+(?:_[0-9]+)*(?:[eE][-+][0-9]+)?"
    r"|[-+]?[0-9]+(?:_[0-9]+)*(?::[0-5]?[0-9])+\.[0-9_]*)\Z"
)
_NUMBERS: Final = (("float", _FLOAT), ("int", _INT), ("float", _WIDE_FLOAT))
# YAML 1.1's printable characters and line breaks (https://yaml.org/spec/1.1/#c-printable, #b-generic).
# As text: only a bad file needs them, and compiling the first takes a bare start of Python.
_UNPRINTABLE: Final = r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
_HALF: Final = r"[\ud800-\udfff]"  # of a pair of UTF-16, which pure Python's reader lets through
_CONFLICT: Final = r"^(?:<{7}|>{7}|\|{7})(?= |$)"  # how git, Mercurial and others mark both sides of a merge
BREAK: Final = r"\r\n|[\n\r\x85\u2028\u2029]"
_PLAIN_START: Final = frozenset("yYnNtTfFoO-+.0123456789~")


def read_file(path: Path, layer: Layer, shown: str | None = None) -> Mapping:
    """The tree of a YAML file; an empty file is an empty mapping, as upstream has it.

    ``shown`` is how the file is named in diagnostics. Raises :class:`~omnicfg.errors.ResolveError`.
    """
    name = shown or str(path)
    kept = in_use()
    if kept is None:
        return read_text(load_text(path, name), layer, name)
    return kept.tree(path, layer, name, lambda: read_text(load_text(path, name), layer, name))


def load_text(path: Path, shown: str) -> str:
    """The text of a regular UTF-8 file of bounded size; anything else is refused before it is read."""
    mark = Mark(shown)
    if not may_read(path):
        refuse(
            "outside-root",
            mark,
            f"{shown} lies outside `--root {root_shown()}`",
            "Name a wider root, or a file below it.",
        )
    given = text_of(path)
    if given is not None:
        if len(given) > MAX_BYTES:
            refuse("too-large", mark, f"{shown} has {len(given)} characters; the limit is {MAX_BYTES}")
        return given
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            refuse("unreadable-file", mark, f"{shown} is not a regular file", "Name a file.")
        if status.st_size > MAX_BYTES:
            refuse("too-large", mark, f"{shown} has {status.st_size} bytes; the limit is {MAX_BYTES}")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        refuse("unreadable-file", mark, f"{shown} cannot be read: {reason}", "Check the path and its permissions.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8")
        byte = "it is UTF-16" if raw.startswith(_UTF_16) else f"byte 0x{raw[error.start]:02x}"
        refuse(
            "unreadable-file", _place(before, shown), f"{shown} is not UTF-8 text ({byte})", "Save the file as UTF-8."
        )


def _place(before: str, shown: str) -> Mark:
    """The place of the character that comes after a text."""
    lines = re.split(BREAK, before)
    line, column = len(lines), len(lines[-1]) + 1
    return Mark(shown, line, column, line, column + 1)


def read_text(text: str, layer: Layer, shown: str) -> Mapping:
    """The tree of a YAML text. ``shown`` names it in marks and diagnostics."""
    node = _parse(text, layer, shown)
    if isinstance(node, Mapping):
        return node
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return Mapping({}, layer, Mark(shown, 1, 1, 1, 1))
    kind = "list" if isinstance(node, Sequence) else "scalar"
    refuse(
        "wrong-container",
        node.mark,
        f"the top level of a profile is a mapping, not a {kind}",
        "Write `stages:` and the other settings as keys.",
    )


def read_value(text: str, layer: Layer, shown: str) -> Node:
    """The tree of a YAML text that may hold a value of any kind."""
    return _parse(text, layer, shown) or Scalar(None, layer, Mark(shown, 1, 1, 1, 1), text="")


def is_text(text: str) -> bool:
    """Whether a file can hold a text: halves of characters come of escapes, and of arguments that are not UTF-8."""
    return text.isascii() or re.search(_HALF, text) is None


def is_printable(number: int) -> bool:
    """Whether a whole number is within the limit that the reader sets."""
    return number.bit_length() <= MAX_NUMBER * 4


def read_scalar(text: str) -> Any:
    """The value of a plain YAML scalar as upstream reads it. Raises ``ValueError`` where upstream's reader does."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _PLAIN_START:
        return text
    simple = _simple_number(text)
    if simple is not None:
        return simple
    for kind, pattern in _NUMBERS:
        if _compiled(pattern).match(text):
            return _construct(kind, text)
    return text


def _simple_number(text: str) -> int | float | None:
    """A number as nearly all profiles write them, ``8`` or ``0.9``, without the patterns (slow to compile)."""
    whole, dot, fraction = text.partition(".")
    if not text.isascii() or not whole.isdecimal() or len(text) > MAX_NUMBER:
        return None
    if dot:
        return float(text) if fraction.isdecimal() else None
    return int(text) if text[0] != "0" else None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _construct(kind: str, text: str) -> Any:
    if kind != "str" and len(text) > MAX_NUMBER:
        raise ValueError(f"a {kind} of {len(text)} characters")
    return _CONSTRUCT[kind](text)


def _sexagesimal(text: str, number: Callable[[str], Any]) -> Any:
    total = number("0")
    for part in text.split(":"):
        total = total * 60 + number(part)
    return total


def _int(text: str) -> int:
    digits = text.replace("_", "")
    sign, digits = (-1 if digits[:1] == "-" else 1), digits.lstrip("+-")
    if digits == "0":
        return 0
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if digits.startswith("0"):
        return sign * int(digits, 8)
    if ":" in digits:
        return int(sign * _sexagesimal(digits, int))
    return sign * int(digits)


def _float(text: str) -> float:
    digits = text.replace("_", "").lower()
    sign, digits = (-1.0 if digits[:1] == "-" else 1.0), digits.lstrip("+-")
    if digits == ".inf":
        return sign * float("inf")
    if digits == ".nan":
        return float("nan")
    if ":" in digits:
        return float(sign * _sexagesimal(digits, float))
    return sign * float(digits)


def _bool(text: str) -> bool:
    words = {"yes": True, "no": False, "true": True, "false": False, "on": True, "off": False}
    return words[text.lower()]


_CONSTRUCT: Final[dict[str, Callable[[str], Any]]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "null": lambda _text: None,
    "str": lambda text: text,
}


class _Open:
    """A mapping or list that is still being read."""

    __slots__ = ("anchor", "is_mapping", "key", "key_mark", "key_plain", "nodes", "pairs", "size", "start")

    def __init__(self, is_mapping: bool, start: Any, anchor: str | None) -> None:
        self.is_mapping = is_mapping
        self.start = start
        self.anchor = anchor
        self.nodes: list[Node] = []
        self.pairs: list[tuple[Hashable, Mark, bool, Node]] = []
        self.key: Scalar | None = None
        self.key_mark: Mark | None = None
        self.key_plain = False
        self.size = 1


class _Builder:
    """Builds one document from parser events."""

    def __init__(self, layer: Layer, shown: str) -> None:
        self.layer = layer
        self.shown = shown
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.open_anchors: set[str] = set()
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def build(self, events: Iterator[tuple[str, Any]]) -> Node | None:
        documents = 0
        for kind, event in events:
            if kind == "ScalarEvent":
                self._place(self._scalar(event), 1, event.anchor, plain=event.implicit[0])
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._start(kind == "MappingStartEvent", event)
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                self._end(event)
            elif kind == "AliasEvent":
                self._alias(event)
            elif kind == "DocumentStartEvent":
                documents += 1
                if documents > 1:
                    refuse("yaml-syntax", self._mark(event), "a profile is one YAML document; a second one starts here")
        return self.root

    def _mark(self, event: Any) -> Mark:
        start, end = event.start_mark, event.end_mark
        return Mark(self.shown, start.line + 1, start.column + 1, end.line + 1, end.column + 1)

    def _scalar(self, event: Any) -> Scalar:
        mark, text, tag = self._mark(event), event.value, event.tag
        plain = (event.implicit[0] and tag is None) or (tag == "!" and not event.style)
        if not is_text(text):
            refuse(
                "yaml-syntax",
                mark,
                "an escape here stands for half a character, which no file can hold",
                "Write the character itself, or the escape `\\U` with its eight digits.",
            )
        try:
            if plain:
                value = read_scalar(text)
            elif tag is None or tag == "!":
                value = text
            elif tag.startswith(_CORE) and tag.removeprefix(_CORE) in _CONSTRUCT:
                value = _construct(tag.removeprefix(_CORE), text)
            else:
                self._refuse_tag(event)
                value = text
        except (ValueError, KeyError, IndexError, OverflowError):
            refuse_and_go_on(
                "bad-value",
                mark,
                f"`{_short(text)}` looks like a number or boolean but cannot be read as one",
                "Quote it if it is text.",
            )
            value = text
        return Scalar(value, self.layer, mark, quoted=not plain, text=text)

    def _refuse_tag(self, event: Any) -> None:
        refuse_and_go_on(
            "unsupported-yaml",
            self._mark(event),
            f"the YAML tag `{event.tag}` has no meaning in a profile",
            "Remove the tag.",
        )

    def _start(self, is_mapping: bool, event: Any) -> None:
        if event.tag not in (None, "!", _CORE + ("map" if is_mapping else "seq")):
            self._refuse_tag(event)
        if len(self.stack) >= MAX_DEPTH:
            refuse("too-large", self._mark(event), f"nested deeper than {MAX_DEPTH} levels")
        if event.anchor:
            self._check_anchor(event.anchor, self._mark(event))
            self.open_anchors.add(event.anchor)
        self.stack.append(_Open(is_mapping, event.start_mark, event.anchor))

    def _end(self, event: Any) -> None:
        block = self.stack.pop()
        start, end = block.start, event.end_mark
        mark = Mark(self.shown, start.line + 1, start.column + 1, end.line + 1, end.column + 1)
        node = self._mapping(block, mark) if block.is_mapping else Sequence(block.nodes, self.layer, mark)
        if block.anchor:
            self.open_anchors.discard(block.anchor)
        self._place(node, block.size, block.anchor)

    def _alias(self, event: Any) -> None:
        if event.anchor in self.open_anchors:
            refuse("unsupported-yaml", self._mark(event), f"the alias `*{event.anchor}` contains itself")
        if event.anchor not in self.anchors:
            refuse("yaml-syntax", self._mark(event), f"undefined alias `*{event.anchor}`")
        node, size = self.anchors[event.anchor]
        self._place(node, size, None, alias_mark=self._mark(event))

    def _place(
        self, node: Node, size: int, anchor: str | None, *, plain: bool = False, alias_mark: Mark | None = None
    ) -> None:
        if anchor:
            self._check_anchor(anchor, node.mark)
            self.anchors[anchor] = (node, size)
        block = self.stack[-1] if self.stack else None
        is_key = block is not None and block.is_mapping and block.key is None
        if plain and not is_key and isinstance(node, Scalar) and node.text in _NO_VALUES:
            refuse_and_go_on(
                "unsupported-yaml", node.mark, f"`{node.text}` has a meaning of its own in YAML", "Quote it."
            )
        if block is None:
            self.root = node
            return
        block.size += size
        if block.size > MAX_NODES:
            refuse("too-large", alias_mark or node.mark, f"more than {MAX_NODES} values after alias expansion")
        if not block.is_mapping:
            block.nodes.append(node)
        elif block.key is None:
            if not isinstance(node, Scalar) or (node.value is None):
                refuse(
                    "unsupported-yaml", alias_mark or node.mark, "a key is a word or a number", "Write `name: value`."
                )
            block.key, block.key_mark, block.key_plain = node, alias_mark or node.mark, plain
        else:
            assert block.key_mark is not None
            block.pairs.append((block.key.value, block.key_mark, block.key_plain, node))
            block.key = None

    def _check_anchor(self, anchor: str, mark: Mark) -> None:
        if anchor in self.anchors or anchor in self.open_anchors:
            refuse_and_go_on(
                "duplicate-key", mark, f"the anchor `&{_short(anchor)}` is already defined", "Give it another name."
            )

    def _mapping(self, block: _Open, mark: Mark) -> Mapping:
        mapping = Mapping({}, self.layer, mark)
        written: dict[Hashable, Mark] = {}
        merges: list[Mapping] = []
        for key, key_mark, key_plain, node in block.pairs:
            if key == "<<" and key_plain:
                merges.extend(self._merge_sources(node))
                continue
            if isinstance(key, str):
                if key in written:
                    refuse_and_go_on(
                        "duplicate-key",
                        key_mark,
                        f"`{_short(key)}` is already set on line {written[key].line}",
                        "Keep one of the two.",
                    )
                written[key] = key_mark
        for source in merges:
            for key, node in source.items.items():
                if key not in written:
                    mapping.items.pop(key, None)
                    mapping.put(key, node, source.key_marks.get(key))
        for key, key_mark, key_plain, node in block.pairs:
            if not (key == "<<" and key_plain):
                mapping.put(key, node, key_mark)
        for key in mapping.items:
            if isinstance(key, int) and not isinstance(key, bool) and str(key) in mapping.items:
                refuse_and_go_on(
                    "duplicate-key", mapping.key_mark(key), f"`{key}` is set twice, as a number and as text"
                )
        return mapping

    def _merge_sources(self, node: Node) -> list[Mapping]:
        """The mappings behind a merge key, weakest first (of a list, the first one wins)."""
        sources = node.items[::-1] if isinstance(node, Sequence) else [node]
        mappings = [source for source in sources if isinstance(source, Mapping)]
        if len(mappings) != len(sources):
            refuse("unsupported-yaml", node.mark, "`<<` merges a mapping or a list of mappings")
        return mappings


def parsed(text: str, use: Callable[[Iterator[tuple[str, Any]]], T]) -> T:
    """What ``use`` makes of the parser's events. Raises ruamel's ``YAMLError`` where no parser reads the text.

    What libyaml refuses is tried again in pure Python, as long as that is no long work: the two disagree on a colon
    inside a plain scalar of a flow collection (``[12:30:45]``), which upstream's reader takes.
    """
    from ruamel.yaml.error import MarkedYAMLError

    try:
        return use(libyaml_events(text))
    except ImportError:
        return use(_pure_events(text))
    except MarkedYAMLError:
        # Pure Python also reads YAML 1.1's other line breaks as ordinary characters; libyaml and upstream do not.
        if len(text) > MAX_PURE or any(mark in text for mark in "\x85\u2028\u2029"):
            raise
        return use(_pure_events(text))


def _parse(text: str, layer: Layer, shown: str) -> Node | None:
    """The root node."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError, YAMLStreamError

    try:
        return parsed(text, lambda events: _Builder(layer, shown).build(events))
    except MarkedYAMLError as error:
        conflict = re.search(_CONFLICT, text, re.MULTILINE)
        if conflict:
            mark = _place(text[: conflict.start()], shown)
            refuse("yaml-syntax", mark, "a merge has left a conflict here", "Keep one of its sides, and no marker.")
        is_open = "quoted scalar: found unexpected end" in _one_line(error)  # what counts is where it begins
        place = (error.context_mark if is_open else None) or error.problem_mark or error.context_mark
        refuse("yaml-syntax", _problem(place, text, shown), *_problem_and_help(error, _before(place, text)))
    except (YAMLError, YAMLStreamError, UnicodeEncodeError) as error:
        found = re.search(_UNPRINTABLE, text)
        refuse(
            "yaml-syntax",
            _place(text[: found.start()] if found else "", shown),
            f"the character {found[0]!a} cannot stand in YAML" if found else _one_line(error),
            "Remove it, or write it as an escape in double quotes.",
        )


def _problem(place: Any, text: str, shown: str) -> Mark:
    """Where the parser saw a problem; the end of the last line where it saw that something is missing at the end."""
    if place is None:
        return Mark(shown)
    lines = re.split(BREAK, text.rstrip())
    if place.line >= len(lines):
        return _place(text.rstrip(), shown)
    return Mark(shown, place.line + 1, place.column + 1, place.line + 1, place.column + 2)


def _before(place: Any, text: str) -> str:
    """What stands before a place on its line."""
    lines = [] if place is None else re.split(BREAK, text)
    return lines[place.line][: place.column].strip() if lines and place.line < len(lines) else ""


def libyaml_events(text: str) -> Iterator[tuple[str, Any]]:
    """Parser events by class name. Raises ``ImportError`` where libyaml's binding is not installed."""
    from _ruamel_yaml import CParser

    parser = CParser(text)
    try:
        while True:
            event = parser.get_event()
            if event is None:
                return
            yield type(event).__name__, event
    finally:
        parser.dispose()


def _pure_events(text: str) -> Iterator[tuple[str, Any]]:
    from ruamel.yaml import YAML

    reader = YAML(typ="safe", pure=True)
    reader.version = (1, 1)
    for event in reader.parse(text):
        yield type(event).__name__, event


_SYNTAX: Final = (  # what libyaml and ruamel.yaml both say, in other words and with a way out
    (
        "expected <block end>, but found '<block mapping start>'",
        "this line is indented differently from those it belongs to",
        "Indent it as the lines above.",
    ),
    (
        "expected <block end>, but found '<scalar>'",
        "what begins here belongs to nothing",
        "Quote it with what is before it, or remove it.",
    ),
    (
        "mapping values are not allowed",
        "no `key: value` can begin here",
        "Quote a value with `: ` in it; indent a line as those that it belongs to.",
    ),
    ("expected ',' or ']'", "a list in `[` is not closed before this", "Close it with `]`, or put commas between."),
    ("expected ',' or '}'", "a mapping in `{` is not closed before this", "Close it with `}`, or put commas between."),
    (
        "expected the node content, but found '<stream end>'",
        "the text ends where a value is missing",
        "Write the value, and close what is open: `[`, `{`.",
    ),
    (
        "quoted scalar: found unexpected end of stream",
        "a quote is never closed, so all that follows belongs to it",
        "Close it where the text ends.",
    ),
    (
        "could not find expected ':'",
        "a line here is no `key: value`",
        "Write it as one, or indent it as a part of the text above.",
    ),
    ("sequence entries are not allowed", "no list can begin behind its key", "Write `- ` on a line of its own."),
    (
        "unknown escape character",
        "a backslash in double quotes begins an escape, and there is no such one",
        "Write two of them, or take single quotes.",
    ),
)


def _problem_and_help(error: Exception, before: str) -> tuple[str, str]:
    """What the parser says, in words for the writer of a file where its own are for the writer of a parser."""
    said = _one_line(error)
    if "'\\t' that cannot start any token" in said:
        return "a tab stands where the indentation is", "Indent with spaces; YAML takes no tabs there."
    refused = re.search("found character '(.)' that cannot start any token|the node content, but found '(.)'$", said)
    if refused:
        return f"a value cannot begin with `{refused[1] or refused[2]}`", "Quote it."
    if "expected '<document start>'" in said and before:
        return "what begins here belongs to nothing", "Quote it with what is before it, or remove it."
    if "expected '<document start>'" in said:
        return (
            "what the file begins with ends before this line",
            "Indent it as the lines above, or write `key: value`.",
        )
    for words, problem, help in _SYNTAX:
        if words in said:
            return problem, help
    return said, "Fix the syntax here."


def _one_line(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error) or "not YAML"
    context = getattr(error, "context", None)
    return " ".join(f"{context}: {problem}".split() if context else problem.split())


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."
