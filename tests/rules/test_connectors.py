"""OC401 and OC402: connectors that are named but not defined, and defined but not named."""

from __future__ import annotations

from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
SHM = "connectors:\n  shm: {name: SharedMemoryConnector}\n"
WIRED = "stages:\n  - {stage_id: 0, output_connectors: {to_stage_1: shm}}\n"


def test_a_connector_that_is_not_defined(profile_file: WriteProfile) -> None:
    text = (
        HEAD
        + "connectors:\n  shared: {name: SharedMemoryConnector}\nstages:\n"
        + (
            "  - {stage_id: 0, output_connectors: {to_stage_1: shared}}\n"
            "  - {stage_id: 1, input_connectors: {from_stage_0: shard}}\n"
        )
    )
    (found,) = findings(profile_file(text), "OC401")
    assert (found.line, found.column, found.stage_id) == (7, 52, 1)
    assert found.message == "`input_connectors.from_stage_0` of stage 1 names connector `shard`, which is not defined"
    assert found.help == "Did you mean `shared`?"


def test_without_a_near_name_the_defined_ones_are_listed(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + WIRED + "  - {stage_id: 1, input_connectors: {from_stage_0: mooncake}}\n"
    (found,) = findings(profile_file(text), "OC401")
    assert found.help == "Defined: shm."


def test_where_no_connector_is_defined_at_all(profile_file: WriteProfile) -> None:
    for connectors in ("", "connectors: null\n", "connectors: shm\n", "connectors: [shm]\n"):
        (found,) = findings(profile_file(HEAD + connectors + WIRED), "OC401")
        assert found.help == "`connectors` defines none."


def test_a_reference_in_a_platform_block(profile_file: WriteProfile) -> None:
    text = (
        HEAD
        + SHM
        + WIRED
        + "  - stage_id: 1\n"
        + ("platforms:\n  npu:\n    stages:\n      - {stage_id: 1, input_connectors: {from_stage_0: hccl}}\n")
    )
    (found,) = findings(profile_file(text), "OC401")
    assert (found.line, found.column, found.platform) == (11, 56, "npu")


def test_a_reference_in_a_base_to_a_connector_of_the_profile(profile_file: WriteProfile) -> None:
    profile_file(HEAD + WIRED, "base.yaml")
    assert told(profile_file("base_config: base.yaml\n" + SHM, "top.yaml"), "OC401") == []


def test_a_connector_that_nobody_uses(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + "  rdma: {name: MooncakeConnector}\n" + WIRED
    assert told(profile_file(text), "OC402") == [(5, 3, "no stage and no edge uses connector `rdma`")]


def test_a_connector_that_one_platform_does_not_use(profile_file: WriteProfile) -> None:
    text = (
        HEAD
        + SHM
        + "  hccl: {name: SharedMemoryConnector}\n"
        + WIRED
        + ("platforms:\n  npu:\n    stages:\n      - {stage_id: 0, output_connectors: {to_stage_1: hccl}}\n")
    )
    found = {(one.line, one.platform) for one in findings(profile_file(text), "OC402")}
    assert found == {(4, "npu"), (5, "cuda,rocm,xpu,musa")}


def test_an_edge_uses_a_connector_too(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + "edges:\n  - {from: 0, to: 1, connector: shm}\n"
    assert told(profile_file(text), "OC402") == []


def test_a_connector_of_a_base_that_only_the_derived_profile_leaves_unused(profile_file: WriteProfile) -> None:
    base = profile_file(HEAD + SHM + WIRED, "base.yaml")
    top = profile_file(
        "base_config: base.yaml\nconnectors:\n  rdma: {name: MooncakeConnector}\n"
        "stages:\n  - {stage_id: 0, output_connectors: {to_stage_1: rdma}}\n",
        "top.yaml",
    )
    (found,) = findings(top, "OC402")
    assert (found.path, found.line, found.column) == (str(base), 4, 3)
    assert found.message == "no stage and no edge uses connector `shm` (in profile top.yaml)"
