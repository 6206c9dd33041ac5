"""Which samples of an engine lie in what rows add."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.engine.profiled import available, sampled, told

STEP = "run (vllm/v1/engine/core.py:1);execute_model (vllm/v1/worker/gpu_model_runner.py:4)"
MODEL = f"{STEP};KeepsPayloadRows.forward (omnicfg/engine/thinkers.py:46)"


def sampler(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    """A ``py-spy`` that does this; ``file`` is what it was told to write."""
    tool = folder / "py-spy"
    begin = ("#!/usr/bin/env python3", "import signal, sys, time", "file = sys.argv[sys.argv.index('--output') + 1]")
    tool.write_text("\n".join((*begin, *lines)))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


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
    sampler(tmp_path, monkeypatch, "sys.exit('Permission Denied')")
    assert available()
    with pytest.raises(RuntimeError, match="Permission Denied"), sampled([4], tmp_path, "one"):
        pass


def test_the_body_begins_when_all_are_sampled_and_they_are_asked_for_what_they_have_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler(
        tmp_path,
        monkeypatch,
        "signal.signal(signal.SIGINT, lambda *_: (open(file, 'w').write('main (x.py:1) 7\\n'), sys.exit(0)))",
        "time.sleep(1)",
        "open(file + '.begun', 'w').close()",
        "print('py-spy> Sampling process 500 times a second', flush=True)",
        "time.sleep(60)",
    )
    with sampled([4, 5], tmp_path, "one") as files:
        assert all(Path(f"{file}.begun").exists() for file in files)
    assert told(files, requests=1)["samples"] == 14
