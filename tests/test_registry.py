"""Packages whose modules are found without a list."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.registry import module_names, modules_of


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path / "found_things"
    folder.mkdir()
    for name, text in (("__init__", ""), ("zebra", "X = 1\n"), ("ant", "X = 2\n"), ("_private", "X = 3\n")):
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return "found_things"


def test_public_modules_in_alphabetical_order(package: str) -> None:
    assert module_names(package) == ("ant", "zebra")
    assert {name: module.X for name, module in modules_of(package).items()} == {"ant": 2, "zebra": 1}


@pytest.mark.parametrize("package", ["omnicfg.rules", "omnicfg.commands", "omnicfg.report", "omnicfg.serve.engines"])
def test_our_packages_hold_something(package: str) -> None:
    assert module_names(package)
