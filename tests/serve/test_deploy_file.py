"""The compiled deploy file says in one flat file what profile, bases, overlays and platform block say together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import omnicfg
from omnicfg.catalog.library import library
from omnicfg.rule import all_platforms
from omnicfg.serve.deploy_file import compiled, deploy_yaml
from tests.conftest import WriteProfile


def comparable(plan: omnicfg.Plan) -> dict[str, Any]:
    """The plan without what only tells where it came from."""
    data = plan.to_dict()
    del data["profile"]
    for source in ("pipeline", "platforms"):
        data["deploy"].pop(source, None)
    return data


@pytest.mark.parametrize("platform", all_platforms())
@pytest.mark.parametrize("name", library())
def test_it_compiles_to_the_same_plan_again(name: str, platform: str, tmp_path: Path) -> None:
    plan = omnicfg.resolve(name, platform=platform)
    path = tmp_path / "compiled.yaml"
    path.write_text(deploy_yaml(plan), encoding="utf-8")
    assert comparable(omnicfg.resolve(path, platform=platform)) == comparable(plan)


def test_it_needs_no_other_file_and_no_platform_block() -> None:
    data = compiled(omnicfg.resolve("minicpmo_4_5_turn", platform="npu"))
    assert not {"base_config", "platforms"} & data.keys()


def test_overrides_are_in_it(tmp_path: Path) -> None:
    path = tmp_path / "compiled.yaml"
    path.write_text(deploy_yaml(omnicfg.resolve("tiny_omni", overrides={"stages.0.max_num_seqs": 3})))
    assert omnicfg.resolve(path).to_dict()["stages"][0]["engine_args"]["max_num_seqs"] == 3


@pytest.mark.parametrize(
    "text", ["yes", "off", "012", "1e3", "null", "", "a: b", "# no comment", 'say "hi"', "12:30:45"]
)
def test_text_stays_text_for_every_yaml_reader(text: str, profile_file: WriteProfile, tmp_path: Path) -> None:
    overrides = {"stages.0.default_sampling_params": {"stop": text}}
    plan = omnicfg.resolve("tiny_omni", overrides=overrides)
    again = omnicfg.resolve(profile_file(deploy_yaml(plan)))
    assert again.to_dict()["stages"][0]["extras"]["default_sampling_params"]["stop"] == text


TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text("\\\\${}oc.env:ab,'\"# \n\t\x00\x85\u2028\ufeff-", max_size=12),
)


@given(TEXTS, st.sampled_from([1e-05, 1e22, float("inf"), -0.0, 10**12, True, None]))
@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, derandomize=True
)
def test_every_value_stays_what_it_is(profile_file: WriteProfile, text: str, value: object) -> None:
    plan = omnicfg.resolve("tiny_omni", overrides={"stages.0.default_sampling_params": {"stop": [text], "x": value}})
    again = omnicfg.resolve(profile_file(deploy_yaml(plan)))
    assert again.to_dict()["stages"][0]["extras"] == plan.to_dict()["stages"][0]["extras"]


@pytest.mark.parametrize("key", ["on", "y", "null", "1", "a b", "\u00fcber", "a: b", "~"])
def test_a_key_stays_text(key: str, profile_file: WriteProfile) -> None:
    plan = omnicfg.resolve("tiny_omni", overrides={"stages.0.env": {key: "x", "nested": {key: [{key: 1}]}}})
    again = omnicfg.resolve(profile_file(deploy_yaml(plan)))
    assert again.to_dict()["stages"][0]["runtime"] == plan.to_dict()["stages"][0]["runtime"]


def test_a_null_that_unsets_an_engine_arg_is_kept(profile_file: WriteProfile) -> None:
    profile = profile_file(
        "pipeline: qwen3_tts\nstages: [{stage_id: 0, engine_extras: {quantization: null}}]\n", "a.yaml"
    )
    plan = omnicfg.resolve(profile)
    again = omnicfg.resolve(profile_file(deploy_yaml(plan), "b.yaml"))
    assert comparable(again) == comparable(plan)
    assert "quantization" in plan.to_dict()["stages"][0]["engine_args"]
