"""The machine itself: Python, processors, memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Final

from omnicfg.doctor.checks import Check, Status
from omnicfg.doctor.facts import Facts
from omnicfg.resources.sizes import gib

TITLE: Final = "machine"
ORDER: Final = 1

_TESTED: Final = ("3.11", "3.12", "3.13")
SHARED_MEMORY: Final = 2**30
"""Bytes of ``/dev/shm`` below which processes that work together soon have none: a container has 64 MiB by itself."""
MORE_SHARED_MEMORY: Final = "For a container: `docker run --shm-size=8g`; for a pod: a volume of `medium: Memory`."


def check(facts: Facts) -> Iterator[Check]:
    """Python's version, processors, memory, shared memory, and a compiler where one is needed."""
    yield _python(facts)
    yield Check(Status.OK, f"{facts.system}, {facts.cpus} {'CPU' if facts.cpus == 1 else 'CPUs'}")
    if facts.memory is not None:
        yield Check(Status.OK, f"{gib(facts.memory.total)} of memory, {gib(facts.memory.free)} of it free")
    yield from _shared_memory(facts)
    compiler = os.environ.get("CXX", "g++")
    if facts.machine.serves_on_cpu and shutil.which(compiler) is None:
        what = f"no C++ compiler (`{compiler}`), with which vLLM compiles models for the CPU"
        yield Check(Status.NOTE, what, "`apt-get install g++`, or profiles with `enforce_eager: true`.")


def _python(facts: Facts) -> Check:
    what = f"Python {facts.python}, {facts.executable}"
    if not facts.python.startswith(tuple(f"{version}." for version in _TESTED)):
        return Check(Status.NOTE, f"{what}: not among those that are tested", f"Tested: {', '.join(_TESTED)}.")
    return Check(Status.OK, what)


def _shared_memory(facts: Facts) -> Iterator[Check]:
    if facts.shared_memory is None:
        yield Check(Status.NOTE, "there is no /dev/shm, where processes share memory", MORE_SHARED_MEMORY)
        return
    what = f"{gib(facts.shared_memory.total)} of shared memory, {gib(facts.shared_memory.free)} of it free"
    if facts.shared_memory.free < SHARED_MEMORY:
        yield Check(Status.NOTE, f"{what}: little for several processes", MORE_SHARED_MEMORY)
    else:
        yield Check(Status.OK, what)
