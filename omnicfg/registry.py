"""Finding what a package holds: rules, commands, renderers and engines are one file each and need no list."""

from __future__ import annotations

import functools
import os
from importlib import import_module
from types import ModuleType


@functools.cache
def modules_of(package: str) -> dict[str, ModuleType]:
    """Every public module of a package by name, imported, in alphabetical order."""
    return {name: import_module(f"{package}.{name}") for name in module_names(package)}


@functools.cache
def module_names(package: str) -> tuple[str, ...]:
    """The names of a package's public modules, without importing them.

    Listed by hand: ``pkgutil`` imports ``inspect``, which takes as long as a bare start of Python.
    """
    files = [file for path in import_module(package).__path__ for file in os.listdir(path)]  # noqa: PTH208
    names = {file.removesuffix(".py") for file in files if file.endswith(".py")}
    return tuple(sorted(name for name in names if not name.startswith("_")))


def spelt_names(package: str) -> tuple[str, ...]:
    """The same as a command line and records spell them: ``vllm-omni`` for ``vllm_omni.py``."""
    return tuple(name.replace("_", "-") for name in module_names(package))


def module_spelt(package: str, name: str) -> ModuleType:
    """The module of one of the :func:`spelt_names`; the others are not imported."""
    return import_module(f"{package}.{name.replace('-', '_')}")
