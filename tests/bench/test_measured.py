"""The whole way on the CPU: the tiny model is benched, its answers are compared, and two clients are answered."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omnicfg.catalog.paths import schemas_dir
from omnicfg.serve.machine import installed_vllm
from tests.serve.served import Served

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(installed_vllm() is None, reason="needs the extra cpu or cuda"),
]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "omnicfg.cli", "bench", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_a_quick_bench_of_the_tiny_model(tmp_path: Path) -> None:
    done = bench("prefix-cache", "tiny_omni", "--quick", "--rounds", "1", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads((tmp_path / "out/report.json").read_text())
    schema = json.loads((schemas_dir() / "bench.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(report)
    loads = {load["name"]: load["arms"] for load in report["loads"]}
    assert loads.keys() == {"P256_h0_c4", "P512_h94_c4", "MP4_c4", "DECV_c4"}
    for arms in loads.values():
        assert all(arm["errors"] == 0 and arm["requests_per_second"]["median"] > 0 for arm in arms.values())
        assert arms["off"]["hit_rate"] in (None, {"median": 0, "low": 0, "high": 0})
        assert arms["on"]["ratio"] is not None
    assert loads["P512_h94_c4"]["on"]["hit_rate"]["median"] > 0.7
    assert loads["P256_h0_c4"]["on"]["hit_rate"]["median"] < 0.05
    memory = loads["P512_h94_c4"]["on"]
    assert memory["cache_tokens"] > 10_000
    assert memory["resident_gib"] > 0.1
    assert "P512_h94_c4" in done.stdout


def test_the_cache_changes_no_text_no_hidden_state_and_no_speech(tmp_path: Path) -> None:
    done = bench("equality", "tiny_omni", "--quick", "--loads", "MP4_c4", "--out", str(tmp_path / "out"))
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    report = json.loads((tmp_path / "out/equality.json").read_text())
    text, speech = report["verdicts"]
    assert (text["answer"], speech["answer"]) == ("text", "speech")
    assert text["questions"] == speech["questions"] == 8
    assert text["hit_tokens"] > 800
    assert text["rows"] == 8 * (256 + 7)
    assert speech["hit_tokens"] > 0
    assert speech["codes"] > 8
    assert list((tmp_path / "out/scratch").iterdir()) == []


def test_both_clients_send_the_same_and_are_answered(tmp_path: Path) -> None:
    told: dict[str, Any] = {}
    settings = ["--set", "stages.0.enable_prefix_caching=false"]
    with Served(tmp_path / "log", "tiny_omni", *settings) as server:
        for driver in ("own", "vllm-bench"):
            out = tmp_path / driver
            words = ["--quick", "--loads", "P256_h0_c4", "--rounds", "1", "--url", server.url, "--arm", "off"]
            done = bench("prefix-cache", "tiny_omni", *words, "--driver", driver, "--out", str(out))
            assert done.returncode == 0, done.stderr[-3000:]
            [load] = json.loads((out / "report.json").read_text())["loads"]
            told[driver] = load["arms"]["off"]
    for arm in told.values():
        assert arm["errors"] == 0
        assert arm["requests_per_second"]["median"] > 0
        assert arm["ttft_ms"] > 0
