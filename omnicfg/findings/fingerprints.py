"""What identifies a finding when it is met again: its code and what it is about, not the line it was on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from omnicfg.catalog.paths import profiles_dir
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError
from omnicfg.files import NO_TEXT
from omnicfg.passes.read import read_file
from omnicfg.secrets import without_passwords
from omnicfg.tree import Layer, LayerKind, Mapping, Node, Sequence

_PROFILES: Final = re.compile(r" \(in profile [^()]*\)$")
_LINE: Final = re.compile(r"(?<=\bline )\d+|(?<=:)\d+(?::\d+)?")


class Fingerprint(NamedTuple):
    """``path`` is as the one who keeps it sees it; ``where`` a key path, or the message of what has no place."""

    code: str
    path: str
    where: str
    stage_id: int | None

    @property
    def digest(self) -> str:
        """All of it in 32 hexadecimal digits."""
        return hashlib.sha256("\0".join(map(str, self)).encode(errors=NO_TEXT)).hexdigest()[:32]


class Fingerprints:
    """Makes fingerprints; reads each file once."""

    def __init__(self) -> None:
        self._places: dict[str, dict[tuple[int, int], list[str]]] = {}

    def of(self, finding: Diagnostic, path: str) -> Fingerprint:
        """The fingerprint of a finding whose file is called ``path``."""
        return Fingerprint(finding.code, path, self.where(finding), finding.stage_id)

    def where(self, finding: Diagnostic) -> str:
        """The path of the key that a finding is about: ``stages.0.max_num_seqs``, a stage by its id."""
        if finding.path not in self._places:
            tree = _tree(finding.path)
            self._places[finding.path] = {} if tree is None else dict(_places(tree, []))
        parts = self._places[finding.path].get((finding.line, finding.column), [])
        return ".".join(parts) or _LINE.sub("N", _PROFILES.sub("", without_passwords(finding.message)))


def _tree(name: str) -> Mapping | None:
    """The file that findings call by a name: a path, or a shipped profile. ``None`` where it cannot be read."""
    for path in (Path(name), profiles_dir() / name):
        try:
            return read_file(path, Layer(LayerKind.PROFILE), name)
        except OmnicfgError:
            continue
    return None


def _places(node: Node, parts: list[str]) -> Iterator[tuple[tuple[int, int], list[str]]]:
    """Where everything in a tree begins, and the keys on the way to it; of two at one place the inner comes last."""
    if isinstance(node, Mapping):
        children = [(key, [*parts, str(key)], child) for key, child in node.items.items()]
    elif isinstance(node, Sequence):
        children = [(None, [*parts, _item(child, number)], child) for number, child in enumerate(node.items)]
    else:
        return
    for key, inner, child in children:
        mark = node.key_marks.get(key) if isinstance(node, Mapping) else None
        for place in filter(None, (mark, child.mark)):
            yield (place.line, place.column), inner
        yield from _places(child, inner)


def _item(node: Node, number: int) -> str:
    stage_id = node.value("stage_id") if isinstance(node, Mapping) else None
    return f"[{number}]" if stage_id is None else str(stage_id)
