"""The mistakes of OC301 to OC307, each transplanted to every place that it can be made in.

A mistake is two settings of stage 0: one below, and one on top that loses or drops something. A place says which
files the two are in. The finding has to be at the setting that is to blame, in the file that holds it, on the
platforms that it concerns, and once; where the place makes it no mistake, there has to be none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic
from tests.conftest import WriteProfile
from tests.rules.checked import findings

HEAD: Final = "pipeline: qwen3_tts\nasync_chunk: false\n"


class Mistake(NamedTuple):
    """``below`` and ``above`` are keys of stage 0, one a line; ``at`` is the text of ``above`` that is pointed at."""

    code: str
    below: str
    above: str
    at: str
    on_platform: str | None
    """The code where a platform's block stands above its own profile's stage; ``None``: no mistake there."""
    in_blocks: str | None
    """The code where both stand in blocks of a platform, in two files. A `runtime` alone has no place there."""


MISTAKES: Final = {
    "own key under engine_args": Mistake(
        "OC301", "engine_args: {max_num_seqs: 16}", "max_num_seqs: 4", "4", None, "OC304"
    ),
    "own devices under runtime": Mistake("OC301", "runtime: {devices: '0'}", "devices: '1'", "'1'", None, None),
    "own key under engine_extras": Mistake(
        "OC301", "engine_extras: {max_num_seqs: 16}", "max_num_seqs: 4", "4", "OC301", "OC301"
    ),
    "engine_args under engine_extras": Mistake(
        "OC301", "engine_extras: {max_num_seqs: 16}", "engine_args: {max_num_seqs: 4}", "4", "OC301", "OC304"
    ),
    "engine_extras under an own key that the schema does not know": Mistake(
        "OC301", "kv_cache_dtype: fp8", "engine_extras: {kv_cache_dtype: auto}", "auto", None, None
    ),
    "a config": Mistake(
        "OC303",
        "compilation_config: {cudagraph_mode: PIECEWISE, cudagraph_capture_sizes: [1]}",
        "compilation_config: {cudagraph_capture_sizes: [4]}",
        "{",
        "OC303",
        "OC303",
    ),
    "a setting within a config": Mistake(
        "OC303",
        "compilation_config: {cudagraph_mode: PIECEWISE, pass_config: {fuse_norm_quant: true, fuse_act_quant: true}}",
        "compilation_config: {cudagraph_mode: FULL, pass_config: {fuse_norm_quant: true}}",
        "{",
        "OC303",
        "OC303",
    ),
    "the runtime": Mistake("OC303", "runtime: {devices: '0'}", "runtime: {num_replicas: 1}", "{", "OC304", "OC303"),
    "the environment": Mistake("OC303", "env: {A: '1'}", "env: {B: '2'}", "{", None, "OC303"),
    "a block within extras": Mistake(
        "-",
        "engine_extras: {additional_config: {a: 1}}",
        "engine_extras: {additional_config: {b: 1}}",
        "{b",
        "OC303",
        None,
    ),
    "stop tokens": Mistake(
        "OC305",
        "default_sampling_params: {stop_token_ids: [1, 2]}",
        "default_sampling_params: {stop_token_ids: [9]}",
        "[9]",
        "OC305",
        "OC305",
    ),
    "null over sampling parameters": Mistake(
        "OC306", "default_sampling_params: {top_k: 3}", "default_sampling_params: null", "null", "OC306", "OC306"
    ),
    "nothing over sampling parameters": Mistake(
        "OC307", "default_sampling_params: {top_k: 3}", "default_sampling_params: {}", "{}", "OC307", "OC307"
    ),
    "null over the devices": Mistake("-", "devices: '0'", "devices: null", "null", "OC307", None),
}
CASES: Final = [pytest.param(mistake, id=name) for name, mistake in MISTAKES.items()]


def stages(keys: str, indent: str = "") -> str:
    return f"{indent}stages:\n{indent}  - stage_id: 0\n{indent}    {keys}\n"


def block(keys: str) -> str:
    return f"platforms:\n  npu:\n{stages(keys, '    ')}"


Place = Callable[[WriteProfile, Mistake], tuple[list[Diagnostic], str, str]]
"""Writes the files, and gives what validate says, and the name and text of the file with the blamed setting."""


def in_a_file_on_its_base(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    write(HEAD + stages(mistake.below), "base.yaml")
    above = f"base_config: base.yaml\n{stages(mistake.above)}"
    return omnicfg.validate(write(above)), "profile.yaml", above


def in_a_base_two_levels_up(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    write(HEAD + stages(mistake.below), "bottom.yaml")
    above = f"base_config: bottom.yaml\n{stages(mistake.above)}"
    write(above, "lower.yaml")
    write("base_config: lower.yaml\ntrust_remote_code: true\n", "upper.yaml")
    return omnicfg.validate(write("base_config: upper.yaml\n")), "lower.yaml", above


def in_a_file_far_above(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    write(HEAD + stages(mistake.below), "bottom.yaml")
    write("base_config: bottom.yaml\nstages: [{stage_id: 1}]\n", "lower.yaml")
    write("base_config: lower.yaml\ntrust_remote_code: true\n", "upper.yaml")
    above = f"base_config: upper.yaml\n{stages(mistake.above)}"
    return omnicfg.validate(write(above)), "profile.yaml", above


def in_an_overlay(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    above = stages(mistake.above)
    profile = write(HEAD + stages(mistake.below))
    return omnicfg.validate(profile, overlays=[write(above, "overlay.yaml")]), "overlay.yaml", above


def in_an_overlay_on_an_overlay(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    above = stages(mistake.above)
    overlays = [write(stages(mistake.below), "first.yaml"), write(above, "second.yaml")]
    return omnicfg.validate(write(HEAD), overlays=overlays), "second.yaml", above


def in_an_overlays_base(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    write(stages(mistake.below), "low.yaml")
    above = f"base_config: low.yaml\n{stages(mistake.above)}"
    return omnicfg.validate(write(HEAD), overlays=[write(above, "overlay.yaml")]), "overlay.yaml", above


FILES: Final = (
    in_a_file_on_its_base,
    in_a_base_two_levels_up,
    in_a_file_far_above,
    in_an_overlay,
    in_an_overlay_on_an_overlay,
    in_an_overlays_base,
)


def in_a_block_of_the_same_file(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    text = HEAD + stages(mistake.below) + block(mistake.above)
    return omnicfg.validate(write(text)), "profile.yaml", text


def in_a_block_of_a_base(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    text = HEAD + stages(mistake.below) + block(mistake.above)
    write(text, "base.yaml")
    return omnicfg.validate(write("base_config: base.yaml\ntrust_remote_code: true\n")), "base.yaml", text


def in_a_block_of_an_overlay(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    above = block(mistake.above)
    profile = write(HEAD + stages(mistake.below))
    return omnicfg.validate(profile, overlays=[write(above, "overlay.yaml")]), "overlay.yaml", above


BLOCKS: Final = (in_a_block_of_the_same_file, in_a_block_of_a_base, in_a_block_of_an_overlay)


def in_a_block_over_that_of_a_base(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    write(HEAD + "stages: [{stage_id: 0}]\n" + block(mistake.below), "base.yaml")
    above = f"base_config: base.yaml\n{block(mistake.above)}"
    return omnicfg.validate(write(above)), "profile.yaml", above


def in_a_block_over_that_of_the_profile(write: WriteProfile, mistake: Mistake) -> tuple[list[Diagnostic], str, str]:
    above = block(mistake.above)
    profile = write(HEAD + "stages: [{stage_id: 0}]\n" + block(mistake.below))
    return omnicfg.validate(profile, overlays=[write(above, "overlay.yaml")]), "overlay.yaml", above


def losses(found: list[Diagnostic]) -> list[Diagnostic]:
    return [one for one in found if one.code.startswith("OC3")]


def places(found: list[Diagnostic]) -> list[tuple[str, str, int, int, str | None, int | None]]:
    return [
        (one.code, one.path.rpartition("/")[2], one.line, one.column, one.platform, one.stage_id)
        for one in losses(found)
    ]


def place_of(mistake: Mistake, text: str) -> tuple[int, int]:
    """Line and column of what is pointed at: the setting on top is the last line of its file."""
    *above, last = text.splitlines()
    key, _, value = mistake.above.partition(": ")
    start = last.rindex(mistake.above) + len(key) + 2
    return len(above) + 1, start + value.index(mistake.at) + 1


def expected(
    code: str | None, mistake: Mistake, name: str, text: str, platform: str | None
) -> list[tuple[str, str, int, int, str | None, int | None]]:
    if code in (None, "-"):
        return []
    assert code is not None
    line, column = place_of(mistake, text)
    if code == "OC304":  # points at the key that is dropped
        column = text.splitlines()[-1].index(mistake.above) + 1
    return [(code, name, line, column, platform, 0)]


@pytest.mark.parametrize("place", FILES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("mistake", CASES)
def test_between_files(profile_file: WriteProfile, place: Place, mistake: Mistake) -> None:
    found, name, text = place(profile_file, mistake)
    assert places(found) == expected(mistake.code, mistake, name, text, None)


@pytest.mark.parametrize("place", BLOCKS, ids=lambda place: place.__name__)
@pytest.mark.parametrize("mistake", CASES)
def test_in_a_platforms_block(profile_file: WriteProfile, place: Place, mistake: Mistake) -> None:
    found, name, text = place(profile_file, mistake)
    assert places(found) == expected(mistake.on_platform, mistake, name, text, "npu")


@pytest.mark.parametrize(
    "place",
    [in_a_block_over_that_of_a_base, in_a_block_over_that_of_the_profile],
    ids=lambda place: place.__name__,
)
@pytest.mark.parametrize("mistake", [case for name, case in zip(MISTAKES, CASES, strict=True) if "runtime" not in name])
def test_between_two_blocks_of_a_platform(profile_file: WriteProfile, place: Place, mistake: Mistake) -> None:
    found, name, text = place(profile_file, mistake)
    assert places(found) == expected(mistake.in_blocks, mistake, name, text, "npu")


def test_a_runtime_in_two_blocks_of_a_platform(profile_file: WriteProfile) -> None:
    """There it is read beside `engine_args`, and replaced as everywhere."""
    below = "engine_args: {}\n        runtime: {devices: '0'}"
    profile_file(HEAD + "stages: [{stage_id: 0}]\n" + block(below), "base.yaml")
    profile = profile_file(f"base_config: base.yaml\npipeline: qwen3_tts\n{block('runtime: {num_replicas: 1}')}")
    (found,) = losses(omnicfg.validate(profile))
    assert (found.code, found.line, found.column, found.platform) == ("OC303", 7, 18, "npu")
    assert found.message.endswith("whole: `devices` is lost")


# ------------------------------------------------------------------------------------ the platform's block below
BELOW = ("base", "base of the base", "profile under an overlay")


def found_above(profile_file: WriteProfile, lower: str, upper: str, place: str) -> list[Diagnostic]:
    """What is found where a file is one of ``BELOW`` to another."""
    if place == "profile under an overlay":
        return omnicfg.validate(profile_file(lower), overlays=[profile_file(upper, "overlay.yaml")])
    profile_file(lower, "base.yaml")
    profile_file("base_config: base.yaml\ntrust_remote_code: true\n", "middle.yaml")
    base = "middle.yaml" if place == "base of the base" else "base.yaml"
    return omnicfg.validate(profile_file(f"{upper}base_config: {base}\n"))


@pytest.mark.parametrize("place", BELOW)
def test_a_block_that_goes_over_what_a_file_on_top_says(profile_file: WriteProfile, place: str) -> None:
    lower = HEAD + "stages: [{stage_id: 0, max_num_seqs: 8}]\n" + block("max_num_seqs: 1")
    upper = stages("max_num_seqs: 4")
    found = found_above(profile_file, lower, upper, place)
    assert [(one.code, one.line, one.column, one.platform, one.stage_id) for one in losses(found)] == [
        ("OC302", 3, 19, "npu", 0)
    ]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("default_sampling_params: {top_k: 1}", "default_sampling_params: {top_k: 4}"),
        ("env: {A: '1'}", "env: {A: '2'}"),
        ("devices: '0'", "devices: '1'"),
        ("compilation_config: {cudagraph_mode: FULL}", "compilation_config: {cudagraph_mode: PIECEWISE}"),
        ("kv_cache_dtype: fp8", "kv_cache_dtype: auto"),
        ("engine_args: {max_num_seqs: 1}", "engine_args: {max_num_seqs: 4}"),
    ],
)
def test_every_kind_of_setting_of_such_a_block(profile_file: WriteProfile, lower: str, upper: str) -> None:
    profile_file(HEAD + "stages: [{stage_id: 0}]\n" + block(lower), "base.yaml")
    found = losses(omnicfg.validate(profile_file("base_config: base.yaml\n" + stages(upper))))
    assert [(one.code, one.line, one.platform) for one in found] == [("OC302", 4, "npu")]


def test_a_block_in_the_file_on_top_says_which_is_meant(profile_file: WriteProfile) -> None:
    profile_file(HEAD + "stages: [{stage_id: 0}]\n" + block("max_num_seqs: 1"), "base.yaml")
    upper = f"base_config: base.yaml\n{stages('max_num_seqs: 4')}"
    assert losses(omnicfg.validate(profile_file(upper + block("max_num_seqs: 1")))) == []
    assert losses(omnicfg.validate(profile_file(upper + block("max_num_seqs: 2")))) == []


def test_a_runner_that_a_platform_cannot_have_is_no_loss(profile_file: WriteProfile) -> None:
    profile_file(HEAD + "platforms: {npu: {model_runner: v1}, xpu: {model_runner: v1}}\n", "base.yaml")
    assert losses(omnicfg.validate(profile_file("base_config: base.yaml\nmodel_runner: v2\n"))) == []


def test_a_runner_that_a_platform_could_have_is_one(profile_file: WriteProfile) -> None:
    text = "platforms: {npu: {model_runner: v1}, xpu: {model_runner: v1}, rocm: {model_runner: v1}}\n"
    profile_file(HEAD + text, "base.yaml")
    (found,) = losses(omnicfg.validate(profile_file("base_config: base.yaml\nmodel_runner: v2\n")))
    assert (found.code, found.line, found.column, found.platform) == ("OC302", 2, 15, "rocm")


# ------------------------------------------------------------------------------------------------------- the profile
@pytest.mark.parametrize(
    ("code", "below", "above", "column"),
    [
        (
            "OC303",
            "session_mode: duplex\nduplex_session: {max_sessions: 4, idle_ttl_s: 10}",
            "duplex_session: {max_sessions: 2}",
            17,
        ),
        ("OC305", "edges: [{from: 0, to: 1}]", "edges: [{from: 1, to: 0}]", 8),
        ("OC307", "connectors: {shm: {name: SharedMemoryConnector}}", "connectors: null", 13),
        ("OC307", "connectors: {shm: {name: SharedMemoryConnector}}", "connectors: {}", 13),
        ("OC307", "stages: [{stage_id: 0}]", "stages: []", 9),
        ("OC307", "platforms: {npu: {stages: [{stage_id: 0}]}}", "platforms: null", 12),
    ],
)
@pytest.mark.parametrize("place", BELOW)
def test_settings_of_the_whole_profile(
    profile_file: WriteProfile, code: str, below: str, above: str, column: int, place: str
) -> None:
    lower, upper = f"{HEAD}{below}\n", f"{above}\n"
    found = found_above(profile_file, lower, upper, place)
    assert [(one.code, one.line, one.column, one.platform) for one in losses(found)] == [(code, 1, column, None)]


@pytest.mark.parametrize("above", ["npu: null", "npu: {}", "npu: {stages: []}"])
def test_an_empty_block_of_a_platform_that_the_base_has(profile_file: WriteProfile, above: str) -> None:
    profile_file(HEAD + "stages: [{stage_id: 0}]\n" + block("max_num_seqs: 1"), "base.yaml")
    profile = profile_file(f"base_config: base.yaml\nplatforms: {{{above}}}\n")
    column = len("platforms: {npu: ") + 1 + (len("{stages: ") if "stages" in above else 0)
    assert [(one.code, one.line, one.column, one.platform) for one in losses(omnicfg.validate(profile))] == [
        ("OC307", 2, column, "npu")
    ]


def test_both_blocks_are_shown_where_they_are_short(profile_file: WriteProfile) -> None:
    base = "pipeline: qwen3_tts\nplatforms: {npu: {stages: [{stage_id: 0, compilation_config: {level: 1, mode: 0}}]}}\n"
    long = ", ".join(f"s{number}: {number}" for number in range(20))
    for block, told in (("mode: 3", "{mode: 3}"), (long, "{...}")):
        profile_file(base, "base.yaml")
        text = f"base_config: base.yaml\nstages: [{{stage_id: 0, compilation_config: {{{block}}}}}]\n"
        (found,) = findings(profile_file(text), "OC302")
        assert found.message.startswith(f"`compilation_config: {told}` of stage 0 does not count here")
        assert found.message.endswith("says `{level: 1, mode: 0}`")


def test_a_credential_in_such_a_block_is_hidden(profile_file: WriteProfile) -> None:
    profile_file(
        "pipeline: qwen3_tts\nplatforms: {npu: {stages: [{stage_id: 0, env: {HF_TOKEN: aaa}}]}}\n", "base.yaml"
    )
    profile = profile_file("base_config: base.yaml\nstages: [{stage_id: 0, env: {HF_TOKEN: bbb}}]\n")
    (found,) = findings(profile, "OC302")
    assert "aaa" not in found.message
    assert "bbb" not in found.message
