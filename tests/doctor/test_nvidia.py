"""The driver is asked by its own tool, and may be broken in every way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from omnicfg.doctor import nvidia
from omnicfg.doctor.nvidia import ask_driver
from omnicfg.serve.processes import session_members
from tests.doctor.conftest import TWO_DEVICES, FakeTool
from tests.patience import until


def test_devices_memory_and_cuda(fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi(TWO_DEVICES)
    found = ask_driver()
    assert (found.trouble, found.cuda) == (None, (13, 0))
    first, second = found.devices
    assert (first.index, first.name, first.uuid, first.driver) == (0, "NVIDIA H200", "GPU-aaaa", "580.95.05")
    assert (first.total, second.free) == (143771 * 2**20, 1000 * 2**20)


def test_memory_that_the_driver_does_not_tell(fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi("echo '0, NVIDIA GB10, GPU-a, [N/A], [N/A], 580.95.05, 12.1'")
    (device,) = ask_driver().devices
    assert (device.total, device.free) == (None, None)


@pytest.mark.parametrize("line", ["CUDA Version: 12.4", "CUDA UMD Version : 13.1"])
def test_the_newest_cuda_stands_in_the_tools_head(fake_nvidia_smi: FakeTool, line: str) -> None:
    fake_nvidia_smi(f"case \"$1\" in --*) ;; *) echo '{line}' ;; esac")
    assert ask_driver().cuda == tuple(int(part) for part in line.rpartition(" ")[2].split("."))


@pytest.mark.parametrize(
    ("script", "trouble"),
    [
        (
            'echo "NVIDIA-SMI has failed because it couldn\'t communicate"; exit 9',
            "fails (exit code 9): NVIDIA-SMI has",
        ),
        ("exit 127", "fails (exit code 127): it says nothing"),
        ("kill -9 $$", "fails (exit code -9)"),
        ("echo 'Failed to initialize NVML: Driver/library version mismatch' >&2; exit 18", "library version mismatch"),
        ("echo hello", "answers what it was not asked: hello"),
        ("printf '\\377\\376, x'", "answers what it was not asked"),
        ("echo 'No devices were found'", "answers what it was not asked: No devices were found"),
    ],
)
def test_a_broken_driver_is_trouble_and_no_failure(fake_nvidia_smi: FakeTool, script: str, trouble: str) -> None:
    fake_nvidia_smi(script)
    found = ask_driver()
    assert found.devices == ()
    assert trouble in str(found.trouble)


def test_a_driver_that_hangs_is_left_behind_with_no_process(
    fake_nvidia_smi: FakeTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvidia_smi(f"trap '' TERM INT; sleep 600 & touch {tmp_path}/hangs; wait")
    started: list[int] = []

    def hangs(self: subprocess.Popen[str], *_: object, timeout: float) -> None:
        """The time limit passes when the tool hangs."""
        started.append(self.pid)
        until((tmp_path / "hangs").exists)
        raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", hangs)
    assert "gives no answer within 0.5 s" in str(ask_driver(0.5).trouble)
    until(lambda: not session_members(started[0]))


def test_a_driver_that_does_not_answer_in_time_hangs(fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi("exec sleep 600")
    assert "gives no answer within 0.1 s" in str(ask_driver(0.1).trouble)


def test_a_tool_that_cannot_be_run_is_no_tool(fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi("").chmod(0o644)
    assert ask_driver().devices == ()


def test_a_tool_of_another_processor_is_trouble(fake_nvidia_smi: FakeTool) -> None:
    fake_nvidia_smi("").write_bytes(b"\x7fELF nothing")
    assert "cannot be started" in str(ask_driver().trouble)


def test_without_a_sign_of_a_driver_there_is_no_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvidia, "_NODES", tmp_path)
    assert ask_driver() == nvidia.Driver()
    (tmp_path / "nvidia0").touch()
    assert "no `nvidia-smi`" in str(ask_driver().trouble)
