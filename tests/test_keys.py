"""The blocks of a profile as it is written."""

from __future__ import annotations

import pytest

from omnicfg.compiler import load
from omnicfg.keys import Block, blocks_of
from omnicfg.rule import Subject
from tests.conftest import WriteProfile
from tests.passes.trees import tree_of

TEXT = """\
pipeline: glm_image
async_chunk: false
duplex_session: {max_sessions: 1}
connectors:
  shm: {name: SharedMemoryConnector}
stages:
  - stage_id: 0
    max_num_seqs: 1
    compilation_config: {pass_config: {}}
    engine_args: {enforce_eager: true}
    engine_extras: {swap_space: 1}
    runtime: {devices: "0"}
    default_sampling_params: {temperature: 0.5}
  - stage_id: 1
    parallel_config: {ulysses_degree: 2}
    default_sampling_params: {num_inference_steps: 1}
platforms:
  npu:
    stages:
      - stage_id: 0
        runtime: {devices: "1"}
"""


@pytest.fixture
def blocks(profile_file: WriteProfile) -> list[Block]:
    profile = load(profile_file(TEXT))
    return list(blocks_of(profile.chain.documents[0], Subject(profile, "glm_image")))


def test_every_block_in_the_order_in_which_it_is_written(blocks: list[Block]) -> None:
    assert [(block.place, block.what, block.stage_id, block.platform) for block in blocks] == [
        ("profile", "the profile", None, None),
        ("duplex_session", "`duplex_session`", None, None),
        ("connector", "connector `shm`", None, None),
        ("stage", "stage 0", 0, None),
        ("stage", "`engine_args` of stage 0", 0, None),
        ("stage", "`engine_extras` of stage 0", 0, None),
        ("runtime", "`runtime` of stage 0", 0, None),
        ("config", "`compilation_config` of stage 0", 0, None),
        ("config", "`pass_config` of stage 0", 0, None),
        ("params", "`default_sampling_params` of stage 0", 0, None),
        ("stage", "stage 1", 1, None),
        ("parallel", "`parallel_config` of stage 1", 1, None),
        ("params", "`default_sampling_params` of stage 1", 1, None),
        ("platform", "the npu block", None, "npu"),
        ("stage", "stage 0", 0, "npu"),
        ("runtime", "`runtime` of stage 0", 0, "npu"),
    ]


def test_the_keys_that_a_block_may_have(blocks: list[Block]) -> None:
    known = {(block.what, block.platform): block.known for block in blocks}
    assert known["`runtime` of stage 0", None] == frozenset({"devices", "num_replicas", "env"})
    assert known["the npu block", "npu"] == frozenset({"model_runner", "stages"})
    assert {"base_config", "stages", "platforms", "async_chunk"} <= (known["the profile", None] or set())
    assert "stage_id" in (known["stage 0", None] or ())
    assert "stage_id" not in (known["`engine_args` of stage 0", None] or ())


def test_a_diffusion_stage_has_sampling_parameters_of_its_own(blocks: list[Block]) -> None:
    text, diffusion = (block.known or frozenset() for block in blocks if block.place == "params")
    assert "temperature" in text - diffusion
    assert "num_inference_steps" in diffusion - text


def test_where_the_kind_of_stage_is_not_known_its_sampling_parameters_are_free(profile_file: WriteProfile) -> None:
    profile = load(profile_file("stages: [{stage_id: 0, default_sampling_params: {anything: 1}}]\n"))
    blocks = list(blocks_of(profile.chain.documents[0], Subject(profile, None)))
    assert [block.known for block in blocks if block.place == "params"] == [None]


def test_parallel_config_takes_what_the_kind_of_stage_takes(blocks: list[Block]) -> None:
    (parallel,) = (block for block in blocks if block.place == "parallel")
    assert parallel.known is not None
    assert "ulysses_degree" in parallel.known
    assert "data_parallel_rank" not in parallel.known
    assert parallel.types["ulysses_degree"].kinds == {"int", "none"}


def test_kinds_of_stages_take_different_keys(blocks: list[Block]) -> None:
    text, diffusion = (
        block.known or frozenset() for block in blocks if block.what in ("stage 0", "stage 1") and not block.platform
    )
    assert "step_execution" not in text
    assert "step_execution" in diffusion


def test_the_types_of_keys(blocks: list[Block]) -> None:
    types = {block.what: block.types for block in blocks}
    assert types["stage 0"]["max_num_seqs"].kinds == {"int", "none"}
    assert types["stage 0"]["trust_remote_code"].kinds >= {"bool"}
    assert types["the profile"]["session_mode"].kinds == {"str"}
    assert types["`default_sampling_params` of stage 0"]["temperature"].admits(0.5)


@pytest.mark.parametrize(
    "text",
    [
        "stages: 5\n",
        "stages: {a: 1}\n",
        "stages: [5, null, [1]]\n",
        "platforms: 5\n",
        "platforms: {npu: 5, NPU: {a: 1}, 7: {}}\n",
        "connectors: [shm]\n",
        "connectors: {shm: 5}\n",
        "duplex_session: []\n",
    ],
)
def test_blocks_of_a_wrong_shape_are_left_out(profile_file: WriteProfile, text: str) -> None:
    profile = load(profile_file("pipeline: qwen3_tts\n"))
    subject = Subject(profile, "qwen3_tts")
    assert [block.place for block in blocks_of(tree_of(text), subject)] == ["profile"]


def test_an_id_that_is_no_number(profile_file: WriteProfile) -> None:
    subject = Subject(load(profile_file("pipeline: qwen3_tts\n")), "qwen3_tts")
    _, *stages = blocks_of(tree_of("stages: [{stage_id: '0'}, {stage_id: true}, {stage_id: [0]}, {}]\n"), subject)
    assert [(block.what, block.stage_id) for block in stages] == [
        ("stage 0", None),
        ("stage true", None),
        ("a stage", None),
        ("a stage", None),
    ]
