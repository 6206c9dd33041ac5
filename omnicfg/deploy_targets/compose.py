"""``--to compose``: a file for ``docker compose`` (https://github.com/compose-spec/compose-spec)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omnicfg.catalog.upstream import VLLM_OMNI
from omnicfg.deploy_targets._secrets import variables
from omnicfg.deploy_targets._workload import (
    DRAIN_S,
    HEALTH,
    PROBE_S,
    PROFILE_PATH,
    SHARED_MEMORY_GIB,
    START_S,
    Workload,
)
from omnicfg.errors import UsageError
from omnicfg.report.yaml import Literal, Remark, comment, dumps

SERVES: Final = True

_ADDRESS: Final = "PUBLISH_ADDRESS"


def render(workload: Workload) -> str:
    """One service. Raises :class:`UsageError` for a platform whose devices a container is given in no general way."""
    about = "\n".join(_about(workload))
    return comment(about) + dumps(
        {
            "name": workload.name,
            "services": {"server": _service(workload)},
            "configs": {"profile": {"content": Literal(_as_it_is(workload.text))}},
            **({"volumes": {"models": {}}} if workload.downloads else {}),
        }
    )


def _about(workload: Workload) -> Iterator[str]:
    yield f"Made by `{workload.made_by}`, for vLLM-Omni {VLLM_OMNI}."
    yield "`docker compose -f FILE up` starts it (Compose 2.23.1 or later)."
    yield "Credentials are in none of it: they come from the environment, or from a file `.env` beside it."
    for reference in workload.references:
        yield f"{reference.variable} is {reference.path} of the profile; it has to be set."
    yield f"{workload.key_variable}, where it is set, is the key that clients have to send."
    yield f"Only this machine reaches the port; with {_ADDRESS}=0.0.0.0 others do, and then a key should be set."


def _service(workload: Workload) -> dict[str, Any]:
    program, *arguments = workload.command
    return {
        "image": _as_it_is(workload.image),
        "entrypoint": [program],
        Remark("0.0.0.0 is the container's own address: what comes in by the published port arrives there."): None,
        "command": [_as_it_is(word) for word in arguments],
        "environment": _environment(workload),
        "ports": [f"${{{_ADDRESS}:-127.0.0.1}}:{workload.port}:{workload.port}"],
        "configs": [{"source": "profile", "target": PROFILE_PATH}],
        **_volumes(workload),
        Remark("Stages hand tensors to each other in shared memory, of which a container has 64 MiB otherwise."): None,
        "shm_size": f"{SHARED_MEMORY_GIB}gb",
        **_devices(workload),
        "init": True,
        "restart": "unless-stopped",
        "stop_grace_period": f"{DRAIN_S}s",
        Remark(f"The model may take {START_S // 60} minutes to be downloaded and loaded."): None,
        "healthcheck": {
            "test": ["CMD", "python3", "-c", _probe(workload.port)],
            "start_period": f"{START_S}s",
            "interval": f"{PROBE_S}s",
            "timeout": f"{PROBE_S}s",
            "retries": 3,
        },
    }


def _probe(port: int) -> str:
    """An image need not have curl; it has Python."""
    return f"import urllib.request; urllib.request.urlopen('http://127.0.0.1:{port}{HEALTH}', timeout=5)"


def _environment(workload: Workload) -> dict[str, str | None]:
    """A variable without a value is handed on where it is set."""
    required = {name: f"${{{name}:?the profile needs it}}" for name in variables(workload.references)}
    handed_on: dict[str, str | None] = {workload.key_variable: None}
    if workload.platform == "rocm":  # the container sees all of the machine's devices
        handed_on["HIP_VISIBLE_DEVICES"] = ",".join(map(str, workload.devices))
    if workload.downloads:
        handed_on |= {"HF_HOME": workload.hub_home, "HF_TOKEN": None}
    return handed_on | required


def _volumes(workload: Workload) -> dict[str, Any]:
    if workload.downloads:
        return {"volumes": [{"type": "volume", "source": "models", "target": workload.models}]}
    if workload.model.startswith("/"):
        model = _as_it_is(workload.model)
        bind = {"type": "bind", "source": model, "target": model, "read_only": True}
        return {"volumes": [{**bind, "bind": {"create_host_path": False}}]}
    return {}


def _devices(workload: Workload) -> dict[str, Any]:
    numbers = ", ".join(map(str, range(len(workload.devices))))
    remark: dict[str, Any] = {Remark(f"The profile's devices are {numbers} in the container."): None}
    if workload.platform == "cuda":
        ids = [str(device) for device in workload.devices]
        reserved = [{"driver": "nvidia", "device_ids": ids, "capabilities": ["gpu"]}]
        return {**remark, "deploy": {"resources": {"reservations": {"devices": reserved}}}}
    if workload.platform == "rocm":
        # As vllm-omni's documentation starts its image.
        return {
            **remark,
            "devices": ["/dev/kfd", "/dev/dri"],
            "group_add": ["video"],
            "security_opt": ["seccomp=unconfined"],
        }
    raise UsageError(
        f"how a container is given devices of {workload.platform} depends on the host's driver",
        "`--to vllm-omni` writes the profile alone; `--to k8s` asks the vendor's device plugin for them.",
    )


def _as_it_is(text: str) -> str:
    """Compose replaces what follows a ``$``."""
    return text.replace("$", "$$")
