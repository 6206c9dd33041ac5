"""The open documents of an editor, and the answers to what it asks about them; knows nothing of the protocol."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from omnicfg.buffers import Buffers, identity
from omnicfg.check import Checked, check
from omnicfg.compiler import Profile, compile_profile, load, pipeline_of
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError
from omnicfg.explain import Explanation, explain
from omnicfg.findings.baseline import Baseline
from omnicfg.findings.configuration import configured
from omnicfg.findings.review import report_of
from omnicfg.findings.settings import Settings
from omnicfg.fixes.fix import mend
from omnicfg.lsp.cursor import Cursor, plan_key, setting_at
from omnicfg.lsp.hover import render_hover
from omnicfg.lsp.outline import Symbol, symbols_of
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.passes.read import load_text, read_file
from omnicfg.plan import Plan
from omnicfg.profile_files import looks_like_profile
from omnicfg.rule import DEFAULT_ENGINE, all_platforms
from omnicfg.tree import Layer, LayerKind, Mark, Node
from omnicfg.tree import Mapping as Tree

if TYPE_CHECKING:
    from omnicfg.policy.evaluate import Policies

# https://github.com/redhat-developer/yaml-language-server#using-inlined-schema
_MODELINE: Final = re.compile(r"^#\s*yaml-language-server:\s*\$schema=\S*\bprofile\.schema\.json\s*$", re.MULTILINE)


class Place(NamedTuple):
    """A place in a file, as marks count (from 1)."""

    path: Path
    mark: Mark


class Told(NamedTuple):
    """A finding as it is shown in a document; ``elsewhere`` is its own place where that is in another file."""

    finding: Diagnostic
    elsewhere: Place | None = None


@dataclass
class Document:
    """An open file. ``files`` are those that its findings depend on; ``is_whole`` tells whether all are known."""

    path: Path
    told: list[Told] = field(default_factory=list)
    files: frozenset[str] = frozenset()
    is_whole: bool = False


class _Compiled(NamedTuple):
    """A profile and its plans on the platforms that take it."""

    profile: Profile
    plans: Mapping[str, Plan]

    @property
    def document(self) -> Tree:
        """The file itself, without its bases."""
        return self.profile.chain.documents[0]


class _Opened(NamedTuple):
    """The policies of some files, or what is wrong with them, and the state that the files were in."""

    state: tuple[tuple[int, int], ...]
    policies: Policies | None
    error: OmnicfgError | None


class _OpenPolicies:
    """Policies, and the processes that evaluate them, from one keystroke to the next."""

    def __init__(self) -> None:
        self._opened: dict[tuple[Path, ...], _Opened] = {}

    def of(self, files: tuple[Path, ...]) -> Policies | None:
        """Those of some files, opened anew where one has changed. Raises :class:`OmnicfgError` where one is wrong."""
        if not files:
            return None
        state, kept = tuple(map(_state, files)), self._opened.get(files)
        if kept is None or kept.state != state:
            self._close(kept)
            kept = self._opened[files] = _opened(files, state)
        if kept.error is not None:
            raise kept.error
        return kept.policies

    def close(self) -> None:
        """End the processes."""
        while self._opened:
            self._close(self._opened.popitem()[1])

    def _close(self, opened: _Opened | None) -> None:
        if opened is not None and opened.policies is not None:
            opened.policies.close()


def _opened(files: Sequence[Path], state: tuple[tuple[int, int], ...]) -> _Opened:
    from omnicfg.policy.evaluate import Policies

    try:
        return _Opened(state, Policies(files), None)
    except OmnicfgError as error:
        return _Opened(state, None, error)


def _state(file: Path) -> tuple[int, int]:
    try:
        status = file.stat()
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


class Session:
    """What is open in an editor. Paths are absolute; lines and columns count characters from 1."""

    def __init__(self) -> None:
        self.buffers = Buffers()
        self.documents: dict[str, Document] = {}
        self._policies = _OpenPolicies()

    def end(self) -> None:
        """Nothing is asked any more."""
        self._policies.close()

    def put(self, path: Path, text: str) -> None:
        """A document has been opened, or its text has changed."""
        name = identity(path)
        self.buffers.texts[name] = text
        self._document(path)

    def _document(self, path: Path) -> Document:
        """The document of a path; two paths of one file share it, and the first that is closed closes it."""
        return self.documents.setdefault(identity(path), Document(path))

    def close(self, path: Path) -> None:
        """A document is closed: the file itself counts again."""
        name = identity(path)
        self.buffers.texts.pop(name, None)
        self.documents.pop(name, None)

    def affected(self, path: Path) -> list[Path]:
        """The open documents whose findings may change with a file, itself first."""
        name = identity(path)
        own = [self.documents[name]] if name in self.documents else []
        others = [each for each in self.documents.values() if each not in own]
        return [each.path for each in [*own, *(each for each in others if name in each.files or not each.is_whole)]]

    def check(self, path: Path) -> list[Told]:
        """The findings about a document, on all platforms; those of other files stand where it names its base."""
        document = self._document(path)
        with self.buffers:
            if not _is_profile(path):
                document.told, document.files, document.is_whole = [], frozenset(), True
                return []
            checked, findings, named = self._findings(path)
            document.files = frozenset(map(identity, [*checked.files.values(), *named]))
            document.is_whole = str(path) in checked.whole
            here = _base_mark(path)
            document.told = [_told(each, path, here, checked.files) for each in findings]
        return document.told

    def _findings(self, path: Path) -> tuple[Checked, list[Diagnostic], list[Path]]:
        """What ``omnicfg validate`` says of a profile from its folder, and what is wrong with the settings.

        Besides, the files that the settings name: what they say counts as well.
        """
        named: list[Path] = []
        try:
            settings = configured(folder=path.parent)
            named += [*settings.policies, *([] if settings.baseline is None else [settings.baseline])]
            return *self._checked(path, settings), named
        except OmnicfgError as error:
            checked, findings = self._checked(path, Settings())
            return checked, [*error.diagnostics, *findings], named

    def _checked(self, path: Path, settings: Settings) -> tuple[Checked, list[Diagnostic]]:
        baseline = None if settings.baseline is None else Baseline.read(settings.baseline)
        checked = check(
            str(path),
            settings.platforms or all_platforms(),
            engine=settings.engine or DEFAULT_ENGINE,
            vllm_version=settings.vllm_version,
            ready=self._policies.of(settings.policies),
        )
        return checked, list(report_of(checked, settings, baseline, Severity.ERROR).findings)

    # ------------------------------------------------------------------------------------------------- hover

    def hover(self, path: Path, line: int, column: int) -> tuple[str, Mark] | None:
        """What takes effect of the setting at a place, in Markdown, and what the place covers."""
        with self.buffers:
            compiled = _compiled(path)
            cursor = None if compiled is None else setting_at(compiled.document, line, column)
            if compiled is None or cursor is None:
                return None
            key = plan_key(compiled.document, cursor.route)
            on = _explained(compiled.plans, key) if key else {}
        if not key or not on:
            return None
        return render_hover(key, on, compiled.profile.chain.paths), cursor.mark

    # -------------------------------------------------------------------------------------------- definition

    def definitions(self, path: Path, line: int, column: int) -> list[Place]:
        """Where else the setting at a place is set: what wins on some platform first, then what it beats."""
        with self.buffers:
            compiled = _compiled(path)
            cursor = None if compiled is None else setting_at(compiled.document, line, column)
            if compiled is None or cursor is None:
                return []
            if cursor.route == ("base_config",):
                return _base_files(compiled.profile)
            key = plan_key(compiled.document, cursor.route)
            found = list(_explained(compiled.plans, key).values()) if key else []
        winners = [explanation.chain[0].node for explanation in found if explanation.chain]
        losers = [link.node for explanation in found for link in explanation.chain[1:]]
        return list(_places([*winners, *losers], cursor, compiled.profile.chain.paths))

    # ------------------------------------------------------------------------------------------------- fixes

    def fixable(self, path: Path, start: int, end: int) -> list[Diagnostic]:
        """The findings with a fix that stand on some lines of a document (from 1, the end inclusive)."""
        told = [each.finding for each in self._document(path).told]
        return [
            each
            for each in told
            if each.fix is not None and each.line <= end and start <= max(each.end_line, each.line)
        ]

    def fixed(self, path: Path) -> str | None:
        """The text of a document with all of its safe fixes; ``None`` where there is none."""
        mended = mend(lambda: self._findings(path)[1], [path], texts=Buffers(self.buffers.texts))
        return mended.changes[0].after if mended.changes else None

    def has_safe_fix(self, path: Path) -> bool:
        """Whether some finding of a document has a safe fix in the document itself."""
        fixes = [each.finding.fix for each in self._document(path).told]
        return any(fix.safe and {edit.mark.file for edit in fix.edits} == {str(path)} for fix in fixes if fix)

    # ----------------------------------------------------------------------------------------------- outline

    def outline(self, path: Path) -> list[Symbol]:
        """The blocks of a document that can be read: its stages, platforms and connectors by name."""
        with self.buffers:
            document = _read(path)
        return [] if document is None else symbols_of(document)

    def text(self, path: Path) -> str:
        """The text of a file, as it is in the editor if it is open there."""
        with self.buffers:
            try:
                return load_text(path, str(path))
            except OmnicfgError:
                return ""


def _is_profile(path: Path) -> bool:
    """Whether a document is a profile: it looks like one, or its modeline says so."""
    if looks_like_profile(path):
        return True
    try:
        return _MODELINE.search(load_text(path, str(path))) is not None
    except OmnicfgError:
        return False


def _told(finding: Diagnostic, path: Path, here: Mark, files: Mapping[str, Path]) -> Told:
    """A finding as it is shown in a document: one of another file stands ``here``."""
    if finding.path == str(path):
        return Told(finding)
    mark = Mark(finding.path, finding.line, finding.column, finding.end_line, finding.end_column)
    # A configuration is none of the profile's files, and its name leads upward from here.
    where = files.get(finding.path) or Path(os.path.abspath(finding.path))  # noqa: PTH100  # links stay as they are
    return Told(_at(finding, here), Place(where, mark) if where.is_file() else None)


def _at(finding: Diagnostic, mark: Mark) -> Diagnostic:
    file, line, column, end_line, end_column = mark
    return replace(finding, path=file, line=line, column=column, end_line=end_line, end_column=end_column)


def _base_mark(path: Path) -> Mark:
    """Where a document names its base; its start where it cannot be read, or names none."""
    document = _read(path)
    base = None if document is None else document.items.get("base_config")
    return Mark(str(path), 1, 1, 1, 1) if base is None else base.mark


def _read(path: Path) -> Tree | None:
    """A document alone; ``None`` where it cannot be read."""
    try:
        return read_file(path, Layer(LayerKind.PROFILE, path.name), str(path))
    except OmnicfgError:
        return None


def _compiled(path: Path) -> _Compiled | None:
    """A document and its plans; ``None`` where it cannot be read."""
    try:
        profile = load(str(path))
    except OmnicfgError:
        return None
    return _Compiled(profile, dict(_plans(profile)))


def _plans(profile: Profile) -> Iterator[tuple[str, Plan]]:
    """The plans by platform; none where no pipeline is known."""
    try:
        pipeline = pipeline_of(profile)
    except OmnicfgError:
        guess = guess_pipeline(profile.path)
        if guess is None:
            return
        pipeline = guess
    for platform in all_platforms():
        try:
            yield platform, compile_profile(profile, platform, pipeline)
        except OmnicfgError:
            continue


def _explained(plans: Mapping[str, Plan], key: str) -> dict[str, Explanation]:
    found = {}
    for platform, plan in plans.items():
        try:
            found[platform] = explain(plan, key)
        except OmnicfgError:
            continue  # a key that nothing reads, or a stage that the pipeline does not have
    return found


def _base_files(profile: Profile) -> list[Place]:
    """The file that the profile builds on."""
    documents = profile.chain.documents
    if len(documents) < 2:
        return []
    name = documents[1].mark.file
    return [Place(profile.chain.paths[name], Mark(name, 1, 1, 1, 1))]


def _places(nodes: list[Node], cursor: Cursor, files: Mapping[str, Path]) -> Iterator[Place]:
    seen: set[Mark] = {cursor.node.mark}
    for node in nodes:
        if node.mark.line and node.mark.file in files and node.mark not in seen:
            seen.add(node.mark)
            yield Place(files[node.mark.file], node.mark)
