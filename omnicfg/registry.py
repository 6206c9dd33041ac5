"""Finding what a package holds: rules, commands, renderers and engines are one file each and need no list."""

from __future__ import annotations

import functools
import pkgutil
from importlib import import_module
from types import ModuleType


@functools.cache
def modules_of(package: str) -> dict[str, ModuleType]:
    """Every public module of a package by name, imported, in alphabetical order."""
    return {name: import_module(f"{package}.{name}") for name in module_names(package)}


@functools.cache
def module_names(package: str) -> tuple[str, ...]:
    """The names of a package's public modules, without importing them."""
    paths = import_module(package).__path__
    return tuple(sorted(info.name for info in pkgutil.iter_modules(paths) if not info.name.startswith("_")))
