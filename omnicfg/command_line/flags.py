"""The flags of `vllm serve --omni`, as exported from a release (:mod:`omnicfg.export.omni_flags`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import VLLM_OMNI


class Flag(NamedTuple):
    """One flag.

    ``reach`` says who takes it: ``stages``, ``profile`` (it changes what is resolved), ``orchestrator``, ``server`` or
    ``nothing``. ``stages`` maps each kind of stage to the engine args that the flag sets there; an engine arg maps to
    ``None`` for the flag's own value, otherwise to a value in which ``"*"`` stands for it, or ``"json:*"`` for the JSON
    that it is. ``keys`` are those of the JSON for a config, empty where any will do. Of a flag that ``adds_up`` every
    value counts, not the last one. A flag that is an engine arg has to find a stage that takes it, unless it
    ``needs_no_owner``.
    """

    dest: str
    options: tuple[str, ...]
    kind: str
    nargs: str | None
    adds_up: bool
    const: Any
    choices: tuple[str, ...]
    keys: tuple[str, ...]
    defaults: Mapping[str, Any]
    reach: str
    stages: Mapping[str, Mapping[str, Any]]
    refused_by_diffusion: bool
    needs_no_owner: bool

    @property
    def shown(self) -> str:
        """The flag as it is mostly written."""
        return next((option for option in self.options if option.startswith("--")), self.options[0])

    @property
    def takes_value(self) -> bool:
        return self.kind not in ("bool", "const")


class Catalog(NamedTuple):
    """All flags by option, and what the release does with overrides of single stages.

    ``owned_by_no_stage`` names engine args that are no flag's to set: a profile may, for one stage. ``read_by_server``
    names flags that reach stages and that the HTTP server reads as well, for itself: a profile cannot say those to it.
    """

    by_option: Mapping[str, Flag]
    dropped_from_stage_overrides: frozenset[str]
    refused_on_diffusion_stages: frozenset[str]
    removed: frozenset[str]
    owned_by_no_stage: frozenset[str]
    read_by_server: frozenset[str]

    def named(self, dest: str) -> Flag | None:
        """The flag that sets a name."""
        return next((flag for flag in self.by_option.values() if flag.dest == dest), None)


@functools.cache
def catalog() -> Catalog:
    """The command line of the release whose deploy language omnicfg speaks."""
    raw = load_json(f"schemas/vllm-omni/{VLLM_OMNI}/flags.json")
    flags = [_flag(entry) for entry in raw["flags"]]
    return Catalog(
        {option: flag for flag in flags for option in flag.options},
        frozenset(raw["dropped_from_stage_overrides"]),
        frozenset(raw["refused_on_diffusion_stages"]),
        frozenset(raw["removed"]),
        frozenset(raw["owned_by_no_stage"]),
        frozenset(raw["read_by_server"]),
    )


def _flag(entry: Mapping[str, Any]) -> Flag:
    return Flag(
        dest=entry["dest"],
        options=tuple(entry["options"]),
        kind=entry["kind"],
        nargs=entry.get("nargs"),
        adds_up=entry.get("adds_up", False),
        const=entry.get("const"),
        choices=tuple(entry.get("choices", ())),
        keys=tuple(entry.get("keys", ())),
        defaults=entry.get("defaults") or {},
        reach=entry["reach"],
        stages=entry.get("stages", {}),
        refused_by_diffusion=entry.get("refused_by_diffusion", False),
        needs_no_owner=entry.get("needs_no_owner", False),
    )
