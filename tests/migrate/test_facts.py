"""The record of the old schema, against the language of today."""

from __future__ import annotations

from omnicfg.catalog.upstream import deploy_schema, pipelines
from omnicfg.migrate.facts import facts


def test_what_is_kept_or_renamed_exists_today() -> None:
    schema = deploy_schema()
    known = {*schema.deploy_fields, *schema.stage_fields, *schema.owners["llm_ar"], "connectors"}
    for scope in ("profile", "stage"):
        for fact in facts()[scope].values():
            assert fact.get("to", "connectors") in known


def test_topology_fields_exist_today() -> None:
    stage = pipelines()["qwen3_tts"]["stages"][1]
    special = {"pipeline", "processor", "extras.tts_args"}
    fields = {fact["field"] for scope in ("profile", "stage") for fact in facts()[scope].values() if "field" in fact}
    assert fields - special <= set(stage)


def test_what_no_connector_reads_is_not_read_today() -> None:
    assert not set(facts()["connector_extra"]) & deploy_schema().connector_extra_keys


def test_former_names_lead_to_names_of_today() -> None:
    stages = [stage for pipeline in pipelines().values() for stage in pipeline["stages"]]
    classes = {stage["model_arch"] for stage in stages} | {each["model_arch"] for each in pipelines().values()}
    assert set(facts()["former_names"]["model_arch"].values()) <= classes
    names = {stage["model_stage"] for stage in stages}
    assert {name for each in facts()["former_names"]["model_stage"].values() for name in each} <= names
