"""Shell text → words with their places. Nothing is run: variables are taken from assignments in the same text."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from omnicfg.refusals import refuse
from omnicfg.tree import Mark

_NAME: Final = re.compile(r"[A-Za-z_]\w*|\d+|[@*#?$!-]")
_ARRAY: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=\(")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)\Z", re.DOTALL)
_ASSIGNS: Final = re.compile(r"[A-Za-z_]\w*\+?=")
_HEREDOC: Final = re.compile(r"<<(-?)[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;|&()<>'\"\\]+))")
_DECLARATIONS: Final = ("export", "local", "readonly", "declare", "typeset")
_KEYWORDS: Final = ("if", "then", "elif", "else", "while", "until", "do", "{", "!")
_OPERATORS: Final = ("&&", "||", ";;", ";", "|", "&", "\n", "(", ")")
_CONTINUED: Final = re.compile(r"\\\r?\n")
_QUOTING: Final = re.compile(rf"{_CONTINUED.pattern}|['\"\\]")
_MAX_DEPTH: Final = 20
_MAX_VALUE: Final = 100_000  # a variable that grows by itself is not followed any further
_MAX_WORDS: Final = 2_000  # of one command
_MAX_TEXT: Final = 200_000


class Word(NamedTuple):
    """A word of a command: its text after quotes and variables, its place, and the expansions that nothing here tells.

    Those stand in the text as they are written: ``$SEQS``, ``$@``, ``$(hostname)``. ``written`` is all that stands at
    the place, where it is known.
    """

    text: str
    mark: Mark
    unknown: tuple[str, ...] = ()
    written: str = ""

    @property
    def quoted(self) -> str:
        """The word as a shell takes it; what is not known here stays for the shell to expand."""
        if not self.unknown:
            return shlex.quote(self.text)
        parts = re.split("(" + "|".join(map(re.escape, self.unknown)) + ")", self.text)
        shown = (part if part in self.unknown else re.sub(r'([\\"$`])', r"\\\1", part) for part in parts)
        return f'"{"".join(shown)}"'

    def moved(self, mark: Mark) -> Word:
        """The same word, of which another place is to be told."""
        return self._replace(mark=mark, written="")

    def ending(self, text: str) -> Word:
        """The end of the word: what a flag is set to behind its ``=``."""
        start, end = len(self.text) - len(text), len(self.text)
        [mark] = self.places([(start, end)])
        return self._replace(text=text) if mark is None else Word(text, mark, self.unknown, self._behind(start))

    def places(self, parts: Iterable[tuple[int, int]]) -> Iterator[Mark | None]:
        """Where parts of the text stand, each from one character up to another; ``None`` where that is not known, as
        behind a variable.
        """
        origins = self._origins()
        ends = [at for at, character in enumerate(self.written) if character == "\n"]
        for start, end in parts:
            if not start < end <= len(origins):
                yield None
                continue
            (line, column), (last, behind) = (self._place(at, ends) for at in (origins[start], origins[end - 1]))
            yield Mark(self.mark.file, line, column, last, behind + 1)

    def _behind(self, start: int) -> str:
        return self.written[self._origins()[start] :]

    def _origins(self) -> list[int]:
        """Where each character of the text is in what is written, up to the first one that is not found there."""
        found: list[int] = []
        at = 0
        for character in self.text:
            while not self.written.startswith(character, at):
                quoting = _QUOTING.match(self.written, at)
                if quoting is None:
                    return found
                at = quoting.end()
            found.append(at)
            at += 1
        return found

    def _place(self, at: int, ends: list[int]) -> tuple[int, int]:
        """The line and the column of a character of what is written, whose lines end there."""
        line = bisect_left(ends, at)
        return self.mark.line + line, at - ends[line - 1] if line else self.mark.column + at


class Script(NamedTuple):
    """The simple commands of a text, and the here-documents that it hands to them, each with its first line.

    ``open_quote`` is the column of a quote that nothing closes; such a text ends there for a shell.
    """

    commands: list[list[Word]]
    documents: list[tuple[int, str]]
    open_quote: int | None = None


class _Fields:
    """The words that one word of the text becomes: an expansion outside of quotes may be none, or several."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.open: list[str] = []
        self.is_open = False

    def add(self, text: str) -> None:
        self.open.append(text)
        self.is_open = True

    def split(self, text: str) -> None:
        """An expansion outside of quotes."""
        for number, part in enumerate(re.split(r"[ \t\n]+", text)):
            if number:
                self._close()
            if part:
                self.add(part)

    def _close(self) -> None:
        if self.is_open:
            self.done.append("".join(self.open))
        self.open, self.is_open = [], False

    def all(self) -> list[str]:
        self._close()
        return self.done


