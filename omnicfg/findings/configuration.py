"""Configuration files: ``omnicfg.toml``, or ``[tool.omnicfg]`` of ``pyproject.toml``, found upward from where one is.

Every mistake in one is told with its place, all at once. Paths in it are relative to its own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import vllm_versions
from omnicfg.confine import may_read, require_readable
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.files import current_folder, relative_to_here
from omnicfg.findings.review import known_codes
from omnicfg.findings.settings import OFF, PathRules, Settings
from omnicfg.near import did_you_mean
from omnicfg.refusals import REFUSALS
from omnicfg.report.formats import format_names
from omnicfg.rule import ENGINES, rule_modules, rule_of
from omnicfg.tree import Mark

if TYPE_CHECKING:
    from omnicfg.findings.toml_places import Route

NAMES: Final = ("omnicfg.toml", "pyproject.toml")
FAIL_ON: Final = ("error", "warning")
MAX_BYTES: Final = 1 << 20
_TABLE: Final[Route] = ("tool", "omnicfg")
NO_GLOB: Final = r"^[/!]|^[A-Za-z]:|[\\{}\[\]]"
_SEVERITIES: Final = (*(severity.value for severity in Severity), OFF)
_PLACE: Final = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")
_KINDS: Final = {
    dict: "a table",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
}


class _Found(NamedTuple):
    """A file, its text, and the table of it that is ours, which has a route."""

    file: Path
    text: str
    table: Any
    route: Route


def configured(file: Path | None = None, folder: Path | None = None) -> Settings:
    """What a configuration file says: the one that is named, or the one that is found; nothing where there is none.

    It is looked for in ``folder``, where not in the current one, and upward from there.

    Raises :class:`~omnicfg.errors.OmnicfgError` with everything that is wrong in it.
    """
    if file is None:
        found = _nearest(folder or current_folder())
        return Settings() if found is None else _Reader(found).settings()
    if not file.is_file():
        raise UsageError(f"there is no configuration file `{file}`", f"Its name is {' or '.join(NAMES)}, mostly.")
    found = _in(file)
    if found is None:
        raise UsageError(f"`{file}` has no `[{'.'.join(map(str, _TABLE))}]`", "Add that table, or name another file.")
    return _Reader(found).settings()


def _nearest(folder: Path) -> _Found | None:
    for above in filter(may_read, (folder, *folder.parents)):
        for name in NAMES:
            path = above / name
            if os.path.isfile(path):  # noqa: PTH113  # false, where Path raises: no permission
                found = _in(relative_to_here(path))
                if found is not None:
                    return found
            elif name == NAMES[0] and os.path.lexists(path):  # likewise
                raise UsageError(f"`{relative_to_here(path)}` leads to no file", "Mend it, or remove it.")
    return None


def _in(file: Path) -> _Found | None:
    """What a file has for us; ``None`` where a ``pyproject.toml`` has no such table."""
    text = _text(file)
    if file.name != "pyproject.toml":
        return _Found(file, text, _parsed(text, file), ())
    # Other tools' mistakes in a shared file are none of ours.
    if "omnicfg" not in text:
        return None
    table: Any = _parsed(text, file)
    for name in _TABLE:
        table = table.get(name) if isinstance(table, dict) else None
    return None if table is None else _Found(file, text, table, _TABLE)


def _text(file: Path) -> str:
    require_readable(file)
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read: {error.strerror}", "`--no-config` goes without it.") from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"`{file}` has more than {MAX_BYTES} bytes", "`--no-config` goes without it.")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise UsageError(f"`{file}` is not UTF-8 text", "Save it as UTF-8.") from None


def _parsed(text: str, file: Path) -> dict[str, Any]:
    import tomllib  # most folders have no configuration, and it takes a third of a bare start of Python

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        said = str(error)
        place = _PLACE.search(said)
        line, column = (int(place["line"]), int(place["column"])) if place else (0, 0)
        mark = Mark(str(file), line, column, line, column + 1)
        raise OmnicfgError([_problem(mark, f"this is not TOML: {said[: place.start()] if place else said}")]) from None
    except RecursionError:
        raise OmnicfgError([_problem(Mark(str(file)), "this is nested too deeply")]) from None


def _problem(mark: Mark, message: str, help: str | None = None) -> Diagnostic:
    return Diagnostic.at(mark, "OC000", "configuration", Severity.ERROR, message, help=help)


class _Reader:
    """Reads one file's table into settings, and collects what is wrong with it."""

    def __init__(self, found: _Found) -> None:
        from omnicfg.findings.toml_places import places

        self.file, _, self.data, self.table = found
        self.problems: list[Diagnostic] = []
        self.places = places(found.text, str(found.file))

    def settings(self) -> Settings:
        """The settings. Raises :class:`OmnicfgError` where something is wrong."""
        found = self.entries((), self.data, _SETTINGS)
        values = {field: read(self, (name,), found[name]) for name, (field, read) in _SETTINGS.items() if name in found}
        if self.problems:
            raise OmnicfgError(sorted(self.problems, key=lambda problem: problem.sort_key))
        return Settings(self.file, **values)

    def refuse(self, route: Route, message: str, help: str | None = None, *, key: bool = False) -> None:
        """Note a problem at a value, or at its key."""
        place = self.places.get((*self.table, *route))
        mark = Mark(str(self.file), 1, 1, 1, 2) if place is None else place.key if key and place.key else place.value
        if mark.end_line != mark.line:
            mark = mark._replace(end_line=mark.line, end_column=mark.column + 1)
        self.problems.append(_problem(mark, message, help))

    def is_a(self, kind: type, route: Route, value: Any) -> bool:
        """Whether a value is of a kind; if not, that is a problem."""
        if type(value) is kind:
            return True
        self.refuse(route, f"{_named(route)} has to be {_KINDS[kind]}, not {_KINDS.get(type(value), 'a date or time')}")
        return False

    def entries(self, route: Route, value: Any, known: Iterable[str]) -> dict[str, Any]:
        """The entries of a table that has only known keys."""
        if not self.is_a(dict, route, value):
            return {}
        names = tuple(known)
        for name in value:
            if name not in names:
                hint = did_you_mean(name, names) or f"Keys: {', '.join(names)}."
                if not route and not self.table and name == _TABLE[0]:
                    hint = f"`[{'.'.join(map(str, _TABLE))}]` is for `pyproject.toml`; here its keys stand without it."
                self.refuse((*route, name), f"{_named(route)} has no key `{name}`", hint, key=True)
        return {name: value[name] for name in value if name in names}

    def items(self, route: Route, value: Any) -> list[tuple[Route, Any]]:
        """The items of a list, each with its route."""
        return [((*route, number), item) for number, item in enumerate(value)] if self.is_a(list, route, value) else []

    def text(self, route: Route, value: Any) -> str:
        """Text with something in it."""
        if self.is_a(str, route, value) and not value.strip():
            self.refuse(route, f"{_named(route)} is empty", "Leave it out, or write what it is for.")
        if "\0" in str(value):
            self.refuse(route, f"{_named(route)} holds a null character", "Remove it.")
        return str(value)

    def beside(self, text: str) -> Path:
        """A path that is relative to the file's folder."""
        return Path(os.path.normpath(self.file.parent / text))


