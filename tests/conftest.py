"""What every test may ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.upstream import UpstreamMissingError, deploy_files

if TYPE_CHECKING:
    from tests.repositories import Repo

WriteProfile = Callable[..., Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-snapshots", action="store_true", help="write what the code says now into the committed snapshots"
    )


@pytest.fixture(scope="session")
def upstream_deploy(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the deploy files of vllm-omni's wheel; a failure, never a skip, where they cannot be had."""
    keeps = pytestconfig.pluginmanager.hasplugin("cacheprovider")
    try:
        return deploy_files(pytestconfig.cache.mkdir("upstream") if keeps else tmp_path_factory.mktemp("upstream"))
    except UpstreamMissingError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def environment_allowed() -> Iterator[None]:
    """Profiles may use every variable of the environment, as vLLM-Omni lets them."""
    from omnicfg.confine import confined

    with confined(allow_env=["*"]):
        yield


@pytest.fixture
def profile_file(tmp_path: Path) -> WriteProfile:
    """Writes a profile: ``profile_file("pipeline: qwen3_tts\\n", "base.yaml")`` gives its path."""

    def write(text: str, name: str = "profile.yaml") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A git repository in the folder that ``profile_file`` writes to."""
    from tests.repositories import Repo

    return Repo(tmp_path)
