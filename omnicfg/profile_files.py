"""Which files are profiles: those that are named, and in a directory those that look like one."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from omnicfg.confine import may_read
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.passes.read import MAX_BYTES, load_text, read_text
from omnicfg.tree import Layer, LayerKind, Mapping, Node, Scalar
from omnicfg.tree import Sequence as List

SUFFIXES: Final = (".yaml", ".yml")
_SKIPPED: Final = frozenset({"node_modules", "__pycache__"})
_ENVIRONMENT: Final = "pyvenv.cfg"  # https://docs.python.org/3/library/venv.html


def profiles_in(paths: Sequence[Path], closed: Callable[[OSError], None] | None = None) -> Iterator[Path]:
    """The profiles that the paths name, each once, in order: a file as it is, a directory's by what they hold.

    ``closed`` is told of directories below that cannot be read: nobody knows whether there are profiles in them.
    """
    seen: set[str] = set()
    for path in paths:
        for each in _search(path, closed) if path.is_dir() else [path]:
            name = os.path.normpath(each)
            if name not in seen:
                seen.add(name)
                yield Path(name)


def _search(directory: Path, closed: Callable[[OSError], None] | None) -> Iterator[Path]:
    """Every YAML file below a directory that looks like a profile; hidden and installed ones are left out.

    Raises :class:`UsageError` where the directory itself cannot be read; those below it are skipped then, and told.
    """
    try:
        os.scandir(directory).close()
    except OSError as error:
        raise UsageError(
            f"the directory `{directory}` cannot be read: {error.strerror}", "Check its permissions."
        ) from None
    for folder, folders, files in os.walk(directory, onerror=closed):
        folders[:] = sorted(name for name in folders if not _is_skipped(Path(folder), name))
        for name in sorted(files):
            path = Path(folder) / name
            if path.suffix.lower() in SUFFIXES and looks_like_profile(path):
                yield path


def _is_skipped(parent: Path, name: str) -> bool:
    """Hidden directories, and those in which packages are installed: a virtual environment has its mark in it."""
    if name.startswith(".") or name in _SKIPPED:
        return True
    return os.path.isfile(parent / name / _ENVIRONMENT)  # noqa: PTH113  # false, where Path raises: no permission


def looks_like_profile(path: Path) -> bool:
    """Whether a file has a sign of a profile; one that cannot be parsed counts if a line of it begins like one.

    One that may not or cannot be read counts too: what stands there, or what a link of that name leads to, has to be
    told, not passed over.
    """
    if not may_read(path):
        return True
    try:
        text = load_text(path, str(path))
    except OmnicfgError:
        if os.path.isfile(path) and not os.access(path, os.R_OK):  # noqa: PTH113  # false, where Path raises
            return True
        text = _in_another_encoding(path)
    if not _SIGN_LINE.search(text) and not (_BRACE.match(text) and _SIGN_KEY.search(text)):
        return False
    try:
        document = read_text(text, Layer(LayerKind.PROFILE), str(path))
    except OmnicfgError:
        return True
    return any(key in document.items and is_sign(document.items[key]) for key, is_sign in _SIGNS.items())


def _in_another_encoding(path: Path) -> str:
    """What can be read of a small file that is not UTF-8: a profile in Latin-1 or UTF-16 is a wrong one, but one."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        raw = path.read_bytes()
    except OSError:
        return ""
    return raw.replace(b"\0", b"").decode("utf-8", errors="ignore")


def _has_stage_id(node: Node) -> bool:
    return isinstance(node, List) and any("stage_id" in entry.items for entry in node.mappings())


# Top-level keys of a profile, and the shape in which they tell one from the many other YAML files that have them too.
_SIGNS: Final[dict[str, Callable[[Node], bool]]] = {
    "stages": _has_stage_id,
    "base_config": lambda node: isinstance(node, Scalar),
    "pipeline": lambda node: isinstance(node, Scalar),
    "platforms": lambda node: isinstance(node, Mapping),
    "connectors": lambda node: isinstance(node, Mapping),
    "duplex_session": lambda node: isinstance(node, Mapping),
    "async_chunk": lambda node: isinstance(node, Scalar),
}
_KEY: Final = rf"(?P<quote>[\"']?)(?:{'|'.join(_SIGNS)})(?P=quote)[ \t]*:"
_SIGN_LINE: Final = re.compile(rf"^{_KEY}", re.MULTILINE)
_SIGN_KEY: Final = re.compile(rf"(?<![\w.-]){_KEY}")
# A document in braces, which stand nowhere but at its beginning, and are none of a template's: `{{`, `{%`, `{#`.
_BRACE: Final = re.compile(r"(?:[ \t\r]*(?:[#%][^\n]*|---[ \t\r]*)?\n)*(?:---)?[ \t]*\{(?![{%#])")
