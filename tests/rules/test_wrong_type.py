"""OC102 and OC103: values of the wrong kind, and those that only lost their kind by quotes."""

from __future__ import annotations

import pytest

import omnicfg
from omnicfg.diagnostics import Severity
from tests.conftest import WriteProfile
from tests.rules.checked import findings, told

HEAD = "pipeline: qwen3_tts\nasync_chunk: false\n"

WRONG = {
    # text below the head: (line, column, message, help)
    "stages:\n  - {stage_id: 0, devices: 0}\n": (
        4, 28, "`devices` in stage 0 is the int `0`; it has to be text", 'Write `devices: "0"`.',
    ),
    "stages:\n  - {stage_id: 0, runtime: {devices: [0, 1]}}\n": (
        4, 38, "`devices` in `runtime` of stage 0 is a list; it has to be text", 'Write `devices: "0,1"`.',
    ),
    "stages:\n  - {stage_id: 0, gpu_memory_utilization: 30%}\n": (
        4, 43, "`gpu_memory_utilization` in stage 0 is the text `30%`; it has to be a number",
        "Write `gpu_memory_utilization: 0.3`.",
    ),
    "stages:\n  - {stage_id: 0, max_model_len: 4k}\n": (
        4, 34, "`max_model_len` in stage 0 is the text `4k`; it has to be a whole number",
        "Write `max_model_len: 4000`.",
    ),
    "trust_remote_code: 0\n": (
        3, 20, "`trust_remote_code` in the profile is the int `0`; it has to be true or false",
        "Write `trust_remote_code: false`.",
    ),
    "stages:\n  - {stage_id: 0, num_replicas: 2.0}\n": (
        4, 33, "`num_replicas` in stage 0 is the float `2.0`; it has to be a whole number", "Write `num_replicas: 2`.",
    ),
    "stages:\n  - {stage_id: 0, env: A=1}\n": (
        4, 24, "`env` in stage 0 is the text `A=1`; it has to be a mapping", None,
    ),
    "stages:\n  - {stage_id: 0, default_sampling_params: {temperature: hot}}\n": (
        4, 58, "`temperature` in `default_sampling_params` of stage 0 is the text `hot`; it has to be a number", None,
    ),
    "stages:\n  - {stage_id: 0, compilation_config: {cudagraph_capture_sizes: 8}}\n": (
        4, 65, "`cudagraph_capture_sizes` in `compilation_config` of stage 0 is the int `8`; it has to be a list", None,
    ),
    "trust_remote_code: maybe\n": (
        3, 20, "`trust_remote_code` in the profile is the text `maybe`; it has to be true or false", None,
    ),
    "active_stream_window: 1.5\n": (
        3, 23, "`active_stream_window` in the profile is the float `1.5`; it has to be a whole number", None,
    ),
    "edges: {from: 0}\n": (3, 8, "`edges` in the profile is a mapping; it has to be a list", None),
    "connectors: [shm]\n": (3, 13, "`connectors` in the profile is a list; it has to be a mapping", None),
    "duplex_session:\n  max_sessions: true\n": (
        4, 17, "`max_sessions` in `duplex_session` is the bool `true`; it has to be a whole number", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), WRONG.items())
def test_a_value_of_the_wrong_kind(
    profile_file: WriteProfile, text: str, expected: tuple[int, int, str, str | None]
) -> None:
    found = findings(profile_file(HEAD + text), "OC102")
    assert [(one.line, one.column, one.message, one.help) for one in found] == [expected]


