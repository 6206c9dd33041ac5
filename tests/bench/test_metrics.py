"""What a server tells of itself: counters, its cache, its model, and the memory of its processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from omnicfg.bench.metrics import HITS, QUERIES, Watch, resident
from omnicfg.errors import ServeError
from tests.bench.fake_openai import FakeOpenAI

BALLAST = 64  # MiB
TITLED = f"import sys, time; ballast = bytearray({BALLAST} << 20); print('ready', flush=True); time.sleep(60)"


def test_counters_and_the_model() -> None:
    with FakeOpenAI() as fake:
        fake.count(list(range(40)))
        fake.count(list(range(40)))
        watch = Watch(fake.url)
        assert (watch.counters()[QUERIES], watch.counters()[HITS]) == (80, 32)
        assert watch.model() == "fake"


def test_a_counter_of_several_engines_is_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    text = '# HELP x\nx_total{engine="0"} 1.0\nx_total{engine="1"} 2.5\ny 1e3\n'
    monkeypatch.setattr(Watch, "get", lambda _self, _path: text)
    assert Watch("").counters() == {"x_total": 3.5, "y": 1000.0}


def test_the_cache_is_what_vllm_logged_or_its_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with FakeOpenAI() as fake:
        log.write_text("INFO GPU KV cache size: 736,896 tokens\n")
        assert Watch(fake.url).cache_tokens(log) == 736_896
        log.write_text("")
        assert Watch(fake.url).cache_tokens(log) == 1600
        assert Watch(fake.url).cache_tokens(None) == 1600
        assert Watch(fake.url).block_tokens() == 16
        monkeypatch.setattr(Watch, "get", lambda _self, _path: "x 1\n")
        assert Watch(fake.url).cache_tokens(None) is None


def test_of_several_stages_the_first_one_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "(StageEngineCoreProc_stage0_replica0 pid=1) INFO GPU KV cache size: 500,000 tokens\n"
        "(StageEngineCoreProc_stage1_replica0 pid=2) INFO GPU KV cache size: 70,000 tokens\n"
        "(MainProcess pid=3) INFO 11-30 08:39:54 [kv_cache_utils.py:2327] GPU KV cache size: 524,288 tokens, 64.00x\n"
    )
    with FakeOpenAI(behaviours=frozenset({"omni"})) as fake:
        fake.count([1] * 40)
        fake.count([1] * 40)
        assert Watch(fake.url).counters() == {
            "vllm:prefix_cache_queries_total": 80,
            "vllm:prefix_cache_hits_total": 32,
        }
        assert Watch(fake.url).cache_tokens(log) == 500_000


def test_a_server_that_does_not_answer_is_told() -> None:
    with FakeOpenAI() as fake, pytest.raises(ServeError, match="answers 404"):
        Watch(fake.url).get("/nothing")
    with pytest.raises(ServeError, match=r"/metrics does not answer: Connection refused$"):
        Watch(fake.url).counters()


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_what_to_do_about_an_address_is_told() -> None:
    with FakeOpenAI() as fake, pytest.raises(ServeError, match="/v1/v1/models answers 404") as wrong:
        Watch(f"{fake.url}/v1").model()
    assert str(wrong.value.diagnostics[0].help).startswith("`--url` takes an OpenAI server's address without `/v1`")
    with pytest.raises(ServeError, match="does not answer") as gone:
        Watch(fake.url).model()
    assert gone.value.diagnostics[0].help == "See whether the server runs, and is to be found there."


@pytest.mark.parametrize(("title", "own"), [("VLLM::EngineCore", True), ("VLLM::Worker_TP1", True), ("other", False)])
def test_memory_of_stage_0_is_that_of_vllms_own_processes(title: str, own: bool) -> None:
    command = [sys.executable, "-c", TITLED, title]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        told = resident(process.pid)
    finally:
        process.kill()
        process.communicate()
    assert told["all"] > BALLAST / 1024
    assert told.get("stage_0") == (told["all"] if own else None)


def test_a_session_that_has_ended_has_no_memory() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    assert resident(process.pid) == {"all": 0.0}
