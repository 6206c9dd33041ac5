"""The words after `serve` → the flags that were given, as upstream's parser (vLLM's, over argparse) reads them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Hashable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

from omnicfg.command_line.findings import finding
from omnicfg.command_line.flags import Catalog, Flag, catalog
from omnicfg.command_line.json_keys import keys_of
from omnicfg.command_line.shell import Word
from omnicfg.diagnostics import Diagnostic
from omnicfg.near import did_you_mean
from omnicfg.passes.override import is_plain
from omnicfg.passes.read import MAX_DEPTH
from omnicfg.secrets import redacted
from omnicfg.tree import Mark, Route

_READABLE: Final = r"(\d+(?:\.\d+)?)([kKmMgGtT])"
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}
_LIST: Final = r"[@*]\]?\}?\Z"
_OBJECTS: Final = ("json", "json_object", "config", "dict_or_str", "stage_overrides")
_NEGATIVE: Final = r"-\d+(\.\d*)?\Z|-\.\d+\Z"


class Given(NamedTuple):
    """A flag that was given: its value as upstream has it, how it is shown, where it stands, its words for a shell.

    Of a credential only the value itself is not hidden. ``is_open`` is a flag whose value nothing here tells, as it
    comes from outside of the text; its ``value`` is ``None``. ``keys`` says where keys of its JSON stand, as far as
    that is known.
    """

    flag: Flag
    value: Any
    text: str
    mark: Mark
    words: tuple[str, ...]
    is_open: bool = False
    keys: Mapping[Route, Mark] = {}

    def place(self, *route: Hashable) -> Mark:
        """Where a key of the flag's JSON stands, else the flag."""
        return self.keys.get(route, self.mark)


class CommandLine(NamedTuple):
    """A parsed command: the model, the flags that were given (each once: the last one counts,
    or all that add up), and what is wrong.

    ``stage_config`` is the old stage config that ``--stage-configs-path`` named before 0.30; ``rest`` holds words that
    may stand for any flags, such as ``$@``.
    """

    model: Word | None
    given: dict[str, Given]
    findings: list[Diagnostic]
    stage_config: Word | None = None
    stage_config_flag: Word | None = None
    rest: tuple[Word, ...] = ()

    def value(self, dest: str) -> Any:
        """The value of a flag; ``None`` where it was not given."""
        return self.given[dest].value if dest in self.given else None


class _BadValueError(Exception):
    """A value that a flag cannot have; the message says what it has to be, the help what was meant, and ``part`` from
    where to where it stands in the value's text.
    """

    def __init__(self, message: str, help: str | None = None, part: tuple[int, int] | None = None) -> None:
        super().__init__(message)
        self.help = help
        self.part = part


def parse(words: Iterable[Word]) -> CommandLine:
    """The command line that the words after `serve` make."""
    return _Parser(catalog(), list(words)).parse()


