"""``explain``: the chain behind one value."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnicfg
from omnicfg.commands._plans import Request
from omnicfg.errors import UsageError
from omnicfg.explain import Explanation, explain
from omnicfg.tree import plain
from tests.conftest import WriteProfile


def explained(profile: str | Path, key: str, platform: str = "cuda", **more: list[Path] | list[str]) -> Explanation:
    overlays = [Path(path) for path in more.get("overlays", [])]
    settings = [str(text) for text in more.get("settings", [])]
    request = Request(str(profile), overlays=overlays, settings=settings)
    return explain(request.plan(platform), key, request.deployed(platform))


def chain(found: Explanation) -> list[tuple[str, object, str]]:
    return [(link.role, plain(link.node), link.node.layer.kind.value) for link in found.chain]


def test_the_winner_comes_first_and_the_losers_follow(profile_file: WriteProfile) -> None:
    overlay = profile_file("stages:\n  - {stage_id: 0, enable_prefix_caching: false}\n", "overlay.yaml")
    found = explained(
        "qwen3_omni_moe",
        "stages.0.enable_prefix_caching",
        overlays=[overlay],
        settings=["stages.0.enable_prefix_caching=true"],
    )
    assert chain(found) == [("wins", True, "--set"), ("lost", False, "overlay"), ("lost", True, "profile")]
    assert all(link.reason for link in found.chain[1:])


WIDE = """\
pipeline: qwen3_tts
async_chunk: false
dtype: float32
stages:
  - {stage_id: 0, dtype: bfloat16}
  - {stage_id: 1}
"""
FROM_FILES = [("lost", "bfloat16", "profile"), ("lost", "float32", "profile")]


@pytest.mark.parametrize(
    ("settings", "values"),
    [
        (["dtype=half"], ["half"]),
        (["dtype=half", "dtype=float16"], ["float16", "half"]),
        (["dtype=half", "stages.0.dtype=float16"], ["float16", "half"]),
        (["stages.0.dtype=float16", "dtype=half"], ["half", "float16"]),
    ],
)
def test_a_pipeline_wide_set_is_one_link_of_a_stages_chain(
    profile_file: WriteProfile, settings: list[str], values: list[str]
) -> None:
    """It goes over the stage's own setting and over the pipeline-wide one, and is told once; so is all that it beat."""
    found = explained(profile_file(WIDE), "stages.0.dtype", settings=settings)
    roles = ["wins", *["lost"] * (len(values) - 1)]
    assert chain(found) == [*((role, value, "--set") for role, value in zip(roles, values, strict=True)), *FROM_FILES]
    assert [link.reason for link in found.chain] == [None, *["set on the command line"] * (len(found.chain) - 1)]


def test_a_pipeline_wide_set_is_one_link_of_an_entry_of_a_stages_block(profile_file: WriteProfile) -> None:
    path = profile_file(
        "pipeline: qwen3_tts\nasync_chunk: false\nquantization: {method: fp8}\n"
        "stages:\n  - {stage_id: 0, quantization: {method: int8}}\n  - {stage_id: 1}\n"
    )
    found = explained(path, "stages.0.quantization.method", settings=["quantization.method=awq"])
    assert chain(found) == [("wins", "awq", "--set"), ("lost", "int8", "profile"), ("lost", "fp8", "profile")]


def test_one_reason_for_each_platform() -> None:
    """Why the base is off on CUDA while its turn profile is on."""
    key = "stages.0.enable_prefix_caching"
    assert chain(explained("minicpmo_4_5_turn", key))[0] == ("wins", True, "platform")
    assert chain(explained("minicpmo_4_5_turn", key, "rocm"))[0] == ("wins", False, "base")
    assert chain(explained("minicpmo_4_5", key))[0] == ("wins", False, "profile")


@pytest.mark.parametrize(
    ("text", "layer", "line"),
    [
        ("", "default", 585),
        ("duplex_session: {}\n", "profile", 3),
        ("duplex_session: {max_sessions: 2}\n", "profile", 3),
    ],
)
def test_a_block_that_no_file_writes_is_a_default(profile_file: WriteProfile, text: str, layer: str, line: int) -> None:
    node = explained(profile_file("pipeline: qwen3_tts\nasync_chunk: false\n" + text), "duplex_session").node
    assert node is not None
    assert (node.layer.kind.value, node.mark.line) == (layer, line)


def test_what_a_value_was_made_from_is_no_loser() -> None:
    found = explained("qwen3_omni_moe", "stages.0.use_v2_model_runner")
    assert [link.role for link in found.chain[:2]] == ["wins", "source"]
    assert plain(found.chain[1].node) == "v1"


