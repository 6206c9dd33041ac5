"""Settings whose text or lists have a notation of their own, which upstream reads when it configures a stage.

Values of a kind that the setting does not take are not looked at here: another rule (OC102) is for those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

_CPUS: Final = re.compile(r"[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*")
_LONGEST: Final = 4000  # digits that Python turns into a number


class Misread(NamedTuple):
    """The part of a value that cannot be read (``None``: there is none at all), and what it has to be."""

    part: Any
    wanted: str


def misread(setting: str, value: Any) -> Misread | None:
    """What upstream cannot read in the value of a setting; ``None`` where it reads all of it, or any value will do."""
    look = _NOTATIONS.get(setting)
    return None if look is None else look(value)


def _cpus(value: Any) -> Misread | None:
    wanted = "the CPUs of each process as numactl lists them, such as `0-3` or `0,2,4-7`"
    if value == []:
        return Misread(None, wanted)
    texts = [text for text in value if isinstance(text, str)] if isinstance(value, list) else []
    wrong = [text for text in texts if not (_CPUS.fullmatch(text) and all(map(_ascends, text.split(","))))]
    return Misread(wrong[0], wanted) if wrong else None


def _ascends(span: str) -> bool:
    first, dash, last = span.partition("-")
    return not dash or (len(span) <= _LONGEST and int(first) <= int(last))


def _nodes(value: Any) -> Misread | None:
    wanted = "the number of a NUMA node for each process, from 0"
    if value == []:
        return Misread(None, wanted)
    numbers = [node for node in value if isinstance(node, int)] if isinstance(value, list) else []
    wrong = [node for node in numbers if node < 0]
    return Misread(wrong[0], wanted) if wrong else None


def _custom_ops(value: Any) -> Misread | None:
    words = [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
    for word in words:
        if word not in ("all", "none") and (len(word) < 2 or word[0] not in "+-"):
            return Misread(word, "`all`, `none`, `+NAME` or `-NAME`")
    modes = [word for word in words if word in ("all", "none")]
    if len(modes) > 1:
        return Misread(modes[1], f"left out beside `{modes[0]}`")
    both = next((word for word in words if word[0] == "-" and f"+{word[1:]}" in words), None)
    return None if both is None else Misread(both, f"left out beside `+{both[1:]}`")


def _selector(value: Any) -> Misread | None:
    wanted = "numbers from 0 and spans of them, such as `0-9,20`"
    if isinstance(value, list):
        wrong = [item for item in value if not isinstance(item, int) or item < 0]
    else:
        parts = value.split(",") if isinstance(value, str) else []
        wrong = [part for part in parts if part.strip() and not _selects(part)]
    return Misread(wrong[0], wanted) if wrong else None


def _selects(part: str) -> bool:
    """Whether a text is a number from 0, or two of them with a dash between, in order."""
    first, dash, last = part.partition("-")
    try:
        start, end = int(first), int(last if dash else first)
    except ValueError:
        return False
    return 0 <= start <= end


_NOTATIONS: Final[Mapping[str, Callable[[Any], Misread | None]]] = {
    # vLLM 0.30: ParallelConfig._validate_numa_bind_cpus and _nodes, CompilationConfig.__post_init__
    "numa_bind_cpus": _cpus,
    "numa_bind_nodes": _nodes,
    "custom_ops": _custom_ops,
    # vllm-omni 0.30.0: parse_kv_cache_skip_selector, and the older names beside it (vllm_omni/diffusion/data.py)
    "diffusion_kv_cache_skip_steps": _selector,
    "diffusion_kv_cache_skip_layers": _selector,
    "kv_cache_skip_steps": _selector,
    "kv_cache_skip_layers": _selector,
}
