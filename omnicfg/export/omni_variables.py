"""``variables.json``: the environment variables that vLLM-Omni reads, by its own inventory of them."""

from __future__ import annotations

import inspect
from typing import Any, Final

from omnicfg.export.source import relative

_OF_OTHERS: Final = frozenset({"inherited_vllm", "platform_external"})


def export_variables(release: str) -> dict[str, Any]:
    """The whole file: what is vLLM-Omni's own, each with the category that the inventory puts it into."""
    from vllm_omni.config import environment_variable_inventory as inventory

    found = inventory.ENVIRONMENT_VARIABLE_INVENTORY
    categories = {name: str(entry.category.value) for name, entry in sorted(found.items())}
    return {
        "vllm_omni": release,
        "file": relative(inspect.getfile(inventory)),
        "variables": {name: category for name, category in categories.items() if category not in _OF_OTHERS},
    }
