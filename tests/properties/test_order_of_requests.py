"""The findings about a set of profiles do not depend on how they were asked for."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic
from tests.properties.profiles import PLATFORMS


@pytest.fixture(scope="module")
def files(upstream_deploy: Path) -> list[Path]:
    return sorted(upstream_deploy.glob("*.yaml"))


@pytest.fixture(scope="module")
def found(files: list[Path]) -> list[Diagnostic]:
    return omnicfg.validate(files)


@pytest.mark.parametrize("seed", range(3))
def test_in_whatever_order_the_files_come(files: list[Path], found: list[Diagnostic], seed: int) -> None:
    order = random.Random(seed).sample(files, len(files))
    assert omnicfg.validate(order) == found


def test_a_file_that_comes_twice_is_told_of_once(files: list[Path], found: list[Diagnostic]) -> None:
    assert omnicfg.validate([*files, *files[::-1]]) == found


@pytest.mark.parametrize("platform", PLATFORMS)
def test_all_platforms_at_once_are_each_of_them_alone(
    files: list[Path], found: list[Diagnostic], platform: str
) -> None:
    alone = {_bare(one) for one in omnicfg.validate(files, platform=platform)}
    together = {_bare(one) for one in found if one.platform is None or platform in one.platform.split(",")}
    assert alone == together


def _bare(one: Diagnostic) -> Diagnostic:
    """Without the platform, and without the profiles that a finding in a base was seen from."""
    return replace(one, platform=None, message=re.sub(r" \(in profile .*\)$", "", one.message))


def test_findings_come_in_the_order_of_their_places(found: list[Diagnostic]) -> None:
    places = [(one.path, one.line, one.column) for one in found]
    assert places == sorted(places)


def test_findings_are_told_once(found: list[Diagnostic]) -> None:
    assert len(set(found)) == len(found)
