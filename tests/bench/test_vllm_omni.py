"""``--engine vllm-omni``: the whole way with a program in vLLM's place; its command line by upstream's own parser."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from omnicfg.bench.arms import PREFIX_CACHE, Arm
from omnicfg.bench.setting import subject
from omnicfg.cli import run
from omnicfg.command_line.parse import parse
from omnicfg.command_line.shell import Word
from omnicfg.compiler import resolve
from omnicfg.serve.engines import vllm_omni
from omnicfg.serve.launch import Request
from omnicfg.serve.machine import Machine, Vllm
from omnicfg.tree import Mark
from tests.bench.conftest import CONFIG
from tests.bench.test_command import refused
from tests.command_line.cases import Case

SERVER = Path(__file__).with_name("fake_openai.py")
MACHINE = Machine(Vllm("0.30.0", cpu=False), "0.30.0", ("NVIDIA H200",) * 2, ("0", "1"))
PROGRAM = """\
#!{python}
import os, sys
with open(os.environ["OMNICFG_TEST_TOLD"], "a") as told:
    print(*sys.argv[1:], sep="\\x1f", file=told)
port = sys.argv[sys.argv.index("--port") + 1]
os.execv(sys.executable, [sys.executable, {server!r}, port, "omni"])
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands in for an installed vLLM-Omni; the file has the words of every start."""
    program = tmp_path / "vllm"
    program.write_text(PROGRAM.format(python=sys.executable, server=str(SERVER)))
    program.chmod(0o755)
    monkeypatch.setattr(vllm_omni, "_program", lambda: (str(program),))
    for module in ("setting", "campaign"):
        monkeypatch.setattr(f"omnicfg.bench.{module}.this_machine", lambda: MACHINE)
    monkeypatch.setenv("OMNICFG_TEST_TOLD", str(tmp_path / "told"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "told"


def starts(told: Path) -> list[list[str]]:
    return [line.split("\x1f") for line in told.read_text().splitlines()]


def test_its_arms_are_measured_by_its_own_server_and_counted_by_stage(model: Path, told: Path, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("numpy")
    words = ["bench", "prefix-cache", "qwen3_omni_moe", "--engine", "vllm-omni", "--model", str(model)]
    assert run([*words, "--quick", "--loads", "MP4_c4", "--rounds", "1", "--out", str(tmp_path / "out")]) == 0
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert report["engine"] == "vllm-omni"
    [load] = report["loads"]
    assert load["arms"]["on"]["hit_rate"]["median"] == pytest.approx(0.703, abs=1e-3)
    assert load["arms"]["on"]["errors"] == 0
    caching = []
    for start in starts(told):
        assert start[:3] == ["serve", str(model), "--omni"]
        deploy = resolve(Path(start[start.index("--deploy-config") + 1]))
        caching.append(deploy.stages[0].arg("enable_prefix_caching"))
    assert caching == [False, True]


def test_an_arm_of_the_first_stage_alone_is_refused(model: Path, told: Path) -> None:
    words = ["prefix-cache", "qwen3_omni_moe", "--engine", "vllm-omni", "--model", str(model)]
    assert "vLLM-Omni starts every stage" in refused(*words, "--arm", "plain:stages=0")[0]
    assert not told.exists()


def words_of(arm: Arm, model: Path) -> tuple[list[str], str]:
    """What an arm's server is started with, and its deploy file."""
    plan = resolve("qwen3_omni_moe", overrides=list(arm.settings))
    made = subject(arm, Request(plan, str(model), "thinker", "127.0.0.1", 8091, config=CONFIG), "vllm-omni", None)
    launch = made.launch(made.request, MACHINE, speech=False)
    [text] = launch.files.values()
    return list(launch.command[launch.command.index("serve") :]), text


@pytest.mark.parametrize("arm", PREFIX_CACHE, ids=lambda arm: str(arm.name))
def test_its_flags_are_those_of_the_release(arm: Arm, model: Path) -> None:
    words, _ = words_of(arm, model)
    line = parse([Word(word, Mark("--command", 1, place + 1)) for place, word in enumerate(words[1:])])
    assert not line.findings
    assert {"deploy_config", "host", "port"} <= line.given.keys()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("vllm_omni") is None, reason="needs vllm-omni 0.30.0 in this environment")
def test_upstreams_own_parser_and_resolver_read_what_is_meant(model: Path, tmp_path: Path) -> None:
    from omnicfg.export.omni_environment import prepare
    from omnicfg.export.omni_flags import serve_parser
    from tests.command_line.oracle import answer

    prepare()
    parser = serve_parser()
    caching = []
    for arm in PREFIX_CACHE:
        words, text = words_of(arm, model)
        place = words.index("--deploy-config")
        (tmp_path / "qwen3_omni_moe.yaml").write_text(text)
        case = Case(arm.name, "qwen3_omni_moe", (*words[:place], *words[place + 2 :]))
        read = answer(case, parser, tmp_path)
        assert "error" not in read, read
        caching.append([stage["engine"].get("enable_prefix_caching") for stage in read["stages"]])
    assert caching == [[False, False, False], [True, False, False]]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("vllm_omni") is None, reason="needs vllm-omni 0.30.0 in this environment")
def test_without_a_gpu_upstream_has_no_worker_to_serve_with() -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    from omnicfg.export.omni_environment import prepare

    prepare()
    from vllm_omni.platforms.interface import UnspecifiedOmniPlatform

    with pytest.raises(NotImplementedError):
        UnspecifiedOmniPlatform.get_omni_ar_worker_cls()
