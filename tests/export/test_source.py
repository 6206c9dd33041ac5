"""Lines and annotation texts read from a package's source."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from omnicfg.export import source

TEXT = """\
from dataclasses import dataclass, field

@dataclass
class Base:
    width: int = 1
    name: str | None = None

@dataclass
class Upper(Base):
    width: float = 2.0  # another type
    parts: list["Base"] = field(default_factory=list)

def maker(): ...

NOT_A_CALL = 5
ONE = Upper(
    width=3.0,
    name="one",
)
"""


@pytest.fixture
def upstream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A package ``vllm_omni`` with one module of :data:`TEXT`."""
    package = tmp_path / "vllm_omni"
    package.mkdir()
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "things.py").write_text(TEXT, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield importlib.import_module("vllm_omni.things")
    for name in set(sys.modules) - before:
        if name.startswith("vllm_omni"):
            del sys.modules[name]


def test_fields_of_bases_come_with_those_of_the_class(upstream: ModuleType) -> None:
    fields = source.annotated_fields(upstream.Upper)
    assert {name: (field.type, field.line) for name, field in fields.items()} == {
        "width": ("float", 10),
        "name": ("str | None", 6),
        "parts": ("list['Base']", 11),
    }
    assert {field.file for field in fields.values()} == {"vllm_omni/things.py"}


def test_the_call_that_made_an_object_is_found(upstream: ModuleType) -> None:
    path, call = source.definition_of(upstream.ONE, "vllm_omni")
    assert (source.relative(path), call.lineno) == ("vllm_omni/things.py", 16)
    assert source.keyword_lines(call) == {"width": 17, "name": 18}


def test_an_object_that_no_module_made_is_not_found(upstream: ModuleType) -> None:
    with pytest.raises(LookupError):
        source.definition_of(upstream.Upper(), "vllm_omni")


def test_strings_of_a_function() -> None:
    def function(given: dict[str, int]) -> int:
        return given["one"] + given.get("two", 0)

    assert source.function_strings(function) == {"one", "two"}
