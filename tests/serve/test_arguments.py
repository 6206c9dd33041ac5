"""A plan's stage as arguments of vLLM's server: every value once, in a form that its parser reads back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import omnicfg
from omnicfg.catalog.vllm_args import engine_args
from omnicfg.serve.arguments import argument, stage_arguments


def stage(sampling: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    return {"engine_args": args, "extras": {"default_sampling_params": sampling} if sampling else {}}


KNOWN: dict[str, dict[str, Any]] = {
    "max_num_seqs": {"flags": ["--max-num-seqs"]},
    "enforce_eager": {"flags": ["--enforce-eager", "--no-enforce-eager"]},
    "scheduler_cls": {"flags": ["--scheduler-cls"]},
    "compilation_config": {"flags": ["-cc", "--compilation-config"]},
    "model_weights": {"flags": []},
}


@pytest.mark.parametrize(
    ("flags", "value", "words"),
    [
        (["--x"], 8, ["--x", "8"]),
        (["--x"], 0.9, ["--x", "0.9"]),
        (["--x"], "auto", ["--x", "auto"]),
        (["--x"], "", ["--x", ""]),
        (["-x", "--x"], 1, ["--x", "1"]),
        (["--x", "--no-x"], True, ["--x"]),
        (["--x", "--no-x"], False, ["--no-x"]),
        (["--x"], True, ["--x"]),
        (["--x"], False, []),
        (["--x"], {"mode": 3, "ops": ["+a"]}, ["--x", '{"mode": 3, "ops": ["+a"]}']),
        (["--x"], ["a", "b"], ["--x", "a", "b"]),
        (["--x"], [1, {"b": None}], ["--x", "1", '{"b": null}']),
        (["--x"], -1, ["--x=-1"]),
        (["--x"], "--y", ["--x=--y"]),
    ],
)
def test_one_value(flags: list[str], value: Any, words: list[str]) -> None:
    assert argument(flags, value) == words


def test_a_list_that_vllm_splits_at_commas_is_one_word() -> None:
    known = engine_args("0.32.0")
    assert stage_arguments(stage(device_ids=[2, "GPU-5f"]), known, "0.32.0").arguments == ("--device-ids", "2,GPU-5f")


def test_arguments_keep_the_plans_order_and_sampling_defaults_come_last() -> None:
    compiled = stage_arguments(stage({"temperature": 0.0}, enforce_eager=True, max_num_seqs=8), KNOWN, "1.0")
    assert compiled.arguments == (
        "--enforce-eager",
        "--max-num-seqs",
        "8",
        "--override-generation-config",
        '{"temperature": 0.0}',
    )


def test_what_vllm_does_not_know_is_left_out_and_listed() -> None:
    compiled = stage_arguments(stage(max_num_seqs=8, async_chunk=True, model_weights="x"), KNOWN, "1.0")
    assert compiled.arguments == ("--max-num-seqs", "8")
    assert [(left.name, left.value, left.reason) for left in compiled.left_out] == [
        ("async_chunk", True, "no engine arg of vLLM 1.0"),
        ("model_weights", "x", "vLLM 1.0 has no argument for it"),
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null: vLLM's own default applies"),
        ([], "an empty list, which no argument can say: vLLM's own default applies"),
        ("vllm_omni.core.X", "names a class of vLLM-Omni"),
    ],
)
def test_a_value_that_is_not_for_vllm_is_left_out(value: Any, reason: str) -> None:
    compiled = stage_arguments(stage(scheduler_cls=value), KNOWN, "1.0")
    assert compiled.arguments == ()
    assert [left.reason for left in compiled.left_out] == [reason]


def test_a_default_of_max_tokens_is_no_argument_since_vllm_would_make_a_limit_of_it() -> None:
    compiled = stage_arguments(stage({"max_tokens": 64, "top_k": -1, "seed": None}), KNOWN, "1.0")
    assert compiled.arguments == ("--override-generation-config", '{"top_k": -1}')
    assert [left.name for left in compiled.left_out] == [
        "default_sampling_params.max_tokens",
        "default_sampling_params.seed",
    ]


@pytest.mark.parametrize("platform", ["cuda", "npu"])
def test_every_engine_arg_of_a_real_profile_is_passed_or_listed(platform: str) -> None:
    first = omnicfg.resolve("minicpmo_4_5_turn", platform=platform).to_dict()["stages"][0]
    known = engine_args("0.32.0")
    compiled = stage_arguments(first, known, "0.32.0")
    listed = {left.name for left in compiled.left_out}
    for name in first["engine_args"]:
        passed = name in known and any(word.partition("=")[0] in known[name]["flags"] for word in compiled.arguments)
        assert passed or name in listed, name
    assert json.loads(compiled.arguments[compiled.arguments.index("--override-generation-config") + 1])


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["tiny_omni", "qwen3_omni_moe", "minicpmo_4_5_turn"])
def test_vllms_own_parser_reads_back_the_plans_values(profile: str) -> None:
    pytest.importorskip("vllm", reason="comes with the extra cpu or cuda")
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = AsyncEngineArgs.add_cli_args(FlexibleArgumentParser())
    known = engine_args("0.32.0")
    for planned in omnicfg.resolve(profile).to_dict()["stages"]:
        compiled = stage_arguments(planned, known, "0.32.0")
        read = parser.parse_args(list(compiled.arguments))
        listed = {left.name for left in compiled.left_out}
        for name, value in planned["engine_args"].items():
            if name in known and name not in listed and not isinstance(value, dict):
                assert getattr(read, name) == value, name
