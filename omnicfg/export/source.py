"""Where upstream wrote a thing: files, lines and annotation texts, read from the source by AST."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Annotated:
    """An annotated class attribute: the text of its annotation and the line it is written on."""

    type: str
    line: int
    file: str


@cache
def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def relative(path: str | Path) -> str:
    """A path below the folder that holds the installed package, with forward slashes."""
    parts = Path(path).parts
    last = max(index for index, part in enumerate(parts) if part in {"vllm", "vllm_omni"} and _is_root(parts[:index]))
    return "/".join(parts[last:])


def _is_root(parts: tuple[str, ...]) -> bool:
    return not (Path(*parts) / "__init__.py").exists()


def annotated_fields(cls: type) -> dict[str, Annotated]:
    """The annotated attributes of a class and its bases, the most derived class winning."""
    found: dict[str, Annotated] = {}
    for owner in reversed(cls.__mro__):
        file = getattr(sys.modules.get(owner.__module__), "__file__", None)
        if file is None or not file.endswith(".py"):
            continue
        for node in ast.walk(parse(Path(file))):
            if isinstance(node, ast.ClassDef) and node.name == owner.__name__:
                found |= {name: Annotated(text, line, relative(file)) for name, text, line in _attributes(node)}
    return found


def _attributes(node: ast.ClassDef) -> Iterator[tuple[str, str, int]]:
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            yield statement.target.id, ast.unparse(statement.annotation), statement.lineno


def assignments(module: ast.Module) -> dict[str, ast.expr]:
    """The values of the module-level names, the last assignment winning."""
    values: dict[str, ast.expr] = {}
    for statement in module.body:
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                if isinstance(target, ast.Name):
                    values[target.id] = statement.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            values[statement.target.id] = statement.value
    return values


def definition_of(value: object, package: str) -> tuple[Path, ast.Call]:
    """The file and the call that built a module-level object of ``package``.

    Raises:
        LookupError: where no module assigns that very object from a call.
    """
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] != package or not getattr(module, "__file__", None):
            continue
        names = [key for key, item in vars(module).items() if item is value]
        if not names:
            continue
        path = Path(str(module.__file__))
        values = assignments(parse(path))
        for key in names:
            call = values.get(key)
            if isinstance(call, ast.Call):
                return path, call
    raise LookupError(f"no module of {package} defines {value!r}")


def keyword_lines(call: ast.Call) -> dict[str, int]:
    """Keyword name → line of the keyword."""
    return {keyword.arg: keyword.lineno for keyword in call.keywords if keyword.arg is not None}


def function_strings(function: Any) -> set[str]:
    """Every string constant in the body of a function."""
    tree = ast.parse(inspect.getsource(function).lstrip())
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