# What neither the deploy schema nor vLLM declares is of the kinds that the typed config takes, by the kind of stage.
TYPED = {
    ("dreamzero", "pin_cpu_memory: 1.5"): "is the float `1.5`; it has to be true or false",
    ("dreamzero", "host: {}"): "is a mapping; it has to be text",
    ("dreamzero", "nccl_port: p"): "is the text `p`; it has to be a whole number",
    ("dreamzero", "model_paths: [a]"): "is a list; it has to be a mapping",
    ("dreamzero", "stage_input_payload_keys: k"): "is the text `k`; it has to be a list",
    ("dreamzero", "VSA_sparsity: []"): "is a list; it has to be a number",
    ("dreamzero", "diffusion_kv_cache_skip_steps: 2"): "is the int `2`; it has to be text or a list",
    ("qwen3_tts", "omni_kv_config: auto"): "is the text `auto`; it has to be a mapping",
    ("qwen3_tts", "codec_frame_rate_hz: true"): "is the bool `true`; it has to be a number",
    ("qwen3_tts", "disable_autocast: fp8"): "is the text `fp8`; it has to be true or false",
}


@pytest.mark.parametrize(("setting", "expected"), TYPED.items())
def test_a_value_that_the_typed_config_refuses(
    profile_file: WriteProfile, setting: tuple[str, str], expected: str
) -> None:
    pipeline, text = setting
    profile = profile_file(f"pipeline: {pipeline}\nasync_chunk: false\nstages:\n  - stage_id: 0\n    {text}\n")
    (found,) = findings(profile, "OC102")
    name = text.partition(":")[0]
    assert (found.line, found.column) == (5, 7 + len(name))
    assert found.message == f"`{name}` in stage 0 {expected}"


@pytest.mark.parametrize(
    "text",
    [
        "quantization_config: fp8",  # a mapping to vLLM, and a word as well to a diffusion stage
        "quantization_config: {method: fp8}",
        "quantization: {method: fp8}",  # which becomes the other
        "diffusion_quantization_config: {method: fp8}",
        "diffusion_kv_cache_skip_layers: [0, 1]",
        "diffusion_kv_cache_skip_layers: 0-3",
        "VSA_sparsity: 1",
        "pin_cpu_memory: null",
    ],
)
def test_what_a_diffusion_stage_takes_beyond_the_declarations(profile_file: WriteProfile, text: str) -> None:
    profile = profile_file(f"pipeline: dreamzero\nasync_chunk: false\nstages:\n  - stage_id: 0\n    {text}\n")
    assert findings(profile, "OC102") == []


QUANTIZED = (
    "quantization: {method: fp8}\n",
    "stages:\n  - {stage_id: 0, quantization: {method: fp8}}\n",
    "stages:\n  - {stage_id: 0, quantization_config: fp8}\n",
)


@pytest.mark.parametrize("text", QUANTIZED)
def test_vllm_omni_sorts_words_and_mappings_about_quantization_itself(profile_file: WriteProfile, text: str) -> None:
    """Of either key a word ends as vLLM's `quantization`, a mapping as its `quantization_config`."""
    path = profile_file(HEAD + text)
    assert findings(path, "OC102") == []
    (found,) = (one for one in omnicfg.validate(path, engine="bundled", platform="cuda") if one.code == "OC102")
    assert "it has to be " in found.message


def test_a_word_that_is_none_of_an_args_choices(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "stages:\n  - {stage_id: 0, kv_cache_dtype: fp8_e4m}\n"), "OC102")
    assert (found.line, found.column, found.help) == (4, 35, "Did you mean `fp8_e4m3`?")
    assert "it has to be one of auto, float16, bfloat16, fp8, fp8_e4m3, " in found.message


@pytest.mark.parametrize(
    "text",
    [
        "stages: [{stage_id: 0, devices: null, default_sampling_params: null}]\n",
        "stages: [{stage_id: 0, gpu_memory_utilization: 1}]\n",
        "connectors: null\nplatforms: null\n",
        "dtype: null\n",
    ],
)
def test_null_unsets_and_a_whole_number_is_a_number(profile_file: WriteProfile, text: str) -> None:
    assert told(profile_file(HEAD + text), "OC102") == []


def test_null_where_nothing_can_be_fallen_back_on(profile_file: WriteProfile) -> None:
    assert told(profile_file("pipeline: qwen3_tts\nasync_chunk: null\n"), "OC102") == [
        (2, 14, "`async_chunk` in the profile is null; it has to be true or false")
    ]


