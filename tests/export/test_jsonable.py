"""Upstream's values as JSON."""

from __future__ import annotations

import enum
from pathlib import PurePath
from types import MappingProxyType

import pytest

from omnicfg.export.jsonable import jsonable


class Colour(enum.Enum):
    RED = "red"


def test_values_have_one_form() -> None:
    value = {"tuple": (1, 2.0, None), "enum": Colour.RED, "set": {"b", "a"}, "type": PurePath}
    assert jsonable(MappingProxyType(value)) == {
        "tuple": [1, 2.0, None],
        "enum": "red",
        "set": ["a", "b"],
        "type": f"{PurePath.__module__}.PurePath",
    }


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no JSON form"):
        jsonable(object())