def _named(route: Route) -> str:
    """How a value is called: by its name, as an item of a list by that of the list."""
    names = [part for part in route if isinstance(part, str)]
    if not names:
        return "the configuration"
    return f"an entry of `{names[-1]}`" if isinstance(route[-1], int) else f"`{names[-1]}`"


# -------------------------------------------------------------------------------------- what each key's value may be
_Read = Callable[[_Reader, "Route", Any], Any]


def _one_of(choices: Callable[[], Iterable[str]]) -> _Read:
    def read(reader: _Reader, route: Route, value: Any) -> str:
        known = tuple(choices())
        if reader.is_a(str, route, value) and value not in known:
            hint = did_you_mean(value, known) or f"One of: {', '.join(known)}."
            reader.refuse(route, f"{_named(route)} cannot be `{value}`", hint)
        return str(value)

    return read


def _list_of(item: _Read) -> _Read:
    def read(reader: _Reader, route: Route, value: Any) -> tuple[Any, ...]:
        found = [item(reader, where, each) for where, each in reader.items(route, value)]
        if value == []:
            reader.refuse(route, f"{_named(route)} is empty", "Leave it out, or write what it is for.")
        return tuple(found)

    return read


def _glob(reader: _Reader, route: Route, value: Any) -> str:
    """A glob that can mean a file: what other tools write in globs stands for itself here."""
    text = reader.text(route, value)
    if found := re.search(NO_GLOB, text):
        hint = f"A glob is relative to the folder of `{reader.file.name}`, and has `*`, `?`, `**` and slashes."
        reader.refuse(route, f"`{found[0]}` has no meaning in {_named(route)}", hint)
    return text


