"""Sizes of memory, as they are written and read."""

from __future__ import annotations

import pytest

from omnicfg.errors import UsageError
from omnicfg.resources.sizes import gib, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("80GB", 80 * 10**9),
        ("139.8GiB", int(139.8 * 2**30)),
        (" 143771 MiB ", 143_771 * 2**20),
        ("1tb", 10**12),
        ("512KiB", 2**19),
    ],
)
def test_a_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text, "--device-memory") == size


@pytest.mark.parametrize("text", ["", "141", "GiB", "-1GiB", "0GB", "1e3GB", "1 GiB or so", "9" * 20 + "GB", "1GiBs"])
def test_anything_else_is_refused_by_the_options_name(text: str) -> None:
    with pytest.raises(UsageError, match="`--device-memory` cannot be"):
        parse_size(text, "--device-memory")


def test_how_bytes_are_shown() -> None:
    assert gib(61_092_000_000) == "56.9 GiB"
