"""``--to k8s``: a Kubernetes manifest. The profile is a ConfigMap, the server a Deployment behind a Service."""

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
from omnicfg.report.yaml import Literal, Remark, comment, dumps

SERVES: Final = True

_RESOURCES: Final = {
    "cuda": "nvidia.com/gpu",
    "rocm": "amd.com/gpu",
    "npu": "huawei.com/Ascend910",
    "xpu": "gpu.intel.com/xe",
    "musa": "mthreads.com/gpu",
}
"""What the vendors' device plugins call a device, by their documentation (with Intel's older driver ``i915``)."""
_CLAIM_GIB: Final = 200
_GROUP: Final = 10001


def render(workload: Workload) -> str:
    """The documents of one manifest, in the order in which they need each other."""
    documents = [_config_map(workload), _deployment(workload), _service(workload)]
    if workload.downloads:
        documents.insert(1, _claim(workload))
    return comment("\n".join(_about(workload))) + "---\n".join(map(dumps, documents))


def _about(workload: Workload) -> Iterator[str]:
    yield f"Made by `{workload.made_by}`, for vLLM-Omni {VLLM_OMNI}."
    yield "`kubectl apply -f FILE` creates it, and changes it when the profile has changed."
    secret = _secret(workload)
    yield (
        f"Credentials are in none of it: they come from a Secret `{secret}`, such as\n"
        f"kubectl create secret generic {secret}"
        + "".join(f" --from-literal={name}=..." for name in variables(workload.references))
        + f" --from-literal={workload.key_variable}=..."
    )
    for reference in workload.references:
        yield f"{reference.variable} is {reference.path} of the profile; without it the pod does not start."
    yield f"{workload.key_variable} is the key that clients have to send; without it, the Service answers everybody."


def _config_map(workload: Workload) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(workload, "-profile"),
        "data": {"profile.yaml": Literal(workload.text)},
    }


def _claim(workload: Workload) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(workload, "-models"),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            Remark(
                "What is downloaded from the Hugging Face hub stays here. Make it as large as the model needs."
            ): None,
            "resources": {"requests": {"storage": f"{_CLAIM_GIB}Gi"}},
        },
    }


def _deployment(workload: Workload) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(workload),
        "spec": {
            "replicas": 1,
            Remark("A new pod beside the old one would need as many devices again."): None,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": _selector(workload)},
            "template": {
                "metadata": {
                    "labels": _labels(workload),
                    Remark("Another profile is another pod."): None,
                    "annotations": {"omnicfg/profile": workload.digest},
                },
                "spec": _pod(workload),
            },
        },
    }


def _pod(workload: Workload) -> dict[str, Any]:
    return {
        "automountServiceAccountToken": False,
        Remark("A variable such as VLLM_PORT, made from the name of a Service, would be read as a setting."): None,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": DRAIN_S,
        Remark("The volume can be written to, whether the image runs as root or not."): None,
        "securityContext": {"fsGroup": _GROUP, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(workload)],
        "volumes": list(_volumes(workload)),
    }


def _container(workload: Workload) -> dict[str, Any]:
    resource = {_RESOURCES[workload.platform]: len(workload.devices)}
    probe = {"httpGet": {"path": HEALTH, "port": "http"}, "periodSeconds": PROBE_S, "timeoutSeconds": PROBE_S // 2}
    return {
        "name": "server",
        "image": workload.image,
        Remark(
            "0.0.0.0 is the pod's own address: the Service and the probes come in by it. Who else may is for a "
            "NetworkPolicy to say."
        ): None,
        "command": [word.replace("$(", "$$(") for word in workload.command],  # which would be a variable
        "env": list(_environment(workload)),
        "ports": [{"name": "http", "containerPort": workload.port}],
        Remark(f"The profile's devices are {', '.join(map(str, range(len(workload.devices))))} in the pod."): None,
        "resources": {"requests": resource, "limits": resource},
        Remark(f"The model may take {START_S // 60} minutes to be downloaded and loaded."): None,
        "startupProbe": {**probe, "failureThreshold": START_S // PROBE_S},
        "readinessProbe": {**probe, "failureThreshold": 1},
        "livenessProbe": {**probe, "failureThreshold": 3},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": list(_mounts(workload)),
    }


def _environment(workload: Workload) -> Iterator[dict[str, Any]]:
    secret = _secret(workload)
    for name in variables(workload.references):
        yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}}
    optional = [workload.key_variable]
    if workload.downloads:
        yield {"name": "HF_HOME", "value": workload.hub_home}
        optional.append("HF_TOKEN")
    for name in optional:
        if all(name != reference.variable for reference in workload.references):
            yield {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name, "optional": True}}}


def _volumes(workload: Workload) -> Iterator[dict[str, Any]]:
    yield {"name": "profile", "configMap": {"name": f"{workload.name}-profile"}}
    yield {
        "name": "shm",
        Remark("Stages hand tensors to each other in shared memory, of which a pod has 64 MiB otherwise."): None,
        "emptyDir": {"medium": "Memory", "sizeLimit": f"{SHARED_MEMORY_GIB}Gi"},
    }
    if workload.downloads:
        yield {"name": "models", "persistentVolumeClaim": {"claimName": f"{workload.name}-models"}}
    elif workload.model.startswith("/"):
        yield {
            "name": "models",
            Remark("The model's directory on the node; any other kind of volume that holds it will do."): None,
            "hostPath": {"path": workload.model, "type": "Directory"},
        }


def _mounts(workload: Workload) -> Iterator[dict[str, Any]]:
    yield {"name": "profile", "mountPath": PROFILE_PATH.rpartition("/")[0], "readOnly": True}
    yield {"name": "shm", "mountPath": "/dev/shm"}
    if workload.downloads:
        yield {"name": "models", "mountPath": workload.models}
    elif workload.model.startswith("/"):
        yield {"name": "models", "mountPath": workload.model, "readOnly": True}


def _service(workload: Workload) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(workload),
        "spec": {
            Remark(
                "Reached from inside the cluster only. Put an Ingress or a Gateway with TLS before it for others."
            ): None,
            "type": "ClusterIP",
            "selector": _selector(workload),
            "ports": [{"name": "http", "port": workload.port, "targetPort": "http"}],
        },
    }


def _metadata(workload: Workload, suffix: str = "") -> dict[str, Any]:
    return {"name": f"{workload.name}{suffix}", "labels": _labels(workload)}


def _labels(workload: Workload) -> dict[str, str]:
    return {**_selector(workload), "app.kubernetes.io/managed-by": "omnicfg"}


def _selector(workload: Workload) -> dict[str, str]:
    return {"app.kubernetes.io/name": workload.name}


def _secret(workload: Workload) -> str:
    return f"{workload.name}-secrets"