def test_an_unset_engine_arg_has_vllms_default(profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n")
    found = explained(path, "stages.0.enable_prefix_caching")
    assert not found.is_set
    assert chain(found)[0] == ("wins", True, "vllm default")
    assert found.known[0].capability == "prefix_caching"


def test_a_null_that_unset_a_value_is_part_of_the_chain(profile_file: WriteProfile) -> None:
    profile_file("stages:\n  - {stage_id: 0, enable_prefix_caching: false}\n", "base.yaml")
    path = profile_file(
        "base_config: base.yaml\npipeline: qwen3_tts\nasync_chunk: false\n"
        "stages:\n  - {stage_id: 0, enable_prefix_caching: null}\n"
    )
    found = explained(path, "stages.0.enable_prefix_caching")
    assert ("lost", None, "profile") in chain(found)
    assert ("lost", False, "base") in chain(found)


def test_what_the_machine_decides_is_said_in_words() -> None:
    found = explained("minicpmo_4_5_turn", "stages.0.max_model_len")
    assert not found.is_set
    assert found.unset_because == "the context length that the model's config.json gives"


def test_a_diffusion_stage_has_no_default_of_vllm() -> None:
    found = explained("glm_image", "stages.1.block_size")
    assert (found.is_set, found.chain) == (False, ())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("async_chunk", True),
        ("duplex_session.max_sessions", 4),
        ("stages.0.runtime.devices", "0"),
        ("stages.0.devices", "0"),
        ("stages.0.engine_args.max_num_seqs", 4),
        ("stages.0.default_sampling_params.temperature", 0.0),
        ("stages.0.extras.default_sampling_params.temperature", 0.0),
        ("stages.1.input_sources", [0]),
        ("pipeline", "minicpmo_4_5"),
        ("connectors.connector_of_shared_memory.extra.codec_chunk_frames", 25),
    ],
)
def test_keys_may_name_any_value(key: str, value: object) -> None:
    found = explained("minicpmo_4_5", key)
    assert found.is_set
    assert plain(found.chain[0].node) == value


@pytest.mark.parametrize(
    ("key", "message", "help"),
    [
        ("stages.0.max_num_seq", "a stage has no setting `max_num_seq`", "Did you mean `max_num_seqs`?"),
        ("async_chunks", "a profile has no setting `async_chunks`", "Did you mean `async_chunk`?"),
        ("max_num_seqs", "a profile has no setting `max_num_seqs`", "`stages.0.max_num_seqs`"),
        ("platforms.npu.stages", "`platforms` says where values come from", "`--platform` says on which platform"),
        ("base_config", "`base_config` says where values come from", "Ask for a value"),
        ("stage.0.max_num_seqs", "`stage.0` has no setting", "Write it like `stages.0.max_num_seqs`."),
        ("stages[0].max_num_seqs", "`stages[0]` has no setting", "Write it like `stages.0.max_num_seqs`."),
        ("duplex_session.max_session", "`duplex_session` has no setting", "Did you mean `max_sessions`?"),
        ("stages.0.default_sampling_params.temprature", "has no entry `temprature`", "Did you mean `temperature`?"),
        ("stages.7.dtype", "pipeline minicpmo_4_5 has no stage 7", "Its stages are 0, 1, 2."),
        ("stages.x.dtype", "has no stage x", "Its stages are"),
        ("stages.0", "is a whole stage", "stages.0.KEY"),
        ("stages.2", "is a whole stage", "stages.2.KEY"),
        ("stages", "`stages` are all stages", "stages.0.KEY"),
        ("tensor_parallel_size", "no setting `tensor_parallel_size`", "It is a setting of a stage: `stages.0.tensor_p"),
        ("devices", "a profile has no setting `devices`", "It is a setting of a stage: `stages.0.devices`."),
        ("temperature", "no setting `temperature`", ": `stages.0.default_sampling_params.temperature`."),
        ("stages.1.temperature", "a stage has no setting", ": `stages.1.default_sampling_params.temperature`."),
        ("stages.1.model_runner", "a stage has no setting", "It is a setting of the whole profile: `model_runner`."),
        ("stages.1.duplex_session.max_sessions", "no setting", "profile: `duplex_session.max_sessions`."),
        (
            "stages.1.runtime.max_num_seqs",
            "`runtime` has no setting `max_num_seqs`",
            "a stage: `stages.1.max_num_seqs`.",
        ),
        ("stages.1.runtime.device", "`runtime` has no setting `device`", "Did you mean `devices`?"),
        ("stages.1.runtime.zzz", "`runtime` has no setting `zzz`", "It has: devices, num_replicas, env."),
        ("stages.٣.dtype", "has no stage ٣", "Its stages are 0, 1, 2."),
        ("stages.0.max_num_seqs.x", "`max_num_seqs` is a single value here", "Ask for `max_num_seqs` itself."),
        (
            "stages.0.default_sampling_params.temperature.x.y",
            "`default_sampling_params.temperature` is a single value here",
            "Ask for `default_sampling_params.temperature` itself.",
        ),
        ("stages..x", "is not a key", "stages.0.enable_prefix_caching"),
        ("", "is not a key", ""),
    ],
)
def test_a_key_that_exists_nowhere_is_refused_with_a_near_name(key: str, message: str, help: str) -> None:
    with pytest.raises(UsageError) as caught:
        explained("minicpmo_4_5", key)
    assert message in caught.value.diagnostics[0].message
    assert help in (caught.value.diagnostics[0].help or "")


def test_every_leaf_of_every_plan_can_be_explained() -> None:
    plan = omnicfg.resolve("qwen3_omni_moe")
    for stage in plan.stages:
        for name in stage.engine_args.items:
            assert explained("qwen3_omni_moe", f"stages.{stage.stage_id}.{name}").is_set


@pytest.mark.parametrize(
    ("key", "capability", "stages"),
    [
        ("model_runner", "model_runner_v2", [0]),
        ("session_mode", "duplex", [0]),
        ("stages.1.enable_prefix_caching", "prefix_caching", [1]),
        ("stages.0.max_num_seqs", "", []),
    ],
)
def test_records_speak_of_the_keys_that_they_know(key: str, capability: str, stages: list[int]) -> None:
    found = explained("qwen3_omni_moe_mrv2", key).known
    assert [known.stage.stage_id for known in found] == stages
    assert all(known.capability == capability for known in found)
