"""Models that omnicfg makes itself: ``builtin:NAME`` stands for a checkpoint directory made on first use.

Each public module of this package is one recipe: its name is the model's (``tiny_omni`` →
``builtin:tiny-omni``), its ``VERSION`` changes whenever the files it writes change, and its
``write(directory)`` writes them. A checkpoint is made once per user and kept under
``$XDG_CACHE_HOME/omnicfg/models`` (``~/.cache`` by default); it can be deleted at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

from omnicfg.cache import WRITABLE_CACHE, make_once, user_cache
from omnicfg.errors import ServeError, UsageError
from omnicfg.registry import module_spelt, spelt_names

PREFIX = "builtin:"


class Recipe(Protocol):
    """What a recipe module offers."""

    VERSION: int

    def config(self) -> dict[str, Any]:
        """The ``config.json`` of the checkpoint."""

    def write(self, directory: Path) -> None:
        """Writes a complete checkpoint into an empty directory: the same bytes every time."""


def is_builtin(model: str) -> bool:
    """Whether a model reference names a model that omnicfg makes itself."""
    return model.startswith(PREFIX)


def names() -> tuple[str, ...]:
    """The models that can be made, such as ``tiny-omni``."""
    return spelt_names(__name__)


def location(model: str, cache: Path | None = None) -> Path:
    """Where the checkpoint of ``builtin:NAME`` is kept, made or not. Raises :class:`UsageError` for an unknown name."""
    name = model.removeprefix(PREFIX)
    return (cache or user_cache()) / "models" / f"{name}-v{_recipe(name).VERSION}"


def config(model: str) -> dict[str, Any]:
    """The ``config.json`` of ``builtin:NAME``, made or not. Raises :class:`UsageError` for an unknown name."""
    return _recipe(model.removeprefix(PREFIX)).config()


def materialize(model: str, cache: Path | None = None) -> Path:
    """The checkpoint directory of ``builtin:NAME``, made now if this user has none yet.

    Safe in any number of processes at once. Raises :class:`UsageError` for a name that no recipe has and
    :class:`ServeError` where a library that the recipe needs is missing or the cache cannot be written.
    """
    directory = location(model, cache)
    try:
        return make_once(directory, _recipe(model.removeprefix(PREFIX)).write)
    except ModuleNotFoundError as error:
        raise ServeError(
            f"making the model `{model}` needs the Python package `{error.name}`",
            "Install vLLM's CPU build, which brings it: `python -m omnicfg.serve.install_cpu`.",
        ) from error
    except OSError as error:
        raise ServeError(
            f"the model `{model}` cannot be written to {directory.parent}: {error.strerror or error}",
            WRITABLE_CACHE,
        ) from error


def _recipe(name: str) -> Recipe:
    if name not in names():
        raise UsageError(f"there is no built-in model `{name}`", f"Built-in models: {', '.join(names())}.")
    return cast(Recipe, module_spelt(__name__, name))
