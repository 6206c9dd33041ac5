"""OC404 to OC407: connectors and edges that vllm-omni cannot use as they are written.

What becomes of each was asked of its ``load_omni_transfer_config_for_model``.
"""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told
from tests.rules.places import PLACES, set_at, wrong_file

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
SHM = "connectors:\n  shm: {name: SharedMemoryConnector}\n"
WIRED = "stages:\n  - {stage_id: 1, input_connectors: {from_stage_0: shm}}\n"


# ----------------------------------------------------------------------------------------------------- classes
def test_a_class_that_does_not_exist(profile_file: WriteProfile) -> None:
    text = HEAD + SHM.replace("MemoryConnector", "MemoryConector") + WIRED
    (found,) = findings(profile_file(text), "OC404")
    assert (found.line, found.column, found.stage_id, found.platform) == (4, 15, None, None)
    assert found.message == (
        "connector `shm` is a `SharedMemoryConector`, which vllm-omni 0.30.0 does not have, so its stages do not start"
    )
    assert found.help == "Did you mean `SharedMemoryConnector`?"


@pytest.mark.parametrize(
    ("connector", "message"),
    [
        ("{extra: {}}", "connector `shm` names no class, so all stages lose their connectors"),
        ("5", "connector `shm` is neither a name nor a mapping, so all stages lose their connectors"),
        (
            "{name: SharedMemoryConnector, extra: null}",
            "`extra` of connector `shm` is no mapping, so all stages lose their connectors",
        ),
        ("{name: Zzz}", "connector `shm` is a `Zzz`, which vllm-omni 0.30.0 does not have, so its stages do not start"),
    ],
)
def test_connectors_that_cannot_be_made(profile_file: WriteProfile, connector: str, message: str) -> None:
    (found,) = findings(profile_file(f"{HEAD}connectors:\n  shm: {connector}\n{WIRED}"), "OC404")
    assert (found.line, found.message) == (4, message)