def test_a_huge_value_is_not_repeated(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + f"stages: [{{stage_id: 0, env: {'x' * 5000}}}]\n"), "OC102")
    assert len(found.message) < 200


QUOTED = {
    # text: (line, column, message, help)
    'pipeline: qwen3_tts\nasync_chunk: "false"\n': (
        2, 14, "`async_chunk` in the profile is the text `false`, not true or false and counts as true",
        "Write `async_chunk: false` without quotes.",
    ),
    HEAD + "stages:\n  - {stage_id: 0, async_scheduling: 'off'}\n": (
        4, 37, "`async_scheduling` in stage 0 is the text `off`, not true or false and counts as true",
        "Write `async_scheduling: false` without quotes.",
    ),
    HEAD + "stages:\n  - {stage_id: 0, max_num_seqs: '8'}\n": (
        4, 33, "`max_num_seqs` in stage 0 is the text `8`, not a whole number",
        "Write `max_num_seqs: 8` without quotes.",
    ),
    HEAD + "platforms:\n  npu:\n    stages:\n      - {stage_id: 0, gpu_memory_utilization: '0.5'}\n": (
        6, 47, "`gpu_memory_utilization` in stage 0 is the text `0.5`, not a number",
        "Write `gpu_memory_utilization: 0.5` without quotes.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), QUOTED.items())
def test_quotes_that_make_a_value_text(
    profile_file: WriteProfile, text: str, expected: tuple[int, int, str, str]
) -> None:
    profile = profile_file(text)
    found = findings(profile, "OC103")
    assert [(one.line, one.column, one.message, one.help) for one in found] == [expected]
    assert told(profile, "OC102") == []


def test_quotes_around_text_are_in_order(profile_file: WriteProfile) -> None:
    text = HEAD + "session_mode: 'turn'\nstages: [{stage_id: 0, devices: '0', env: {OMP_NUM_THREADS: '8'}}]\n"
    assert told(profile_file(text), "OC103") == []


def test_in_a_base_an_overlay_and_a_setting(profile_file: WriteProfile) -> None:
    base = profile_file("pipeline: qwen3_tts\nasync_chunk: 'no'\n", "base.yaml")
    top = profile_file("base_config: base.yaml\nasync_chunk: false\n", "top.yaml")
    overlay = profile_file("stages: [{stage_id: 0, max_num_seqs: '4'}]\n", "overlay.yaml")
    found = findings(top, "OC103", overlays=[overlay], overrides=["trust_remote_code='yes'"])
    assert sorted((one.path, one.line, one.column) for one in found) == [
        ("--set trust_remote_code='yes'", 1, 19),
        (str(base), 2, 14),
        (str(overlay), 1, 38),
    ]


def test_text_that_a_shell_takes_the_quotes_from(profile_file: WriteProfile) -> None:
    profile = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n")
    (told_on_the_command_line,) = findings(profile, "OC102", overrides=["stages.0.devices=0"])
    assert told_on_the_command_line.help == "Write the value as `'\"0\"'`; the shell takes the outer quotes away."
    (told_by_the_api,) = findings(profile, "OC102", overrides={"stages.0.devices": 0})
    assert told_by_the_api.help == 'Write `devices: "0"`.'


@pytest.mark.parametrize(
    ("setting", "wrong"),
    [
        ("compilation_config: {cudagraph_mode: PIECEWISEE}", "`cudagraph_mode` in `compilation_config` of stage 0"),
        ("attention_backend: FLASHATTN", "`attention_backend` in stage 0"),
    ],
)
def test_a_choice_that_may_be_spelt_in_several_ways(profile_file: WriteProfile, setting: str, wrong: str) -> None:
    (found,) = findings(profile_file(HEAD + f"stages:\n  - stage_id: 0\n    {setting}\n"), "OC102")
    assert found.message.startswith(f"{wrong} is the text")
    assert found.help is not None
    assert found.help.startswith("Did you mean")


@pytest.mark.parametrize("mode", ["piecewise", "PIECEWISE", "Full_And_Piecewise", 1])
def test_any_spelling_of_a_choice_is_taken(profile_file: WriteProfile, mode: object) -> None:
    text = HEAD + f"stages:\n  - {{stage_id: 0, compilation_config: {{cudagraph_mode: {mode}}}}}\n"
    assert told(profile_file(text), "OC102") == []


@pytest.mark.parametrize(
    ("setting", "message", "help_text"),
    [
        ("devices: 010", "`devices` in stage 0 is the int `8` (which is how `010` is read); it has to be text", "010"),
        (
            "tokenizer_mode: off",
            "`tokenizer_mode` in stage 0 is the bool `false` (which is how `off` is read); it has to be text",
            "off",
        ),
    ],
)
def test_what_is_read_otherwise_than_it_looks(
    profile_file: WriteProfile, setting: str, message: str, help_text: str
) -> None:
    (found,) = findings(profile_file(HEAD + f"stages:\n  - stage_id: 0\n    {setting}\n"), "OC102")
    key = setting.partition(":")[0]
    assert (found.message, found.help) == (message, f'Write `{key}: "{help_text}"`.')


def test_a_number_that_starts_with_a_zero_may_be_text(profile_file: WriteProfile) -> None:
    (found,) = findings(profile_file(HEAD + "stages: [{stage_id: 0, max_num_seqs: 08}]\n"), "OC102")
    assert found.message == "`max_num_seqs` in stage 0 is the text `08`; it has to be a whole number"


def test_the_few_words_that_a_diffusion_stage_takes(profile_file: WriteProfile) -> None:
    text = (
        "pipeline: dreamzero\nstages:\n  - {stage_id: 0, vae_parallel_mode: tiled, diffusion_kv_mode: dense_legacy}\n"
    )
    (found,) = findings(profile_file(text), "OC102")
    assert (found.line, found.column, found.help) == (3, 38, "Did you mean `tile`?")
    assert found.message == (
        "`vae_parallel_mode` in stage 0 is the text `tiled`; "
        "it has to be one of tile, spatial_shard_height, spatial_shard_width"
    )


@pytest.mark.parametrize(
    ("value", "kind", "quoted"),
    [
        ("true", "the bool `true`", "true"),
        ("yes", "the bool `true` (which is how `yes` is read)", "yes"),
        ("[a]", "a list", None),
        ("{a: 1}", "a mapping", None),
    ],
)
def test_an_environment_holds_text(profile_file: WriteProfile, value: str, kind: str, quoted: str | None) -> None:
    for text in (f"env: {{A: {value} }}", f"runtime: {{env: {{A: {value} }}}}"):
        (found,) = omnicfg.validate(profile_file(HEAD + f"stages:\n  - stage_id: 0\n    {text}\n"))
        assert (found.code, found.line) == ("OC102", 5)
        assert found.message == f"`A` in `env` of stage 0 is {kind}; it has to be a number or text"
        assert found.help == (None if quoted is None else f'Write `A: "{quoted}"`.')


def test_numbers_and_nothing_of_an_environment_are_taken(profile_file: WriteProfile) -> None:
    text = HEAD + "stages: [{stage_id: 0, env: {A: '1', B: 23000, C: 0.5, D: null}}]\n"
    assert told(profile_file(text), "OC102") == []


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: qwen3_tts\ndtype: bf16\n",
        "pipeline: qwen3_tts\nstages: [{stage_id: 0, dtype: FP16}]\n",
        "pipeline: glm_image\nstages: [{stage_id: 0, dtype: bf16}]\n",
    ],
)
def test_a_word_that_vllm_does_not_take_where_upstream_says_any_text(profile_file: WriteProfile, text: str) -> None:
    (found,) = findings(profile_file(text), "OC102")
    assert "it has to be one of auto, half, float16, bfloat16, float, float32" in found.message


