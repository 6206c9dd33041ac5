"""``diff --git``: which profiles change effectively between two revisions, or a revision and the working tree.

A revision is unpacked into a directory of its own, which stands for the repository while its profiles are read.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from omnicfg.compiler import Profile, compile_profile, load_file, pipeline_of
from omnicfg.confine import copied, may_read
from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.comparison import Comparison, compare
from omnicfg.differences.repository import Blob, Repository, is_yaml, leads_inside
from omnicfg.errors import ResolveError, UsageError
from omnicfg.interrupt import interruptible
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.plan import Plan
from omnicfg.profile_files import looks_like_profile
from omnicfg.standing_for import standing_for

Status = Literal["changed", "added", "removed", "broken", "repaired"]
Finish = Callable[[Plan], Plan]


@dataclass(frozen=True)
class ProfileDiff:
    """One profile that differs.

    ``inherited_from`` names the files that changed where the profile's own file did not; ``reasons`` say why a
    ``broken`` profile no longer compiles; ``renamed_from`` is the path that git finds the file to have had before.
    """

    path: str
    status: Status
    inherited_from: tuple[str, ...] = ()
    comparison: Comparison | None = None
    reasons: tuple[Diagnostic, ...] = ()
    renamed_from: str | None = None

    def to_dict(self) -> dict[str, Any]:
        comparison = self.comparison or Comparison((), ())
        return {
            "path": self.path,
            "renamed_from": self.renamed_from,
            "status": self.status,
            "by_inheritance": bool(self.inherited_from),
            "inherited_from": list(self.inherited_from),
            "changes": [grouped.to_dict() for grouped in comparison.changes],
            "refused": [refused.to_dict() for refused in comparison.refused],
            "reasons": [diagnostic.to_dict() for diagnostic in self.reasons],
        }


@dataclass(frozen=True)
class Uncompared:
    """A profile that compiles in neither state; ``reasons`` say why not in the later one, of the earlier if it is gone.

    Where single platforms refuse it, they are those of both.
    """

    path: str
    reasons: tuple[Diagnostic, ...]

    def to_dict(self) -> dict[str, Any]:
        return {"path": self.path, "reasons": [diagnostic.to_dict() for diagnostic in self.reasons]}


@dataclass(frozen=True)
class GitDiff:
    """The profiles that differ between ``before`` and ``after``, and those that compile in neither."""

    before: str
    after: str
    profiles: tuple[ProfileDiff, ...]
    never_compiled: tuple[Uncompared, ...]


def git_diff(
    revision: str,
    other: str | None = None,
    paths: Sequence[str] = (),
    *,
    platforms: Sequence[str],
    pipeline: str | None = None,
    finish: Finish = lambda plan: plan,
    model: Path | None = None,
    directory: Path = Path(),
) -> GitDiff:
    """Compare every profile below ``paths`` (all, where none is given) of the repository around ``directory``.

    Without ``other``, ``revision`` is compared with the working tree. ``finish`` is applied to each plan before it is
    compared; ``model`` is a directory that tells of costs. Raises :class:`UsageError` where git or the repository is
    missing, or a revision or path is unknown.
    """
    repository = Repository.around(directory)
    old = repository.commit(revision)
    new = None if other is None else repository.commit(other)
    wanted = [repository.relative(path, directory) for path in paths]
    with _snapshot(repository, old) as before, _snapshot(repository, new) as after:
        before.leave_out(after.absent)
        renamed = _renamed(before, after, repository.renames(old, new))
        every = sorted({*before.files, *after.files} - set(renamed.values()))
        names = [name for name in every if _is_below(name, wanted) or _is_below(renamed.get(name, name), wanted)]
        _require_matches(wanted, [*names, *renamed.values()], paths)
        comparer = _Comparer(before, after, renamed, platforms, pipeline, finish, model)
        found = [comparer.compared(name) for name in names]
    return GitDiff(
        revision,
        "the working tree" if other is None else other,
        tuple(each for each in found if each is not None),
        tuple(comparer.never_compiled),
    )


class Snapshot:
    """The YAML files of a state of the repository: where they lie, and a digest of each by its path.

    ``origin`` is the directory that the files would lie in, where they lie elsewhere; ``absent`` are files that are
    there for git, but not checked out.
    """

    def __init__(
        self, root: Path, files: dict[str, str], origin: Path | None = None, absent: frozenset[str] = frozenset()
    ) -> None:
        self.root = root
        self.files = files
        self.origin = origin
        self.absent = absent

    def load(self, name: str) -> Profile | None:
        """The profile at a path of the repository, or ``None`` where there is none. Raises :class:`ResolveError`."""
        path = self.root / name
        if name not in self.files or not looks_like_profile(path):
            return None
        with nullcontext() if self.origin is None else standing_for(self.root, self.origin):
            return load_file(path, name)

    def leave_out(self, names: Iterable[str]) -> None:
        """Take files for none of those to be compared; others may still build on them."""
        for name in names:
            self.files.pop(name, None)

    def chain(self, profile: Profile) -> dict[str, str]:
        """The files that a profile is made of, outermost first, with their digests.

        Among them are files that are none of the repository's own: of a submodule, ignored, behind a link, outside.
        """
        names = [document.mark.file for document in profile.chain.documents]
        return {name: self.files.get(name) or _digest(profile.chain.paths[name]) for name in names}


class _Comparer:
    def __init__(
        self,
        before: Snapshot,
        after: Snapshot,
        renamed: Mapping[str, str],
        platforms: Sequence[str],
        pipeline: str | None,
        finish: Finish,
        model: Path | None,
    ) -> None:
        self.before = before
        self.after = after
        self.renamed = renamed
        self.platforms = platforms
        self.pipeline = pipeline
        self.finish = finish
        self.model = model
        self.never_compiled: list[Uncompared] = []

    def compared(self, name: str) -> ProfileDiff | None:
        """How a profile differs, or ``None`` where it does not (or the file is no profile)."""
        old, old_reasons = self._load(self.before, self.renamed.get(name, name))
        new, new_reasons = self._load(self.after, name)
        found = self._compared(name, old, new, old_reasons, new_reasons)
        return found and replace(found, renamed_from=self.renamed.get(name))

    def _compared(
        self,
        name: str,
        old: Profile | None,
        new: Profile | None,
        old_reasons: tuple[Diagnostic, ...],
        new_reasons: tuple[Diagnostic, ...],
    ) -> ProfileDiff | None:
        if old is None and new is None:
            if old_reasons or new_reasons:
                self.never_compiled.append(Uncompared(name, new_reasons or old_reasons))
            return None
        if old is not None and new is not None:
            return self._changed(name, old, new)
        if old is not None and new is None:
            changed = self._changed_below(name, old) if new_reasons else ()
            return ProfileDiff(name, "broken" if new_reasons else "removed", changed, reasons=new_reasons)
        return ProfileDiff(name, "repaired" if old_reasons else "added")

    def _load(self, snapshot: Snapshot, name: str) -> tuple[Profile | None, tuple[Diagnostic, ...]]:
        try:
            return snapshot.load(name), ()
        except ResolveError as error:
            return None, error.diagnostics

    def _changed(self, name: str, old: Profile, new: Profile) -> ProfileDiff | None:
        if old.shown == new.shown and self._old_chain(old) == self.after.chain(new):
            return None
        comparison = compare(self._compile(old), self._compile(new), self.platforms, self.model)
        reasons = tuple(dict.fromkeys(each for refused in comparison.refused for each in refused.diagnostics))
        if comparison.compiles_nowhere(self.platforms, "before"):
            if comparison.compiles_nowhere(self.platforms, "after"):
                self.never_compiled.append(Uncompared(name, reasons))
                return None
            return ProfileDiff(name, "repaired", self._inherited(name, old, new))
        if not comparison.differs:
            return None
        broken = comparison.compiles_nowhere(self.platforms, "after")
        status: Status = "broken" if broken else "changed"
        return ProfileDiff(
            name, status, self._inherited(name, old, new), None if broken else comparison, reasons if broken else ()
        )

    def _compile(self, profile: Profile) -> Callable[[str], Plan]:
        def compiled(platform: str) -> Plan:
            key = self._key(profile)
            return self.finish(compile_profile(profile, platform, key))

        return compiled

    def _key(self, profile: Profile) -> str:
        try:
            return pipeline_of(profile, self.pipeline)
        except ResolveError:
            guess = guess_pipeline(profile.path) if self.pipeline is None else None
            if guess is None:
                raise
            return guess

    def _inherited(self, name: str, old: Profile, new: Profile) -> tuple[str, ...]:
        """The files of the chain that changed, if the profile's own file is the same byte for byte."""
        if self.before.files[old.shown] != self.after.files[name]:
            return ()
        before, after = self._old_chain(old), self.after.chain(new)
        return tuple(file for file in dict.fromkeys([*after, *before]) if before.get(file) != after.get(file))

    def _changed_below(self, name: str, old: Profile) -> tuple[str, ...]:
        """The files of a profile's former chain that are no longer what they were, if its own file still is."""
        chain = self._old_chain(old)
        if chain.get(name) != self.after.files.get(name):
            return ()
        return tuple(file for file, digest in chain.items() if self.after.files.get(file) != digest)

    def _old_chain(self, old: Profile) -> dict[str, str]:
        """The chain of the state before, its files by the names that they have now."""
        names = {before: after for after, before in self.renamed.items()}
        return {names.get(file, file): digest for file, digest in self.before.chain(old).items()}


