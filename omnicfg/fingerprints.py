"""What a finding is told apart by when it is met again: its code and what it is about, not the line it was on."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final, NamedTuple

from omnicfg.catalog.paths import profiles_dir
from omnicfg.diagnostics import Diagnostic
from omnicfg.errors import OmnicfgError
from omnicfg.passes.read import read_file
from omnicfg.secrets import without_passwords
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Sequence

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
        return hashlib.sha256("\0".join(map(str, self)).encode()).hexdigest()[:32]


class Fingerprints:
    """Makes fingerprints; reads each file once."""

    def __init__(self) -> None:
        self._trees: dict[str, Mapping | None] = {}

    def of(self, finding: Diagnostic, path: str) -> Fingerprint:
        """The fingerprint of a finding whose file is called ``path``."""
        return Fingerprint(finding.code, path, self.where(finding), finding.stage_id)

    def where(self, finding: Diagnostic) -> str:
        """The path of the key that a finding is about: ``stages.0.max_num_seqs``, a stage by its id."""
        if finding.path not in self._trees:
            self._trees[finding.path] = _tree(finding.path)
        tree = self._trees[finding.path]
        parts = [] if tree is None or not finding.line else _parts(tree, finding.line, finding.column)
        return ".".join(parts) or _LINE.sub("N", _PROFILES.sub("", without_passwords(finding.message)))


def _tree(name: str) -> Mapping | None:
    """The file that findings call by a name: a path, or a shipped profile. ``None`` where it cannot be read."""
    for path in (Path(name), profiles_dir() / name):
        try:
            return read_file(path, Layer(LayerKind.PROFILE), name)
        except OmnicfgError:
            continue
    return None


def _parts(node: Node, line: int, column: int) -> list[str]:
    """The keys on the way to what stands at a place; as far as there are any."""
    if isinstance(node, Mapping):
        for key, child in node.items.items():
            mark = node.key_marks.get(key)
            if mark is not None and _covers(mark, line, column):
                return [str(key)]
            if _covers(child.mark, line, column):
                return [str(key), *_parts(child, line, column)]
    elif isinstance(node, Sequence):
        for number, child in enumerate(node.items):
            if _covers(child.mark, line, column):
                return [_item(child, number), *_parts(child, line, column)]
    return []


def _item(node: Node, number: int) -> str:
    stage_id = node.value("stage_id") if isinstance(node, Mapping) else None
    return f"[{number}]" if stage_id is None else str(stage_id)


def _covers(mark: Mark, line: int, column: int) -> bool:
    return (mark.line, mark.column) <= (line, column) < (mark.end_line, mark.end_column)