class _Parser:
    def __init__(self, known: Catalog, words: list[Word]) -> None:
        self.known = known
        self.words = words
        self.at = 0
        self.model: Word | None = None
        self.given: dict[str, Given] = {}
        self.nested: dict[tuple[str, str], tuple[dict[str, Any], Word]] = {}
        self.findings: list[Diagnostic] = []
        self.old: tuple[Word | None, Word | None] = (None, None)
        self.rest: list[Word] = []

    def parse(self) -> CommandLine:
        for word in self.words:
            self._check_variables(word)
        while self.at < len(self.words):
            word = self.words[self.at]
            self.at += 1
            if _is_option(word.text):
                self._take(word)
            elif word.text in word.unknown and (self.model is not None or re.search(_LIST, word.text)):
                self.rest.append(word)
            elif self.model is None:
                self.model = word
            else:
                self._tell_second_model(word)
        for (_, option), (value, word) in self.nested.items():
            self._set(self.known.by_option[option], json.dumps(value), word, [Word(json.dumps(value), word.mark)])
        if "model" in self.given:
            if self.model is not None:  # upstream puts the flag's value in its place, and knows no second one
                self._tell_second_model(self.model)
            self.model = Word(str(self.given["model"].value), self.given["model"].mark)
        return CommandLine(self.model, self.given, self.findings, *self.old, tuple(self.rest))

    def _tell_second_model(self, word: Word) -> None:
        self._tell(
            "unknown-flag", word, f"`{word.text}` is no flag, and the model is already named", "Name one model alone."
        )

    def _check_variables(self, word: Word) -> None:
        for shown in word.unknown:
            if shown.startswith(("$(", "`", "<(", ">(")):
                message = f"what `{shown}` prints is not known here"
            elif re.match(r"\$\{?[\d@*#]", shown):
                message = f"`{shown}` is what the script is called with, which is not known here"
            else:
                message = f"nothing here tells what `{shown}` is"
            self._tell("unset-variable", word, message)

    def _tell(self, name: str, word: Word, message: str, help: str | None = None) -> None:
        self.findings.append(finding(name, word.mark, message, help))

    def _take(self, word: Word) -> None:
        option, equals, text = word.text.partition("=")
        if word.text.startswith("-O") and word.text[2:3] not in ("", "="):
            option, equals, text = "--optimization-level", "=", word.text[2:]
        elif option == "-O":
            option = "--optimization-level"
        if option.startswith("--"):
            head, dot, tail = option.partition(".")
            option = "--" + head[2:].replace("_", "-") + dot + tail
        if "." in option:
            self._take_nested(word, option, equals, text)
            return
        flag = self._flag(word, option)
        if flag is None:
            start = self.at
            self._skip_values()
            if option == "--stage-configs-path":
                named = [word._replace(text=text)] if equals else self.words[start : self.at]
                self.old = (named[0] if named else None, word)
            return
        if not flag.takes_value:
            self._set_switch(flag, option, equals, word)
            return
        values = [word.ending(text)] if equals else self._values(flag, word)
        if values is not None:
            self._set(flag, " ".join(value.text for value in values), word, values, bare=not values)

    def _flag(self, word: Word, option: str) -> Flag | None:
        """The flag of an option; an unambiguous beginning of a long one will do, as for argparse."""
        known = self.known.by_option
        if option in known:
            return known[option]
        longer = {known[name].dest: known[name] for name in known if name.startswith(option)} if len(option) > 2 else {}
        if option.startswith("--") and len(longer) == 1:
            return next(iter(longer.values()))
        dest = option.lstrip("-").replace("-", "_")
        if dest in self.known.removed:
            help = "`omnicfg migrate` turns the file into a profile; name that with `--deploy-config`."
            self._tell("unknown-flag", word, f"`{option}` is no longer there: its schema was removed", help)
        elif longer:
            names = ", ".join(sorted(flag.shown for flag in longer.values())[:6])
            self._tell("unknown-flag", word, f"`{option}` is the beginning of several flags", f"It may be {names}.")
        else:
            near = did_you_mean(option, known)
            self._tell("unknown-flag", word, f"`vllm serve --omni` has no flag `{option}`", near)
        return None

    def _skip_values(self) -> None:
        while self.at < len(self.words) and not _is_option(self.words[self.at].text):
            self.at += 1

    def _values(self, flag: Flag, word: Word) -> list[Word] | None:
        """The words that a flag takes; ``None`` where the one that it needs is missing."""
        start = self.at
        while self.at < len(self.words) and not _is_option(self.words[self.at].text):
            self.at += 1
            if flag.nargs not in ("+", "*"):
                break
        values = self.words[start : self.at]
        if values or flag.nargs in ("?", "*"):
            return values
        self._tell("bad-flag-value", word, f"`{flag.shown}` needs a value")
        return None

    def _set_switch(self, flag: Flag, option: str, equals: str, word: Word) -> None:
        if equals:
            self._tell("bad-flag-value", word, f"`{option}` takes no value")
            return
        value = not option.startswith("--no-") if flag.kind == "bool" else flag.const
        self.given[flag.dest] = Given(flag, value, option, word.mark, (word.quoted,))

    def _set(self, flag: Flag, text: str, word: Word, values: list[Word], *, bare: bool = False) -> None:
        is_open = any(value.unknown for value in values)
        try:
            if is_open:
                value = None
            elif bare:
                value = flag.const
            elif flag.nargs in ("+", "*"):
                value = [_value(flag, each.text) for each in values]
            else:
                value = _value(flag, text)
        except _BadValueError as error:
            place = values[0] if values else word
            if error.part is not None:
                [mark] = place.places([error.part])
                place = place if mark is None else place.moved(mark)
            shown = _short(_safe(flag, text))
            self._tell("bad-flag-value", place, f"`{flag.shown}` is `{shown}`; it has to be {error}", error.help)
            return
        keys: dict[Route, Mark] = {}
        if values and flag.kind.removeprefix("optional ") in _OBJECTS and isinstance(value, dict | list):
            keys = self._keys(flag, values[0])
        shown = _short(_safe(flag, text))
        words = (flag.shown, *(_quoted(flag, each) for each in values))
        given = Given(flag, value, f"{flag.shown} {shown}".rstrip(), word.mark, words, is_open, keys)
        self.given[flag.dest] = _added(self.given.get(flag.dest), given) if flag.adds_up else given

    def _keys(self, flag: Flag, word: Word) -> dict[Route, Mark]:
        """Where the keys of a flag's JSON stand. One that an object has twice is told: Python reads the last one."""
        marks: dict[Route, Mark] = {}
        found = list(keys_of(word.text))
        for key, mark in zip(found, word.places((key.start, key.end) for key in found), strict=True):
            if key.is_repeated:
                shown = _short(str(key.route[-1]))
                message = f"`{flag.shown}` has `{shown}` more than once in one object; only the last one counts"
                told = word if mark is None else word.moved(mark)
                self._tell("ineffective-flag", told, message, "Put what they say into one.")
            if mark is not None:
                marks[key.route] = mark
        return marks

    def _take_nested(self, word: Word, option: str, equals: str, text: str) -> None:
        """``--compilation-config.mode 3``: all of one flag together are its JSON."""
        head, *keys = option.removesuffix("+").split(".")
        flag = self._flag(word, head)
        given = word
        if not equals and self.at < len(self.words):
            given = self.words[self.at]
            text = given.text
            self.at += 1
        if flag is None:
            return
        if given.unknown:
            words = (word.quoted,) if given is word else (word.quoted, given.quoted)
            self.given[option] = Given(flag, None, " ".join(words), word.mark, words, is_open=True)
            return
        value = text.split(",") if option.endswith("+") else _loose(text)
        # Upstream gathers by the option as it is written: of a long and a short form, the last one replaces the other.
        block = self.nested.setdefault((head, flag.options[0]), ({}, word))[0]
        for key in keys[:-1]:
            inner = block.setdefault(key, {})
            if not isinstance(inner, dict):
                inner = block[key] = {}
            block = inner
        block[keys[-1]] = value