@pytest.mark.parametrize(
    "text",
    [
        "pipeline: qwen3_tts\ndtype: half\nstages: [{stage_id: 0, dtype: null}]\n",
        "pipeline: glm_image\ndtype: bf16\n",
        "pipeline: glm_image\nstages: [{stage_id: 1, dtype: bf16}]\n",
    ],
)
def test_a_diffusion_stage_has_words_of_its_own(profile_file: WriteProfile, text: str) -> None:
    assert findings(profile_file(text), "OC102") == []


@pytest.mark.parametrize(
    ("setting", "meant"),
    [
        ("load_format: safetensor", "safetensors"),
        ("quantization: compressed_tensors", "compressed-tensors"),
        ("distributed_executor_backend: external-launcher", "external_launcher"),
    ],
)
def test_a_word_that_is_nearly_one_of_vllms_is_a_warning(profile_file: WriteProfile, setting: str, meant: str) -> None:
    profile = profile_file(f"{HEAD}stages:\n  - stage_id: 0\n    {setting}\n")
    (found,) = findings(profile, "OC102")
    assert (found.line, found.severity, found.help) == (5, Severity.WARNING, f"Did you mean `{meant}`?")
    assert found.message.endswith("which vLLM 0.31.0 does not bring")


@pytest.mark.parametrize(
    "setting", ["load_format: dummy", "quantization: fp8", "model_impl: null", "distributed_executor_backend: our.Own"]
)
def test_words_of_vllms_own_and_classes_of_ones_own(profile_file: WriteProfile, setting: str) -> None:
    assert findings(profile_file(f"{HEAD}stages:\n  - stage_id: 0\n    {setting}\n"), "OC102") == []


