"""Which field of which config class each engine arg ends in, read from the source of ``EngineArgs``.

vLLM repeats its config fields as flat engine args, some under another name (``kv_cache_dtype`` is
``CacheConfig.cache_dtype``). The config field carries what the arg lacks: bounds, a documented meaning, validation. The
link is written down four times; the first that names the arg counts: the parser (``"--x", **cache_kwargs["y"]``), the
arg's default (``CacheConfig.y``), the call that builds the config (``CacheConfig(y=self.x)``), and equal names in
``VllmConfig``.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from omnicfg.export.source import parse


class ConfigField(NamedTuple):
    """A field of a config class."""

    cls: type
    name: str


def config_fields(arg_utils: ModuleType, args: Iterable[str]) -> dict[str, ConfigField]:
    """Engine arg → the config field behind it. Args that end in no config field are absent."""
    tree = parse(Path(inspect.getsourcefile(arg_utils) or ""))
    owner = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "EngineArgs")
    links = [*_from_parser(owner), *_from_defaults(owner), *_from_calls(owner), *_from_names(arg_utils)]
    wanted = set(args)
    found: dict[str, ConfigField] = {}
    for arg, class_name, field in links:
        cls = getattr(arg_utils, class_name, None)
        if arg in wanted and arg not in found and isinstance(cls, type) and _has_field(cls, field):
            found[arg] = ConfigField(cls, field)
    return found


def _has_field(cls: type, name: str) -> bool:
    return dataclasses.is_dataclass(cls) and any(field.name == name for field in dataclasses.fields(cls))


def _from_parser(owner: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    method = next(node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name == "add_cli_args")
    tables: dict[str, str] = {}
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and (cls := _kwargs_of(node.value)) and isinstance(node.targets[0], ast.Name):
            tables[node.targets[0].id] = cls
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
            for keyword in node.keywords:
                for part in ast.walk(keyword.value):
                    if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name) and part.value.id in tables:
                        yield _destination(node), tables[part.value.id], ast.literal_eval(part.slice)


def _kwargs_of(node: ast.expr) -> str | None:
    """``X`` of ``get_kwargs(X)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "get_kwargs":
        return ast.unparse(node.args[0])
    return None


def _destination(call: ast.Call) -> str:
    for keyword in call.keywords:
        if keyword.arg == "dest":
            return str(ast.literal_eval(keyword.value))
    flags = [str(ast.literal_eval(argument)) for argument in call.args]
    return next(flag for flag in flags if flag.startswith("--")).removeprefix("--").replace("-", "_")


def _from_defaults(owner: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for node in owner.body:
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        match node.value:
            case ast.Attribute(value=ast.Name(id=cls), attr=field):
                yield node.target.id, cls, field
            case ast.Call(func=ast.Name(id="get_field"), args=[ast.Name(id=cls), ast.Constant(value=str() as field)]):
                yield node.target.id, cls, field
            case _:
                pass


def _from_calls(owner: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
    for node in ast.walk(owner):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Config")):
            continue
        for keyword in node.keywords:
            value = keyword.value.body if isinstance(keyword.value, ast.IfExp) else keyword.value
            own = set(_own_attributes(value))
            derived = any(isinstance(part, ast.Compare | ast.Call) for part in ast.walk(value))
            if keyword.arg is not None and len(own) == 1 and not derived:
                yield own.pop(), node.func.id, keyword.arg


def _own_attributes(expression: ast.expr) -> Iterator[str]:
    """Every ``x`` of ``self.x`` in an expression."""
    for part in ast.walk(expression):
        if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
            yield part.attr


def _from_names(arg_utils: ModuleType) -> Iterator[tuple[str, str, str]]:
    for field in dataclasses.fields(arg_utils.VllmConfig):
        yield field.name, "VllmConfig", field.name