def _added(before: Given | None, given: Given) -> Given:
    """A flag whose values add up, after those that were given before: a list of all of them."""
    value = None if given.is_open else [given.value]
    if before is None:
        return given._replace(value=value)
    return Given(
        given.flag,
        None if value is None or before.is_open else [*before.value, *value],
        f"{before.text} {given.text}",
        before.mark,
        before.words + given.words,
        before.is_open or given.is_open,
    )


def _is_option(text: str) -> bool:
    return (
        text.startswith("-") and len(text) > 1 and not re.match(_NEGATIVE, text) and " " not in text.partition("=")[0]
    )


def _loose(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return _readable(text)
    except _BadValueError:
        return text


def _value(flag: Flag, text: str) -> Any:
    """A value as upstream has it once it is read. Raises :class:`_BadValueError`."""
    kind = flag.kind.removeprefix("optional ")
    choices = [choice for choice in flag.choices if choice != "None"]  # upstream lists it, and takes it from nobody
    if kind != flag.kind and text in ("", "None") and not choices:
        return None
    value = _CONVERT[kind](text)
    if choices and str(value) not in choices:
        raise _BadValueError(f"one of {', '.join(choices)}")
    if kind == "config":
        _check_keys(flag, value, text)
        return _merged(flag.defaults, value)
    return value


def _check_keys(flag: Flag, value: dict[str, Any], text: str) -> None:
    """Raises :class:`_BadValueError` for a key that the config behind a flag does not have."""
    for key in value if flag.keys else ():
        if key not in flag.keys:
            near = did_you_mean(key, flag.keys)
            part = next((found.start, found.end) for found in keys_of(text) if found.route == (key,))
            raise _BadValueError(f"JSON without `{_short(key)}`, which this flag does not take", near, part)


def _merged(below: Any, above: Any) -> Any:
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}


