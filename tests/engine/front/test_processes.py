"""Processes behind the front: one that dies or hangs is told of and started again; in the end nothing is left."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="comes with the extra cpu or cuda")

from omnicfg.engine.front import processes as module
from omnicfg.engine.front.desk import Desk, Failure, Link
from omnicfg.engine.front.metrics import Metrics
from omnicfg.engine.front.processes import Processes
from omnicfg.engine.front.setup import Setup
from omnicfg.engine.stages import StageOptions
from omnicfg.engine.worker import Job
from omnicfg.serve.processes import children
from tests.patience import PATIENCE_S, until_so

STAGE = """
import json, os, pathlib, socket, sys, time
job = json.load(sys.stdin)
lives = pathlib.Path(job["rows_out"] + ".lives")
lives.write_text(lives.read_text() + "x" if lives.exists() else "x")
front = socket.socket(socket.AF_UNIX)
front.connect(job["control"])
def say(**what):
    front.sendall((json.dumps({"stage": job["stage"], **what}) + "\\n").encode())
say(event="ready", facts={})
while True:
    time.sleep(0.05)
    if not pathlib.Path(job["rows_out"] + ".silent").exists():
        say(event="beat", steps=0, frames=0, open=0)
    if pathlib.Path(job["rows_out"] + ".dying").exists():
        os._exit(7)
"""


THINKER = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
"""


class Rig:
    def __init__(self, folder: Path, **more: Any) -> None:
        options = StageOptions(folder, {})
        names = ("talker", "code2wav")
        self.outs = {name: folder / name for name in names}
        control = str(folder / "control")
        jobs = tuple(
            Job(number + 1, name, "x", options, "", str(self.outs[name]), control) for number, name in enumerate(names)
        )
        self.finished = folder / "finished"
        command = (sys.executable, "-c", THINKER, str(self.finished))
        timing = {"drain_s": 0.1, "stall_s": PATIENCE_S, **more}
        self.setup = Setup("", 0, command, "", control, jobs, ("a",), "a", **timing)
        self.desk = Desk([Link(job.stage, job.name) for job in jobs])
        self.metrics = Metrics(self.desk)
        self.fatal: list[str] = []
        self.hanging = asyncio.Event()
        self.processes = Processes(self.setup, self.desk, self.metrics, self.fatal.append, self.hangs)

    async def hangs(self) -> str:
        await self.hanging.wait()
        return "made no step"

    def lives(self, name: str) -> int:
        file = Path(f"{self.outs[name]}.lives")
        return len(file.read_text()) if file.exists() else 0

    def make(self, name: str, what: str) -> None:
        Path(f"{self.outs[name]}.{what}").touch()

    def stop_making(self, name: str, what: str) -> None:
        Path(f"{self.outs[name]}.{what}").unlink()

    async def up(self) -> None:
        await until_so(lambda: all(link.available for link in self.desk.links))

    async def open_speech(self) -> asyncio.Queue[Any]:
        """A speech that no stage has to agree to."""
        events: asyncio.Queue[Any] = asyncio.Queue()
        self.desk.receiving = True
        opening = asyncio.create_task(self.desk.open("key", {}, events))
        await asyncio.sleep(0)
        for link in self.desk.links:
            self.desk._hear(link, {"event": "opened", "key": "key"})
        await opening
        return events


@asynccontextmanager
async def started(folder: Path, **more: Any) -> AsyncIterator[Rig]:
    rig = Rig(folder, **more)
    control = await asyncio.start_unix_server(rig.desk.follow, rig.setup.control)
    try:
        async with asyncio.timeout(PATIENCE_S):
            await rig.processes.start()
            await rig.up()
            yield rig
    finally:
        await rig.processes.stop()
        control.close()


@pytest.fixture(autouse=True)
def pretended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stage.py").write_text(STAGE)
    monkeypatch.setattr(module, "_WORKER", (str(tmp_path / "stage.py"),))
    monkeypatch.setattr(module, "_PAUSE_S", 0.05)


