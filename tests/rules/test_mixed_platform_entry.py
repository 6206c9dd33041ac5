"""OC304: an entry of a platform's block that is written in two ways at once."""

from __future__ import annotations

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\nstages: [{stage_id: 0}, {stage_id: 1}]\n"


def block(*entries: str) -> str:
    return "platforms:\n  npu:\n    stages:\n" + "".join(f"      - {{{entry}}}\n" for entry in entries)


def test_each_key_beside_engine_args(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + block("stage_id: 1, engine_args: {max_num_seqs: 1}, devices: '3', dtype: float16"))
    assert [(line, column) for line, column, _ in told(profile, "OC304")] == [(7, 55), (7, 69)]
    (first, _) = findings(profile, "OC304")
    assert first.message == (
        "`devices` of stage 1 is dropped: a platform's entry with `engine_args` is read for that and for `runtime` only"
    )


def test_what_it_says_is_so(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + block("stage_id: 1, engine_args: {max_num_seqs: 1}, devices: '3', dtype: float16"))
    stage = omnicfg.resolve(profile, platform="npu").stage(1)
    assert stage is not None
    assert (stage.arg("max_num_seqs"), stage.arg("dtype"), stage.runtime.value("devices")) == (1, None, None)


def test_engine_args_of_a_file_on_top_drop_the_flat_keys_of_a_base(profile_file: WriteProfile) -> None:
    profile_file(HEAD + block("stage_id: 0, devices: '3', max_num_seqs: 2"), "base.yaml")
    profile = profile_file("base_config: base.yaml\n" + block("stage_id: 0, engine_args: {dtype: float16}"))
    ((line, column, message),) = told(profile, "OC304")
    assert (line, column) == (5, 23)
    assert message.startswith("`devices`, `max_num_seqs` of stage 0 are dropped: ")


def test_a_flat_key_of_a_file_on_top_of_engine_args(profile_file: WriteProfile) -> None:
    profile_file(HEAD + block("stage_id: 0, engine_args: {dtype: float16}"), "base.yaml")
    profile = profile_file("base_config: base.yaml\n" + block("stage_id: 0, devices: '3'"))
    ((line, column, message),) = told(profile, "OC304")
    assert (line, column) == (5, 23)
    assert message.startswith("`devices` of stage 0 is dropped: ")


def test_a_runtime_without_engine_args(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + block("stage_id: 0, runtime: {devices: '3'}"))
    ((line, column, message),) = told(profile, "OC304")
    assert (line, column) == (7, 23)
    assert message == "`runtime` of stage 0 is not read in a platform's entry without `engine_args`"
    stage = omnicfg.resolve(profile, platform="npu").stage(0)
    assert stage is not None
    assert (stage.arg("runtime"), stage.runtime.value("devices")) == ({"devices": "3"}, None)


def test_what_another_rule_tells_is_told_once(profile_file: WriteProfile) -> None:
    """A key that no stage of this kind has, and connectors, which no platform's block may name."""
    profile = profile_file(HEAD + block("stage_id: 0, engine_args: {dtype: float16}, vae_use_slicing: true"))
    assert [one.code for one in omnicfg.validate(profile)] == ["OC101"]
    entry = "stage_id: 1, engine_args: {dtype: float16}, input_connectors: {from_stage_0: shm}"
    profile = profile_file(HEAD + block(entry))
    assert "OC304" not in [one.code for one in omnicfg.validate(profile)]


def test_entries_in_one_way(profile_file: WriteProfile) -> None:
    nested = "stage_id: 0, engine_args: {dtype: float16}, runtime: {devices: '3', num_replicas: 1}"
    assert omnicfg.validate(profile_file(HEAD + block(nested, "stage_id: 1, dtype: float16, devices: '4'"))) == []