def _number(convert: type[int] | type[float], what: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            if len(text) > 400:
                raise ValueError
            return convert(text)
        except ValueError:
            raise _BadValueError(what) from None

    return read


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise _BadValueError("JSON", part=(error.pos, error.pos + 1)) from None
    except (ValueError, RecursionError):
        raise _BadValueError("JSON") from None
    if not is_plain(value, MAX_DEPTH):
        raise _BadValueError("JSON that nests less deeply")
    return value


def _json_object(text: str) -> Any:
    value = _json(text)
    if not isinstance(value, dict):
        raise _BadValueError("a JSON object")
    return value


def _stage_overrides(text: str) -> Any:
    value = _json_object(text)
    if not all(key.isascii() and key.isdigit() and isinstance(entry, dict) for key, entry in value.items()):
        raise _BadValueError('a JSON object of stage ids and settings, such as `{"0": {"max_num_seqs": 8}}`')
    return value


def _dict_or_str(text: str) -> Any:
    return _json(text) if re.match(r"(?s)\s*\{.*\}\s*\Z", text) else text


def _readable(text: str) -> int:
    """``8k`` is 8000, ``8K`` is 8192."""
    what = "a whole number, such as 8192, 8k or 8K"
    match = re.fullmatch(_READABLE, text.strip())
    if match is None:
        return int(_number(int, what)(text.strip()))
    power = _POWERS[match[2].lower()]
    if match[2].islower():
        return int(Decimal(match[1]) * Decimal(1000**power))
    if "." in match[1]:
        raise _BadValueError(f"{what}; fractions go with small letters")
    return int(match[1]) * int(1024**power)


def _readable_or_auto(text: str) -> int:
    return -1 if text.strip() == "-1" or text.strip().lower() == "auto" else _readable(text)


_CONVERT: Final[dict[str, Callable[[str], Any]]] = {
    "str": str,
    "int": _number(int, "a whole number"),
    "float": _number(float, "a number"),
    "json": _json,
    "json_object": _json_object,
    "config": _json_object,
    "dict_or_str": _dict_or_str,
    "human_int": _readable,
    "human_int_or_auto": _readable_or_auto,
    "stage_overrides": _stage_overrides,
}


def _quoted(flag: Flag, word: Word) -> str:
    shown = _safe(flag, word.text)
    return word.quoted if shown == word.text else shlex.quote(shown)


def _safe(flag: Flag, text: str) -> str:
    """The value of a flag as it may be shown, without the credentials that it is or that its JSON holds."""
    if text.lstrip().startswith(("{", "[")):
        try:
            value = _json(text)
        except _BadValueError:
            return str(redacted(flag.dest, text))
        safe = redacted(flag.dest, value)
        return text if safe == value else json.dumps(safe)
    return str(redacted(flag.dest, text))


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."
