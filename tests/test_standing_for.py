"""Which file a base names where a directory stands for another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.standing_for import beside, standing_for


@pytest.mark.parametrize(
    ("file", "value", "named"),
    [
        ("/copy/a/ours.yaml", "base.yaml", "/copy/a/base.yaml"),
        ("/copy/a/ours.yaml", "../base.yaml", "/copy/a/../base.yaml"),
        ("/copy/a/ours.yaml", "/home/repo/base.yaml", "/copy/base.yaml"),
        ("/copy/a/ours.yaml", "../../repo/b/base.yaml", "/copy/b/base.yaml"),
        ("/copy/a/ours.yaml", "../../base.yaml", "/home/base.yaml"),
        ("/copy/a/ours.yaml", "/etc/base.yaml", "/etc/base.yaml"),
        ("/copy/a/ours.yaml", "/home/repo2/base.yaml", "/home/repo2/base.yaml"),
        ("/home/base.yaml", "repo/base.yaml", "/copy/base.yaml"),
    ],
)
def test_paths_into_the_original_are_read_in_the_copy(file: str, value: str, named: str) -> None:
    with standing_for(Path("/copy"), Path("/home/repo")):
        assert beside(Path(file), value) == Path(named)


def test_elsewhere_a_base_lies_where_it_says() -> None:
    assert beside(Path("/copy/a/ours.yaml"), "../../home/repo/base.yaml") == Path("/copy/a/../../home/repo/base.yaml")
