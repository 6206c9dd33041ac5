"""The other driver: the command line of ``vllm bench serve`` for a load, and what is read of its result."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from omnicfg.bench.drivers import Task, vllm_bench
from omnicfg.bench.loads import Load
from omnicfg.bench.metrics import Watch
from omnicfg.bench.prompts import Vocabulary
from omnicfg.bench.server import Server
from omnicfg.errors import ServeError
from omnicfg.serve.machine import Vllm

LOAD = Load("A", 60, 20, 7, 0.5, 1, "text", 4, 24, 50001)
RESULT = {
    "completed": 23,
    "failed": 1,
    "duration": 2.0,
    "request_throughput": 11.5,
    "total_output_tokens": 161,
    **{f"{kind}_{name}_ms": 4.0 for kind in ("mean", "median", "p99") for name in ("ttft", "tpot", "e2el")},
}


def task(tmp_path: Path, load: Load = LOAD, key: str | None = None) -> Task:
    server = Server(Watch("http://127.0.0.1:9", key), "thinker")
    return Task(load, server, Vocabulary(9), Path("model"), tmp_path, lambda _: None)


def options(tmp_path: Path, load: Load = LOAD, key: str | None = None) -> dict[str, str]:
    words = vllm_bench.command(task(tmp_path, load, key), tmp_path)
    return {word: words[place + 1] for place, word in enumerate(words[:-1]) if word.startswith("--")}


def test_one_prefix_is_the_random_dataset(tmp_path: Path) -> None:
    told = options(tmp_path)
    assert (told["--dataset-name"], told["--random-prefix-len"], told["--random-input-len"]) == ("random", "60", "20")
    assert (told["--random-output-len"], told["--random-range-ratio"]) == ("7", "0.5")
    assert (told["--num-prompts"], told["--max-concurrency"], told["--seed"]) == ("24", "4", "50001")
    assert "--header" not in told


def test_several_prefixes_are_the_prefix_repetition_dataset(tmp_path: Path) -> None:
    told = options(tmp_path, replace(LOAD, prefixes=4, range_ratio=0.0))
    assert told["--dataset-name"] == "prefix_repetition"
    assert told["--prefix-repetition-num-prefixes"] == "4"
    assert (told["--prefix-repetition-prefix-len"], told["--prefix-repetition-suffix-len"]) == ("60", "20")


def test_a_key_goes_along(tmp_path: Path) -> None:
    assert options(tmp_path, key="sesame")["--header"] == "Authorization=Bearer sesame"


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Stands in for the client: it writes a result, or ends badly."""

    def install(result: dict[str, Any] | None, status: int = 0) -> None:
        program = f"""
import pathlib, sys
text = {result and json.dumps(result)!r}
if text is not None:
    pathlib.Path(sys.argv[1], "vllm-bench.json").write_text(text)
print("no tokenizer", file=sys.stderr)
sys.exit({status})
"""
        monkeypatch.setattr(vllm_bench, "command", lambda _, folder: [sys.executable, "-c", program, str(folder)])
        monkeypatch.setattr(vllm_bench, "installed_vllm", lambda: Vllm("0.32.0", cpu=True))

    return install


def test_its_result_is_read(runs: Any, tmp_path: Path) -> None:
    runs(RESULT)
    told = vllm_bench.drive(task(tmp_path))
    assert (told["requests"], told["errors"], told["requests_per_second"], told["seconds"]) == (24, 1, 11.5, 2.0)
    assert told["ttft_ms"] == {"mean": 4.0, "median": 4.0, "p99": 4.0}
    assert list(tmp_path.iterdir()) == []


def test_calls_that_share_a_folder_do_not_take_each_others_results(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders: list[Path] = []

    def command(_: Task, folder: Path) -> list[str]:
        folders.append(folder)
        if len(folders) == 1:  # while it runs, another call begins and ends
            vllm_bench.drive(task(tmp_path))
        text = json.dumps({**RESULT, "completed": len(folders)})
        return [
            sys.executable,
            "-c",
            f"import pathlib; pathlib.Path({str(folder)!r}, 'vllm-bench.json').write_text({text!r})",
        ]

    monkeypatch.setattr(vllm_bench, "command", command)
    monkeypatch.setattr(vllm_bench, "installed_vllm", lambda: Vllm("0.32.0", cpu=True))
    vllm_bench.drive(task(tmp_path))
    assert len(set(folders)) == 2
    assert {folder.parent for folder in folders} == {tmp_path}


@pytest.mark.parametrize(("result", "status"), [(None, 0), (RESULT, 1), (None, 2)])
def test_a_client_that_fails_is_told(runs: Any, tmp_path: Path, result: dict[str, Any] | None, status: int) -> None:
    runs(result, status)
    with pytest.raises(ServeError, match=f"ended with {status}:\nno tokenizer"):
        vllm_bench.drive(task(tmp_path))


def test_without_vllm_there_is_no_such_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm_bench, "installed_vllm", lambda: None)
    with pytest.raises(ServeError, match="needs vLLM"):
        vllm_bench.drive(task(tmp_path))
