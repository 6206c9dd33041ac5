"""The method: every arm of every round on a fresh server, warmed up; the order of arms turns from round to round.

What is there already is not measured again, so a campaign may be interrupted at any time, and may be given some seconds
now and some later. A load that was under way is measured anew.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from omnicfg.bench.consumer import Consumer
from omnicfg.bench.drivers import Driver, Task
from omnicfg.bench.loads import Load, drawn_anew
from omnicfg.bench.metrics import HITS, PREEMPTIONS, QUERIES, Watch, resident
from omnicfg.bench.progress import Forecast, Progress, duration
from omnicfg.bench.prompts import Vocabulary
from omnicfg.bench.server import Server, started
from omnicfg.bench.setting import HOST, Subject, machine_facts
from omnicfg.bench.store import Store
from omnicfg.serve.machine import this_machine
from omnicfg.serve.preflight import free_port
from omnicfg.serve.supervise import Address


@dataclass(frozen=True, slots=True)
class Session:
    """One server to be started, and the loads that it has to take."""

    round: int
    subject: Subject
    loads: tuple[Load, ...]


@dataclass
class Campaign:
    """``loads`` go to every one of ``subjects``, ``rounds`` times. ``seconds`` bounds this call; ``None`` does not."""

    subjects: Sequence[Subject]
    loads: Sequence[Load]
    warm: Sequence[Load]
    rounds: int
    driver: Driver
    vocabulary: Vocabulary
    directory: Path
    store: Store
    progress: Progress
    api_key: str | None = None
    seconds: float | None = None
    forecast: Forecast = field(default_factory=Forecast)
    kept: int = 0
    """How many measurements this call has added."""
    _began: float = field(default_factory=time.monotonic)

    def run(self) -> bool:
        """Measure what is missing; false where time was up before the end."""
        self._learn()
        while (session := next(self._sessions(), None)) is not None:
            first = min(self.forecast.load(session.subject.name, load) for load in session.loads)
            if self._is_late(self.forecast.start + first):
                return False
            if not self._measure(session):
                return False
        return True

    def _learn(self) -> None:
        """What earlier calls took tells how long the rest will take."""
        if all(subject.url is not None for subject in self.subjects):
            self.forecast.started(0.0)
        loads = {load.name: load for load in self.loads}
        for one in self.store.measurements():
            if one["load"] in loads:
                self.forecast.measured(one["arm"], loads[one["load"]], one["seconds"])
            if one["server"]["start_s"] is not None:
                self.forecast.started(one["server"]["start_s"])

    def _sessions(self) -> Iterator[Session]:
        """What is missing, in the order in which it is measured."""
        for round_ in range(1, self.rounds + 1):
            for subject in self.subjects if round_ % 2 else self.subjects[::-1]:
                loads = tuple(
                    load for load in self._fitting(subject) if not self.store.has(round_, subject.name, load.name)
                )
                if loads:
                    yield Session(round_, subject, loads)

    def _fitting(self, subject: Subject) -> Iterator[Load]:
        return (load for load in self.loads if subject.unfit(load, self.driver.ANSWERS) is None)

    def _is_late(self, needed: float) -> bool:
        return self.seconds is not None and time.monotonic() - self._began + needed > self.seconds

    def _measure(self, session: Session) -> bool:
        """Every load of a session that time allows; false where it did not allow all."""
        arm, skipped = session.subject.name, False
        with self._served(session) as server:
            if server.start_s is not None:
                self.forecast.started(server.start_s)
            self.progress.status(f"{self._where(session)}: warming up", force=True)
            self._warm_up(server)
            for load in session.loads:
                if self._is_late(self.forecast.load(arm, load)):
                    skipped = True  # a shorter one may still fit
                    continue
                measurement = self._one(session, load, server)
                self.store.keep(measurement)
                self.kept += 1
                self.forecast.measured(arm, load, measurement["seconds"])
                sessions = [(one.subject.name, one.loads) for one in self._sessions()]
                left = self.forecast.left(sessions) - self.forecast.start
                self.progress.measured(measurement, duration(max(left, 0)))
        return not skipped

    @contextmanager
    def _served(self, session: Session) -> Iterator[Server]:
        """A server for a session, with a consumer of its hidden states where requests ask for them."""
        subject = session.subject
        if subject.url is not None:
            watch = Watch(subject.url, self.api_key)
            server = Server(watch, watch.model())
            watch.counters()  # a server without any is refused before it is warmed up
            yield server
            return
        request = subject.request_on(free_port(HOST))
        launch = subject.launch(request, this_machine(), self._speaks(subject))
        log = self.store.log(session.round, subject.name)
        told, address = self._where(session), Address.of(HOST, request.port)

        def waiting(seconds: float) -> None:
            self.progress.status(f"{told}: starting the server, {seconds:.0f} s")

        with started(launch, address, log, waiting) as server:
            socket = subject.socket(request)
            if socket is None:
                yield server
            else:
                with Consumer(socket) as consumer:
                    yield replace(server, consumer=consumer)

    def _warm_up(self, server: Server) -> None:
        """The warm-up's hidden states are waited for: a consumer that is not there yet misses them."""
        completed = sum(self._drive(load, server, lambda _: None)["completed"] for load in self.warm)
        if server.consumer is not None:
            server.consumer.since(dict.fromkeys(server.consumer.counts(), 0), completed)

    def _speaks(self, subject: Subject) -> bool:
        """Whether speech is asked of an arm at all: then all of its loads, in any session, meet the same server."""
        return any(load.answer == "speech" for load in self._fitting(subject))

    def _where(self, session: Session) -> str:
        return f"round {session.round} of {self.rounds}, {session.subject.name}"

    def _drive(self, load: Load, server: Server, done: Any) -> dict[str, Any]:
        rows = server.consumer is not None
        return self.driver.drive(Task(load, server, self.vocabulary, self.directory, self.store.scratch, done, rows))

    def _one(self, session: Session, load: Load, server: Server) -> dict[str, Any]:
        before = server.watch.counters()
        payloads = server.consumer.counts() if server.consumer else {}
        where = f"{self._where(session)}: {load.name}"
        sent = load if session.subject.url is None else drawn_anew(load, session.round)
        told = self._drive(sent, server, lambda done: self.progress.status(f"{where} {done}/{load.prompts}"))
        counted = server.watch.moved(before, (QUERIES, HITS, PREEMPTIONS))
        queries = counted[QUERIES]
        return {
            "round": session.round,
            "arm": session.subject.name,
            "load": load.name,
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            **told,
            "queried_tokens": queries,
            "hit_tokens": counted[HITS],
            "hit_rate": round(counted[HITS] / queries, 5) if queries else None,
            "payloads": server.consumer.since(payloads, told["completed"]) if server.consumer else None,
            "preemptions": counted[PREEMPTIONS],
            "resident_gib": None if server.session is None else resident(server.session),
            "cache_tokens": server.watch.cache_tokens(server.log),
            "block_tokens": server.watch.block_tokens(),
            "server": {
                "start_s": server.start_s,
                "log": server.log.name if server.log else None,
                "speaks": self._speaks(session.subject),
            },
            "machine": machine_facts(),
        }
