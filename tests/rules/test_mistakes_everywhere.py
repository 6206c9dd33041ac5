"""One mistake in a stage's setting, in every place that a profile can have the setting in: told there, and once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import omnicfg
from tests.conftest import WriteProfile
from tests.rules.places import PLACES, set_at, wrong_file

MISTAKES: Final = {
    "max_num_seq: 8": ("OC101", "max_num_seq"),
    "enforce_eager: 'false'": ("OC103", "'false'"),
    "devices: 0": ("OC102", "0"),
    "devices: '0,0'": ("OC602", "'0,0'"),
    "num_replicas: 0": ("OC105", "0"),
    "gpu_memory_utilization: 1.5": ("OC105", "1.5"),
    "default_sampling_params: {temprature: 1}": ("OC101", "temprature"),
    "default_sampling_params: {detokenize: true}": ("OC308", "true"),
    "compilation_config: {cudagraph_mod: FULL}": ("OC101", "cudagraph_mod"),
    "async_chunk: true": ("OC309", "true"),
    "quantization: null": ("OC307", "null"),
    "num_gpus: 8": ("OC701", "num_gpus"),
    "final_output: true": ("OC701", "final_output"),
}
HEAD: Final = "async_chunk: false\nquantization: fp8\n"


CASES: Final = [
    (setting, place)
    for setting in MISTAKES
    for place in PLACES
    if (setting, place[:4]) != ("async_chunk: true", "base")  # the file on top that turns chunks off means it
]


@pytest.mark.parametrize(("setting", "place"), CASES)
def test_a_setting(profile_file: WriteProfile, setting: str, place: str) -> None:
    key, _, value = setting.partition(": ")
    code, at = MISTAKES[setting]
    if place == "--set" and at == key:
        code, at = "OC020" if code == "OC101" else code, value  # what is no setting cannot be set
    (found,) = set_at(place, profile_file, key, value, head=HEAD)
    assert (found.code, found.platform, found.stage_id) == (
        code,
        "npu" if place == "platform" else None,
        None if code == "OC020" else 0,
    )
    assert found.path.endswith(wrong_file(place))
    written = found.path.removeprefix("--set ") if place == "--set" else Path(found.path).read_text(encoding="utf-8")
    line = written.splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith(at)
    assert line[: found.end_column - 1].endswith(at)


ENTRIES: Final = {
    "- {stage_id: 7, max_num_seqs: 1}": ("OC201", "7"),
    "- {stage_id: '0', max_num_seqs: 1}": ("OC201", "'0'"),
    "- {max_num_seqs: 1}": ("OC011", "{"),
    "- {stage_id: 0}\n      - {stage_id: 0}": ("OC203", "0"),
    "- {stage_id: 0, 12: 1}": ("OC101", "12"),
}


@pytest.mark.parametrize("place", ["profile", "base", "base of the base", "overlay"])
@pytest.mark.parametrize("is_platform", [False, True], ids=["stages", "platform"])
@pytest.mark.parametrize("entries", ENTRIES)
def test_an_entry(profile_file: WriteProfile, entries: str, is_platform: bool, place: str) -> None:
    code, at = ENTRIES[entries]
    lists = f"    stages:\n      {entries}\n"
    wrong = f"platforms:\n  npu:\n{lists}" if is_platform else lists.replace("\n    ", "\n").removeprefix("    ")
    plain = "pipeline: qwen3_tts\nasync_chunk: false\n" + ("stages: [{stage_id: 0}]\n" if is_platform else "")
    overlays = []
    if place == "profile":
        profile = profile_file(plain + wrong)
    elif place == "overlay":
        profile, overlays = profile_file(plain), [profile_file(wrong, "overlay.yaml")]
    else:
        profile_file(plain + wrong, "base.yaml")
        profile_file("base_config: base.yaml\nsession_mode: turn\n", "middle.yaml")
        base = "middle.yaml" if place == "base of the base" else "base.yaml"
        profile = profile_file(f"base_config: {base}\nsession_mode: turn\n")
    (found,) = (one for one in omnicfg.validate(profile, overlays=overlays) if one.code == code)
    assert found.path.endswith(wrong_file(place))
    line = Path(found.path).read_text(encoding="utf-8").splitlines()[found.line - 1]
    assert line[found.column - 1 :].startswith(at)
    in_a_chain = place != "profile"  # whose files are merged before any platform is looked at
    assert found.platform == ("npu" if is_platform and not (code == "OC011" and in_a_chain) else None)