@pytest.mark.parametrize("setting", ["load_format: ours", "quantization: bitsandbytes", "config_format: gguf"])
def test_a_word_that_only_a_plugin_can_bring_is_a_note(profile_file: WriteProfile, setting: str) -> None:
    (found,) = findings(profile_file(f"{HEAD}stages:\n  - stage_id: 0\n    {setting}\n"), "OC102")
    assert (found.line, found.severity, found.fix) == (5, Severity.NOTE, None)
    assert found.help is not None
    assert found.help.startswith("Without a plugin it has to be one of ")


DIFFUSION = "pipeline: glm_image\nasync_chunk: false\nstages:\n  - stage_id: 1\n    "


@pytest.mark.parametrize(
    ("setting", "severity", "column"),
    [
        ("quantization: compressed_tensors", Severity.NOTE, 19),  # vLLM's name has a dash, and is never found
        ("quantization: bitsnbytes", Severity.WARNING, 19),
        ("quantization_config: abc", Severity.NOTE, 26),
        ("diffusion_quantization_config: {method: in8t, bits: 8}", Severity.WARNING, 45),
        ("quantization_config: {quant_method: gguf}", Severity.NOTE, 41),
    ],
)
def test_a_quantization_that_no_diffusion_stage_has(
    profile_file: WriteProfile, setting: str, severity: Severity, column: int
) -> None:
    (found,) = findings(profile_file(DIFFUSION + setting + "\n"), "OC102")
    assert (found.line, found.column, found.severity) == (5, column, severity)
    assert found.message.endswith("which vLLM-Omni 0.30.0 does not bring")


