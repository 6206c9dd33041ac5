"""Every fuzzed profile may use the environment: what becomes of a variable is to be fuzzed as well."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _environment(environment_allowed: None) -> None:
    """Takes the fixture for all tests here."""
