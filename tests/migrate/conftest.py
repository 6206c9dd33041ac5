"""What the tests of migrations may ask for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.conftest import run
from tests.migrate.corpus import COUNTS, stage_configs

__all__ = ["run"]

Corpus = dict[str, dict[str, Path]]


@pytest.fixture(scope="session")
def corpus(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Release → name → stage config; a failure, never a skip, where the files cannot be had."""
    keeps = pytestconfig.pluginmanager.hasplugin("cacheprovider")
    cache = pytestconfig.cache.mkdir("stage-configs") if keeps else tmp_path_factory.mktemp("stage-configs")
    try:
        return {version: stage_configs(version, cache) for version in COUNTS}
    except LookupError as error:
        pytest.fail(str(error), pytrace=False)
