"""JSON output is strict JSON."""

from __future__ import annotations

import json

from omnicfg.report.json import dumps


def test_numbers_that_json_lacks_are_written_as_yaml_spells_them() -> None:
    text = dumps({"a": float("inf"), "b": [float("-inf"), float("nan")], "c": "名"})
    assert json.loads(text, parse_constant=lambda name: 1 / 0) == {"a": ".inf", "b": ["-.inf", ".nan"], "c": "名"}