def _path(reader: _Reader, route: Route, value: Any) -> Path:
    return reader.beside(reader.text(route, value))


def _format(reader: _Reader, route: Route, value: Any) -> str:
    name, colon, file = reader.text(route, value).partition(":")
    _one_of(format_names)(reader, route, name if isinstance(value, str) else value)
    return f"{name}:{reader.beside(file)}" if colon and file else f"{name}{colon}"


def _rules(reader: _Reader, route: Route, value: Any) -> Mapping[str, Severity | None]:
    found: dict[str, Severity | None] = {}
    for code, severity in value.items() if reader.is_a(dict, route, value) else ():
        where = (*route, code)
        _check_code(reader, where, code)
        if severity in _SEVERITIES:
            found[code] = None if severity == OFF else Severity(severity)
        else:
            shown = f"`{severity}`" if isinstance(severity, str) else _KINDS.get(type(severity), "a date or time")
            reader.refuse(where, f"{_named(where)} cannot be {shown}", f"One of: {', '.join(_SEVERITIES)}.")
    return found


def _check_code(reader: _Reader, route: Route, code: str) -> None:
    """A rule's code, or one that a policy may have: which policies there are shows only when they are read."""
    from omnicfg.policy.file import ID

    known = known_codes()
    if code in known:
        return
    hint = did_you_mean(code, known)
    if hint is None and re.fullmatch(ID, code):
        return
    names = {rule_of(module).name: rule_of(module).code for module in rule_modules()}
    names |= {name: refusal.code for name, refusal in REFUSALS.items()}
    hint = f"`{code}` has the code `{names[code]}`." if code in names else hint
    reader.refuse(route, f"no rule has the code `{code}`", hint or "`omnicfg rules` lists the codes.", key=True)


def _path_rules(reader: _Reader, route: Route, value: Any) -> tuple[PathRules, ...]:
    found: list[PathRules] = []
    for where, entry in reader.items(route, value):
        entries = reader.entries(where, entry, _PATH_RULES)
        for name, read in _PATH_RULES.items():
            if name in entries:
                entries[name] = read(reader, (*where, name), entries[name])
            elif isinstance(entry, dict):
                reader.refuse(where, f"an entry of `{route[-1]}` has no `{name}`", "It takes both `files` and `rules`.")
        if len(entries) == len(_PATH_RULES):
            found.append(PathRules(**entries))
    return tuple(found)


_PATH_RULES: Final[Mapping[str, _Read]] = {"files": _list_of(_glob), "rules": _rules}
# The key as it is written → the field of `Settings`, and what reads its value.
_SETTINGS: Final[Mapping[str, tuple[str, _Read]]] = {
    "platforms": ("platforms", _list_of(_one_of(lambda: deploy_schema().platforms))),
    "engine": ("engine", _one_of(lambda: ENGINES)),
    "vllm-version": ("vllm_version", _one_of(vllm_versions)),
    "fail-on": ("fail_on", _one_of(lambda: FAIL_ON)),
    "formats": ("formats", _list_of(_format)),
    "baseline": ("baseline", _path),
    "policies": ("policies", _list_of(_path)),
    "rules": ("rules", _rules),
    "paths": ("paths", _path_rules),
}