def test_a_stage_that_dies_fails_open_speeches_and_is_started_again(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            events = await rig.open_speech()
            rig.make("talker", "dying")
            failure = await events.get()
            assert failure == Failure("stage 1 (talker) died (status 7)")
            rig.stop_making("talker", "dying")
            await rig.up()
            assert rig.lives("talker") >= 2
            assert rig.lives("code2wav") == 1
            assert rig.fatal == []

    asyncio.run(test())


def test_a_stage_that_falls_silent_is_ended_and_started_again(tmp_path: Path) -> None:
    """So is one that gets no core for a second: the Talker may be, on a machine that has other things to do."""

    async def test() -> None:
        async with started(tmp_path, stall_s=1.0, restarts=1000) as rig:
            events = await rig.open_speech()
            rig.make("code2wav", "silent")
            while await events.get() != Failure("stage 2 (code2wav) was silent for 1 s and was ended"):
                pass
            rig.stop_making("code2wav", "silent")
            await until_so(lambda: rig.lives("code2wav") >= 2)
            await rig.up()

    asyncio.run(test())


def test_a_machine_that_stands_still_is_not_a_stage_that_falls_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.monotonic
    stall_s, stands_still_s = PATIENCE_S / 3, PATIENCE_S / 2

    async def test() -> None:
        async with started(tmp_path, stall_s=stall_s) as rig:
            events = await rig.open_speech()
            stages = children(os.getpid())
            for stage in stages:
                os.kill(stage, signal.SIGSTOP)
            monkeypatch.setattr(time, "monotonic", lambda: clock() + stands_still_s)
            await asyncio.sleep(2 * module._WATCH_S)  # time for a look, before anything is heard again
            for stage in stages:
                os.kill(stage, signal.SIGCONT)
            awake = time.monotonic()
            await until_so(lambda: all(link.heard > awake + 2 * module._WATCH_S for link in rig.desk.links))
            assert events.empty()
            assert [rig.lives("talker"), rig.lives("code2wav")] == [1, 1]

    asyncio.run(test())


def test_a_stage_that_cannot_be_started_is_tried_again_and_in_the_end_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there is no memory for a process."""

    async def test() -> None:
        async with started(tmp_path, restarts=1) as rig:
            events = await rig.open_speech()
            monkeypatch.setattr(asyncio, "create_subprocess_exec", no_memory)
            rig.make("talker", "dying")
            assert await events.get() == Failure("stage 1 (talker) died (status 7)")
            assert await events.get() == Failure("stage 1 (talker) cannot be started: Cannot allocate memory")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == ["stage 1 (talker) cannot be started: Cannot allocate memory, 2 times in a row"]

    async def no_memory(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    asyncio.run(test())


def test_a_stage_that_dies_again_and_again_is_fatal(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path, restarts=2) as rig:
            rig.make("talker", "dying")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == ["stage 1 (talker) died (status 7), 3 times in a row"]
            assert rig.lives("talker") == 3

    asyncio.run(test())


def test_the_first_stage_that_dies_is_fatal(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            events = await rig.open_speech()
            assert rig.processes._thinker is not None
            rig.processes._thinker.kill()
            assert await events.get() == Failure("stage 0 has died")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == ["stage 0 ended by itself (status -9)"]
            assert not rig.processes.complete

    asyncio.run(test())


def test_the_first_stage_may_end_before_all_is_spoken_where_everybody_was_asked_to_stop(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            events = await rig.open_speech()
            rig.processes.let_end()
            rig.finished.touch()
            assert rig.processes._thinker is not None
            assert await rig.processes._thinker.wait() == 0
            await rig.processes._keepers[0]
            assert events.empty()
            assert rig.fatal == []
            assert [rig.lives("talker"), rig.lives("code2wav")] == [1, 1]

    asyncio.run(test())


@pytest.mark.parametrize("asked", [False, True])
def test_the_first_stage_that_ends_otherwise_is_lost(asked: bool, tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            events = await rig.open_speech()
            assert rig.processes._thinker is not None
            if asked:
                rig.processes.let_end()
                rig.processes._thinker.kill()
            else:
                rig.finished.touch()
            assert await events.get() == Failure("stage 0 has died")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == [f"stage 0 ended by itself (status {-9 if asked else 0})"]

    asyncio.run(test())


def test_the_first_stage_that_hangs_is_ended_and_fatal(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            events = await rig.open_speech()
            rig.hanging.set()
            assert await events.get() == Failure("stage 0 made no step")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == ["stage 0 made no step"]
            assert rig.processes._thinker is not None
            assert rig.processes._thinker.returncode == -9

    asyncio.run(test())


def test_what_dies_is_told_with_the_device_that_it_ran_on(tmp_path: Path) -> None:
    async def test() -> None:
        environments = ({"CUDA_VISIBLE_DEVICES": "1,0"}, {"CUDA_VISIBLE_DEVICES": "GPU-5a"})
        thinker = {"CUDA_VISIBLE_DEVICES": "0"}
        async with started(tmp_path, environments=environments, thinker_env=thinker, restarts=2) as rig:
            events = await rig.open_speech()
            rig.make("talker", "dying")
            assert await events.get() == Failure("stage 1 (talker) on device 1 died (status 7)")
            rig.stop_making("talker", "dying")
            rig.make("code2wav", "dying")
            await until_so(lambda: rig.fatal)
            assert rig.fatal == ["stage 2 (code2wav) on device GPU-5a died (status 7), 3 times in a row"]
            assert rig.processes._thinker is not None
            rig.processes._thinker.kill()
            await until_so(lambda: len(rig.fatal) > 1)
            assert rig.fatal[1] == "stage 0 on device 0 ended by itself (status -9)"

    asyncio.run(test())


def test_stopping_ends_everything(tmp_path: Path) -> None:
    async def test() -> None:
        async with started(tmp_path) as rig:
            await rig.processes.stop()
            assert not any(link.available for link in rig.desk.links)
            assert rig.processes._thinker is not None
            assert rig.processes._thinker.returncode is not None
            assert rig.fatal == []

    asyncio.run(test())
