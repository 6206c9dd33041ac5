"""The places of keys in JSON."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from omnicfg.command_line.json_keys import keys_of


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("3", []),
        ("{}", []),
        (" [ ] ", []),
        ('{"a": 1}', [("a",)]),
        ('{"a":{"b":[1,{"c":null}]},"d":"}"}', [("a",), ("a", "b"), ("a", "b", 1, "c"), ("d",)]),
        ('{"": NaN}', [("",)]),
    ],
)
def test_keys_come_in_the_order_of_the_text(text: str, keys: list[Any]) -> None:
    found = list(keys_of(text))
    assert [key.route for key in found] == keys
    assert [text[key.start : key.end] for key in found] == [key[-1] for key in keys]


@pytest.mark.parametrize(
    ("text", "repeated"),
    [
        ('{"a": 1, "a": 2, "a": 3}', [9, 17]),
        ('{"a": {"b": 1}, "c": {"b": 1}}', []),
        ('{"a": {"b": 1}, "a": {"b": 1}}', [16]),
        ('[{"a": 1}, {"a": 1}]', []),
        (r'{"a": 1, "\u0061": 2}', [9]),
    ],
)
def test_a_key_is_repeated_within_its_own_object(text: str, repeated: list[int]) -> None:
    assert [key.start - 1 for key in keys_of(text) if key.is_repeated] == repeated


def some(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth < 4 else 4)
    if kind == 4:
        return [some(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 5:
        return {rng.choice('abc"\\{}[],: ') * rng.randrange(3): some(rng, depth + 1) for _ in range(rng.randrange(4))}
    return (rng.random(), None, True, rng.choice(["", '{"a": 1}', "]", "\\", ","]))[kind]


def test_every_key_of_any_json_is_found() -> None:
    rng = random.Random(1)
    for _ in range(500):
        value = some(rng)
        text = json.dumps(value, indent=rng.choice([None, 1]))
        found = list(keys_of(text))
        assert [key.route for key in found] == list(routes(value))
        assert all(json.loads(f'"{text[key.start : key.end]}"') == key.route[-1] for key in found)


def routes(value: Any, above: tuple[Any, ...] = ()) -> Any:
    if isinstance(value, dict | list):
        for key, child in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(value, dict):
                yield (*above, key)
            yield from routes(child, (*above, key))
