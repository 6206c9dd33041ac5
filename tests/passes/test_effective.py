"""What vLLM makes of the engine args that a plan leaves unset."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.catalog.vllm_args import engine_args, vllm_versions
from omnicfg.passes.effective import default_of, effective, why_unset
from omnicfg.plan import Plan, StagePlan
from omnicfg.tree import LayerKind
from tests.conftest import WriteProfile

TTS = "pipeline: qwen3_tts\nasync_chunk: false\n"


def stage(plan: Plan, stage_id: int = 0) -> StagePlan:
    found = plan.stage(stage_id)
    assert found is not None
    return found


@pytest.fixture
def bare(profile_file: WriteProfile) -> Plan:
    """A profile that sets nothing: an autoregressive stage and a generation stage."""
    return omnicfg.resolve(profile_file(TTS))


def test_an_unset_prefix_cache_is_on_by_vllms_default(bare: Plan) -> None:
    assert stage(bare).arg("enable_prefix_caching") is None
    node = stage(effective(bare)).engine_args.items["enable_prefix_caching"]
    assert stage(effective(bare)).arg("enable_prefix_caching") is True
    assert str(node.layer) == "vllm default 0.32.0"
    assert node.mark.file == "vllm/engine/arg_utils.py"
    assert node.mark.line > 0


def test_where_the_kind_of_stage_does_not_settle_it_nothing_is_made_up(bare: Plan) -> None:
    assert stage(effective(bare), 1).worker_type == "generation"
    assert stage(effective(bare), 1).arg("enable_prefix_caching") is None
    assert why_unset("enable_prefix_caching", stage(bare, 1), "cuda")


@pytest.mark.parametrize("name", ["max_model_len", "max_num_seqs", "quantization", "distributed_executor_backend"])
def test_what_the_model_or_the_machine_decides_stays_unset_with_the_reason(bare: Plan, name: str) -> None:
    assert stage(effective(bare)).arg(name) is None
    assert why_unset(name, stage(bare), "cuda")


def test_every_engine_arg_is_there_and_what_is_set_stays(bare: Plan) -> None:
    filled = effective(bare)
    left_out = {"model", "scheduler_cls", "worker_cls"}
    assert set(engine_args()) - left_out <= set(stage(filled).engine_args.items)
    assert not left_out & set(stage(filled).engine_args.items) - set(stage(bare).engine_args.items)
    for name, node in stage(bare).engine_args.items.items():
        assert stage(filled).engine_args.items[name] is node


def test_a_null_gives_way_to_the_default_and_remains_in_the_history(profile_file: WriteProfile) -> None:
    text = TTS + "stages:\n  - stage_id: 0\n    engine_extras: {enable_prefix_caching: null}\n"
    plan = omnicfg.resolve(profile_file(text))
    assert "enable_prefix_caching" in stage(plan).engine_args.items
    node = stage(effective(plan)).engine_args.items["enable_prefix_caching"]
    assert stage(effective(plan)).arg("enable_prefix_caching") is True
    assert [lost.reason for lost in node.beaten][-1] != ""
    assert any(lost.node.layer.kind is LayerKind.PROFILE for lost in node.beaten)


@pytest.mark.parametrize(("platform", "size"), [("cuda", 16), ("rocm", 16), ("xpu", 64), ("npu", None), ("musa", None)])
def test_a_default_that_depends_on_the_platform(bare: Plan, platform: str, size: int | None) -> None:
    node = default_of("block_size", stage(bare), platform)
    assert stage(effective(omnicfg.resolve(bare.profile, platform=platform))).arg("block_size") == size
    assert (why_unset("block_size", stage(bare), platform) is None) is (size is not None)
    assert node.layer.kind is LayerKind.ENGINE_DEFAULT


def test_a_diffusion_stage_is_left_alone() -> None:
    plan = omnicfg.resolve("glm_image")
    diffusion = next(each for each in plan.stages if each.stage_type == "diffusion")
    assert stage(effective(plan), diffusion.stage_id).tree is diffusion.tree


def test_the_plan_itself_is_not_changed(bare: Plan) -> None:
    before = bare.to_dict()
    effective(bare)
    assert bare.to_dict() == before


@pytest.mark.parametrize("version", vllm_versions())
def test_every_shipped_version_has_defaults(bare: Plan, version: str) -> None:
    node = stage(effective(bare, version)).engine_args.items["enable_prefix_caching"]
    assert node.layer.name == version
