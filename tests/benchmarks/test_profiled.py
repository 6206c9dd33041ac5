"""Which samples of an engine lie in what rows add."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.engine.profiled import available, sampled, told

STEP = "run (vllm/v1/engine/core.py:1);execute_model (vllm/v1/worker/gpu_model_runner.py:4)"
MODEL = f"{STEP};KeepsPayloadRows.forward (omnicfg/engine/thinkers.py:46)"


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


def test_samples_in_the_models_own_forward_are_not_what_rows_add(tmp_path: Path) -> None:
    stacks = {
        f"{MODEL};forward (vllm/model_executor/models/qwen3_moe.py:9)": 90,
        f"{MODEL};PagedRows.write (omnicfg/engine/paged_rows.py:60)": 4,
        f"{MODEL};PagedRows.write (omnicfg/engine/paged_rows.py:66)": 2,
        MODEL: 1,
        f"{STEP};_get_kv_connector_output (vllm/v1/worker/kv_connector_model_runner_mixin.py:8)": 3,
    }
    file = tmp_path / "stacks"
    file.write_text("".join(f"{stack} {count}\n" for stack, count in stacks.items()))
    one = told([file, file], requests=50)
    assert (one["samples"], one["of them in what rows add"]) == (200, 20)
    assert one["ms_per_request"] == pytest.approx(200 * 2 / 50)  # two milliseconds a sample
    assert one["ms_per_request in what rows add"] == pytest.approx(20 * 2 / 50)
    assert one["functions"] == {
        "PagedRows.write (omnicfg/engine/paged_rows.py)": 12,
        "_get_kv_connector_output (vllm/v1/worker/kv_connector_model_runner_mixin.py)": 6,
        "KeepsPayloadRows.forward (omnicfg/engine/thinkers.py)": 2,
    }


def test_a_sampler_that_cannot_look_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "py-spy"
    ended = tmp_path / "ended"
    tool.write_text(f"#!/bin/sh\necho 'Permission Denied' >&2\ntouch {ended}\nexit 1\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert available()
    with pytest.raises(RuntimeError, match="Permission Denied"), sampled([4], tmp_path, "one"):
        wait_for(ended)


def test_a_sampler_is_asked_for_what_it_has_when_the_body_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "py-spy"
    tool.write_text(
        "#!/usr/bin/env python3\nimport signal, sys, time\nfile = sys.argv[sys.argv.index('--output') + 1]\n"
        "signal.signal(signal.SIGINT, lambda *_: (open(file, 'w').write('main (x.py:1) 7\\n'), sys.exit(0)))\n"
        "open(file + '.ready', 'w').close()\ntime.sleep(60)\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with sampled([4], tmp_path, "one") as files:
        wait_for(Path(f"{files[0]}.ready"))
    assert told(files, requests=1)["samples"] == 7