def _renamed(before: Snapshot, after: Snapshot, told: Mapping[str, str]) -> dict[str, str]:
    """New path → old path of each file that was renamed.

    As git tells it; one that git does not track yet counts where it holds what exactly one file that is gone held.
    """
    gone = {name: digest for name, digest in before.files.items() if name not in after.files}
    fresh = {name: digest for name, digest in after.files.items() if name not in before.files}
    found = {new: old for new, old in told.items() if new in fresh and old in gone}
    for new in sorted(fresh.keys() - found.keys()):
        same = [old for old, digest in gone.items() if digest == fresh[new] and old not in found.values()]
        if len(same) == 1:
            found[new] = same[0]
    return found


def _is_below(name: str, wanted: Sequence[str]) -> bool:
    return not wanted or any(path in (".", name) or name.startswith(f"{path}/") for path in wanted)


def _require_matches(wanted: Sequence[str], names: Sequence[str], shown: Sequence[str]) -> None:
    for path, text in zip(wanted, shown, strict=True):
        if not any(_is_below(name, [path]) for name in names):
            hint = "Name a path of the repository; a revision that git knows comes before the paths."
            raise UsageError(f"`{text}` holds no YAML file in either state", hint)


@contextmanager
def _snapshot(repository: Repository, commit: str | None) -> Iterator[Snapshot]:
    """The files of a commit in a directory that exists for the time of the comparison; those of the working tree."""
    if commit is None:
        files, absent = repository.working_files()
        yield Snapshot(repository.root, _digests(repository.root, files), absent=frozenset(absent))
        return
    with interruptible(), tempfile.TemporaryDirectory(prefix="omnicfg-") as folder:
        root = Path(folder).resolve()
        with copied(repository.root, root):
            there = [name for name in _unpack(repository, commit, root, root) if (root / name).is_file()]
            yield Snapshot(root, _digests(root, there), repository.root)


