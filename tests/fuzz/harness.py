"""Feeds profiles to the compiler and the checker, and says what neither may do."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import ResolveError
from omnicfg.refusals import REFUSALS
from tests.patience import PATIENCE_S, in_cpu_s

CPU_S = 1.0


@contextmanager
def time_limit() -> Iterator[None]:
    """Turns a hang into a failure."""

    def give_up(signal_number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"no answer after {PATIENCE_S:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(round(PATIENCE_S))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def feed(profile: Path, platform: str, story: str, **options: Any) -> None:
    """Compile and check a profile; anything but an answer fails the test, with the story of the profile."""

    def answer() -> tuple[tuple[Diagnostic, ...], list[Diagnostic]]:
        return refusal(profile, platform, **options), omnicfg.validate(profile, platform=platform, **options)

    try:
        with time_limit():
            refused, findings = in_cpu_s(CPU_S, answer)
    except (Exception, RecursionError) as error:  # noqa: BLE001  # that is what the test is about
        pytest.fail(f"{story}: {type(error).__name__}: {error}")
    wrong = complaint(refused, findings, may_be_silent=b"omnicfg:" in profile.read_bytes())
    if wrong:
        pytest.fail(f"{story}: {wrong}")


def refusal(profile: Path, platform: str, **options: Any) -> tuple[Diagnostic, ...]:
    """Why a profile cannot be compiled; nothing where it can, and then its plan is whole."""
    try:
        plan = omnicfg.resolve(profile, platform=platform, **options)
    except ResolveError as error:
        return error.diagnostics
    json.dumps(plan.to_dict())
    for route, node in plan.leaves():
        assert node.mark.file, f"{route} has no origin"
    return ()


def complaint(
    refused: tuple[Diagnostic, ...], findings: list[Diagnostic], *, may_be_silent: bool = False
) -> str | None:
    """What is wrong with an answer. A profile with suppressions may be silent on why it is refused."""
    for diagnostic in (*refused, *findings):
        if not (diagnostic.path and diagnostic.message and "\n" not in diagnostic.code):
            return f"no place or no message: {diagnostic}"
        if diagnostic.column and not (
            diagnostic.line and (diagnostic.end_line, diagnostic.end_column) >= place(diagnostic)
        ):
            return f"an end before its start: {diagnostic}"
    codes = {(refusal.code, name) for name, refusal in REFUSALS.items()}
    if any((diagnostic.code, diagnostic.name) not in codes for diagnostic in refused):
        return f"no documented refusal: {refused}"
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if refused and not errors and refused[0].name != "no-pipeline" and not may_be_silent:
        return f"refused, but validated without an error: {refused}"
    return None


def place(diagnostic: Diagnostic) -> tuple[int, int]:
    return diagnostic.line, diagnostic.column


def pipelines_of(files: list[Path]) -> Mapping[str, str | None]:
    """File name → the pipeline that the file configures, if anything says so."""
    known: dict[str, str | None] = {}
    for path in files:
        try:
            known[path.name] = omnicfg.resolve(path).pipeline
        except ResolveError:
            known[path.name] = None
    return known
