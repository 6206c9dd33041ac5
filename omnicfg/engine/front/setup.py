"""What a front starts, as data: written by ``omnicfg serve``, read by the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from omnicfg.engine.worker import Job


@dataclass(frozen=True, slots=True)
class Setup:
    """``command`` is vLLM's server, which listens on the socket ``thinker``; ``jobs`` are the stages behind it.

    ``control`` is the socket at which the stages report. ``drain_s``: how long requests may go on after a stop signal;
    ``stall_s``: how long a stage may be silent; ``thinker_stall_s``: how long the first one may make no step (it may
    compile one for minutes); ``restarts``: how often in a row one is started again.
    """

    host: str
    port: int
    command: tuple[str, ...]
    thinker: str
    control: str
    jobs: tuple[Job, ...]
    voices: tuple[str, ...]
    default_voice: str
    environments: tuple[Mapping[str, str], ...] = ()
    drain_s: float = 10.0
    stall_s: float = 60.0
    thinker_stall_s: float = 300.0
    restarts: int = 3
    thinker_env: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text of the file."""
        fields: dict[str, Any] = {
            name: getattr(self, name) for name in self.__slots__ if name not in {"jobs", "environments", "thinker_env"}
        }
        fields["jobs"] = [json.loads(job.to_json()) for job in self.jobs]
        fields["environments"] = [dict(one) for one in self.environments]
        fields["thinker_env"] = dict(self.thinker_env)
        return json.dumps(fields, indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """From what :meth:`to_json` gives."""
        fields = json.loads(path.read_text(encoding="utf-8"))
        fields["jobs"] = tuple(Job.from_json(json.dumps(job)) for job in fields["jobs"])
        for name in ("command", "voices", "environments"):
            fields[name] = tuple(fields[name])
        return cls(**fields)