class _Reader:
    """Reads one text; ``variables`` are those assigned so far."""

    def __init__(
        self, text: str, shown: str, line: int, column: int, variables: dict[str, str], bare_json: bool
    ) -> None:
        self.text = text
        self.shown = shown
        self.variables = variables
        self.arrays: dict[str, list[Word]] = {}
        self.bare_json = bare_json
        self.at = 0
        self.line = line
        self.line_start = 1 - column
        self.unknown: list[str] = []
        self.unbalanced: set[str] = set()
        self.open_quote: int | None = None
        self.pending: list[tuple[str, bool]] = []
        self.documents: list[tuple[int, str]] = []

    def commands(self) -> Iterator[list[Word]]:
        words: list[Word] = []
        while (found := self._next()) is not None:
            if isinstance(found, list):
                words = self._joined(words, found)
                continue
            yield from self._finished(words)
            words = []
            if found == "\n":
                self._read_documents()
        yield from self._finished(words)

    def _joined(self, words: list[Word], more: list[Word]) -> list[Word]:
        if len(words) + len(more) > _MAX_WORDS:
            mark = Mark(self.shown, self.line, 1, self.line, 2)
            refuse("too-large", mark, f"a command of more than {_MAX_WORDS} words", "Give a shorter one.")
        words += more
        return words

    def _finished(self, words: list[Word]) -> Iterator[list[Word]]:
        """A command without the assignments before it; one of nothing but assignments is remembered."""
        rest = list(itertools.dropwhile(lambda word: word.text in _KEYWORDS, words))
        if rest and rest[0].text in _DECLARATIONS:
            rest = [word for word in rest[1:] if _ASSIGNMENT.match(word.text)]
        while rest and (match := _ASSIGNMENT.match(rest[0].text)):
            self._assign(match[1], match[3], rest[0], appends=bool(match[2]))
            rest.pop(0)
        if rest:
            yield rest

    def _assign(self, name: str, value: str, word: Word, *, appends: bool) -> None:
        self.arrays.pop(name, None)
        whole = (self.variables.get(name, "") if appends else "") + value
        if word.unknown or len(whole) > _MAX_VALUE:
            self.variables.pop(name, None)
        else:
            self.variables[name] = whole

    def _next(self) -> list[Word] | str | None:
        """The words that the next one becomes, an operator, or ``None`` at the end."""
        self._skip_blanks()
        if self.at >= len(self.text):
            return None
        if self._take_document() or self._take_array():
            return []
        if self.text.startswith((">(", "<("), self.at):
            return [self._process()]
        for operator in _OPERATORS:
            if self.text.startswith(operator, self.at) and not self.text.startswith("&>", self.at):
                self._advance(len(operator))
                return operator
        return self._words()

    def _words(self) -> list[Word]:
        start, line, column = self.at, self.line, self._column()
        array = self._spliced()
        if array is not None:
            return array
        self.unknown = []
        fields = _Fields()
        splits = _ASSIGNS.match(self.text, self.at) is None
        if self.bare_json and self.text[self.at] == "{":
            fields.add(self._json())
        while self.at < len(self.text) and not self._at_end_of_word():
            self._piece(fields, splits)
        mark = Mark(self.shown, line, column, self.line, self._column())
        unknown, written = tuple(dict.fromkeys(self.unknown)), self.text[start : self.at]
        return [Word(text, mark, tuple(each for each in unknown if each in text), written) for text in fields.all()]

    def _spliced(self) -> list[Word] | None:
        """The words of an array, where all of one stand here as a word: ``"${ARGS[@]}"``."""
        match = re.compile(r"(\"?)\$\{([A-Za-z_]\w*)\[[@*]\]\}\1(?=[\s;|&()]|\Z)").match(self.text, self.at)
        if match is None or match[2] not in self.arrays or _is_of_caller(self.arrays[match[2]]):
            return None
        line, column = self.line, self._column()
        self._advance(match.end() - self.at)
        mark = Mark(self.shown, line, column, self.line, self._column())
        return [word.moved(mark) for word in self.arrays[match[2]]]

    def _take_array(self) -> bool:
        """``ARGS=(...)`` and ``ARGS+=(...)``."""
        match = _ARRAY.match(self.text, self.at)
        if match is None:
            return False
        self._advance(match.end() - self.at)
        found = list(self.arrays.get(match[1], [])) if match[2] else []
        while (word := self._next()) is not None and word != ")":
            if isinstance(word, list):
                found = self._joined(found, word)
        self.arrays[match[1]] = found
        return True

    def _take_document(self) -> bool:
        """``<<EOF``: the lines that follow are input, not commands."""
        if not self.text.startswith("<<", self.at):
            return False
        match = None if self.text.startswith("<<<", self.at) else _HEREDOC.match(self.text, self.at)
        if match is None:
            self._advance(3 if self.text.startswith("<<<", self.at) else 2)
            return True
        self._advance(match.end() - self.at)
        self.pending.append((match[2] or match[3] or match[4], bool(match[1])))
        return True

    def _read_documents(self) -> None:
        for end, strips_tabs in self.pending:
            tabs = r"\t*" if strips_tabs else ""
            found = re.compile(rf"^{tabs}{re.escape(end)}\r?$", re.MULTILINE).search(self.text, self.at)
            if found is not None:
                self.documents.append((self.line, self.text[self.at : found.start()]))
                self._advance(found.end() - self.at)
        self.pending = []

    def _process(self) -> Word:
        """``>(tee log)``: a command of its own, in the place of a file."""
        line, column, start = self.line, self._column(), self.at
        self._advance(1)
        self._balanced("(", ")")
        shown = self.text[start : self.at]
        return Word(shown, Mark(self.shown, line, column, self.line, self._column()), (shown,))

    def interpolated(self, mark: Mark) -> Word:
        parts: list[str] = []
        while self.at < len(self.text):
            if self.text.startswith("$$", self.at):
                parts.append(self._taken(self.at + 2)[1:])
            elif self.text[self.at] == "$":
                parts.append(self._expansion()[1])
            else:
                parts.append(self._taken(self.at + 1))
        return Word("".join(parts), mark, tuple(dict.fromkeys(self.unknown)))

    def _json(self) -> str:
        """A JSON object without quotes around it, which a shell would take apart; nothing where there is none."""
        try:
            _, end = json.JSONDecoder().raw_decode(self.text, self.at)
        except (ValueError, RecursionError):
            return ""
        return self._taken(end)

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text[self.at] in " \t\r":
                self._advance(1)
            elif match := _CONTINUED.match(self.text, self.at):
                self._advance(len(match[0]))
            elif self.text[self.at] == "#":
                self._advance((self.text.find("\n", self.at) + 1 or len(self.text) + 1) - self.at - 1)
            else:
                return

    def _at_end_of_word(self) -> bool:
        character = self.text[self.at]
        if character == "&":  # of a redirection: 2>&1, &> log
            return not (self.text[self.at - 1 : self.at] in (">", "<") or self.text.startswith("&>", self.at))
        return character in " \t\r\n;|()" or self.text.startswith("<<", self.at)

    def _piece(self, fields: _Fields, splits: bool) -> None:
        character = self.text[self.at]
        if character == "'":
            fields.add(self._single_quoted())
        elif character == '"':
            fields.add(self._double_quoted())
        elif match := _CONTINUED.match(self.text, self.at):
            self._advance(len(match[0]))
        elif character == "\\" and self.at + 1 < len(self.text):
            fields.add(self._taken(self.at + 2)[1:])
        elif character in "$`":
            is_known, text = self._expansion()
            (fields.split if splits and is_known else fields.add)(text)
        else:
            fields.add(self._taken(self.at + 1))

    def _single_quoted(self) -> str:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            self.open_quote = self._column()
        return self._taken(len(self.text) if end < 0 else end + 1)[1:].removesuffix("'")

    def _double_quoted(self) -> str:
        column = self._column()
        self._advance(1)
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            parts.append(self._quoted_piece())
        if self.at >= len(self.text):
            self.open_quote = column
        self._advance(1)
        return "".join(parts)

    def _column(self) -> int:
        return self.at - self.line_start + 1

    def _quoted_piece(self) -> str:
        if self.text[self.at] == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`", "\n"):
            escaped = self._taken(self.at + 2)[1:]
            return "" if escaped == "\n" else escaped
        if self.text[self.at] in "$`":
            return self._expansion()[1]
        return self._taken(self.at + 1)

    def _expansion(self, depth: int = 0) -> tuple[bool, str]:
        """What stands at a ``$`` or a backquote: whether this text tells it, and its value or how it is written."""
        start = self.at
        known = self._known_expansion(depth)
        if known is not None:
            return True, known
        shown = self.text[start : self.at]
        if shown == "$":
            return True, shown
        self.unknown.append(shown)
        return False, shown

    def _known_expansion(self, depth: int) -> str | None:
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            self._advance((len(self.text) if end < 0 else end + 1) - self.at)
            return None
        self._advance(1)
        if self.text.startswith("(", self.at):
            self._balanced("(", ")")
            return None
        if self.text.startswith("{", self.at):
            return self._in_braces(depth)
        match = _NAME.match(self.text, self.at)
        if match is None:
            return None
        name = match[0][0] if match[0].isdigit() else match[0]
        self._advance(len(name))
        return self.variables.get(name)

    def _in_braces(self, depth: int) -> str | None:
        """``${NAME}``, ``${NAME:-default}`` and ``${NAME:=default}``; every other form is not told."""
        start = self.at
        match = re.compile(r"\{([A-Za-z_]\w*|\d+|[@*])(?:(\})|:?[-=])").match(self.text, start)
        if match is None or depth > _MAX_DEPTH:
            self._balanced("{", "}")
            return None
        self._advance(match.end() - start)
        name = match[1]
        if match[2]:
            return self.variables.get(name)
        before = len(self.unknown)
        default = self._default(depth)
        value = self.variables.get(name)
        is_told = len(self.unknown) == before
        del self.unknown[before:]
        if value:
            return value
        return default if is_told else None

    def _default(self, depth: int) -> str:
        """The text up to the brace that closes, as a shell reads it: the first that no quotes or ``${`` hold."""
        parts: list[str] = []
        while self.at < len(self.text) and self.text[self.at] != "}":
            character = self.text[self.at]
            if character in "$`":
                parts.append(self._expansion(depth + 1)[1])
            elif character == "\\":
                parts.append(self._taken(self.at + 2)[1:])
            elif character == '"':
                self._advance(1)
            else:
                parts.append(self._taken(self.at + 1))
        self._advance(1)
        return "".join(parts)

    def _balanced(self, opening: str, closing: str) -> None:
        """Past what a bracket holds; past the bracket alone, where nothing closes it."""
        end = None if opening in self.unbalanced else self._closing(opening, closing)
        if end is None:
            self.unbalanced.add(opening)
        self._advance(1 if end is None else end - self.at)

    def _closing(self, opening: str, closing: str) -> int | None:
        depth, at = 0, self.at
        while at < len(self.text):
            character = self.text[at]
            depth += (character == opening) - (character == closing)
            if not depth:
                return at + 1
            quote = self.text.find("'", at + 1) if character == "'" and opening == "(" else -1
            at = quote + 1 if quote > 0 else at + (2 if character == "\\" else 1)
        return None

    def _taken(self, end: int) -> str:
        taken = self.text[self.at : end]
        self._advance(len(taken))
        return taken

    def _advance(self, count: int) -> None:
        passed = self.text[self.at : self.at + count]
        breaks = passed.count("\n")
        if breaks:
            self.line += breaks
            self.line_start = self.at + passed.rindex("\n") + 1
        self.at += count


