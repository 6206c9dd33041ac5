"""``schemas/vllm-omni/0.30.0``: complete, of one mind with the shipped deploy files and with upstream's refusals."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from ruamel.yaml import YAML

from omnicfg.catalog.paths import schemas_dir
from omnicfg.value_types import parse_annotation
from tests.parity.cases import generate
from tests.parity.traps import traps

FOLDER: Final = schemas_dir() / "vllm-omni" / "0.30.0"
PARITY: Final = Path(__file__).parents[1] / "parity"

# Read by nothing in 0.30.0: set in the deploy files, and then only carried along.
UNREAD_EXTRA: Final = {
    "codec_streaming",
    "connector_get_max_wait",
    "connector_get_max_wait_first_chunk",
    "connector_get_sleep_s",
}
UNREAD_EDGE: Final = {"max_inflight", "window_size"}

# The one shipped stage that the typed config refuses: its npu block.
WITHOUT_OWNER: Final = {
    ("glm_image.yaml", 0, "scheduler_cls"),
    ("glm_image.yaml", 0, "sequence_parallel_size"),
}


def load(name: str) -> dict[str, Any]:
    """One of the files."""
    content: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return content


PIPELINES: Final = load("pipelines")["pipelines"]
DEPLOY: Final = load("deploy")
OWNERS: Final = DEPLOY["owners"]
EXECUTION_OF: Final = {
    (key, stage["stage_id"]): stage["execution_type"] for key, entry in PIPELINES.items() for stage in entry["stages"]
}


def deploy_files(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of the shipped files."""
    for path in sorted(folder.glob("*.yaml")):
        yield path.name, YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")) or {}


