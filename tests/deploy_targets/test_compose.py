"""The compose file is what the specification's own schema takes, and holds together."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

import omnicfg
from omnicfg.confine import confined
from tests.commands.conftest import Run
from tests.conftest import WriteProfile
from tests.deploy_targets.conftest import Export
from tests.deploy_targets.secret_profile import SECRETS, TEXT
from tests.deploy_targets.test_k8s import UPSTREAMS

SCHEMA: Final = json.loads(
    (resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text("utf-8")
)


def check(document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(document)


def server(found: list[dict[str, Any]]) -> dict[str, Any]:
    (document,) = found
    service = document["services"]["server"]
    assert isinstance(service, dict)
    return service


def substituted(text: str, environment: dict[str, str]) -> str:
    """What Compose makes of a value: ``$$`` is a dollar, ``${NAME}`` a variable."""
    return re.sub(r"\$(?:(\$)|\{(\w+)(?::[-?][^}]*)?\})", lambda match: match[1] or environment[match[2]], text)


@pytest.mark.parametrize("name", UPSTREAMS)
@pytest.mark.parametrize("platform", ["cuda", "rocm"])
def test_the_schema_takes_it(name: str, platform: str, export: Export) -> None:
    (document,) = export(name, "compose", "--platform", platform)
    check(document)


def test_the_schema_would_refuse_a_mistake(export: Export) -> None:
    (document,) = export("qwen3_tts", "compose")
    document["services"]["server"]["comand"] = []
    with pytest.raises(jsonschema.ValidationError, match="comand"):
        check(document)


def test_only_this_machine_reaches_it_unless_it_is_said(export: Export) -> None:
    (port,) = server(export("qwen3_tts", "compose", "--port", "9000"))["ports"]
    assert port == "${PUBLISH_ADDRESS:-127.0.0.1}:9000:9000"


def test_the_hosts_devices_are_named_and_numbered_from_0_inside(export: Export, profile_file: WriteProfile) -> None:
    stages = '[{stage_id: 0, devices: "2"}, {stage_id: 1, devices: "5"}]'
    profile = profile_file(f"pipeline: qwen3_tts\nasync_chunk: false\nstages: {stages}\n")
    (document,) = found = export(profile, "compose")
    (reserved,) = server(found)["deploy"]["resources"]["reservations"]["devices"]
    assert reserved["device_ids"] == ["2", "5"]
    flat = profile_file(substituted(document["configs"]["profile"]["content"], {}), "flat.yaml")
    assert [stage["runtime"]["devices"] for stage in omnicfg.resolve(flat).to_dict()["stages"]] == ["0", "1"]
    rocm = server(export(profile, "compose", "--platform", "rocm"))
    assert (rocm["devices"], rocm["environment"]["HIP_VISIBLE_DEVICES"]) == (["/dev/kfd", "/dev/dri"], "2,5")


def test_credentials_have_to_be_in_the_environment(
    export: Export, profile_file: WriteProfile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server reads, after Compose has replaced what it replaces, is the profile that was exported."""
    profile = profile_file(TEXT)
    (document,) = found = export(profile, "compose")
    environment = {name: value for name, value in server(found)["environment"].items() if value is not None}
    assert all(environment[name].startswith(f"${{{name}:?") for name in SECRETS)
    for name, text in environment.items():
        monkeypatch.setenv(name, substituted(text, SECRETS))
    flat = profile_file(substituted(document["configs"]["profile"]["content"], {}), "flat.yaml")
    with confined(allow_env=SECRETS):
        read, exported = (omnicfg.resolve(each).to_dict() for each in (flat, profile))
    assert read["stages"] == exported["stages"]
    assert read["deploy"]["connectors"] == exported["deploy"]["connectors"]


def test_a_directory_is_mounted_and_nothing_is_downloaded(export: Export) -> None:
    (document,) = found = export("qwen3_tts", "compose", "--model", "/srv/$models")
    (volume,) = server(found)["volumes"]
    assert (volume["type"], volume["source"], volume["read_only"]) == ("bind", "/srv/$$models", True)
    assert "volumes" not in document
    assert "HF_TOKEN" not in server(found)["environment"]


@pytest.mark.parametrize("engine", ["vllm-omni", "bundled"])
def test_downloads_stay_in_a_volume(engine: str, export: Export) -> None:
    (document,) = found = export("qwen3_omni_moe", "compose", "--engine", engine, "--image", "registry/image:1")
    (volume,) = server(found)["volumes"]
    assert volume["source"] in document["volumes"]
    assert Path(server(found)["environment"]["HF_HOME"]).is_relative_to(volume["target"])


@pytest.mark.parametrize("platform", ["npu", "xpu", "musa"])
def test_platforms_without_a_general_way_are_refused(platform: str, run: Run) -> None:
    result = run(
        "export", "qwen3_tts", "--to", "compose", "--model", "a/b", "--platform", platform, "--image", "registry/omni:1"
    )
    assert (result.code, result.out) == (2, "")
    assert f"devices of {platform}" in result.err


def test_it_is_written_as_a_whole_and_again(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "compose.yaml"
    words = ("export", "qwen3_tts", "--to", "compose", "--model", "a/b", "--out", out)
    assert (run(*words).code, run(*words).out) == (0, "")
    assert out.read_text(encoding="utf-8") == run(*words[:-2]).out
    assert [path.name for path in tmp_path.iterdir()] == ["compose.yaml"]