@pytest.mark.parametrize(
    "setting",
    [
        "quantization: int8",
        "quantization: {method: Auto-Round, weight_bits: 4, group_size: 128}",
        "quantization_config: none",
        "quantization_config: {method: fp8, activation_scheme: static}",
        "diffusion_quantization_config: {transformer: {method: fp8}, vae: null}",
    ],
)
def test_the_quantizations_of_a_diffusion_stage(profile_file: WriteProfile, setting: str) -> None:
    assert findings(profile_file(DIFFUSION + setting + "\n"), "OC102") == []


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("pipeline: glm_image\nquantization: abc\n", Severity.NOTE),
        ("pipeline: dreamzero\nquantization: abc\n", Severity.NOTE),
        ("pipeline: dreamzero\nquantization: awq\n", Severity.ERROR),
        ("pipeline: glm_image\nquantization: awq\n", None),  # for the text stage; the other one may say `null`
        ("pipeline: glm_image\nquantization: int8\n", None),
        ("quantization: awq\n", None),
    ],
)
def test_a_quantization_of_the_whole_profile(profile_file: WriteProfile, text: str, severity: Severity | None) -> None:
    found = findings(profile_file(text), "OC102")
    assert [(one.line, one.severity) for one in found] == ([] if severity is None else [(2, severity)])


@pytest.mark.parametrize("name", ["awq", "INC", "Auto-Round"])
def test_a_quantization_that_a_diffusion_stage_cannot_build_from_its_name(
    profile_file: WriteProfile, name: str
) -> None:
    (found,) = findings(profile_file(DIFFUSION + f"quantization: {name}\n"), "OC102")
    assert (found.line, found.column, found.severity) == (5, 19, Severity.ERROR)
    assert found.help == f"Write `quantization: {{method: {name}, ...}}` with what the method needs."


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "stage_input_payload_keys: [a, 1]",
            "item 2 of `stage_input_payload_keys` in stage 1 is the int `1`; it has to",
        ),
        ("model_paths: {vae: 1}", "`vae` of `model_paths` in stage 1 is the int `1`; it has to be text"),
        (
            "diffusion_kv_cache_skip_layer_indices: [a]",
            "item 1 of `diffusion_kv_cache_skip_layer_indices` in stage 1 is the text `a`; it has to be a whole number",
        ),
    ],
)
def test_what_a_diffusion_stage_declares_that_a_list_or_mapping_holds(
    profile_file: WriteProfile, setting: str, message: str
) -> None:
    (found,) = findings(profile_file(DIFFUSION + setting + "\n"), "OC102")
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("setting", "column", "message", "help"),
    [
        (
            "default_sampling_params: {stop_token_ids: [1, '2', a]}",
            51,
            "item 2 of `stop_token_ids` in `default_sampling_params` of stage 0 is the text `2`, and 1 more",
            "Write `2` without quotes.",
        ),
        (
            "compilation_config: {cudagraph_capture_sizes: [1, big]}",
            55,
            "item 2 of `cudagraph_capture_sizes` in `compilation_config` of stage 0 is the text `big`",
            None,
        ),
        (
            "limit_mm_per_prompt: {image: many}",
            34,
            "`image` of `limit_mm_per_prompt` in stage 0 is the text `many`",
            None,
        ),
    ],
)
def test_what_a_list_or_mapping_holds(
    profile_file: WriteProfile, setting: str, column: int, message: str, help: str | None
) -> None:
    (found,) = findings(profile_file(f"{HEAD}stages:\n  - stage_id: 0\n    {setting}\n"), "OC102")
    assert (found.line, found.column, found.help) == (5, column, help)
    assert found.message.startswith(f"{message}; it has to be a whole number")


@pytest.mark.parametrize(
    ("variable", "column", "message"),
    [
        ("'': a", 11, "`` in `env` of stage 0 is no name that a variable can have"),
        ("A=B: a", 11, "`A=B` in `env` of stage 0 is no name that a variable can have"),
        ('"A\\0": a', 11, "`A\0` in `env` of stage 0 is no name that a variable can have"),
        (
            'A: "x\\0y"',
            14,
            "`A` in `env` of stage 0 holds a null character, which ends the value of a variable",
        ),
    ],
)
def test_what_no_process_can_have_in_its_environment(
    profile_file: WriteProfile, variable: str, column: int, message: str
) -> None:
    text = f"pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: 0\n    env: {{{variable}}}\n"
    assert told(profile_file(text), "OC102") == [(5, column, message)]


