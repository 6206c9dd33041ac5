"""Several nodes by vLLM's own means: what is passed on, what is refused before vLLM is started, what is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.cli import run
from omnicfg.errors import OmnicfgError
from omnicfg.plan import StagePlan
from omnicfg.serve import nodes
from omnicfg.serve.engines import bundled, vllm_omni
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine, Vllm

GPUS = Machine(Vllm("0.32.0", cpu=False), "0.30.0", ("A", "B"), ("0", "1"))
QWEN3 = {"architectures": ["Foo"], "talker_config": {"accept_hidden_layer": 18}}


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def request(headless: bool = False, **settings: Any) -> Request:
    overrides = {f"stages.0.{name}": value for name, value in settings.items()}
    plan = omnicfg.resolve("qwen3_omni_moe", overrides=overrides)
    return Request(plan, "/model", "model", "127.0.0.1", 8091, config=QWEN3, headless=headless)


def first(**settings: Any) -> StagePlan:
    return request(**settings).plan.stages[0]


def option(launch: Launch, name: str) -> str:
    return launch.command[launch.command.index(name) + 1]


def refusals(headless: bool = False, **settings: Any) -> list[str]:
    return [refusal.message for refusal in nodes.refusals(first(**settings), headless)]


HEAD: dict[str, Any] = {"tensor_parallel_size": 4, "nnodes": 2, "master_addr": "10.0.0.1", "devices": "0,1"}
REPLICAS: dict[str, Any] = {"data_parallel_size": 4, "data_parallel_size_local": 2, "data_parallel_address": "10.0.0.1"}


@pytest.mark.parametrize(
    ("settings", "flags"),
    [
        ({"distributed_executor_backend": "ray"}, ["--distributed-executor-backend", "ray"]),
        ({"distributed_executor_backend": "mp"}, ["--distributed-executor-backend", "mp"]),
        (HEAD, ["--nnodes", "2"]),
        ({**HEAD, "master_port": 29600}, ["--master-port", "29600"]),
        ({**REPLICAS, "devices": "0,1"}, ["--data-parallel-address", "10.0.0.1"]),
        ({**REPLICAS, "data_parallel_rpc_port": 13345}, ["--data-parallel-rpc-port", "13345"]),
        ({**REPLICAS, "data_parallel_backend": "ray"}, ["--data-parallel-backend", "ray"]),
    ],
)
def test_vllms_own_settings_are_passed_on(settings: dict[str, Any], flags: list[str]) -> None:
    launch = bundled.first_stage(request(**settings), GPUS)
    assert option(launch, flags[0]) == flags[1]


def test_a_node_that_answers_nobody_runs_vllms_headless_engine() -> None:
    launch = bundled.first_stage(request(headless=True, **HEAD, node_rank=1), GPUS)
    assert launch.command[1:3] == ("-m", "omnicfg.engine.headless")
    assert "--headless" in launch.command
    assert option(launch, "--node-rank") == "1"
    assert "this node answers nobody; the one at 10.0.0.1 does" in launch.notices


def test_every_nodes_replicas_offer_their_own_rows(tmp_path: Path) -> None:
    answering = bundled.first_stage(request(**REPLICAS, devices="0,1"), GPUS)
    other = bundled.first_stage(request(headless=True, **REPLICAS, data_parallel_start_rank=2, devices="0,1"), GPUS)
    for launch, name, ranks in ((answering, "8091", (0, 1)), (other, "8091-node2", (2, 3))):
        folder = tmp_path / f"omnicfg/127.0.0.1-{name}"
        assert launch.directory == folder, "nodes on one machine have one each"
        sockets = ", ".join(f"{folder}/rows.sock.{rank}" for rank in ranks)
        assert any(text.endswith(f"at {sockets}") for text in launch.notices)


@pytest.mark.parametrize(
    ("settings", "notice"),
    [
        (HEAD, "waiting for 1 more node(s) at 10.0.0.1"),
        ({**REPLICAS, "devices": "0,1"}, "waiting for the other nodes' replicas at 10.0.0.1"),
    ],
)
def test_the_node_that_answers_says_for_whom_it_waits(settings: dict[str, Any], notice: str) -> None:
    assert notice in bundled.first_stage(request(**settings), GPUS).notices


@pytest.mark.parametrize("settings", [{}, {"data_parallel_size": 2, "devices": "0,1"}])
def test_one_node_waits_for_nobody(settings: dict[str, Any]) -> None:
    assert list(nodes.notices(first(**settings), headless=False)) == []


@pytest.mark.parametrize(
    ("settings", "headless", "reason"),
    [
        ({"distributed_executor_backend": "external_launcher"}, False, "runs no workers of a server"),
        ({**HEAD, "distributed_executor_backend": "ray"}, False, "`nnodes` is for the backend mp"),
        ({**HEAD, "data_parallel_backend": "ray"}, False, "`nnodes` is for the backend mp"),
        ({**HEAD, "node_rank": 2}, True, "`node_rank: 2` of 2 node(s)"),
        ({**HEAD, "node_rank": 1}, False, "node 1 answers nobody"),
        (HEAD, True, "this is the one that answers"),
        ({**REPLICAS, "data_parallel_hybrid_lb": True, "data_parallel_start_rank": 2}, True, "every node answers"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: dict[str, Any], headless: bool, reason: str) -> None:
    assert [reason in message for message in refusals(headless, **settings)] == [True]


@pytest.mark.parametrize(
    ("settings", "headless"),
    [
        ({}, False),
        (HEAD, False),
        ({**HEAD, "node_rank": 1}, True),
        (REPLICAS, False),
        ({**REPLICAS, "data_parallel_start_rank": 2}, True),
        ({"distributed_executor_backend": "my.package.Executor"}, False),
        ({"distributed_executor_backend": "ray"}, False),
    ],
)
def test_what_does_is_not(settings: dict[str, Any], headless: bool) -> None:
    assert refusals(headless, **settings) == []


@pytest.mark.parametrize("name", ["distributed_executor_backend", "data_parallel_backend"])
def test_ray_has_to_be_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: None)
    [problem] = nodes.problems(first(**{name: "ray"}))
    assert problem.message == f"`{name}: ray` needs Ray, which is not installed in this environment"
    assert list(nodes.problems(first(**{name: "mp"}))) == []
    monkeypatch.setattr("importlib.util.find_spec", lambda wanted: object())
    assert list(nodes.problems(first(**{name: "ray"}))) == []


def test_devices_are_those_of_one_node() -> None:
    def told(**settings: Any) -> list[str]:
        overrides = [f"stages.0.{name}={value}" for name, value in settings.items()]
        found = omnicfg.validate("qwen3_omni_moe", platform="cuda", engine="bundled", overrides=overrides)
        return [finding.message for finding in found if finding.code == "OC602"]

    assert told(tensor_parallel_size=4, nnodes=2, devices='"0,1"') == []
    assert told(tensor_parallel_size=4, nnodes=2, devices='"0"') == [
        "stage 0 lists 1 device(s) and needs 2 (TP 4 · PP 1 · DP 1, on 2 nodes)"
    ]


@pytest.mark.parametrize(
    ("settings", "here"),
    [
        ({}, range(1)),
        (REPLICAS, range(2)),
        ({**REPLICAS, "data_parallel_start_rank": 2}, range(2, 4)),
        ({"data_parallel_size": 4, "nnodes": 2, "node_rank": 1}, range(2, 4)),
        ({"data_parallel_size": 2, "nnodes": 4, "node_rank": 3}, range(1, 2)),
        ({"tensor_parallel_size": 4, "nnodes": 2, "node_rank": 1}, range(1)),
    ],
)
def test_the_replicas_of_a_node(settings: dict[str, Any], here: range) -> None:
    stage = first(**settings)
    assert nodes.replicas_here(stage, stage.arg("data_parallel_size") or 1) == here


def test_vllm_omni_has_no_such_nodes() -> None:
    asked = replace(request(), headless=True)
    assert any("only the bundled engine" in refusal.message for refusal in vllm_omni.refusals(asked))


def test_the_command_refuses_before_anything_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnicfg.serve.hub.config_directory", lambda model: None)
    words = ["serve", "qwen3_omni_moe", "--model", "a/b", "--headless", "--dry-run", "--set", "stages.0.node_rank=3"]
    with pytest.raises(OmnicfgError, match="`node_rank: 3` of 1 node"):
        run(words)
