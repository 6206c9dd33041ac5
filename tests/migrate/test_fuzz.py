"""Damaged old files: an answer at once, and what is answered compiles."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnicfg
from omnicfg.errors import OmnicfgError
from omnicfg.migrate.run import migrate
from omnicfg.migrate.write import write_profile
from tests.fuzz.harness import time_limit
from tests.fuzz.mutate import mutate
from tests.migrate import files

pytestmark = pytest.mark.usefixtures("environment_allowed")

ROUNDS = 150


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", files.ALL)
def test_a_damaged_file_is_migrated_or_refused(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    whole = 0
    for number in range(ROUNDS):
        raw, story = mutate(files.ALL[name], rng)
        old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
        old.write_bytes(raw)
        try:
            with time_limit():
                done = migrate(old, target=new)
                write_profile(done, new)
                omnicfg.resolve(new, platform=done.platform, pipeline=done.pipeline)
            assert done.held == done.checked
            whole += 1
        except OmnicfgError:
            continue
        except Exception as error:  # noqa: BLE001  # that is what the test is about
            pytest.fail(f"mutant {number} ({', '.join(story)}) of {name}: {type(error).__name__}: {error}\n{raw!r}")
    assert whole > ROUNDS / 8
