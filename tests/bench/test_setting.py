"""What is measured: the servers of arms, and what they are identified by."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.bench.arms import PREFIX_CACHE, Arm
from omnicfg.bench.setting import Subject, machine_facts, subject
from omnicfg.payload import rows_record
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import Machine, Vllm

MACHINE = Machine(Vllm("0.32.0", cpu=True), None, (), ())


def made(arm: Arm, profile: str = "tiny_omni", **config: Any) -> Subject:
    plan = omnicfg.resolve(profile, overrides=list(arm.settings))
    return subject(arm, Request(plan, "model", "m", "127.0.0.1", 8000, config=config or None), "bundled", None)


def test_arms_differ_by_their_settings_alone() -> None:
    off, on = (made(arm) for arm in PREFIX_CACHE)
    assert off.digest != on.digest
    commands = [set(one.launch(one.request, MACHINE, False).command) for one in (off, on)]
    assert commands[0] ^ commands[1] == {"--no-enable-prefix-caching", "--enable-prefix-caching"}


def test_what_only_writes_is_served_by_the_first_stage_and_what_speaks_by_all() -> None:
    from omnicfg import models

    arm = made(PREFIX_CACHE[1], **models.config("builtin:tiny-omni"))
    assert "vllm.entrypoints.openai.api_server" in arm.launch(arm.request, MACHINE, False).command
    assert "omnicfg.engine.front" in arm.launch(arm.request, MACHINE, True).command


def test_the_first_stage_alone_keeps_no_rows() -> None:
    whole, alone = made(Arm("on")), made(Arm("plain", alone=True))
    assert rows_record(whole.request.plan) is not None
    assert rows_record(alone.request.plan) is None
    assert [stage.stage_id for stage in alone.request.plan.stages] == [0]
    assert len(whole.request.plan.stages) == 3
    assert whole.digest != alone.digest


def test_a_plan_without_speech_takes_no_load_that_speaks() -> None:
    from tests.bench.test_campaign import COLD

    reason = made(Arm("plain", alone=True)).unfit(replace(COLD, answer="speech"), frozenset({"speech"}))
    assert reason == "the plan gives no speech"


@pytest.mark.parametrize(("config", "limit"), [({"max_position_embeddings": 77}, 77), ({}, None)])
def test_the_context_is_the_models_where_the_plan_says_nothing(config: dict[str, Any], limit: int | None) -> None:
    assert made(Arm("on"), "qwen2_5_omni", **config).limit() == limit
    assert made(Arm("on"), "tiny_omni", **config).limit() == 2048


def test_a_machine_is_told_by_what_it_is_and_not_by_its_name() -> None:
    import platform

    told = machine_facts()
    assert told["versions"]["omnicfg"] == omnicfg.__version__
    assert platform.node() not in str(told)


def test_hidden_states_can_be_asked_for_where_they_are_kept() -> None:
    from omnicfg import models

    config = models.config("builtin:tiny-omni")
    asked = made(Arm("rows", rows=True), **config)
    assert asked.socket(asked.request_on(8000)) is not None
    assert made(Arm("on"), **config).socket(asked.request) is None
    none = made(Arm("rows", rows=True), "qwen3_omni_moe_thinking")
    assert "no hidden states are kept" in [problem.message for problem in none.problems(MACHINE)][-1]


def test_a_model_of_which_only_the_text_part_is_served_has_no_plain_server(tmp_path: Path) -> None:
    from omnicfg import models

    plan = omnicfg.resolve("tiny_omni")
    config = models.config("builtin:tiny-omni")
    asked = Request(plan, str(tmp_path), "m", "127.0.0.1", 8000, config=config)
    told = {
        alone: [problem.message for problem in subject(Arm("a", alone=alone), asked, "bundled", None).problems(MACHINE)]
        for alone in (True, False)
    }
    assert any("only the text part" in message for message in told[True])
    assert not any("only the text part" in message for message in told[False])
