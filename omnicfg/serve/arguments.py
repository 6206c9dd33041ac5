"""A stage of a plan → the arguments that vLLM's own server takes for it.

The engine args of a plan are vLLM-Omni's: some are vLLM's under the same name, others (``async_chunk``,
``session_mode``, …) only vLLM-Omni knows. What a version of vLLM knows is data (``schemas/vllm/VERSION.json``); what it
does not know is left out and listed with the reason, never dropped in silence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

SAMPLING_FLAG: Final = "--override-generation-config"
SAMPLING_KEYS: Final = frozenset(
    {
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "temperature",
        "top_k",
        "top_p",
        "min_p",
    }
)
"""Sampling defaults that vLLM takes as an argument (``ModelConfig.get_diff_sampling_param``). It takes
``max_new_tokens`` as well, but as a limit that no request can exceed, which a default is not."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting of the plan that this vLLM gets no argument for."""

    name: str
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class StageArguments:
    """One stage for vLLM's server: the arguments, and what none could be made of."""

    arguments: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


def stage_arguments(stage: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], version: str) -> StageArguments:
    """The argument list of one stage of ``plan.to_dict()["stages"]``.

    ``known`` holds the engine args of vLLM ``version`` by name, each with its ``flags``. Arguments keep the
    order of the plan; the stage's default sampling parameters come last, as ``--override-generation-config``.
    """
    arguments: list[str] = []
    left_out: list[LeftOut] = []
    for name, value in stage["engine_args"].items():
        reason = _reason_to_leave_out(name, value, known, version)
        if reason:
            left_out.append(LeftOut(name, value, reason))
        else:
            arguments += argument(known[name]["flags"], value, known[name].get("cli"))
    sampling = stage["extras"].get("default_sampling_params") or {}
    defaults = {name: value for name, value in sampling.items() if name in SAMPLING_KEYS and value is not None}
    if defaults:
        arguments += [SAMPLING_FLAG, _json(defaults)]
    left_out += [
        LeftOut(f"default_sampling_params.{name}", value, f"vLLM {version} takes no default for it as an argument")
        for name, value in sampling.items()
        if name not in defaults
    ]
    return StageArguments(tuple(arguments), tuple(left_out))


def _reason_to_leave_out(name: str, value: Any, known: Mapping[str, Mapping[str, Any]], version: str) -> str | None:
    if name not in known:
        return f"no engine arg of vLLM {version}"
    if not known[name]["flags"]:
        return f"vLLM {version} has no argument for it"
    if value is None:
        return "null: vLLM's own default applies"
    if isinstance(value, list | tuple) and not value:
        return "an empty list, which no argument can say: vLLM's own default applies"
    if isinstance(value, str) and value.startswith("vllm_omni."):
        return "names a class of vLLM-Omni"
    return None


def argument(flags: list[str], value: Any, cli: str | None = "list") -> list[str]:
    """One value as command-line words: ``--x 1``, ``--x``, ``--no-x``, ``--x '{"a": 1}'``, ``--x a b``.

    ``cli`` is how vLLM's parser reads it: a list that it does not read as words, it splits at commas. A value that
    begins with a dash is joined by ``=`` so that it is not taken for a flag. ``False`` yields nothing where there is
    no negative flag.
    """
    positive = next(flag for flag in flags if flag.startswith("--") and not flag.startswith("--no-"))
    if value is True:
        return [positive]
    if value is False:
        negative = f"--no-{positive.removeprefix('--')}"
        return [negative] if negative in flags else []
    if isinstance(value, list | tuple):
        words = [_word(item) for item in value]
        return [positive, *(words if cli == "list" else [",".join(words)])]
    word = _word(value)
    return [f"{positive}={word}"] if word.startswith("-") else [positive, word]


def _word(value: Any) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
