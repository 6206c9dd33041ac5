"""The manifest is what Kubernetes' own schemas take, and holds together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import own_pipelines
from tests.conftest import WriteProfile
from tests.deploy_targets.conftest import Export
from tests.deploy_targets.secret_profile import SECRETS, TEXT

VERSIONS = ("1.31.0", "1.37.0")
UPSTREAMS = [name for name in library() if name not in own_pipelines()]


def by_kind(found: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {document["kind"]: document for document in found}


def container(found: list[dict[str, Any]]) -> dict[str, Any]:
    (only,) = by_kind(found)["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


@pytest.mark.parametrize("name", UPSTREAMS)
def test_kubernetes_schemas_take_it(name: str, export: Export) -> None:
    found = export(name, "k8s")
    assert [document["kind"] for document in found] == ["ConfigMap", "PersistentVolumeClaim", "Deployment", "Service"]
    for document in found:
        for version in VERSIONS:
            kubernetes_validate.validate(document, version, strict=True)


def test_the_schemas_would_refuse_a_mistake(export: Export) -> None:
    found = by_kind(export("qwen3_tts", "k8s"))["Deployment"]
    found["spec"]["template"]["spec"]["containers"][0]["startupProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(found, VERSIONS[-1], strict=True)


def test_names_lead_to_each_other(export: Export) -> None:
    found = export("qwen3_omni_moe", "k8s", "--name", "talk", "--port", "9000")
    kinds = by_kind(found)
    pod = kinds["Deployment"]["spec"]["template"]
    selector = kinds["Service"]["spec"]["selector"]
    assert selector.items() <= pod["metadata"]["labels"].items()
    assert kinds["Deployment"]["spec"]["selector"]["matchLabels"] == selector
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert {mount["name"] for mount in container(found)["volumeMounts"]} == set(volumes)
    assert volumes["profile"]["configMap"]["name"] == kinds["ConfigMap"]["metadata"]["name"] == "talk-profile"
    assert volumes["models"]["persistentVolumeClaim"]["claimName"] == kinds["PersistentVolumeClaim"]["metadata"]["name"]
    (port,) = container(found)["ports"]
    assert port == {"name": "http", "containerPort": 9000}
    (service_port,) = kinds["Service"]["spec"]["ports"]
    assert service_port["targetPort"] == port["name"]
    assert {
        container(found)[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    } == {"http"}


def test_the_command_reads_the_mounted_profile_and_listens_in_the_pod(export: Export) -> None:
    found = container(export("qwen3_tts", "k8s"))
    command = found["command"]
    assert command[:4] == ["vllm", "serve", "Org/Model", "--omni"]
    mounted = {mount["mountPath"] for mount in found["volumeMounts"]}
    assert str(Path(command[command.index("--deploy-config") + 1]).parent) in mounted
    assert command[command.index("--host") + 1] == "0.0.0.0"


def test_the_profile_in_it_is_the_plan(export: Export, tmp_path: Path) -> None:
    text = by_kind(export("qwen3_omni_moe", "k8s"))["ConfigMap"]["data"]["profile.yaml"]
    (tmp_path / "profile.yaml").write_text(text, encoding="utf-8")
    assert (
        omnicfg.resolve(tmp_path / "profile.yaml").to_dict()["stages"]
        == omnicfg.resolve("qwen3_omni_moe").to_dict()["stages"]
    )


@pytest.mark.parametrize(
    ("platform", "resource"),
    [
        ("cuda", "nvidia.com/gpu"),
        ("rocm", "amd.com/gpu"),
        ("npu", "huawei.com/Ascend910"),
        ("xpu", "gpu.intel.com/xe"),
        ("musa", "mthreads.com/gpu"),
    ],
)
def test_devices_are_asked_of_the_platforms_plugin(platform: str, resource: str, export: Export) -> None:
    found = container(export("qwen3_tts", "k8s", "--platform", platform, "--image", "registry.example.com/omni:1"))
    assert found["resources"]["limits"] == found["resources"]["requests"] == {resource: 1}


@pytest.mark.parametrize(
    ("stages", "count", "inside"),
    [
        ('[{stage_id: 0, devices: "0,1", tensor_parallel_size: 2}, {stage_id: 1, devices: "1"}]', 2, ["0,1", "1"]),
        ('[{stage_id: 0, devices: "2,5", tensor_parallel_size: 2}, {stage_id: 1, devices: "5"}]', 2, ["0,1", "1"]),
        ('[{stage_id: 0, devices: "0", num_replicas: 3}, {stage_id: 1, devices: "7"}]', 4, ["0,1,2", "3"]),
        ('[{stage_id: 0, devices: "4,6", num_replicas: 2}, {stage_id: 1, devices: "6"}]', 2, ["0,1", "1"]),
        ("[{stage_id: 0}, {stage_id: 1}]", 1, [None, None]),
    ],
)
def test_a_pod_is_given_as_many_devices_as_are_named_and_numbers_them_from_0(
    stages: str, count: int, inside: list[str | None], export: Export, profile_file: WriteProfile, tmp_path: Path
) -> None:
    found = export(profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\nstages: {stages}\n"), "k8s")
    assert container(found)["resources"]["limits"] == {"nvidia.com/gpu": count}
    (tmp_path / "flat.yaml").write_text(by_kind(found)["ConfigMap"]["data"]["profile.yaml"], encoding="utf-8")
    plan = omnicfg.resolve(tmp_path / "flat.yaml").to_dict()
    assert [stage["runtime"].get("devices") for stage in plan["stages"]] == inside
    if count == 4:
        assert plan["stages"][0]["runtime"]["num_replicas"] == 3


def test_credentials_are_keys_of_a_secret(export: Export, profile_file: WriteProfile) -> None:
    found = export(profile_file(TEXT), "k8s")
    references = {
        each["name"]: each["valueFrom"]["secretKeyRef"] for each in container(found)["env"] if "valueFrom" in each
    }
    required = {name for name, reference in references.items() if not reference.get("optional")}
    assert required == set(SECRETS)
    assert set(references) - required == {"VLLM_API_KEY"}, "HF_TOKEN is the profile's own here"
    assert {(reference["name"], reference["key"]) for reference in references.values()} == {
        ("profile-secrets", name) for name in references
    }


def test_a_directory_is_mounted_as_it_is(export: Export) -> None:
    found = by_kind(export("qwen3_tts", "k8s", "--model", "/srv/models/tts"))
    assert "PersistentVolumeClaim" not in found
    assert container(list(found.values()))["command"][2] == "/srv/models/tts"
    assert {"name": "models", "mountPath": "/srv/models/tts", "readOnly": True} in container(list(found.values()))[
        "volumeMounts"
    ]


def test_no_word_of_the_command_is_a_variable(export: Export) -> None:
    command = container(export("qwen3_tts", "k8s", "--model", "/srv/$(HOME)"))["command"]
    assert command[2] == "/srv/$$(HOME)", "as Kubernetes writes a dollar that means nothing"


def test_another_profile_is_another_pod(export: Export) -> None:
    def digest(*words: str) -> str:
        found = by_kind(export("qwen3_tts", "k8s", *words))["Deployment"]["spec"]["template"]
        return str(found["metadata"]["annotations"]["omnicfg/profile"])

    assert digest() == digest() != digest("--set", "stages.0.max_num_seqs=3")


def test_the_bundled_engine_has_a_command_of_its_own(export: Export) -> None:
    words = ("--engine", "bundled", "--image", "registry.example.com/omnicfg:1", "--model", "builtin:tiny-omni")
    found = container(export("tiny_omni", "k8s", *words))
    assert found["command"][:3] == ["omnicfg", "serve", "/etc/omnicfg/profile.yaml"]
    assert "OMNICFG_API_KEY" in {each["name"] for each in found["env"]}


def test_the_bundled_engine_is_allowed_the_variables_of_the_profile(export: Export) -> None:
    words = ("--engine", "bundled", "--image", "registry.example.com/omnicfg:1", "--model", "builtin:tiny-omni")
    command = container(export("tiny_omni", "k8s", *words, "--set", "stages.0.env.MY_TOKEN=x"))["command"]
    assert command[-2:] == ["--allow-env", "MY_TOKEN"]
