"""The map of the code: each module with the first sentence of its docstring."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).resolve().parents[1]


_ABOUT: Final = """\
# The map of the code

<!-- Made by `python -m omnicfg.export.docs` from the docstrings of omnicfg/. -->

Each package and module, with the first sentence of its docstring. [Contributing](../CONTRIBUTING.md) says how they go
together and what a new one has to bring.
"""


def code_map() -> str:
    """The page ``code-map.md``, package by package. Raises ``ValueError`` for a module without a docstring."""
    packages = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
    return "\n".join([_ABOUT, *("".join(_package(folder)) for folder in packages)])


def _package(folder: Path) -> Iterator[str]:
    name = folder.relative_to(PACKAGE.parent).as_posix()
    yield f"## {name}/\n\n{_first_sentence(folder / '__init__.py')}\n\n"
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield f"- `{path.name}`: {_first_sentence(path)}\n"


def _first_sentence(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    if not docstring:
        raise ValueError(f"{path} has no docstring")
    paragraph = " ".join(docstring.partition("\n\n")[0].split())
    sentence = re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph)[0]
    return re.sub(r":\w+:`~?([^`]+)`", r"`\1`", sentence).replace("``", "`")