def stage_entries(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The stages of a file and of its platform blocks."""
    yield from content.get("stages") or []
    for block in (content.get("platforms") or {}).values():
        yield from block.get("stages") or []


def engine_keys(entry: dict[str, Any]) -> set[str]:
    """The keys of a stage that reach its engine."""
    blocks = {**(entry.get("engine_args") or {}), **(entry.get("engine_extras") or {})}
    return {key for key in entry if key not in DEPLOY["stage_reserved_keys"]} | set(blocks)


# ---------------------------------------------------------------------------------------------------- pipelines
def test_every_registry_key_is_there_with_its_stages() -> None:
    assert len(PIPELINES) == 66
    names = {field["name"] for field in DEPLOY["stage_pipeline_fields"]}
    for entry in PIPELINES.values():
        assert entry["stages"]
        for stage in entry["stages"]:
            assert set(stage) == names | {"lines"}


def test_lines_lead_to_the_source_of_each_setting() -> None:
    for entry in PIPELINES.values():
        assert entry["source"]["file"].startswith("vllm_omni/")
        assert entry["source"]["line"] > 0
        for stage in entry["stages"]:
            written = {name for name in stage["lines"] if name}
            assert written <= set(stage)
            assert stage["lines"][""] <= min(stage["lines"].values())
    talker = PIPELINES["qwen3_omni_moe"]["stages"][1]
    assert (talker["lines"][""], talker["lines"]["sampling_constraints"]) == (50, 60)


def test_a_resolver_has_its_default_topology_and_its_variants() -> None:
    variants = {key: entry["variants"] for key, entry in PIPELINES.items() if "variants" in entry}
    thinker = {"when": {"enable_audio_output": False}, "pipeline": "qwen3_omni_moe_thinker_only"}
    assert variants == {"qwen3_omni_moe": [thinker]}


def test_checkpoints_lead_to_pipelines() -> None:
    predicates = {key: entry["hf_config_predicate"] for key, entry in PIPELINES.items() if entry["hf_config_predicate"]}
    assert predicates == {
        "minicpmo_4_5": {"version": "4.5"},
        "ming_tts": {"model_type": "dense"},
        "ming_tts_moe": {"model_type": "bailingmm"},
    }
    assert all(key in entry["hf_model_types"] for key, entry in PIPELINES.items())
    assert PIPELINES["dreamzero"]["hf_model_types"] == ["dreamzero", "vla"]
    assert set(PIPELINES["dreamzero"]["hf_model_type_conditions"]) == {"vla"}


def test_default_deploy_files_are_shipped(upstream_deploy: Path) -> None:
    defaults = load("pipelines")["default_deploy_files"]
    assert {name for name in defaults if not (upstream_deploy / name).is_file()} == set()
    for name, key in defaults.items():
        assert PIPELINES[key]["default_deploy_config_name"] == name
    first = {entry["default_deploy_config_name"]: key for key, entry in reversed(PIPELINES.items())}
    first.pop(None)
    assert first == defaults


# ------------------------------------------------------------------------------------------------------- owners
def test_every_shipped_stage_key_has_an_owner(upstream_deploy: Path) -> None:
    pipelines = {path.stem: json.loads(path.read_text(encoding="utf-8"))["pipeline"] for path in expected_files()}
    unowned = {
        (name, entry["stage_id"], key)
        for name, content in deploy_files(upstream_deploy)
        for entry in stage_entries(content)
        if (pipelines[Path(name).stem], entry["stage_id"]) in EXECUTION_OF
        for key in engine_keys(entry)
        if key not in OWNERS[EXECUTION_OF[pipelines[Path(name).stem], entry["stage_id"]]]["stage"]
    }
    assert unowned == WITHOUT_OWNER


def expected_files() -> list[Path]:
    """One file for each shipped deploy file."""
    return sorted((PARITY / "expected").glob("*.json"))


def refusals() -> Iterator[tuple[str, str]]:
    """(pipeline, what the typed config said) for every case and trap that it refused."""
    cases = json.loads(gzip.decompress((PARITY / "expected_cases.json.gz").read_bytes()))
    given = json.loads((PARITY / "expected_traps.json").read_text(encoding="utf-8"))
    for name, pipeline in [(case.name, case.pipeline) for case in generate()]:
        yield from ((pipeline, verdict) for verdict in cases[name]["typed"].values())
    for trap in traps():
        yield from ((trap.pipeline, verdict) for verdict in given[trap.name]["typed"].values())


def test_what_upstream_calls_unowned_is_on_no_list() -> None:
    seen = set()
    for pipeline, verdict in refusals():
        for stage_id, key in unowned_keys(verdict):
            execution_type = EXECUTION_OF[pipeline, stage_id]
            name = key.removeprefix("parallel_config.")
            assert name not in OWNERS[execution_type]["stage" if name == key else "parallel_config"], key
            seen.add((execution_type, key))
    assert {execution_type for execution_type, _ in seen} == set(OWNERS)
    assert len(seen) > 30


def unowned_keys(verdict: str) -> Iterator[tuple[int, str]]:
    """(stage id, key) of a refusal for want of an owner."""
    found = re.search(r"Stage (\d+) \(\w+\) has explicit .* owner: (.*)", verdict)
    if found:
        yield from ((int(found[1]), key) for key in found[2].split(", "))
    found = re.search(r"Unknown diffusion config field\(s\) for stage (\d+): (.*)", verdict)
    if found:
        yield from ((int(found[1]), key.strip("'")) for key in found[2].split(", "))


# --------------------------------------------------------------------------------------------------- connectors
def test_connectors_of_shipped_files_are_known_and_read(upstream_deploy: Path) -> None:
    extra, entry_keys, edge_keys, names = set[str](), set[str](), set[str](), set[str]()
    for _, content in deploy_files(upstream_deploy):
        for connector in (content.get("connectors") or {}).values():
            extra |= set(connector.get("extra") or {})
            entry_keys |= set(connector)
            names |= {connector["name"]} if "name" in connector else set()
        for edge in content.get("edges") or []:
            edge_keys |= set(edge)
    assert extra - set(DEPLOY["connector_extra_keys"]) == UNREAD_EXTRA
    assert entry_keys == set(DEPLOY["connector_entry_keys"])
    assert edge_keys - set(DEPLOY["edge_keys"]) == UNREAD_EDGE
    assert names <= set(DEPLOY["connectors"])


def test_readers_of_a_connector_key_are_named() -> None:
    read_by = DEPLOY["connector_extra_keys"]
    assert read_by["backends"] == ["vllm_omni/distributed/omni_connectors/connectors/nixl_connector.py"]
    assert read_by["rpc_port"] == ["vllm_omni/platforms/npu/omni_connectors/yuanrong_transfer_engine_connector.py"]
    assert len(read_by["codec_chunk_frames"]) > 15


# ---------------------------------------------------------------------------------------------------- the rest
@pytest.mark.parametrize(
    ("section", "name", "expected"),
    [
        ("deploy_fields", "async_chunk", {"type": "bool", "default": True}),
        ("stage_fields", "num_replicas", {"type": "int", "default": 1}),
        ("stage_fields", "stage_id", {"type": "int", "required": True}),
        ("duplex_session_fields", "idle_ttl_s", {"type": "float | None", "default": 300.0}),
        ("engine_args", "duplex_max_sessions", {"type": "int", "default": 1}),
        ("diffusion_args", "vae_use_tiling", {"type": "bool", "default": False}),
        ("sampling_params", "temperature", {"type": "float", "default": 1.0}),
        ("diffusion_sampling_params", "num_inference_steps", {"type": "int | None", "default": None}),
        ("pooling_params", "dimensions", {"type": "int | None", "default": None}),
    ],
)
def test_a_field_has_its_type_and_default(section: str, name: str, expected: dict[str, Any]) -> None:
    field = next(field for field in DEPLOY[section] if field["name"] == name)
    assert {key: field[key] for key in field if key in {"type", "default", "required"}} == expected
    assert field["line"] > 0


def test_sampling_keys_of_shipped_files_are_known(upstream_deploy: Path) -> None:
    known = {
        "llm": {field["name"] for field in DEPLOY["sampling_params"]},
        "diffusion": {field["name"] for field in DEPLOY["diffusion_sampling_params"]},
    }
    pipelines = {path.stem: json.loads(path.read_text(encoding="utf-8"))["pipeline"] for path in expected_files()}
    unknown = set()
    for name, content in deploy_files(upstream_deploy):
        for entry in stage_entries(content):
            execution_type = EXECUTION_OF.get((pipelines[Path(name).stem], entry["stage_id"]), "llm_ar")
            kind = DEPLOY["execution_types"][execution_type]["stage_type"]
            unknown |= {(name, key) for key in entry.get("default_sampling_params") or {} if key not in known[kind]}
    assert unknown == set()


def test_platforms_runners_and_schedulers() -> None:
    assert DEPLOY["platforms"] == ["cuda", "npu", "rocm", "xpu", "musa"]
    assert DEPLOY["model_runner_v2_refused_on"] == ["npu", "xpu"]
    assert DEPLOY["session_modes"] == ["turn", "duplex"]
    schedulers = {name: kind["scheduler"] for name, kind in DEPLOY["execution_types"].items()}
    assert schedulers["llm_ar"]["sync"] != schedulers["llm_ar"]["async"]
    assert schedulers["diffusion"] == {"sync": None, "async": None}


# ------------------------------------------------------------------------------------------------ ignored keys
def test_what_a_kind_of_stage_ignores_is_accepted_there() -> None:
    for kind, keys in OWNERS.items():
        assert set(keys["ignored"]) < set(keys["stage"]), kind
        assert {"final_output", "num_gpus"} <= set(keys["ignored"])


def test_what_the_shipped_stages_are_tuned_with_is_not_ignored() -> None:
    read_by_all = {"devices", "dtype", "enforce_eager", "gpu_memory_utilization", "max_model_len", "max_num_seqs"}
    for keys in OWNERS.values():
        assert not read_by_all & set(keys["ignored"])
    assert "async_scheduling" in set(OWNERS["diffusion"]["ignored"]) - set(OWNERS["llm_ar"]["ignored"])


# ------------------------------------------------------------------------------------------------- value types
def test_what_a_kind_of_stage_takes_is_asked_of_its_typed_config() -> None:
    types = DEPLOY["value_types"]
    assert types["diffusion"]["pin_cpu_memory"] == "bool"
    assert types["diffusion"]["VSA_sparsity"] == "float"
    assert types["diffusion"]["diffusion_kv_cache_skip_steps"] == "str | list"
    assert types["llm_ar"]["omni_kv_config"] == "dict"
    assert types["diffusion"]["quantization_config"] == "str | dict"
    assert "async_chunk" not in types["llm_ar"]  # whatever it is counts as true or false
    for kind, taken in types.items():
        assert set(taken) < set(OWNERS[kind]["stage"])


def test_every_shipped_value_is_of_a_kind_that_is_taken(upstream_deploy: Path) -> None:
    pipelines = {path.stem: json.loads(path.read_text(encoding="utf-8"))["pipeline"] for path in expected_files()}
    said = [
        (kind, key, value)
        for name, content in deploy_files(upstream_deploy)
        for entry in stage_entries(content)
        if (kind := EXECUTION_OF.get((pipelines[Path(name).stem], entry["stage_id"])))
        for key, value in entry.items()
        if key in DEPLOY["value_types"][kind] and value is not None
    ]
    assert [
        (kind, key, value)
        for kind, key, value in said
        if not parse_annotation(DEPLOY["value_types"][kind][key]).admits(value)
    ] == []
    assert len({(kind, key) for kind, key, _ in said}) > 40


def test_the_words_and_keys_of_diffusion_stages() -> None:
    quantization = DEPLOY["diffusion_quantization"]
    assert {"fp8", "int8", "none", "auto_round"} <= set(quantization["methods"]) >= set(quantization["not_alone"])
    assert "compressed-tensors" not in quantization["methods"]  # is looked up with an underscore
    assert DEPLOY["diffusion_choices"]["diffusion_kv_mode"] == ["dense_legacy", "paged_scheduler"]  # none for later
    assert DEPLOY["diffusion_choices"]["ulysses_mode"] == ["strict", "advanced_uaa"]
    assert set(DEPLOY["diffusion_blocks"]["diffusion_offload_config"]) >= {"mode", "components"}
    assert set(DEPLOY["diffusion_choices"]) | set(DEPLOY["diffusion_blocks"]) <= set(OWNERS["diffusion"]["stage"])


# ---------------------------------------------------------------------------------------------------- variables
def test_variables_are_its_own_and_none_of_the_machines_or_vllms() -> None:
    variables = load("variables")["variables"]
    assert set(variables.values()) == {"public_omni", "model_specific", "benchmark_transitional", "internal"}
    assert variables["VLLM_OMNI_STORAGE_PATH"] == "public_omni"
    assert not {"CUDA_VISIBLE_DEVICES", "HF_TOKEN", "VLLM_PLUGINS"} & set(variables)