def test_a_connector_that_nobody_uses_is_not_looked_at(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + "  other: {name: Zzz}\n" + WIRED
    assert [one.code for one in omnicfg.validate(profile_file(text))] == ["OC402"]


def test_a_connector_that_stands_in_place_of_its_name(profile_file: WriteProfile) -> None:
    text = HEAD + "stages:\n  - {stage_id: 1, input_connectors: {from_stage_0: {name: Zzz}}}\n"
    (found,) = findings(profile_file(text), "OC404")
    assert (found.line, found.column, found.stage_id) == (4, 59, 1)
    assert found.message.startswith("`input_connectors.from_stage_0` of stage 1 is a `Zzz`")


@pytest.mark.parametrize("reference", ["5", "null", "[shm]"])
def test_a_reference_that_is_no_name(profile_file: WriteProfile, reference: str) -> None:
    text = HEAD + SHM + WIRED.replace("0: shm", f"0: {reference}")
    (found,) = findings(profile_file(text), "OC404")
    assert found.message.endswith("is neither a name nor a mapping, so all stages lose their connectors")


# ------------------------------------------------------------------------------------------------------- edges
@pytest.mark.parametrize(
    ("stage_id", "side", "key", "help_text"),
    [
        (1, "input_connectors", "from_stage_2", "It may have `from_stage_0`."),
        (1, "input_connectors", "stage_0", "It may have `from_stage_0`."),
        (1, "input_connectors", "to_stage_0", "It may have `from_stage_0`."),
        (0, "input_connectors", "from_stage_1", "Remove it: stage 0 takes nothing over."),
        (0, "output_connectors", "to_stage_7", "It may have `to_stage_1`."),
        (1, "output_connectors", "to_stage_0", "Remove it: stage 1 hands nothing over."),
    ],
)
def test_keys_that_name_no_edge(profile_file: WriteProfile, stage_id: int, side: str, key: str, help_text: str) -> None:
    text = HEAD + SHM + f"stages:\n  - stage_id: {stage_id}\n    {side}: {{{key}: shm}}\n"
    (found,) = omnicfg.validate(profile_file(text))
    assert (found.code, found.line, found.column, found.stage_id) == ("OC405", 7, len(side) + 8, stage_id)
    assert found.message == f"`{side}.{key}` of stage {stage_id} is no edge of pipeline qwen3_tts"
    assert found.help == help_text


@pytest.mark.parametrize("place", [place for place in PLACES if place != "platform"])
def test_a_wrong_edge_in_every_place_once(profile_file: WriteProfile, place: str) -> None:
    head = "async_chunk: false\n" + SHM
    found = set_at(place, profile_file, "input_connectors", "{from_stage_3: shm}", stage_id=1, head=head)
    assert [one.code for one in found] == ["OC405"]
    assert found[0].path.endswith(wrong_file(place))


def test_two_ends_of_an_edge_that_disagree(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + "  moon: {name: MooncakeStoreConnector}\nstages:\n"
    text += "  - {stage_id: 0, output_connectors: {to_stage_1: moon}}\n"
    text += "  - {stage_id: 1, input_connectors: {from_stage_0: shm}}\n"
    profile = profile_file(text)
    (found,) = findings(profile, "OC405")
    assert (found.line, found.column, found.stage_id) == (8, 52, 1)
    assert found.message == (
        "`input_connectors.from_stage_0` of stage 1 is a SharedMemoryConnector, but the other end of the edge, "
        f"`output_connectors.to_stage_1` of stage 0 ({profile}:7:51), is a MooncakeStoreConnector: "
        "all stages lose their connectors"
    )


def test_two_ends_of_one_class(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + "  other: {name: SharedMemoryConnector}\nstages:\n"
    text += "  - {stage_id: 0, output_connectors: {to_stage_1: other}}\n"
    text += "  - {stage_id: 1, input_connectors: {from_stage_0: shm}}\n"
    assert told(profile_file(text), "OC405") == []


def test_a_null_where_there_are_connectors_to_lose(profile_file: WriteProfile) -> None:
    text = HEAD + SHM + WIRED + "  - {stage_id: 0, output_connectors: null}\n"
    assert told(profile_file(text), "OC405") == [
        (7, 38, "`output_connectors` of stage 0 is null, so all stages lose their connectors")
    ]
    base = profile_file(HEAD + SHM + WIRED + "  - {stage_id: 0, output_connectors: {to_stage_1: shm}}\n", "base.yaml")
    overlay = profile_file("stages: [{stage_id: 0, output_connectors: null}]\n", "overlay.yaml")
    (found,) = findings(base, "OC405", overlays=[overlay])
    assert found.path == str(overlay)


def test_a_null_where_there_is_nothing_to_lose(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + "stages: [{stage_id: 0, output_connectors: null}]\n"), "OC405") == []


@pytest.mark.parametrize(
    ("edge", "message", "severity"),
    [
        ("{from: 1, to: 0}", "pipeline qwen3_tts has no edge from stage 1 to stage 0", Severity.ERROR),
        ("{from: 0, to: 7}", "pipeline qwen3_tts has no edge from stage 0 to stage 7", Severity.ERROR),
        ("{from: 7, to: 1}", "pipeline qwen3_tts has no edge from stage 7 to stage 1", Severity.ERROR),
        ("{from: 0}", "an edge without `to` is skipped", Severity.WARNING),
        ("{to: 1, from: null}", "an edge without `from` is skipped", Severity.WARNING),
    ],
)
def test_edges_that_the_pipeline_does_not_have(
    profile_file: WriteProfile, edge: str, message: str, severity: Severity
) -> None:
    (found,) = findings(profile_file(f"{HEAD}edges:\n  - {edge}\n"), "OC406")
    assert (found.line, found.message, found.severity) == (4, message, severity)
    assert found.help == "Its edges are {from: 0, to: 1}."


def test_edges_that_it_has(profile_file: WriteProfile) -> None:
    assert told(profile_file(HEAD + "edges: [{from: 0, to: 1}, {from: '0', to: '1'}]\n"), "OC406") == []


def test_a_pipeline_of_one_stage_has_no_edges(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file("pipeline: dreamzero\nedges: [{from: 0, to: 0}]\n"), "OC406")
    assert found.help == "It has no edges: remove the entry."


# --------------------------------------------------------------------------------------------------- platforms
@pytest.mark.parametrize("side", ["input_connectors", "output_connectors"])
def test_connectors_of_a_platforms_block(profile_file: WriteProfile, side: str) -> None:
    key = "from_stage_0" if side == "input_connectors" else "to_stage_1"
    stage_id = 1 if side == "input_connectors" else 0
    text = HEAD + SHM + WIRED + "  - {stage_id: 0}\nplatforms:\n  npu:\n    stages:\n"
    text += f"      - {{stage_id: {stage_id}, {side}: {{{key}: shm}}}}\n"
    (found,) = omnicfg.validate(profile_file(text))
    assert (found.code, found.line, found.column, found.platform) == ("OC407", 11, 23, "npu")
    assert told(profile_file(text), "OC407", engine="bundled") == []


@pytest.mark.parametrize("edge", ["[0, 1]", "0", "null"])
def test_an_edge_that_is_no_mapping(profile_file: WriteProfile, edge: str) -> None:
    assert told(profile_file(f"{HEAD}edges:\n  - {edge}\n"), "OC406")[0][2] == (
        "an edge is a mapping with `from` and `to`; this is none"
    )
