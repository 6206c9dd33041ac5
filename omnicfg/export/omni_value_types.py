"""What kinds of value does a stage's engine take for a setting? Asked of vllm-omni's own typed config, key by key.

Annotations would not tell: many of its fields are checked by more than one class, renamed on the way, or declared for
what they become. A kind counts as refused if the config says that the value is of a wrong type, or breaks on it; what
is merely no sensible value of its kind does not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from omnicfg.export.omni_ignored import started_with

_PROBES: Final[Mapping[str, Any]] = {  # by its name in an annotation; pydantic converts none, but `True` to a number
    "bool": True,
    "int": 7,
    "float": 7.5,
    "str": "probe",
    "dict": {},
    "list": [],
}
_IMPLIED_BY: Final = {"bool": "int", "int": "float"}  # what takes the one takes the other for it


def value_types(execution_type: Any, keys: Iterable[str]) -> dict[str, str]:
    """Key → what is taken, as an annotation, where that is not anything; not asked of releases before 0.30.0: none."""
    from vllm_omni.config import omni_config

    if not hasattr(omni_config, "extract_diffusion_stage_config_kwargs"):
        return {}
    found = {}
    for key in sorted(keys):
        taken = [name for name, probe in _PROBES.items() if not _is_refused(execution_type, {key: probe})]
        if taken and len(taken) < len(_PROBES):
            found[key] = " | ".join(name for name in taken if _IMPLIED_BY.get(name) not in taken)
    return found


def _is_refused(execution_type: Any, engine_extras: dict[str, Any]) -> bool:
    from pydantic import ValidationError

    try:
        started_with(execution_type, engine_extras)
    except ValidationError as error:
        return all(_is_of_type(each["type"]) for each in error.errors())
    except (TypeError, AttributeError):
        return True
    except (ValueError, KeyError, OSError):
        return False
    return False


def _is_of_type(error: str) -> bool:
    """Whether an error of pydantic's says that a value is of a wrong type."""
    return error.endswith(("_type", "_parsing", "_from_float", "is_instance_of"))
