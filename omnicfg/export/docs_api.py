"""The signatures of the Python API, as they are in the code."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

import omnicfg
from omnicfg.export.docs_output import fenced, table


def functions() -> str:
    """The public functions with their parameters, one a line."""
    return fenced(
        'python not-run="signatures"', "\n\n".join(_signature(name) for name in omnicfg.__all__ if _is_function(name))
    )


def fields(name: str) -> str:
    """The fields of a public dataclass."""
    rows = [(f"`{field.name}`", f"`{field.type}`") for field in dataclasses.fields(getattr(omnicfg, name))]
    return table(("field", "type"), rows)


def _is_function(name: str) -> bool:
    return inspect.isfunction(getattr(omnicfg, name))


def _signature(name: str) -> str:
    signature = inspect.signature(getattr(omnicfg, name))
    parameters = "".join(f"    {line},\n" for line in _parameters(signature))
    return f"omnicfg.{name}(\n{parameters}) -> {signature.return_annotation}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            star = True
            yield "*"
        yield f"{parameter.name}: {parameter.annotation}{_default(parameter.default)}"


def _default(value: Any) -> str:
    return "" if value is inspect.Parameter.empty else f" = {value!r}"
