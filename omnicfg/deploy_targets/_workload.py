"""What is to run, whatever it is written for: the flat profile, its devices, its secrets, the server's command."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import Any, Final

from omnicfg.catalog.upstream import VLLM_OMNI, own_pipelines
from omnicfg.deploy_targets._secrets import Reference, variables, with_references
from omnicfg.errors import UsageError
from omnicfg.models import location
from omnicfg.plan import Plan, StagePlan
from omnicfg.resources.placement import devices_per_replica, nodes_of, parallel_sizes, placement_of
from omnicfg.serve.deploy_file import compiled, escaped, text_of
from omnicfg.serve.preflight import is_hub_id

PROFILE_PATH: Final = "/etc/omnicfg/profile.yaml"
_MODELS: Final = {
    "vllm-omni": ("/models", "/models"),
    "bundled": ("/home/omnicfg/.cache", "/home/omnicfg/.cache/huggingface"),
}
"""Engine → the volume for what is downloaded, and ``HF_HOME`` in it: the second is the one of our ``Containerfile``."""
SHARED_MEMORY_GIB: Final = 8
"""For ``/dev/shm``: stages hand tensors to each other there, and so do the processes of one stage. A container has
64 MiB otherwise."""
HEALTH: Final = "/health"
"""200 while the engine lives, 503 when it has died, nothing before it is up (vllm-omni 0.30.0,
``entrypoints/openai/api_server.py``; vLLM's own server has the same)."""
PROBE_S: Final = 10
"""How often it is asked whether it lives."""
START_S: Final = 3600
"""How long a server may take to come up: the first start downloads the model."""
DRAIN_S: Final = 60

_IMAGES: Final = {"cuda": "vllm/vllm-omni", "rocm": "vllm/vllm-omni-rocm"}
"""Upstream's images on Docker Hub (vllm-omni's documentation, installation on GPUs)."""
_LONGEST_NAME: Final = 50  # of the 63 characters of a DNS label, with what is added to it
_NAME: Final = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?\Z")
_DIRECTORY: Final = re.compile(r"/[^/:\x00-\x1f\x7f\ud800-\udfff][^:\x00-\x1f\x7f\ud800-\udfff]*\Z")
"""The surrogates stand for bytes that are no UTF-8: YAML cannot hold them."""
_IMAGE: Final = re.compile(r"[\w][\w./:@-]*\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class Workload:
    """A compiled profile with all that a container needs beside it.

    ``devices`` are the numbers of the host's devices; inside, they are numbered from 0. ``text`` is the profile.
    ``models`` is where a volume for downloads is mounted. All of it is empty where only the profile is written.
    """

    name: str
    made_by: str
    platform: str
    devices: tuple[int, ...]
    text: str
    references: tuple[Reference, ...]
    model: str = ""
    image: str = ""
    port: int = 0
    command: tuple[str, ...] = ()
    key_variable: str = ""
    models: str = ""
    hub_home: str = ""

    @property
    def digest(self) -> str:
        """What tells this profile from another one."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def downloads(self) -> bool:
        """Whether the model comes from the Hugging Face hub."""
        return not self.model.startswith(("/", "builtin:"))


def profile_only(plan: Plan, made_by: str) -> Workload:
    """The flat profile alone, its devices numbered as they were."""
    text, references = _profile(compiled(plan))
    return Workload("", made_by, plan.platform, (), text, references)


def workload(
    plan: Plan, made_by: str, *, name: str | None, model: str, image: str | None, port: int, engine: str
) -> Workload:
    """A server of the plan. Raises :class:`UsageError` for what no container can do, or what is missing."""
    devices = _devices(plan)
    document = _renumbered(compiled(plan), plan, devices)
    text, references = _profile(document)
    _check_model(model, engine)
    return Workload(
        _checked_name(name) if name is not None else _name_of(plan.profile),
        made_by,
        plan.platform,
        devices,
        text,
        references,
        model,
        _image(image, plan.platform, engine),
        port,
        _command(engine, model, port, plan.platform, references),
        "VLLM_API_KEY" if engine == "vllm-omni" else "OMNICFG_API_KEY",
        *_MODELS[engine],
    )


def check_engine(plan: Plan, engine: str) -> None:
    """Raises :class:`UsageError` for a pipeline that vLLM-Omni does not have."""
    if engine == "vllm-omni" and plan.pipeline in own_pipelines():
        raise UsageError(
            f"vLLM-Omni has no pipeline {plan.pipeline}",
            "It is one of omnicfg's own: `--to k8s` and `--to compose` serve it with `--engine bundled`.",
        )


def _profile(document: dict[str, Any]) -> tuple[str, tuple[Reference, ...]]:
    safe, references = with_references(escaped(document))
    return text_of(safe), references


def _devices(plan: Plan) -> tuple[int, ...]:
    """The devices of all stages and replicas; a stage that names none takes the first ones."""
    found: set[int] = set()
    for stage in plan.stages:
        if nodes_of(stage, parallel_sizes(stage) or {}) > 1:
            raise UsageError(
                f"stage {stage.stage_id} runs on several nodes, and this is written for one",
                "Set `nnodes: 1`, or start each node with `omnicfg serve`.",
            )
        found.update(_devices_of(stage))
    return tuple(sorted(found))


def _devices_of(stage: StagePlan) -> tuple[int, ...]:
    placement = placement_of(stage)
    if placement is None:
        return tuple(range(devices_per_replica(stage) or 1))
    return tuple(device for replica in placement.replicas or (placement.ids,) for device in replica)


def _renumbered(document: dict[str, Any], plan: Plan, devices: tuple[int, ...]) -> dict[str, Any]:
    """A container numbers what it is given from 0: stages that name other devices are told so."""
    if devices == tuple(range(len(devices))):
        return document
    numbers = {device: number for number, device in enumerate(devices)}
    stages = {stage.stage_id: stage for stage in plan.stages}
    for entry in document["stages"]:
        own = _devices_of(stages[entry["stage_id"]])
        if "devices" in entry:
            entry["devices"] = ",".join(str(numbers[device]) for device in own)
    return document


def _command(engine: str, model: str, port: int, platform: str, references: tuple[Reference, ...]) -> tuple[str, ...]:
    where = ("--host", "0.0.0.0", "--port", str(port))
    if engine == "vllm-omni":
        return ("vllm", "serve", model, "--omni", "--deploy-config", PROFILE_PATH, *where)
    allowed = [word for name in variables(references) for word in ("--allow-env", name)]
    return ("omnicfg", "serve", PROFILE_PATH, "--model", model, "--platform", platform, *where, *allowed)


def _image(asked: str | None, platform: str, engine: str) -> str:
    if asked is not None:
        if not _IMAGE.match(asked):
            raise UsageError(f"`{asked}` is not the name of an image", "`--image registry.example.com/name:tag`.")
        return asked
    if engine != "vllm-omni":
        raise UsageError("no image of omnicfg is published", "Build one, and name it with `--image`.")
    if platform not in _IMAGES:
        raise UsageError(f"vLLM-Omni publishes no image for {platform}", "Name one of your own with `--image`.")
    return f"{_IMAGES[platform]}:v{VLLM_OMNI}"


def _check_model(model: str, engine: str) -> None:
    """A model that a container can find: an id on the hub, or a path in it."""
    if model.startswith("builtin:") and engine != "bundled":
        raise UsageError(f"only omnicfg makes `{model}`", "Serve it with `--engine bundled`.")
    if model.startswith("builtin:"):
        location(model)  # raises where there is none
    elif not model.startswith("/") and os.path.isdir(model):  # noqa: PTH112  # false, where Path raises
        raise UsageError(
            f"`{model}` is a directory here, which a container cannot find",
            "`--model` takes an id on the Hugging Face hub, or the full path of a directory.",
        )
    elif not (is_hub_id(model) or _DIRECTORY.match(model)) or ".." in model.split("/"):
        raise UsageError(
            f"a container cannot find the model `{model}`",
            "`--model` takes an id on the Hugging Face hub, or the full path of a directory (UTF-8, without a colon).",
        )


def _checked_name(name: str) -> str:
    if len(name) > _LONGEST_NAME or not _NAME.match(name):
        raise UsageError(
            f"`{name}` cannot be the name of a service",
            f"Small letters, digits and hyphens, beginning with a letter; {_LONGEST_NAME} at most.",
        )
    return name


def _name_of(profile: str) -> str:
    stem = re.split(r"[/\\]", profile)[-1].rpartition(".")[0] or profile
    words = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_LONGEST_NAME].strip("-")
    return words if _NAME.match(words) else f"omni-{words}"[:_LONGEST_NAME].strip("-")
