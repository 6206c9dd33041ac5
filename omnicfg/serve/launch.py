"""What is asked of an engine, and what it answers: a command, its environment and the files it reads."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omnicfg.cache import WRITABLE_CACHE
from omnicfg.errors import ServeError
from omnicfg.files import take_place
from omnicfg.plan import Plan
from omnicfg.secrets import redacted


@dataclass(frozen=True, slots=True)
class Request:
    """What to serve and where. ``model`` is a directory or a hub id, ``model_name`` what clients call it.

    ``config`` is the ``config.json`` of the first stage's checkpoint; ``None`` where it cannot be had before the start.
    A server that dies is started again up to ``restarts`` times in a row. A ``headless`` node answers nobody: it is
    part of an engine for which another node answers.
    """

    plan: Plan
    model: str
    model_name: str
    host: str
    port: int
    api_key: str | None = None
    config: Mapping[str, Any] | None = None
    restarts: int = 0
    headless: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """What an engine is about to start: ``env`` is added to the environment, ``notices`` are for people.

    ``directory`` is made for it, closed to other users, and removed when it has ended.
    """

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    directory: Path | None = None

    def environment(self) -> dict[str, str]:
        """The whole environment of the server. Its processes take no module from the directory they are started in."""
        return {**os.environ, **self.env, "PYTHONSAFEPATH": "1"}

    def write_files(self) -> None:
        """Writes the files that the command names, for this user alone: a profile's credentials may be in them.

        A server that is reading one of them at the moment has the whole of it. Raises :class:`ServeError` where they
        cannot be written.
        """
        for path, text in self.files.items():
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                take_place(path, text, mode=0o600)
            except OSError as error:
                raise ServeError(f"`{path}` cannot be written: {error.strerror}", WRITABLE_CACHE) from error

    def shell(self) -> str:
        """The launch as a shell would take it: the files' text in comments, then one command; credentials are
        masked.
        """
        settings = [f"{name}={shlex.quote(redacted(name, _word(value)))}" for name, value in self.env.items()]
        command = redacted("", [_word(word) for word in self.command])
        files = [f"# {path}\n" + "".join(f"#   {line}\n" for line in _lines(text)) for path, text in self.files.items()]
        return "".join(files) + " ".join([*settings, shlex.join(command)]) + "\n"


def _word(word: str) -> str:
    """A word as it may be shown: one that is JSON, with the credentials in it hidden."""
    found = _json_of(word)
    return word if found is None else json.dumps(redacted("", found), ensure_ascii=False)


def _lines(text: str) -> list[str]:
    """The lines of a JSON or YAML file as they may be shown."""
    from omnicfg.report.source import line_at

    found = _json_of(text)
    if found is not None:
        return json.dumps(redacted("", found), indent=2, ensure_ascii=False).splitlines()
    lines = text.splitlines()
    return ["".join(shown for _, _, shown in line_at(lines, index).pieces) for index in range(len(lines))]


def _json_of(text: str) -> Any:
    """What a text is as a JSON object; ``None`` where it is none."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
