"""OC104: keys of connectors and edges that nothing reads."""

from __future__ import annotations

from tests.conftest import WriteProfile
from tests.rules.checked import findings

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
WIRED = "stages: [{stage_id: 1, input_connectors: {from_stage_0: shm}}]\n"


def test_the_relics_of_an_older_release(profile_file: WriteProfile) -> None:
    text = HEAD + (
        "connectors:\n  shm:\n    name: SharedMemoryConnector\n    extra:\n"
        "      connector_get_sleep_s: 0.01\n      connector_get_max_wait: 3000\n"
        "      connector_get_max_wait_first_chunk: 3000\n      codec_chunk_frames: 25\n"
    )
    assert [(one.line, one.column, one.message) for one in findings(profile_file(text + WIRED), "OC104")] == [
        (7, 7, "nothing in vllm-omni 0.30.0 reads `connector_get_sleep_s` of connector `shm`"),
        (8, 7, "nothing in vllm-omni 0.30.0 reads `connector_get_max_wait` of connector `shm`"),
        (9, 7, "nothing in vllm-omni 0.30.0 reads `connector_get_max_wait_first_chunk` of connector `shm`"),
    ]


def test_a_typo_gets_a_near_name(profile_file: WriteProfile) -> None:
    text = HEAD + "connectors: {shm: {name: SharedMemoryConnector, extra: {codec_chunk_frame: 25}}}\n" + WIRED
    (found,) = findings(profile_file(text), "OC104")
    assert (found.line, found.column, found.help) == (3, 57, "Did you mean `codec_chunk_frames`?")


def test_edges_know_where_from_and_where_to(profile_file: WriteProfile) -> None:
    text = HEAD + "edges:\n  - {from: 0, to: 1, max_inflight: 2}\n"
    (found,) = findings(profile_file(text), "OC104")
    assert (found.line, found.column, found.message, found.help) == (
        4,
        22,
        "nothing in vllm-omni 0.30.0 reads `max_inflight` of an edge",
        "Remove it.",
    )


def test_blocks_of_another_shape_are_left_to_other_rules(profile_file: WriteProfile) -> None:
    for text in (
        "connectors: 5\nedges: {from: 0}\n",
        "connectors: {shm: 5}\nedges: [5]\n",
        "connectors: {shm: {extra: 5}}\n",
    ):
        assert findings(profile_file(HEAD + text), "OC104") == []
