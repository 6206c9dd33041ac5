"""A compiled profile: its stages, and finding a value in it."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.plan import Plan
from omnicfg.tree import plain
from tests.conftest import WriteProfile

TEXT = """\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0"
    max_num_seqs: 4
    compilation_config: {cudagraph_capture_sizes: [1, 2]}
    default_sampling_params: {temperature: 0.5}
"""


@pytest.fixture
def plan(profile_file: WriteProfile) -> Plan:
    return omnicfg.resolve(profile_file(TEXT), platform="musa")


def test_what_it_is_a_plan_of(plan: Plan, profile_file: WriteProfile) -> None:
    assert (plan.profile, plan.platform, plan.pipeline) == (str(profile_file(TEXT)), "musa", "qwen3_tts")


def test_stages_are_found_by_id(plan: Plan) -> None:
    assert [stage.stage_id for stage in plan.stages] == [0, 1]
    second = plan.stage(1)
    assert second is not None
    assert (second.model_stage, second.stage_type, second.worker_type) == ("code2wav", "llm", "generation")
    assert plan.stage(2) is None


def test_a_diffusion_stage_has_no_worker_type() -> None:
    stage = omnicfg.resolve("glm_image").stage(1)
    assert stage is not None
    assert (stage.stage_type, stage.worker_type) == ("diffusion", None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("async_chunk", False),
        ("duplex_session.max_sessions", 1),
        ("stages.0.max_num_seqs", 4),
        ("stages.0.devices", "0"),
        ("stages.0.engine_args.max_num_seqs", 4),
        ("stages.0.runtime.devices", "0"),
        ("stages.0.default_sampling_params.temperature", 0.5),
        ("stages.0.compilation_config.cudagraph_capture_sizes.1", 2),
        ("stages.0.model_stage", "qwen3_tts"),
        ("stages.1.worker_type", "generation"),
        ("pipeline", "qwen3_tts"),
        ("platform", "musa"),
    ],
)
def test_finding_a_value(plan: Plan, key: str, value: object) -> None:
    node = plan.find(key)
    assert node is not None
    assert plain(node) == value


@pytest.mark.parametrize(
    "key",
    ["nothing", "stages.7.devices", "stages.0.nothing", "stages.x.devices", "stages." + "9" * 5000 + ".devices", ""],
)
def test_what_is_not_there_is_not_found(plan: Plan, key: str) -> None:
    assert plan.find(key) is None


def test_where_a_stage_is_written(plan: Plan) -> None:
    assert plan.stage_mark(0)[1:3] == (4, 15)
    assert plan.stage_mark(1)[1:3] == (1, 1)


def test_every_leaf_has_a_route_and_a_place(plan: Plan) -> None:
    routes = dict(plan.leaves())
    assert plain(routes["stages", 0, "engine_args", "max_num_seqs"]) == 4
    assert all(node.mark.file for node in routes.values())


def test_plain_data_is_a_copy(plan: Plan) -> None:
    plan.to_dict()["stages"].clear()
    assert len(plan.to_dict()["stages"]) == 2
