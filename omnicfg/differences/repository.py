"""A git repository, asked through the ``git`` command.

Revisions are read with git's plumbing (``ls-tree``, ``cat-file``), not ``git archive``, which leaves out whatever
``.gitattributes`` marks as ``export-ignore``. No shell is involved, and no argument that a user gives can be taken
for an option.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

from omnicfg.errors import UsageError
from omnicfg.passes.read import MAX_BYTES
from omnicfg.profile_files import SUFFIXES

MAX_FILES: Final = 20_000
MAX_TOTAL_BYTES: Final = 256 << 20
_SECONDS: Final = 120
_LINK: Final = "120000"
_SKIPPED: Final = "S"  # git ls-files -t: tracked, and left out of the working tree by a sparse checkout


@dataclass(frozen=True)
class Blob:
    """A file of a commit, or a symbolic link."""

    mode: str
    digest: str
    size: int
    path: str

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK


@dataclass(frozen=True)
class Submodule:
    """A submodule of a commit: where it lies, and its own commit."""

    path: str
    commit: str


@dataclass(frozen=True)
class Content:
    """What a commit holds of use here: YAML files and symbolic links, JSON files (which may be bases), submodules."""

    blobs: tuple[Blob, ...]
    json: tuple[Blob, ...]
    submodules: tuple[Submodule, ...]


class Repository:
    """A git repository with a working tree at ``root``, a full path without links."""

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.root = root
        self._environment = environment

    @classmethod
    def around(cls, directory: Path) -> Repository:
        """The repository that a directory lies in. Raises :class:`UsageError` where there is none, or no git."""
        environment = _environment(directory)
        done = _git(directory, environment, "rev-parse", "--show-toplevel")
        if done.returncode:
            hint = _trust(done) or "Run it inside the working tree of one."
            raise UsageError(f"no git repository here: {_reason(done)}", hint)
        return cls(Path(os.fsdecode(done.stdout.rstrip(b"\n"))), environment)

    def submodule(self, path: str) -> Repository | None:
        """The repository of a submodule; ``None`` where it is not checked out."""
        place = self.root / path
        if not (place / ".git").exists() or place.resolve() != place:
            return None
        # In a git hook the environment says where this repository is (GIT_DIR and others): wrong for the other one.
        apart = _git(self.root, self._environment, "rev-parse", "--local-env-vars").stdout.decode("ascii").split()
        environment = {name: value for name, value in self._environment.items() if name not in apart}
        done = _git(place, environment, "rev-parse", "--show-toplevel")
        root = Path(os.fsdecode(done.stdout.rstrip(b"\n")))
        return None if done.returncode or root != place else Repository(root, environment)

    def commit(self, revision: str) -> str:
        """The commit that a revision names. Raises :class:`UsageError` where it names none."""
        found = self.find_commit(revision)
        if found is None:
            raise UsageError(f"git knows no revision `{revision}`", self._revision_hint(revision))
        return found

    def find_commit(self, revision: str) -> str | None:
        """The commit that a revision names, or ``None``. Text that looks like an option names none."""
        if revision.startswith("-") or not revision or "\0" in revision:
            return None
        # Two questions: after `:/TEXT`, which finds a commit by its message, `^{commit}` would be text as well.
        named = self._verified(revision)
        return named and self._verified(f"{named}^{{commit}}")

    def _verified(self, revision: str) -> str | None:
        done = _git(self.root, self._environment, "rev-parse", "--verify", "--quiet", revision)
        return None if done.returncode else done.stdout.decode("ascii").strip()

    def _revision_hint(self, revision: str) -> str:
        old, dots, new = revision.partition("..")
        if dots and old and new and not new.startswith("."):
            return f"Write the two apart: `--git {old} {new}`."
        if dots and old and new.strip("."):
            new = new.removeprefix(".")
            return f'Write the two apart: `--git "$(git merge-base {old} {new})" {new}`.'
        done = _git(self.root, self._environment, "rev-parse", "--is-shallow-repository")
        if done.stdout.strip() == b"true":
            return "This clone is shallow, and may lack it: `git fetch --unshallow` (in CI: a greater fetch depth)."
        return "Name a commit, a branch or a tag."

    def relative(self, path: str, directory: Path) -> str:
        """A path as the repository has it, with ``/``. Raises :class:`UsageError` for one outside."""
        relative = os.path.relpath(directory.absolute() / path, self.root.absolute())
        if relative.startswith(".."):
            relative = os.path.relpath((directory / path).resolve(), self.root.resolve())
        if relative.startswith(".."):
            raise UsageError(f"`{path}` lies outside the repository {self.root}")
        return PurePath(relative).as_posix()

    def content(self, commit: str) -> Content:
        """What a commit holds."""
        listing = self._read("ls-tree", "-r", "-l", "-z", "--full-tree", commit)
        blobs: list[Blob] = []
        json: list[Blob] = []
        submodules: list[Submodule] = []
        for record in listing.split(b"\0"):
            found = _entry(record)
            if isinstance(found, Submodule):
                submodules.append(found)
            elif found is not None and (found.is_link or is_yaml(found.path)):
                blobs.append(found)
            elif found is not None and found.path.lower().endswith(".json"):
                json.append(found)
        return Content(tuple(blobs), tuple(json), tuple(submodules))

    def read(self, blobs: Sequence[Blob]) -> Iterator[tuple[Blob, bytes]]:
        """Each blob with what it holds. Raises :class:`UsageError` where that is too much."""
        _check_size(len(blobs), sum(blob.size for blob in blobs))
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

    def working_files(self) -> tuple[list[str], list[str]]:
        """The YAML files of the working tree that git tracks, or would track; those that a sparse checkout leaves out.

        A link that leads out of the repository is none of its files, as in a commit.
        """
        listing = os.fsdecode(self._read("ls-files", "-z", "-t", "--cached", "--others", "--exclude-standard"))
        tags = {entry[2:]: entry[:1] for entry in listing.split("\0") if is_yaml(entry)}
        found = [name for name in tags if self._is_small_file(name)]
        _check_size(len(found), 0)
        return found, [name for name, tag in tags.items() if tag == _SKIPPED and not os.path.lexists(self.root / name)]

    def _is_small_file(self, name: str) -> bool:
        path = self.root / name
        if path.is_symlink() and not leads_inside(path, self.root):
            return False
        return path.is_file() and path.stat().st_size <= MAX_BYTES

    def _read(self, *words: str, given: bytes | None = None) -> bytes:
        done = _git(self.root, self._environment, *words, given=given)
        if done.returncode:
            raise UsageError(f"git {words[0]} failed: {_reason(done)}")
        return done.stdout


def _environment(directory: Path) -> Mapping[str, str]:
    """What git is run with: what we are.

    But a hook may be told where the repository is, and git takes the current directory for its top then. Where git
    finds the same one by itself, that is not told.
    """
    if "GIT_DIR" not in os.environ or "GIT_WORK_TREE" in os.environ:
        return os.environ
    untold = {name: value for name, value in os.environ.items() if name != "GIT_DIR"}
    told, found = (_git(directory, each, "rev-parse", "--absolute-git-dir") for each in (os.environ, untold))
    return untold if found.returncode == 0 and found.stdout == told.stdout else os.environ


def is_yaml(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def leads_inside(link: Path, root: Path) -> bool:
    """Whether a symbolic link leads to something below ``root``, a full path without links."""
    try:
        return link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # it leads back to itself; before Python 3.13 that is the second
        return False


def _entry(record: bytes) -> Blob | Submodule | None:
    """An entry of ``ls-tree -l -z`` with a path to be trusted; ``None`` for others and for files that are too large."""
    head, tab, raw_path = record.partition(b"\t")
    path = os.fsdecode(raw_path)
    if not tab or {"..", ".git", ""} & set(path.split("/")):
        return None
    mode, kind, digest, size = head.decode("ascii").split()
    if kind == "commit":
        return Submodule(path, digest)
    return None if kind != "blob" or int(size) > MAX_BYTES else Blob(mode, digest, int(size), path)


def _check_size(files: int, total: int) -> None:
    if files > MAX_FILES or total > MAX_TOTAL_BYTES:
        raise UsageError(f"the repository has {files} YAML files ({total >> 20} MiB): too many to compare")


def _reason(done: subprocess.CompletedProcess[bytes]) -> str:
    """What git says is wrong; advice may follow that line, and notes stand before it."""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    fatal = [line for line in lines if line.startswith("fatal: ")]
    return (fatal or lines or [f"exit code {done.returncode}"])[-1].removeprefix("fatal: ")


def _trust(done: subprocess.CompletedProcess[bytes]) -> str | None:
    """What git advises where the repository is somebody else's, as in a container that a checkout is mounted into."""
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    advice = [line.strip() for line in lines if "--add safe.directory" in line]
    return f"It is somebody else's. If you trust it: `{advice[0]}`" if advice else None


def _git(
    directory: Path, environment: Mapping[str, str], *words: str, given: bytes | None = None
) -> subprocess.CompletedProcess[bytes]:
    environment = {**environment, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    command = ["git", "-C", str(directory), "--no-pager", *words]
    try:
        return subprocess.run(command, input=given, capture_output=True, check=False, env=environment, timeout=_SECONDS)
    except FileNotFoundError:
        raise UsageError("`git` is not installed", "Install git, or compare two files.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git {words[0]} could not be run: {error}") from None
