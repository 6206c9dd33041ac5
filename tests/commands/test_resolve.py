"""``omnicfg resolve``."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.catalog.upstream import deploy_schema
from omnicfg.passes.read import read_text
from omnicfg.tree import Layer, LayerKind, plain
from tests.commands.conftest import Run
from tests.conftest import WriteProfile


def read(text: str) -> Any:
    return plain(read_text(text, Layer(LayerKind.PROFILE), "output"))


def origin_leaves(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict) and set(data) == {"value", "origin", "beaten"}:
        yield data
    elif isinstance(data, dict | list):
        for child in data.values() if isinstance(data, dict) else data:
            yield from origin_leaves(child)
    else:
        raise AssertionError(f"a leaf without an origin: {data!r}")


def test_json_is_the_plan(run: Run) -> None:
    result = run("resolve", "minicpmo_4_5_turn", "--platform", "npu", "--format", "json")
    assert (result.code, result.err) == (0, "")
    assert result.data == omnicfg.resolve("minicpmo_4_5_turn", platform="npu").to_dict()


def test_yaml_is_the_plan(run: Run) -> None:
    result = run("resolve", "qwen3_omni_moe", "--format", "yaml")
    assert read(result.out) == omnicfg.resolve("qwen3_omni_moe").to_dict()


def test_all_platforms_in_one_call(run: Run) -> None:
    result = run("resolve", "qwen3_tts", "--platform", "all", "--format", "json")
    assert list(result.data) == list(deploy_schema().platforms)
    documents = run("resolve", "qwen3_tts", "--platform", "all", "--format", "yaml").out.split("---\n")
    assert [read(document)["platform"] for document in documents] == list(result.data)


def test_a_platform_that_refuses_is_told_and_the_others_are_shown(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\nmodel_runner: v2\n")
    result = run("resolve", path, "--platform", "all", "--format", "json")
    assert result.code == 1
    assert list(result.data) == ["cuda", "rocm", "musa"]
    assert result.err.count("error[OC015]") == 2
    assert run("resolve", path, "--platform", "npu").code == 2


@pytest.mark.parametrize("profile", library())
def test_every_leaf_has_an_origin(run: Run, profile: str) -> None:
    result = run("resolve", profile, "--platform", "all", "--explain", "--format", "json")
    found = list(origin_leaves(result.data))
    assert found
    for leaf in found:
        origin = leaf["origin"]
        assert origin["layer"]
        assert origin["file"]
        if origin["layer"].startswith(("profile", "base", "overlay", "platform")):
            assert origin["line"] > 0
            assert origin["column"] > 0


def test_the_origins_cover_the_plan(run: Run) -> None:
    def values(data: Any) -> Any:
        if isinstance(data, dict) and set(data) == {"value", "origin", "beaten"}:
            return data["value"]
        if isinstance(data, dict):
            return {key: values(child) for key, child in data.items()}
        return [values(child) for child in data]

    result = run("resolve", "minicpmo_4_5_turn", "--explain", "--format", "json")
    assert values(result.data) == omnicfg.resolve("minicpmo_4_5_turn").to_dict()
    same = run("resolve", "minicpmo_4_5_turn", "--explain", "--format", "yaml")
    assert read(same.out) == result.data


def test_an_explained_leaf_names_the_layer_the_place_and_what_it_beat(run: Run) -> None:
    result = run("resolve", "minicpmo_4_5_turn", "--explain", "--format", "json")
    leaf = result.data["stages"][0]["engine_args"]["enable_prefix_caching"]
    assert leaf["value"] is True
    assert leaf["origin"]["layer"] == "platform cuda"
    assert leaf["origin"]["file"] == "minicpmo_4_5_turn.yaml"
    assert [(lost["value"], lost["origin"]["layer"]) for lost in leaf["beaten"]] == [(False, "base minicpmo_4_5.yaml")]


def test_the_table_goes_stage_by_stage(run: Run) -> None:
    lines = run("resolve", "minicpmo_4_5_turn", "--platform", "npu").out.splitlines()
    assert lines[0] == "minicpmo_4_5_turn.yaml on npu, pipeline minicpmo_4_5"
    assert [line for line in lines if line.startswith("stage")] == [
        "stage 0: llm (llm, ar)",
        "stage 1: tts (llm, ar)",
        "stage 2: code2wav (llm, generation)",
    ]
    assert any(line.split() == ["enable_prefix_caching", "false"] for line in lines)
    assert not any("\x1b" in line or line != line.rstrip() for line in lines)


def test_the_explained_table_shows_places(run: Run) -> None:
    out = run("resolve", "minicpmo_4_5_turn", "--explain").out
    words = next(line.split() for line in out.splitlines() if "enable_prefix_caching   " in line and "true" in line)
    assert words[1:4] == ["true", "platform", "cuda"]
    assert words[4].startswith("minicpmo_4_5_turn.yaml:")


def test_the_table_says_what_a_prefix_cache_costs(run: Run) -> None:
    assert "stage 0's prefix cache was measured to take 9.9 to 10.9 GiB" in run("resolve", "qwen3_omni_moe").out
    assert "prefix cache was measured" not in run("resolve", "minicpmo_4_5_turn", "--platform", "npu").out


def test_overlays_and_settings_go_on_top_in_that_order(run: Run, profile_file: WriteProfile) -> None:
    first = profile_file("stages:\n  - {stage_id: 0, max_num_seqs: 2, seed: 7}\n", "first.yaml")
    second = profile_file("stages:\n  - {stage_id: 0, max_num_seqs: 3}\n", "second.yaml")
    words = ["resolve", "qwen3_tts", "--format", "json", "--overlay", first, "--overlay", second]
    args = run(*words).data["stages"][0]["engine_args"]
    assert (args["max_num_seqs"], args["seed"]) == (3, 7)
    args = run(*words, "--set", "stages.0.max_num_seqs=4").data["stages"][0]["engine_args"]
    assert (args["max_num_seqs"], args["seed"]) == (4, 7)


def test_effective_fills_in_vllms_defaults(run: Run, profile_file: WriteProfile) -> None:
    path = profile_file("pipeline: qwen3_tts\nasync_chunk: false\n")
    args = run("resolve", path, "--effective", "--format", "json").data["stages"][0]["engine_args"]
    assert args["enable_prefix_caching"] is True
    assert args["max_model_len"] is None
    lines = run("resolve", path, "--effective").out.splitlines()
    assert ["max_model_len", "unset", "the", "context"] in [line.split()[:4] for line in lines]


@pytest.mark.parametrize("key", ["hf_token", "env.HF_TOKEN"])
@pytest.mark.parametrize(
    "words",
    [["--format", format] for format in ("table", "yaml", "json", "args")]
    + [["--explain", "--format", format] for format in ("table", "yaml", "json")],
)
def test_credentials_are_hidden(run: Run, key: str, words: list[str]) -> None:
    result = run("resolve", "qwen3_tts", "--set", f"stages.0.{key}=hf_abc", *words)
    assert result.code == 0
    assert "hf_abc" not in result.out + result.err


def test_args_is_one_line_a_stage_that_a_shell_can_take_apart(run: Run) -> None:
    result = run("resolve", "minicpmo_4_5_turn", "--format", "args")
    lines = result.out.splitlines()
    assert len(lines) == 3
    assert "--enable-prefix-caching" in shlex.split(lines[0])
    assert "--no-enable-prefix-caching" in shlex.split(lines[1])
    at = shlex.split(lines[0]).index("--limit-mm-per-prompt")
    assert json.loads(shlex.split(lines[0])[at + 1]) == {"image": 64, "audio": 64, "video": 1}
    assert "cuda, stage 0 (llm): left out, no engine arg of vLLM 0.32.0: " in result.err


def test_a_diffusion_stage_has_an_empty_line(run: Run) -> None:
    result = run("resolve", "glm_image", "--format", "args")
    assert result.out.splitlines()[1] == ""
    assert "a diffusion stage runs on vLLM-Omni's own engine" in result.err


def test_the_pipeline_may_come_from_a_model(run: Run, tmp_path: Path, profile_file: WriteProfile) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text('{"model_type": "qwen3_tts"}')
    path = profile_file("async_chunk: false\n")
    result = run("resolve", path, "--model", tmp_path / "model", "--format", "json")
    assert result.data["pipeline"] == "qwen3_tts"
    assert run("resolve", path, "--pipeline", "qwen3_tts", "--format", "json").data["pipeline"] == "qwen3_tts"
    assert run("resolve", path).code == 2


def test_a_version_of_vllm_that_is_not_shipped(run: Run) -> None:
    result = run("resolve", "qwen3_tts", "--effective", "--vllm-version", "0.1.0")
    assert result.code == 2
    assert "Shipped: " in result.err
