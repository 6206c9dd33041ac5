"""Which keys of a mapping a package reads, through every form that the analysis follows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from omnicfg.export.key_reads import KeyReads


def reads(folder: Path, **modules: str) -> dict[str, list[str]]:
    """The keys that modules of these texts read from what ``source()`` returns."""
    files = []
    for name, text in modules.items():
        path = folder / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        files.append(path)
    return KeyReads(folder, _is_source).run(files)


def _is_source(value: ast.expr, module: str) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "source"


@pytest.mark.parametrize(
    "expression",
    [
        'source().get("key", 1)',
        'source()["key"]',
        'source().pop("key")',
        'source().setdefault("key", 2)',
        '"key" in source()',
        '"key" not in source()',
        '(source() or {}).get("key")',
        '(source() if 1 else {}).get("key")',
        '({} if 1 else dict(source())).get("key")',
        'source().copy()["key"]',
        '{"other": 1, **source()}["key"]',
        '(found := source()) and found["key"]',
        'source().get("key" if 1 else "key")',
    ],
)
def test_a_read_is_found(expression: str, tmp_path: Path) -> None:
    assert reads(tmp_path, module=expression) == {"key": ["module.py"]}


def test_other_mappings_and_writes_are_no_reads(tmp_path: Path) -> None:
    text = 'extra = source()\nextra["written"] = other["read"]\nother.get("too")\n'
    assert reads(tmp_path, module=text) == {}


def test_a_mapping_is_followed_through_names_attributes_returns_and_arguments(tmp_path: Path) -> None:
    text = """
class Model:
    def __init__(self, given):
        self.extra = given
        self.size = self.extra.get("attribute")

def helper():
    found = source()
    return found if found else {}

def width(extra):
    return extra["argument"]

def nested():
    outer = helper()
    def inner():
        return outer["closure"]
    return inner

Model(helper())
width(extra=helper())
helper()["returned"]
"""
    assert list(reads(tmp_path, module=text)) == ["argument", "attribute", "closure", "returned"]


def test_a_key_that_is_a_parameter_is_found_where_the_function_is_called(tmp_path: Path) -> None:
    text = """
NAMED = "constant"
def number(extra, key, default):
    return int(extra.get(key, default))
def first(extra, *names):
    for name in names:
        if name in extra:
            return extra[name]
def look(key):
    return number(source(), key, 1)
number(source(), "direct", 0)
number(source(), key="keyword", default=0)
first(source(), "one", "two")
look("forwarded")
source()[NAMED]
for key in ("tuple", "of", "keys"):
    source().get(key)
"""
    found = reads(tmp_path, module=text)
    assert set(found) == {"constant", "direct", "keyword", "one", "two", "forwarded", "tuple", "of", "keys"}


def test_modules_are_looked_at_together(tmp_path: Path) -> None:
    found = reads(
        tmp_path,
        maker="def make():\n    return source()\n",
        user="from maker import make\nmake().get('key')\n",
    )
    assert found == {"key": ["user.py"]}
