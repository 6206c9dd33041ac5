"""The text model inside a first stage, for where vLLM cannot serve the whole of it.

vLLM imports a multimodal class only together with torchvision, which its build for the CPU does not bring; and a
checkpoint without processors can be given nothing but text. The model's record then says which architecture the decoder
is by itself (``bundled.text_part``): it is served from the same checkpoint, with a configuration of its own.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from omnicfg.cache import user_cache
from omnicfg.catalog.capabilities import stage_record
from omnicfg.engine.spec import WEIGHTS_KEY, setting
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import Machine, installed_version

_PROCESSORS: Final = ("preprocessor_config.json", "processor_config.json")


@dataclass(frozen=True, slots=True)
class TextPart:
    """A text model in a checkpoint: its ``config.json``, and what its tensors' names begin with there.

    ``reason`` is why not the whole is served, in words for people.
    """

    config: Mapping[str, Any]
    weights: str
    reason: str

    @property
    def config_directory(self) -> Path:
        """Where :attr:`file` lies: a directory that vLLM takes the configuration from."""
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:12]
        return user_cache() / "text-parts" / digest

    @property
    def text(self) -> str:
        """The ``config.json`` as it is written."""
        return json.dumps(self.config, indent=2, sort_keys=True) + "\n"

    @property
    def file(self) -> Path:
        """The ``config.json`` itself."""
        return self.config_directory / "config.json"

    def engine_args(self) -> dict[str, Any]:
        """The engine args that make vLLM read the part and nothing else."""
        return {"hf_config_path": str(self.config_directory), "additional_config": {WEIGHTS_KEY: self.weights}}


def text_part(request: Request, machine: Machine) -> TextPart | None:
    """The part to serve on this machine; ``None`` where the whole stage is served."""
    record = stage_record(request.plan.pipeline, request.plan.stages[0].model_stage) or {}
    part: Mapping[str, Any] | None = record.get("bundled", {}).get("text_part")
    if part is None or request.config is None:
        return None
    config = setting(request.config, part["config"])
    if not isinstance(config, Mapping):
        return None
    reason = _reason(request, machine)
    return None if reason is None else TextPart(_config(config, part), part["weights"], reason)


def _reason(request: Request, machine: Machine) -> str | None:
    if machine.serves_on_cpu and installed_version("torchvision") is None:
        return "vLLM's classes for pictures and sounds import torchvision, and it is not installed beside this torch"
    if _has_no_processors(Path(request.model)):
        return f"`{request.model}` has no processors for pictures and sounds ({' or '.join(_PROCESSORS)})"
    return None


def _has_no_processors(model: Path) -> bool:
    """Whether it is a directory that can be given nothing but text; of what is not here yet nothing is known."""
    return model.is_dir() and not any((model / name).is_file() for name in _PROCESSORS)


def _config(config: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """With text alone all axes of M-RoPE are equal, so it is plain RoPE: what is M-RoPE's own is left out."""
    rope = {**(config.get("rope_scaling") or {}), **(config.get("rope_parameters") or {})}
    plain = {name: value for name, value in rope.items() if "mrope" not in name and name != "interleaved"}
    others = {name: value for name, value in config.items() if name not in {"rope_scaling", "rope_parameters"}}
    if "rope_theta" in config:
        plain.setdefault("rope_theta", config["rope_theta"])
    return {
        **others,
        **({"rope_parameters": plain} if plain else {}),
        "architectures": [part["architecture"]],
        "model_type": part["model_type"],
    }