def _digests(root: Path, names: Sequence[str]) -> dict[str, str]:
    """A digest of what each file holds; of a symbolic link, of what it leads to. Empty where it may not be read."""
    try:
        return {name: _digest(root / name) for name in names}
    except OSError as error:
        raise UsageError(f"the files of the repository cannot be read: {error}") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if may_read(path) else ""


def _unpack(repository: Repository, commit: str, folder: Path, root: Path) -> list[str]:
    """Write the files of a commit below ``folder`` and name its YAML files; of links, only those that stay in ``root``.

    Submodules are written along with it, as far as they are checked out: their files may be bases.
    """
    content = repository.content(commit)
    found = list(repository.read(content.blobs))
    if any(b".json" in text and b"base_config" in text for _, text in found):
        found += repository.read(content.json)
    try:
        _write(found, folder, root)
    except OSError as error:
        raise UsageError(f"the files of {commit[:12]} cannot be unpacked: {error}") from None
    for submodule in content.submodules:
        part = repository.submodule(submodule.path)
        if part is not None and part.find_commit(submodule.commit) is not None:
            _unpack(part, submodule.commit, folder / submodule.path, root)
    return [blob.path for blob in content.blobs if is_yaml(blob.path)]


def _write(found: Sequence[tuple[Blob, bytes]], folder: Path, root: Path) -> None:
    links = [(folder / blob.path, text) for blob, text in found if blob.is_link]
    for blob, text in found:
        path = folder / blob.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if not blob.is_link:
            path.write_bytes(text)
    for path, text in links:
        path.symlink_to(os.fsdecode(text))
    for path, _ in links:
        if not leads_inside(path, root):
            path.unlink()
