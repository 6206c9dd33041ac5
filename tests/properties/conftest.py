"""How hypothesis searches here: the same cases on every run."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("omnicfg", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("omnicfg")