def _is_of_caller(words: list[Word]) -> bool:
    """Whether an array gathers the arguments of the script, as a loop over them does."""
    return any(re.match(r"\$\{?\d", shown) for word in words for shown in word.unknown)


def script(
    text: str,
    shown: str,
    *,
    line: int = 1,
    column: int = 1,
    variables: dict[str, str] | None = None,
    bare_json: bool = False,
) -> Script:
    """The simple commands of a shell text, each as its words; assignments are taken in and left out.

    ``line`` and ``column`` are where the text begins. ``variables`` holds what is already assigned, and gets what the
    text assigns. With ``bare_json`` a JSON object that nothing quotes is one word, since inside the quotes of a whole
    command there are none left for it. Conditions and loops are not run: what counts is the last assignment above a
    command. Refuses what is too large to be a script.
    """
    if len(text) > _MAX_TEXT:
        message = f"{shown} has {len(text)} characters; a script is read up to {_MAX_TEXT}"
        refuse("too-large", Mark(shown, line, 1, line, 2), message, "Give the command itself.")
    reader = _Reader(text, shown, line, column, {} if variables is None else variables, bare_json)
    return Script(list(reader.commands()), reader.documents, reader.open_quote)


def interpolated(text: str, mark: Mark) -> Word:
    """One word in which variables alone are expanded, as a compose file does it in its strings."""
    return _Reader(text, mark.file, mark.line, 1, {}, bare_json=False).interpolated(mark)
