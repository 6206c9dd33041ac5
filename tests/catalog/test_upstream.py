"""The deploy language and the pipelines, as exported from vllm-omni 0.30.0."""

from __future__ import annotations

import pytest

from omnicfg.catalog.upstream import VLLM_OMNI, default_deploy_files, deploy_schema, pipelines


def test_the_release() -> None:
    assert VLLM_OMNI == "0.30.0"


def test_the_platforms_runners_and_modes() -> None:
    schema = deploy_schema()
    assert schema.platforms == ("cuda", "npu", "rocm", "xpu", "musa")
    assert schema.model_runners == ("v1", "v2")
    assert schema.v2_refused_on == {"npu", "xpu"}
    assert schema.session_modes == ("turn", "duplex")


def test_what_merges_deeply_inside_a_stage() -> None:
    assert deploy_schema().deep_merge_keys == {
        "default_sampling_params",
        "default_pooling_params",
        "subtalker_sampling_params",
        "engine_extras",
        "engine_args",
    }


def test_what_holds_for_all_stages() -> None:
    assert set(deploy_schema().pipeline_wide) == {
        "trust_remote_code",
        "distributed_executor_backend",
        "dtype",
        "quantization",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "data_parallel_size",
        "pipeline_parallel_size",
        "active_stream_window",
        "custom_voice_dir",
    }


@pytest.mark.parametrize(
    ("name", "type_", "default"),
    [("async_chunk", "bool", True), ("session_mode", "str", "turn"), ("connectors", "dict[str, Any] | None", None)],
)
def test_fields_with_their_types_and_defaults(name: str, type_: str, default: object) -> None:
    field = deploy_schema().deploy_fields[name]
    assert (field.name, field.type, field.default) == (name, type_, default)


def test_every_field_has_its_line_in_the_source() -> None:
    schema = deploy_schema()
    for fields in (schema.deploy_fields, schema.stage_fields, schema.duplex_fields, schema.topology_fields):
        assert all(field.file.endswith(".py") and field.line > 0 for field in fields.values())


def test_kinds_of_stages_and_who_takes_what() -> None:
    schema = deploy_schema()
    assert set(schema.owners) == set(schema.execution_types) == {"llm_ar", "llm_generation", "diffusion"}
    assert "max_num_seqs" in schema.owners["llm_ar"]
    assert "scheduler_cls" not in schema.owners["llm_ar"]
    assert schema.edge_keys == {"from", "to"}
    assert "connector_get_sleep_s" not in schema.connector_extra_keys


def test_upstreams_sixty_six_pipelines_and_ours() -> None:
    ours = {key for key, pipeline in pipelines().items() if not pipeline["source"]["file"].startswith("vllm_omni/")}
    assert ours == {"tiny_omni"}
    assert len(pipelines()) == 66 + len(ours)


def test_every_pipeline_is_a_chain_of_known_stages() -> None:
    kinds = set(deploy_schema().execution_types)
    for key, pipeline in pipelines().items():
        ids = [stage["stage_id"] for stage in pipeline["stages"]]
        assert len(set(ids)) == len(ids), key
        for stage in pipeline["stages"]:
            assert stage["execution_type"] in kinds, key
            assert set(stage["input_sources"]) <= set(ids), key


def test_default_files_belong_to_pipelines() -> None:
    files = default_deploy_files()
    assert files["qwen3_omni_moe.yaml"] == "qwen3_omni_moe"
    assert set(files.values()) <= set(pipelines())