def test_a_stage_of_true_is_told_as_it_was_written(profile_file: WriteProfile) -> None:
    text = "pipeline: qwen3_tts\nasync_chunk: false\nstages:\n  - stage_id: true\n"
    message = "`stage_id` in stage true is the bool `true`; it has to be a whole number"
    assert told(profile_file(text), "OC102") == [(4, 15, message)]


UNREADABLE = {
    # a setting of a text or diffusion stage → what of it cannot be read, and what it has to be
    "numa_bind_cpus: ['0-3', 0..3]": "holds '0..3'; it has to be the CPUs of each process as numactl lists them",
    "numa_bind_cpus: ['7-4']": "holds '7-4'; it has to be the CPUs",
    "numa_bind_cpus: ['']": "holds ''; it has to be the CPUs",
    "numa_bind_cpus: []": "is empty; it has to be the CPUs",
    "numa_bind_nodes: [0, -1]": "holds -1; it has to be the number of a NUMA node for each process, from 0",
    "numa_bind_nodes: []": "is empty; it has to be the number of a NUMA node",
    "compilation_config: {custom_ops: [none, rms_norm]}": "holds 'rms_norm'; it has to be `all`, `none`, `+NAME` or",
    "compilation_config: {custom_ops: [all, '+a', none]}": "holds 'none'; it has to be left out beside `all`",
    "compilation_config: {custom_ops: ['+a', '-a']}": "holds '-a'; it has to be left out beside `+a`",
    "diffusion_kv_cache_skip_steps: '0-9,x'": "holds 'x'; it has to be numbers from 0 and spans of them",
    "diffusion_kv_cache_skip_steps: 9-0": "holds '9-0'; it has to be numbers from 0",
    "diffusion_kv_cache_skip_layers: '-3'": "holds '-3'; it has to be numbers from 0",
    "diffusion_kv_cache_skip_layers: [1, -3]": "holds -3; it has to be numbers from 0",
    "diffusion_kv_cache_skip_layers: [1, 2-3]": "holds '2-3'; it has to be numbers from 0",
    "kv_cache_skip_steps: first": "holds 'first'; it has to be numbers from 0",
    "kv_cache_skip_layers: [1, a]": "holds 'a'; it has to be numbers from 0",
}


def _of_either_kind(setting: str) -> str:
    pipeline = "dreamzero" if "kv_cache_skip" in setting else "qwen3_tts"
    return f"pipeline: {pipeline}\nasync_chunk: false\nstages:\n  - {{stage_id: 0, {setting}}}\n"


@pytest.mark.parametrize(("setting", "message"), UNREADABLE.items())
def test_what_cannot_be_read_of_a_value_of_the_right_kind(
    profile_file: WriteProfile, setting: str, message: str
) -> None:
    (found,) = findings(profile_file(_of_either_kind(setting)), "OC102")
    name = setting.removeprefix("compilation_config: {").partition(":")[0]
    assert found.message.startswith(f"`{name}` in ")
    assert f" stage 0 {message}" in found.message
    part = message.partition("; ")[0].removeprefix("holds ")
    assert part == "is empty" or found.column > 19 + setting.index(name) + len(name)


@pytest.mark.parametrize(
    "setting",
    [
        "numa_bind: true, numa_bind_cpus: ['0-3', '0,2,4-7', '5-5', '9']",
        "numa_bind: true, numa_bind_nodes: [0, 1, 1]",
        "compilation_config: {custom_ops: [none, '+rms_norm', '-silu_and_mul']}",
        "compilation_config: {custom_ops: []}",
        "diffusion_kv_cache_skip_steps: ' 0-9, 20,25-30,'",
        "diffusion_kv_cache_skip_steps: ''",
        "diffusion_kv_cache_skip_layers: [0, 3, 3]",
        "env: {numa_bind_cpus: x}",
    ],
)
def test_notations_that_can_be_read(profile_file: WriteProfile, setting: str) -> None:
    assert findings(profile_file(_of_either_kind(setting)), "OC102") == []
