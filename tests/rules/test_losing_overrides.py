"""What overrides lose: OC204, OC310 and OC311, and the rules about files where ``--set`` is the file on top."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"
Place = tuple[str, str, int, int, str | None, int | None]


def found(write: WriteProfile, text: str, *settings: str) -> list[Place]:
    """Code, path, line, column, platform and stage of what is lost or dropped."""
    return [
        (one.code, one.path, one.line, one.column, one.platform, one.stage_id)
        for one in omnicfg.validate(write(HEAD + text), overrides=settings)
        if one.code in ("OC204",) or one.code.startswith("OC3")
    ]


def stage(keys: str) -> str:
    return f"stages:\n  - stage_id: 0\n    {keys}\n"


# ------------------------------------------------------------------------------------ OC310, one for all stages
def test_an_override_of_all_stages_undoes_an_opt_out(profile_file: WriteProfile) -> None:
    text = stage("dtype: float32") + "  - stage_id: 1\n    dtype: float16\n"
    setting = "dtype=bfloat16"
    assert found(profile_file, text, setting) == [
        ("OC310", f"--set {setting}", 1, 7, None, 0),
        ("OC310", f"--set {setting}", 1, 7, None, 1),
    ]


def test_it_is_told_of_the_api_too(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + stage("engine_args: {dtype: float32}"))
    (one,) = (one for one in omnicfg.validate(profile, overrides={"dtype": "bfloat16"}) if one.code == "OC310")
    assert (one.path, one.line, one.severity) == ("--set dtype", 0, Severity.WARNING)
    assert one.message == f"`dtype` also replaces what stage 0 says for itself: `float32` in {profile}:5:26"
    assert one.help == "Where that is meant, say so: `--set stages.0.dtype=bfloat16`."


def test_what_the_profile_says_for_all_stages_is_not_said_to_be_a_stages_own(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + "dtype: float16\n" + stage("dtype: float32"))
    told = [one.message for one in omnicfg.validate(profile, overrides=["dtype=bfloat16"]) if one.code == "OC310"]
    assert told == [f"`dtype` also replaces what stage 0 says for itself: `float32` in {profile}:6:12"]


def test_on_the_platform_that_opted_out_alone(profile_file: WriteProfile) -> None:
    text = (
        stage("max_num_seqs: 1")
        + f"platforms:\n  npu:\n    {stage('dtype: float32').replace(chr(10), chr(10) + '    ')}\n"
    )
    assert found(profile_file, text, "dtype=bfloat16") == [("OC310", "--set dtype=bfloat16", 1, 7, "npu", 0)]


@pytest.mark.parametrize(
    "settings",
    [
        ("dtype=float32",),
        ("dtype=bfloat16", "stages.0.dtype=float32"),
        ("dtype=bfloat16", "stages.0.dtype=bfloat16"),
        ("stages.0.dtype=bfloat16",),
        ("session_mode=turn",),
    ],
)
def test_what_undoes_nothing_or_says_so(profile_file: WriteProfile, settings: tuple[str, ...]) -> None:
    assert found(profile_file, stage("dtype: float32"), *settings) == []


# ------------------------------------------------------------------------------------------------- OC311, order
@pytest.mark.parametrize(
    ("first", "second", "column"),
    [
        ("stages.0.dtype=float32", "dtype=bfloat16", 16),
        ("stages.0.engine_extras.dtype=float32", "dtype=bfloat16", 30),
        ("stages.0.default_sampling_params.top_k=1", "stages.0.default_sampling_params=null", 40),
        ("duplex_session.max_sessions=4", "duplex_session={max_sessions: 2}", 29),
    ],
)
def test_an_override_that_a_wider_one_undoes(profile_file: WriteProfile, first: str, second: str, column: int) -> None:
    assert ("OC311", f"--set {first}", 1, column) in [one[:4] for one in found(profile_file, "", first, second)]
    assert "OC311" not in [one[0] for one in found(profile_file, "", second, first)]


@pytest.mark.parametrize(
    "settings",
    [
        ("dtype=float32", "dtype=bfloat16"),
        ("stages.0.dtype=float32", "stages.0.dtype=bfloat16"),
        ("stages.0.dtype=bfloat16", "dtype=bfloat16"),
        ("stages.0.dtype=float32", "enable_prefix_caching=false"),
        ("stages.0.default_sampling_params.top_k=1", "stages.0.default_sampling_params={top_p: 1.0}"),
    ],
)
def test_saying_it_again_or_saying_something_else(profile_file: WriteProfile, settings: tuple[str, ...]) -> None:
    assert found(profile_file, "", *settings) == []


# -------------------------------------------------------------------------------------------- OC204, leading zeros
@pytest.mark.parametrize("word", ["00", "01", "0000"])
def test_a_stage_with_leading_zeros(profile_file: WriteProfile, word: str) -> None:
    setting = f"stages.{word}.max_num_seqs=4"
    assert found(profile_file, "", setting) == [("OC204", f"--set {setting}", 1, 8, None, int(word))]


def test_zero_itself_has_none(profile_file: WriteProfile) -> None:
    assert found(profile_file, "", "stages.0.max_num_seqs=4") == []


# ----------------------------------------------------------------------- what else an override does to the profile
@pytest.mark.parametrize(
    ("below", "setting", "code", "column"),
    [
        ("default_sampling_params: {top_k: 3}", "stages.0.default_sampling_params=null", "OC306", 34),
        ("default_sampling_params: {top_k: 3}", "stages.0.default_sampling_params={}", "OC307", 34),
        ("compilation_config: {mode: 3}", "stages.0.compilation_config={}", "OC307", 29),
        ("env: {A: '1'}", "stages.0.env={}", "OC307", 14),
        ("hf_overrides: {a: 1}", "stages.0.engine_args.hf_overrides={}", "OC307", 35),
        (
            "default_sampling_params: {stop_token_ids: [1, 2]}",
            "stages.0.default_sampling_params.stop_token_ids=[9]",
            "OC305",
            49,
        ),
        ("async_chunk: null", "stages.0.async_chunk=true", "OC309", 22),
    ],
)
def test_an_override_is_a_file_on_top(
    profile_file: WriteProfile, below: str, setting: str, code: str, column: int
) -> None:
    assert found(profile_file, stage(below), setting) == [(code, f"--set {setting}", 1, column, None, 0)]


@pytest.mark.parametrize(
    ("below", "setting"),
    [
        ("compilation_config: {mode: 3}", "stages.0.compilation_config={cudagraph_mode: FULL}"),
        ("env: {A: '1'}", "stages.0.env={B: '2'}"),
        ("engine_args: {max_num_seqs: 3}", "stages.0.max_num_seqs=1"),
        ("engine_extras: {max_num_seqs: 3}", "stages.0.max_num_seqs=1"),
        ("runtime: {devices: '0'}", "stages.0.devices='1'"),
        ("max_num_seqs: 3", "stages.0.max_num_seqs=null"),
        ("max_num_seqs: 3", "stages.0.default_sampling_params={}"),
    ],
)
def test_where_it_loses_nothing(profile_file: WriteProfile, below: str, setting: str) -> None:
    """A mapping merges into the one that is there, and whatever the spelling below, an override wins."""
    assert found(profile_file, stage(below), setting) == []


def test_the_duplex_session_is_merged_as_well(profile_file: WriteProfile) -> None:
    text = "session_mode: duplex\nduplex_session: {max_sessions: 4, idle_ttl_s: 10}\n"
    assert found(profile_file, text, "duplex_session={max_sessions: 2}") == []
    assert [one[0] for one in found(profile_file, text, "duplex_session={}")] == ["OC307"]


def test_an_override_that_cannot_be_applied_hides_no_mistake_of_the_files(profile_file: WriteProfile) -> None:
    text = stage("max_num_seqs: 8\n    engine_extras: {max_num_seqs: 4}")
    profile = profile_file(HEAD + text)
    codes = [one.code for one in omnicfg.validate(profile, overrides=["stages.0.max_num_sqs=1"])]
    assert codes == ["OC020", "OC301"]


# ------------------------------------------------------------------------------------------- OC309, stages in chunks
def test_a_stage_cannot_opt_in(profile_file: WriteProfile) -> None:
    profile = profile_file(HEAD + stage("async_chunk: true"))
    (one,) = (one for one in omnicfg.validate(profile) if one.code == "OC309")
    assert (one.line, one.column, one.stage_id, one.platform) == (5, 18, 0, None)
    assert f"{profile}:2:14 turns it off" in one.message


def test_on_a_platform(profile_file: WriteProfile) -> None:
    text = "stages: [{stage_id: 0}]\nplatforms: {npu: {stages: [{stage_id: 0, async_chunk: true}]}}\n"
    assert [(one[0], *one[2:]) for one in found(profile_file, text)] == [("OC309", 4, 55, "npu", 0)]


def test_what_a_file_on_top_turns_off_for_all_stages(profile_file: WriteProfile) -> None:
    """Its author knows that a stage of the base has chunks on, and the base itself is right."""
    base = profile_file(f"pipeline: qwen3_tts\n{stage('async_chunk: true')}", "base.yaml")
    assert [one.code for one in omnicfg.validate(base)] == []
    assert omnicfg.validate(profile_file("base_config: base.yaml\nasync_chunk: false\n")) == []


# ----------------------------------------------------------------------------------------------- OC308, the topology
@pytest.mark.parametrize("place", ["file", "base", "platform", "--set"])
def test_a_sampling_parameter_that_the_topology_fixes(profile_file: WriteProfile, place: str) -> None:
    keys = "default_sampling_params: {detokenize: true, stop_token_ids: [7]}"
    if place == "base":
        base = profile_file(HEAD + stage(keys), "base.yaml")
        one = omnicfg.validate(profile_file("base_config: base.yaml\nsession_mode: turn\n"))[0]
        assert (one.code, one.path, one.line, one.column, one.platform) == ("OC308", str(base), 5, 43, None)
        return
    text = {
        "file": stage(keys),
        "platform": f"stages: [{{stage_id: 0}}]\nplatforms: {{npu: {{stages: [{{stage_id: 0, {keys}}}]}}}}\n",
    }
    settings = ["stages.0.default_sampling_params.detokenize=true"] if place == "--set" else []
    ((code, _, line, column, platform, stage_id),) = found(profile_file, text.get(place, ""), *settings)
    assert (code, stage_id) == ("OC308", 0)
    assert (line, column, platform) == {"file": (5, 43, None), "platform": (4, 80, "npu"), "--set": (1, 45, None)}[
        place
    ]


def test_what_the_topology_says_as_well_is_no_loss(profile_file: WriteProfile) -> None:
    assert found(profile_file, stage("default_sampling_params: {detokenize: false}")) == []


# ------------------------------------------------------------------------------- OC312, one for all against a stage's
@pytest.mark.parametrize(
    ("key", "own", "wide"),
    [
        ("dtype", "float32", "bfloat16"),
        ("enable_prefix_caching", "true", "false"),
        ("quantization", "awq", "fp8"),
        ("async_chunk", "false", "true"),
    ],
)
def test_a_file_on_top_does_not_reach_a_stage_of_its_base(
    profile_file: WriteProfile, key: str, own: str, wide: str
) -> None:
    base = profile_file(
        f"pipeline: qwen3_tts\n{stage(f'{key}: {own}')}  - stage_id: 1\n    {key}: {own}\n", "base.yaml"
    )
    top = profile_file(f"base_config: base.yaml\n{key}: {wide}\n")
    found = [one for one in omnicfg.validate(top) if one.code == "OC312"]
    assert [(one.path, one.line, one.column, one.stage_id, one.platform) for one in found] == [
        (str(top), 2, len(key) + 3, 0, None),
        (str(top), 2, len(key) + 3, 1, None),
    ]
    assert found[0].message == f"`{key}: {wide}` does not reach stage 0, which {base}:4:{len(key) + 7} sets to `{own}`"


def test_nor_on_the_platform_that_has_its_own(profile_file: WriteProfile) -> None:
    block = f"platforms:\n  npu:\n    {stage('dtype: float32').replace(chr(10), chr(10) + '    ')}\n"
    profile_file(HEAD + stage("max_num_seqs: 1") + block, "base.yaml")
    found = omnicfg.validate(profile_file("base_config: base.yaml\ndtype: bfloat16\n"))
    assert [(one.code, one.line, one.platform, one.stage_id) for one in found] == [("OC312", 2, "npu", 0)]


def test_an_override_of_async_chunk_reaches_no_stage_that_opted_out(profile_file: WriteProfile) -> None:
    text = stage("async_chunk: false") + "  - stage_id: 1\n    async_chunk: false\n"
    lost = found(profile_file, text, "async_chunk=true")
    assert lost == [("OC312", "--set async_chunk=true", 1, 13, None, one) for one in (0, 1)]


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("stages: [{stage_id: 0, dtype: float32}]", "dtype: float32"),
        ("stages: [{stage_id: 0, dtype: null}]", "session_mode: turn"),
        ("dtype: float32", "stages: [{stage_id: 0, dtype: bfloat16}]"),
        ("stages: [{stage_id: 0, dtype: float32}]", "dtype: bfloat16\nstages: [{stage_id: 0, dtype: float32}]"),
        ("dtype: bfloat16\nstages: [{stage_id: 0, dtype: float32}]", "session_mode: turn"),
    ],
)
def test_a_stage_that_may_differ(profile_file: WriteProfile, lower: str, upper: str) -> None:
    profile_file(f"{HEAD}{lower}\n", "base.yaml")
    assert [one.code for one in omnicfg.validate(profile_file(f"base_config: base.yaml\n{upper}\n"))] == []


# ---------------------------------------------------------------------------------- OC313, duplex limits without duplex
@pytest.mark.parametrize("place", ["file", "file that says turn", "overlay on turn", "--set"])
def test_limits_of_sessions_that_never_are(profile_file: WriteProfile, place: str) -> None:
    block, overlays, overrides = "duplex_session: {max_sessions: 2}\n", [], []
    text = HEAD
    if place == "overlay on turn":
        text, overlays = f"{HEAD}session_mode: turn\n", [profile_file(block, "overlay.yaml")]
    elif place == "--set":
        overrides = ["duplex_session.max_sessions=2"]
    else:
        text += block + ("session_mode: turn\n" if "turn" in place else "")
    (one,) = omnicfg.validate(profile_file(text), overlays=overlays, overrides=overrides)
    places = {"file": (3, 32), "file that says turn": (3, 32), "overlay on turn": (1, 32), "--set": (1, 29)}
    assert (one.code, (one.line, one.column), one.platform) == ("OC313", places[place], None)


def test_a_file_that_turns_a_duplex_base_into_turns(profile_file: WriteProfile) -> None:
    profile_file(HEAD + "session_mode: duplex\nduplex_session: {max_sessions: 2}\n", "base.yaml")
    assert omnicfg.validate(profile_file("base_config: base.yaml\nsession_mode: turn\n")) == []
