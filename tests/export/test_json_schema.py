"""The JSON Schemas: current, correct, and of one mind with the checker."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.paths import schemas_dir
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import DEFAULT_VLLM, known_engine_args
from omnicfg.export.json_schema import main, schemas
from omnicfg.export.schema_types import annotation_type, combined, json_schema
from omnicfg.findings.configuration import configured
from omnicfg.findings.review import Report
from omnicfg.keys import stage_types
from omnicfg.report.formats.json import render
from tests.conftest import WriteProfile

PLATFORMS = deploy_schema().platforms

# Upstream's files that are no deploy profiles in the eyes of the schema.
NOT_PROFILES = {"qwen3_tts_forced_aligner.yaml"}


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((schemas_dir() / name).read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema)


PROFILE = validator("profile.schema.json")


def read_as_editor(path: Path) -> Any:
    """A profile as an editor reads it: YAML 1.2."""
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def complaints(document: Any) -> list[str]:
    return [error.message for error in PROFILE.iter_errors(document)]


def resolvable() -> Iterator[tuple[str, str]]:
    return ((name, platform) for name in library() for platform in PLATFORMS)


def test_the_committed_schemas_are_what_the_exporter_writes() -> None:
    assert main(["--out", str(schemas_dir()), "--check"]) == 0


def test_a_missing_or_stale_schema_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--out", str(tmp_path)]) == 0
    (tmp_path / "plan.schema.json").unlink()
    (tmp_path / "profile.schema.json").write_text("{}\n")
    assert main(["--out", str(tmp_path), "--check"]) == 1
    told = capsys.readouterr().err
    assert "plan.schema.json is stale" in told
    assert "profile.schema.json is stale" in told
    assert "diagnostics" not in told


@pytest.mark.parametrize("name", sorted(schemas()))
def test_each_schema_is_one(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schemas()[name])


def test_shipped_profiles_validate() -> None:
    assert {name: complaints(read_as_editor(path)) for name, path in library().items()} == {
        name: [] for name in library()
    }


def test_upstream_files_validate_but_for_those_that_the_checker_reports_too(upstream_deploy: Path) -> None:
    found = {path.name for path in upstream_deploy.glob("*.yaml") if complaints(read_as_editor(path))}
    assert found == NOT_PROFILES
    for name in NOT_PROFILES:
        diagnostics = omnicfg.validate(upstream_deploy / name)
        assert any(diagnostic.severity is omnicfg.Severity.ERROR for diagnostic in diagnostics)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "base_config: base.yaml\npipeline: qwen3_tts\n",
        "pipeline: qwen3_tts\nasync_chunk: ${oc.env:CHUNKS}\n",
        "pipeline: qwen3_tts\nduplex_session: null\nconnectors: null\nplatforms: null\nedges: null\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    gpu_memory_utilization: 1\n    max_num_seqs: ${oc.env:N}\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    engine_args: {kv_transfer_config: {kv_role: kv_both}}\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    default_sampling_params: {of_the_model: 1}\n",
        "connectors:\n  mine:\n    name: my.own.Connector\n    extra: {anything: 1}\n",
    ],
)
def test_what_the_language_allows_passes(text: str, profile_file: WriteProfile) -> None:
    assert complaints(read_as_editor(profile_file(text))) == []


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: qwen3_tts\nasynch_chunk: false\n",
        "pipeline: qwen3_ttx\n",
        'pipeline: qwen3_tts\nasync_chunk: "false"\n',
        "pipeline: qwen3_tts\nasync_chunk: null\n",
        "pipeline: qwen3_tts\nmodel_runner: V2\n",
        "pipeline: qwen3_tts\nplatforms:\n  NPU: {stages: []}\n",
        "pipeline: qwen3_tts\nplatforms:\n  npu: {async_chunk: false}\n",
        "pipeline: qwen3_tts\nduplex_session: {max_session: 2}\n",
        "pipeline: qwen3_tts\nstages:\n  - max_num_seqs: 8\n",
        'pipeline: qwen3_tts\nstages:\n  - stage_id: "0"\n',
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    max_num_seq: 8\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    devices: 0\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    max_num_seqs: 0\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    gpu_memory_utilization: 1.5\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    runtime: {device: '0'}\n",
        "pipeline: qwen3_tts\nstages:\n  - stage_id: 0\n    engine_args: null\n",
        "pipeline: dreamzero\nstages:\n  - stage_id: 0\n    pin_cpu_memory: 1.5\n",
        "pipeline: dreamzero\nstages:\n  - stage_id: 0\n    static_lora_scale: fp8\n",
        "pipeline: qwen3_tts\nconnectors:\n  shm: {class: SharedMemoryConnector}\n",
    ],
)
def test_what_the_schema_refuses_is_an_error_of_the_checker_too(text: str, profile_file: WriteProfile) -> None:
    path = profile_file(text)
    assert complaints(read_as_editor(path))
    diagnostics = omnicfg.validate(path)
    assert any(diagnostic.severity is omnicfg.Severity.ERROR for diagnostic in diagnostics), diagnostics


KINDS: dict[str, Any] = {"bool": True, "int": 1, "float": 0.5, "str": "word", "mapping": {}, "list": []}


@pytest.mark.parametrize("kind", deploy_schema().owners)
def test_a_kind_of_value_that_the_checker_takes_of_some_stage_is_taken_by_the_schema(kind: str) -> None:
    types = stage_types(DEFAULT_VLLM, kind)
    schema = json.loads((schemas_dir() / "profile.schema.json").read_text(encoding="utf-8"))
    settings = schema["$defs"]["engineArgs"]["properties"]
    refused = []
    for key in sorted(types.keys() & settings.keys() & deploy_schema().owners[kind]):
        check = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **settings[key]})
        for name, value in KINDS.items():
            counts = name != "int" or "float" not in types[key].kinds  # whose bounds are those of fractions
            if counts and types[key].admits(value) and not check.is_valid(value):
                refused.append((key, name))
    assert refused == []


def test_every_key_that_a_stage_may_have_is_offered() -> None:
    schema = deploy_schema()
    keys = frozenset().union(*schema.owners.values(), schema.reserved_keys, known_engine_args())
    offered = schemas()["profile.schema.json"]["$defs"]["stage"]["properties"]
    assert {key for key in keys if not key.startswith("_")} == set(offered)


def test_every_key_is_explained() -> None:
    profile = schemas()["profile.schema.json"]
    blocks = {"profile": profile} | {
        name: profile["$defs"][name]
        for name in ("engineArgs", "runtime", "duplexSession", "platform", "connector", "edge")
    }
    bare = [
        f"{block}.{key}"
        for block, schema in blocks.items()
        for key, entry in schema["properties"].items()
        if not entry.get("description")
    ]
    assert bare == []


def test_defaults_are_told_where_editors_show_them() -> None:
    profile = schemas()["profile.schema.json"]
    args = profile["$defs"]["engineArgs"]["properties"]
    assert "Default: `true`." in profile["properties"]["async_chunk"]["description"]
    assert "Default: `1.0`." in profile["$defs"]["samplingParams"]["properties"]["temperature"]["description"]
    assert "Unset, in vLLM 0.32.0: `true`" in args["enable_prefix_caching"]["description"]
    assert "Default: `0.92`." in args["gpu_memory_utilization"]["description"]


def test_plans_validate() -> None:
    plan_validator = validator("plan.schema.json")
    for name, platform in resolvable():
        try:
            plan = omnicfg.resolve(name, platform=platform)
        except omnicfg.ResolveError:
            continue  # a profile that this platform refuses
        plan_validator.validate(json.loads(json.dumps(plan.to_dict())))


def test_reports_validate(profile_file: WriteProfile) -> None:
    bad = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nplatforms:\n  npu: {model_runner: v2}\nstages:\n"
        "  - stage_id: 0\n    max_num_seq: 8\n"
    )
    diagnostics = omnicfg.validate([*library(), bad])
    assert diagnostics
    report = json.loads(render(Report(diagnostics, [*library(), str(bad)])))
    validator("diagnostics.schema.json").validate(report)


SETTINGS = """\
platforms = ["cuda", "npu"]
engine = "bundled"
vllm-version = "0.32.0"
fail-on = "warning"
formats = ["text", "sarif:found.sarif"]
baseline = "baseline.json"
policies = ["policies.yaml"]
rules = {OC101 = "warning", TEAM001 = "off"}
paths = [{files = ["old/**"], rules = {OC104 = "off"}}]
"""


@pytest.mark.parametrize(
    ("text", "is_taken"),
    [
        ("", True),
        (SETTINGS, True),
        ('platform = ["cuda"]', False),
        ('platforms = ["gpu"]', False),
        ("platforms = []", False),
        ('formats = ["pdf"]', False),
        ('rules = {OC999 = "off"}', False),
        ('rules = {OC101 = "fatal"}', False),
        ('paths = [{files = ["old/**"]}]', False),
        ('paths = [{files = ["old/{a,b}.yaml"], rules = {OC104 = "off"}}]', False),
    ],
)
def test_settings_are_taken_as_the_configuration_takes_them(tmp_path: Path, text: str, is_taken: bool) -> None:
    file = tmp_path / "omnicfg.toml"
    file.write_text(text)
    assert validator("settings.schema.json").is_valid(tomllib.loads(text)) is is_taken
    if is_taken:
        configured(file)
    else:
        with pytest.raises(omnicfg.OmnicfgError):
            configured(file)


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("int", "int"),
        ("str | None", {"any_of": ["str", "none"]}),
        ("dict[str, list[int]] | None", {"any_of": [{"dict": ["str", "any"]}, "none"]}),
        ("Literal['v1', 'v2']", {"choices": ["v1", "v2"]}),
        ("'KVTransferConfig | None'", {"any_of": [{"config": "KVTransferConfig"}, "none"]}),
        ("torch.dtype", "any"),
        ("SomeClass | None", "any"),
    ],
)
def test_annotations_are_read(annotation: str, expected: Any) -> None:
    assert annotation_type(annotation, {"KVTransferConfig"}) == expected


def test_the_telling_form_of_a_type_stands_for_the_vague_one() -> None:
    assert combined(["int", {"int": {"ge": 1}}, "none"]) == {"any_of": [{"int": {"ge": 1}}, "none"]}
    assert combined([{"dict": ["str", "any"]}, {"config": "C"}]) == {"config": "C"}
    assert combined(["str", {"choices": ["a"]}]) == {"any_of": [{"choices": ["a"]}, "str"]}


def test_numbers_may_be_interpolated_but_not_quoted() -> None:
    schema = json_schema({"int": {"ge": 1}})
    check = jsonschema.Draft202012Validator(schema)
    assert check.is_valid(1)
    assert check.is_valid(None)
    assert check.is_valid("${oc.env:N}")
    assert not check.is_valid(0)
    assert not check.is_valid("8")
