"""``diff --git``: which profiles change effectively between two revisions, or a revision and the working tree.

Revisions are read with git's plumbing (``ls-tree``, ``cat-file``), not ``git archive``, which leaves out whatever
``.gitattributes`` marks as ``export-ignore``. No shell is involved, and no argument that a user gives can be taken
for an option.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any, Final, Literal

from omnicfg.compiler import Profile, compile_profile, load_file, pipeline_of
from omnicfg.confine import copied, may_read
from omnicfg.diagnostics import Diagnostic
from omnicfg.differences.comparison import Comparison, compare
from omnicfg.errors import ResolveError, UsageError
from omnicfg.passes.pipeline import guess_pipeline
from omnicfg.passes.read import MAX_BYTES
from omnicfg.plan import Plan
from omnicfg.profile_files import SUFFIXES, looks_like_profile

MAX_FILES: Final = 20_000
MAX_TOTAL_BYTES: Final = 256 << 20
_GIT_SECONDS: Final = 120

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
class GitDiff:
    """The profiles that differ between ``before`` and ``after``, and those that compile in neither."""

    before: str
    after: str
    profiles: tuple[ProfileDiff, ...]
    never_compiled: tuple[str, ...]


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
    """The YAML files of a state of the repository: where they lie, and a digest of each by its path."""

    def __init__(self, root: Path, files: dict[str, str]) -> None:
        self.root = root
        self.files = files

    def load(self, name: str) -> Profile | None:
        """The profile at a path of the repository, or ``None`` where there is none. Raises :class:`ResolveError`."""
        path = self.root / name
        if name not in self.files or not looks_like_profile(path):
            return None
        return load_file(path, name)


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
        self.never_compiled: list[str] = []

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
                self.never_compiled.append(name)
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
        if old.shown == new.shown and self._old_chain(old) == _chain(new, self.after):
            return None
        comparison = compare(self._compile(old), self._compile(new), self.platforms, self.model)
        if comparison.compiles_nowhere(self.platforms, "before"):
            if comparison.compiles_nowhere(self.platforms, "after"):
                self.never_compiled.append(name)
                return None
            return ProfileDiff(name, "repaired", self._inherited(name, old, new))
        if not comparison.differs:
            return None
        broken = comparison.compiles_nowhere(self.platforms, "after")
        reasons = tuple(dict.fromkeys(each for refused in comparison.refused for each in refused.diagnostics))
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
        before, after = self._old_chain(old), _chain(new, self.after)
        return tuple(file for file in dict.fromkeys([*after, *before]) if before.get(file) != after.get(file))

    def _changed_below(self, name: str, old: Profile) -> tuple[str, ...]:
        """The files of a profile's former chain that are no longer what they were, if its own file still is."""
        chain = self._old_chain(old)
        if chain.get(name) != self.after.files.get(name):
            return ()
        return tuple(file for file, digest in chain.items() if self.after.files.get(file) != digest)

    def _old_chain(self, old: Profile) -> dict[str, str | None]:
        """The chain of the state before, its files by the names that they have now."""
        names = {before: after for after, before in self.renamed.items()}
        return {names.get(file, file): digest for file, digest in _chain(old, self.before).items()}


def _chain(profile: Profile, snapshot: Snapshot) -> dict[str, str | None]:
    """The files that a profile is made of, outermost first, with their digests."""
    names = [document.mark.file for document in profile.chain.documents]
    return {name: snapshot.files.get(name) for name in names}


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
            raise UsageError(f"`{text}` holds no YAML file in either state", "Name a path of the repository.")


@dataclass(frozen=True)
class _Blob:
    mode: str
    digest: str
    size: int
    path: str

    @property
    def is_link(self) -> bool:
        return self.mode == "120000"


def _revision_hint(text: str) -> str:
    old, dots, new = text.partition("..")
    if dots and old and new and not new.startswith("."):
        return f"Write the two apart: `--git {old} {new}`."
    return "Name a commit, a branch or a tag."


class Repository:
    """A git repository, asked through the ``git`` command."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def around(cls, directory: Path) -> Repository:
        """The repository that a directory lies in. Raises :class:`UsageError` where there is none, or no git."""
        done = _git(directory, "rev-parse", "--show-toplevel")
        if done.returncode:
            raise UsageError(f"no git repository here: {_reason(done)}", "Run it inside the working tree of one.")
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))))

    def commit(self, revision: str) -> str:
        """The commit that a revision names. Raises :class:`UsageError` where it names none."""
        found = self.find_commit(revision)
        if found is None:
            raise UsageError(f"git knows no revision `{revision}`", _revision_hint(revision))
        return found

    def find_commit(self, revision: str) -> str | None:
        """The commit that a revision names, or ``None``. Text that looks like an option names none."""
        if revision.startswith("-") or not revision or "\0" in revision:
            return None
        done = _git(self.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
        return None if done.returncode else done.stdout.decode("ascii").strip()

    def relative(self, path: str, directory: Path) -> str:
        """A path as the repository has it, with ``/``. Raises :class:`UsageError` for one outside."""
        relative = os.path.relpath(directory.absolute() / path, self.root.absolute())
        if relative.startswith(".."):
            relative = os.path.relpath((directory / path).resolve(), self.root.resolve())
        if relative.startswith(".."):
            raise UsageError(f"`{path}` lies outside the repository {self.root}")
        return PurePath(relative).as_posix()

    def blobs(self, commit: str) -> list[_Blob]:
        """The YAML files of a commit, symbolic links among them. Raises :class:`UsageError` where they are too many."""
        listing = self._read("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        found = [blob for blob in map(_blob, listing.split(b"\0")) if blob is not None]
        _check_size(len(found), sum(blob.size for blob in found))
        return found

    def contents(self, blobs: Sequence[_Blob]) -> Iterator[tuple[_Blob, bytes]]:
        """Each blob with what it holds."""
        asked = "".join(f"{blob.digest}\n" for blob in blobs).encode("ascii")
        output = self._read("cat-file", "--batch", given=asked)
        position = 0
        for blob in blobs:
            header_end = output.index(b"\n", position)
            size = int(output[position:header_end].rsplit(b" ", 1)[1])
            yield blob, output[header_end + 1 : header_end + 1 + size]
            position = header_end + 1 + size + 1

    def renames(self, old: str, new: str | None) -> dict[str, str]:
        """New path → old path of every YAML file that git takes for renamed; without ``new``, in the working tree."""
        commits = [old] if new is None else [old, new]
        words = ["--no-ext-diff", "-M", "--diff-filter=R", "--name-status", "-z", *commits, "--"]
        listing = self._read("diff", *words, *(f":(top,icase)*{suffix}" for suffix in SUFFIXES))
        fields = [os.fsdecode(field) for field in listing.split(b"\0")]
        return dict(zip(fields[2::3], fields[1::3], strict=False))

    def working_files(self) -> list[str]:
        """The YAML files of the working tree that git tracks, or would track."""
        listing = self._read("ls-files", "-z", "--cached", "--others", "--exclude-standard")
        names = dict.fromkeys(os.fsdecode(name) for name in listing.split(b"\0") if name)
        found = [name for name in names if _is_yaml(name) and _is_small_file(self.root / name)]
        _check_size(len(found), 0)
        return found

    def _read(self, *words: str, given: bytes | None = None) -> bytes:
        done = _git(self.root, *words, given=given)
        if done.returncode:
            raise UsageError(f"git {words[0]} failed: {_reason(done)}")
        return done.stdout


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("fatal: ") if lines else f"exit code {done.returncode}"


def _git(directory: Path, *words: str, given: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(directory), "--no-pager", *words]
    try:
        return subprocess.run(
            command, input=given, capture_output=True, check=False, env=environment, timeout=_GIT_SECONDS
        )
    except FileNotFoundError:
        raise UsageError("`git` is not installed", "Install git, or compare two files.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {words[0]} could not be run: {error}") from None


def _is_small_file(path: Path) -> bool:
    return path.is_file() and path.stat().st_size <= MAX_BYTES


def _is_yaml(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def _blob(record: bytes) -> _Blob | None:
    """An entry of ``ls-tree -l -z`` if it is a YAML file whose path can be trusted."""
    head, tab, raw_path = record.partition(b"\t")
    path = os.fsdecode(raw_path)
    if not tab or not _is_yaml(path) or {"..", ".git", ""} & set(path.split("/")):
        return None
    mode, kind, digest, size = head.decode("ascii").split()
    if kind != "blob" or int(size) > MAX_BYTES:
        return None
    return _Blob(mode, digest, int(size), path)


def _check_size(files: int, total: int) -> None:
    if files > MAX_FILES or total > MAX_TOTAL_BYTES:
        raise UsageError(f"the repository has {files} YAML files ({total >> 20} MiB): too many to compare")


@contextmanager
def _snapshot(repository: Repository, commit: str | None) -> Iterator[Snapshot]:
    """The files of a commit in a directory that exists for the time of the comparison; those of the working tree."""
    if commit is None:
        yield Snapshot(repository.root, _digests(repository.root, repository.working_files()))
        return
    with tempfile.TemporaryDirectory(prefix="omnicfg-") as folder:
        root = Path(folder).resolve()
        with copied(repository.root, root):
            yield Snapshot(root, _digests(root, _unpack(repository, commit, root)))


def _digests(root: Path, names: Sequence[str]) -> dict[str, str]:
    """A digest of what each file holds; of a symbolic link, of what it leads to. Empty where it may not be read."""
    try:
        return {name: _digest(root / name) if may_read(root / name) else "" for name in names}
    except OSError as error:
        raise UsageError(f"the files of the repository cannot be read: {error}") from None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _leads_inside(link: Path, root: Path) -> bool:
    try:
        return link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # it leads back to itself; before Python 3.13 that is the second
        return False


def _unpack(repository: Repository, commit: str, root: Path) -> list[str]:
    """Write the files of a commit below ``root`` and name them; of links, only those that stay inside."""
    found = list(repository.contents(repository.blobs(commit)))
    links = [(root / blob.path, content) for blob, content in found if blob.is_link]
    try:
        for blob, content in found:
            path = root / blob.path
            path.parent.mkdir(parents=True, exist_ok=True)
            if not blob.is_link:
                path.write_bytes(content)
        for path, content in links:
            path.symlink_to(os.fsdecode(content))
        for path, _ in links:
            if not _leads_inside(path, root):
                path.unlink()
    except OSError as error:
        raise UsageError(f"the files of {commit[:12]} cannot be unpacked: {error}") from None
    return [blob.path for blob, _ in found if (root / blob.path).is_file()]
