"""The parts that need GPUs: how they are asked for, cut off, kept, and told of. What they measure needs the GPUs."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest

from benchmarks.engine.support import Budget, Results
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.archive import pack, unpack
from benchmarks.gpu.benches import Memory
from benchmarks.gpu.parts import GRACE_S, LATE, Context, Part, faults, parity, parts, placement, settings
from benchmarks.gpu.parts.faults import CHECKS
from benchmarks.gpu.parts.text import halves, hitting, loads
from omnicfg.bench.progress import work
from omnicfg.serve.processes import living

NAPS = "import sys, time; print('here', flush=True); time.sleep(600)"


def context(state: Path, seconds: float = 300.0) -> Context:
    return Context(state, Budget(seconds), 1, True, Event())


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Puts parts in the place of the real ones; the names of those that ran, in order."""

    def install(**runs: Callable[[Context], None]) -> list[str]:
        ran: list[str] = []

        def part(name: str, run: Callable[[Context], None]) -> Part:
            def begin(context: Context) -> None:
                ran.append(name)
                run(context)

            def table(context: Context) -> tuple[list[str], bool]:
                done = context.folder(name) / "done.json"
                return [f"{name} told"], done.exists()

            return Part(name, begin, table, gpus=0)

        monkeypatch.setattr(gpu, "parts", lambda: {name: part(name, run) for name, run in runs.items()})
        return ran

    return install


def running(words: str) -> list[int]:
    """The processes that have these words in their command lines."""
    found = []
    for one in living():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if words.encode() in Path(f"/proc/{one.pid}/cmdline").read_bytes():
                found.append(one.pid)
    return found


def done(name: str) -> Callable[[Context], None]:
    def run(context: Context) -> None:
        (context.folder(name) / "done.json").write_text("{}")

    return run


def test_the_parts_are_those_of_the_modules() -> None:
    assert {"text-qwen3", "text-minicpmo", "speech-one", "speech-two", "tp-rows", "tp-capacity"} <= parts().keys()
    assert {"faults", "parity", "predictor", "cost", "tp-cost", "placement"} <= parts().keys()


def test_parts_run_one_after_the_other_and_tables_come_last(
    known: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = known(a=done("a"), b=done("b"))
    assert gpu.main([str(tmp_path / "state"), "b", "a"]) == 0
    assert ran == ["b", "a"]
    assert capsys.readouterr().out.split("\n\n", 1)[1] == "b: complete\nb told\n\na: complete\na told\n"


def test_parts_of_a_group_run_at_once_one_of_them_later(known: Any, tmp_path: Path) -> None:
    begun = Event()
    ran = known(late=lambda _: begun.set(), early=lambda context: done("early")(context) if begun.wait(30) else None)
    assert gpu.main([str(tmp_path), "late@0.1+early"]) == 1
    assert ran == ["early", "late"]
    assert (tmp_path / "early" / "done.json").exists()


def test_a_part_that_fails_leaves_the_others_and_is_told(
    known: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: Context) -> None:
        raise RuntimeError("no memory")

    known(a=fail, b=done("b"))
    assert gpu.main([str(tmp_path), "a", "b"]) == 1
    told = capsys.readouterr()
    assert "RuntimeError: no memory" in told.err
    assert "a: INCOMPLETE OR WRONG" in told.out
    assert "b: complete" in told.out


@pytest.mark.parametrize("word", ["c", "a+c", "a@soon"])
def test_what_is_no_part_is_told(known: Any, tmp_path: Path, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    ran = known(a=done("a"))
    with pytest.raises(SystemExit) as ended:
        gpu.main([str(tmp_path), word])
    assert (ended.value.code, ran) == (2, [])
    assert "error:" in capsys.readouterr().err


def test_a_program_is_asked_to_stop_when_time_is_up_and_leaves_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    began = time.monotonic()
    assert context(tmp_path).run(["-c", NAPS], log, seconds=GRACE_S + 1.5) == LATE
    assert time.monotonic() - began < GRACE_S
    assert log.read_text() == "here\n"
    assert not running(NAPS)


def on_gpus(state: Path, gpus: int, rounds: int = 1) -> Context:
    return Context(state, Budget(300), rounds, cpu=False, stop=Event(), devices=[str(gpu) for gpu in range(gpus)])


def test_a_program_sees_the_devices_that_it_is_given(tmp_path: Path) -> None:
    asked = ["-c", "import os; print(os.environ['CUDA_VISIBLE_DEVICES'])"]
    here = replace(context(tmp_path), devices=("4", "6"))
    for devices in ("0,1", "1", ""):
        assert here.run(asked, tmp_path / "log", devices=devices) == 0
    assert (tmp_path / "log").read_text() == "4,6\n6\n\n"


def test_a_stop_signal_stops_what_runs_and_keeps_what_there_is(tmp_path: Path) -> None:
    """A real process, since signals reach the main thread alone."""
    state, archive = tmp_path / "state", tmp_path / "state.tgz"
    program = f"""
import sys
from benchmarks.gpu import __main__ as gpu
from benchmarks.gpu.parts import Part
def run(context):
    (context.folder("naps") / "first.json").write_text("1")
    context.run(["-c", {NAPS!r}], context.folder("naps") / "naps.log")
gpu.parts = lambda: {{"naps": Part("naps", run, lambda context: (["cut off"], False), gpus=0)}}
sys.exit(gpu.main([{str(state)!r}, "naps", "--archive", {str(archive)!r}]))
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    log = state / "naps" / "naps.log"
    while not (log.exists() and log.read_text()):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "cut off" in out
    unpack(archive, tmp_path / "other")
    assert (tmp_path / "other" / "naps" / "first.json").read_text() == "1"
    assert (tmp_path / "other" / "naps" / "naps.log").read_text() == "here\n"


def test_an_archive_has_results_and_no_models_and_changes_nothing_that_is_there(tmp_path: Path) -> None:
    state = tmp_path / "state"
    for name in ("a/b/one.json", "a/two.log", "models/x/config.json", "a/scratch/three.json", "a/weights.safetensors"):
        (state / name).parent.mkdir(parents=True, exist_ok=True)
        (state / name).write_text(name)
    pack(state, tmp_path / "state.tgz")
    other = tmp_path / "other"
    (other / "a").mkdir(parents=True)
    (other / "a" / "two.log").write_text("newer")
    unpack(tmp_path / "state.tgz", other)
    found = {file.relative_to(other).as_posix(): file.read_text() for file in other.rglob("*") if file.is_file()}
    assert found == {"a/b/one.json": "a/b/one.json", "a/two.log": "newer"}


def test_nothing_of_an_archive_lands_beside_its_folder(tmp_path: Path) -> None:
    archive, folder = tmp_path / "state.tgz", tmp_path / "state"
    with tarfile.open(archive, "w:gz") as packed:
        for name in ("../beside.json", str(tmp_path / "elsewhere.json"), "inside.json"):
            member = tarfile.TarInfo(name)
            packed.addfile(member, io.BytesIO())
    unpack(archive, folder)
    assert {file.name for file in tmp_path.rglob("*.json")} == {"inside.json"}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, str]]]:
    """What would be run, as (devices, options); a bench makes its folder as it does."""
    told: list[tuple[str, dict[str, str]]] = []
    lock = Lock()

    def run(self: Context, command: list[str], log: Path, *, devices: str = "0,1", **_: Any) -> int:
        options = {word: command[place + 1] for place, word in enumerate(command[:-1]) if word.startswith("--")}
        with lock:
            told.append((devices, options))
        setup = Path(options["--out"]) / "setup.json"
        setup.parent.mkdir(parents=True, exist_ok=True)
        setup.touch()
        return 0

    monkeypatch.setattr(Context, "run", run)
    monkeypatch.setattr(Context, "model", lambda self, name: self.state / name)
    return told


def test_speech_on_one_of_two_gpus_changes_the_arms_gpus_from_round_to_round(
    tmp_path: Path, commands: list[tuple[str, dict[str, str]]]
) -> None:
    parts()["speech-one"].run(on_gpus(tmp_path, 2, rounds=2))
    told = [(options["--rounds"], options["--arm"].partition(":")[0], devices) for devices, options in commands]
    assert told[0] == ("1", "off", "0")  # the first to make the folder is the baseline
    assert sorted(told) == [("1", "off", "0"), ("1", "on", "1"), ("2", "off", "1"), ("2", "on", "0")]
    assert len({options["--out"] for _, options in commands}) == 1


@pytest.mark.parametrize(("part", "gpus", "devices"), [("speech-one", 1, "0"), ("speech-two", 2, "0,1")])
def test_arms_that_share_gpus_are_measured_one_after_the_other(
    tmp_path: Path, commands: list[tuple[str, dict[str, str]]], part: str, gpus: int, devices: str
) -> None:
    parts()[part].run(on_gpus(tmp_path, gpus, rounds=3))
    [(given, options)] = commands
    assert (given, options["--arm"], options["--rounds"]) == (devices, "on", "3")  # the last of both


@pytest.mark.parametrize("part", ["speech-two", "tp-rows", "tp-capacity", "tp-cost", "faults", "placement"])
def test_a_part_for_more_gpus_than_there_are_says_so(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-3")
    assert gpu.main([str(tmp_path), part]) == 1
    assert f"{part}: needs 2 GPUs; here: 1\n" in capsys.readouterr().out


@pytest.mark.parametrize(("gpus", "places"), [(1, ["0"]), (2, ["0", "0,1"])])
def test_parity_is_compared_at_the_places_that_there_are_gpus_for(
    gpus: int, places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, asked = on_gpus(tmp_path, gpus), list[str]()

    def compare(context: Context, part: str, name: str, words: list[str], devices: str, *_: Any) -> None:
        asked.append(devices)
        Results(context.folder(part)).write(name, {"exit_code": 0, "start_s": 40.0, "told": ["8 of 8"]})

    monkeypatch.setattr(parity, "compare", compare)
    monkeypatch.setattr(Context, "run", lambda *_, **__: 0)
    parts()["parity"].run(here)
    assert sorted(asked) == places
    lines, right = parts()["parity"].table(here)
    assert lines[0] == "one GPU: ready after 40.0 s; 8 of 8"
    assert (right, "needs more GPUs" in lines[1]) == (gpus == 2, gpus == 1)


def test_one_gpu_has_all_rows(tmp_path: Path, commands: list[tuple[str, dict[str, str]]]) -> None:
    parts()["text-minicpmo"].run(on_gpus(tmp_path, 1))
    rows = loads("minicpmo", on_gpus(tmp_path, 1))
    (devices, options), (same, plain) = commands
    assert devices == same == "0"
    assert options["--loads"].split(",") == [load.name for load in rows]
    assert (options["--arm"], plain["--arm"]) == ("on", "plain:stages=0,stages.0.enable_prefix_caching=true")
    assert plain["--loads"].split(",") == [load.name for load in hitting(rows)] != []


def test_text_shares_the_rows_out_among_the_gpus(tmp_path: Path, commands: list[tuple[str, dict[str, str]]]) -> None:
    parts()["text-qwen3"].run(on_gpus(tmp_path, 2, rounds=3))
    by_device = {devices: options for devices, options in commands if options["--arm"] == "on"}
    assert sorted(by_device) == ["0", "1"]
    named = [options["--loads"].split(",") for options in by_device.values()]
    assert sorted(named[0] + named[1]) == sorted(load.name for load in loads("qwen3", on_gpus(tmp_path, 2)))
    assert {options["--rounds"] for _, options in commands} == {"3"}


def test_without_time_nothing_begins(known: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = known(a=done("a"))
    assert gpu.main([str(tmp_path), "a", "--seconds", "1"]) == 1
    assert ran == []
    assert "a told" in capsys.readouterr().out


def test_of_the_rows_only_those_that_are_asked_for(
    tmp_path: Path, commands: list[tuple[str, dict[str, str]]], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = replace(on_gpus(tmp_path, 2), loads=("MP32_c64", "DECV_c32"))
    parts()["text-minicpmo"].run(asked)
    told = [(devices, options["--arm"].split(":")[0], options["--loads"]) for devices, options in commands]
    assert sorted(told) == [("0", "on", "MP32_c64"), ("0", "plain", "MP32_c64"), ("1", "on", "DECV_c32")]
    with pytest.raises(SystemExit) as ended:
        gpu.main([str(tmp_path), "text-qwen3", "--loads", "MP32_c64,MP33_c64"])
    assert ended.value.code == 2
    assert "no published row is called MP33_c64" in capsys.readouterr().err


def test_both_gpus_get_about_as_much_to_do(tmp_path: Path) -> None:
    for model, count in (("qwen3", 21), ("minicpmo", 19)):
        rows = loads(model, on_gpus(tmp_path, 2))
        one, other = halves(rows)
        assert len(rows) == count == len({load.name for load in one + other})
        assert 0.9 < sum(map(work, one)) / sum(map(work, other)) < 1.1


def test_memory_is_what_was_seen_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text('#!/bin/sh\necho "0, H, u, 1000, 400, 1, 9.0"\necho "1, H, v, 1000, 900, 1, 9.0"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with Memory() as memory:
        while not memory.beside([]):
            time.sleep(0.01)
    assert memory.beside([]) == [600, 100]
    assert memory.beside([500, 200]) == [600, 200]


def test_settings_are_words() -> None:
    assert list(settings({"stages.0.devices": '"1"', "a": 2})) == ["--set", 'stages.0.devices="1"', "--set", "a=2"]


@pytest.fixture
def pretended_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two devices, the second one's memory taken, and a vLLM for them, as far as a start looks before it begins."""
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    rows = ("0, H200, GPU-a, 143771, 143000, 580.1, 9.0", "1, H200, GPU-b, 143771, 2048, 580.1, 9.0")
    tool.write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    tool.chmod(0o755)
    metadata = tmp_path / "site" / "vllm-0.32.0.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    monkeypatch.setenv("PATH", f"{tool.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(faults, "_held", lambda *_: contextlib.nullcontext())


@pytest.mark.usefixtures("pretended_gpus")
def test_stages_without_room_and_without_a_device_are_refused_by_name(tmp_path: Path) -> None:
    here = on_gpus(tmp_path / "state", 2)
    for check in CHECKS[1:3]:
        told = check.run(here)
        assert check.right(told), told


REFUSED = {"exit_code": 2, "left": [], "messages": ["error: stage 1 asks for device 7; visible here: 0, 1"]}


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"exit_code": 0}, False),
        ({"exit_code": None}, False),
        ({"left": [4]}, False),
        ({"messages": ["error: stage 1 has no device"]}, False),
        ({"messages": ["error: device 7 is not there"]}, False),
    ],
)
def test_a_refusal_has_to_name_stage_and_device_and_to_leave_nothing(change: dict[str, Any], right: bool) -> None:
    [check] = [check for check in CHECKS if check.name == "absent device"]
    assert check.right(json.loads(json.dumps(REFUSED | change))) is right


def test_a_code_that_is_sampled_otherwise_is_wrong(tmp_path: Path) -> None:
    here = on_gpus(tmp_path, 1)
    assert parts()["predictor"].table(here) == (["nothing is measured yet"], False)
    results = Results(here.folder("predictor"))
    for differ in (3, 0):
        results.write("predictor", {"greedy 8": 2.884, "codes that differ": differ})
        lines = ["greedy 8     2.88 ms a frame", f"{differ} sampled codes differ"]
        assert parts()["predictor"].table(here) == (lines, differ == 0)


@pytest.mark.parametrize(
    ("part", "count"),
    # arms, loads, repetitions; loads that nobody asks rows for have an arm less
    [("cost", 3 * 2 * 3 + (3 * 3 + 2 * 4) * 3), ("tp-cost", 4 * 2 * 3)],
)
def test_the_cost_of_rows_is_complete_with_every_repetition(part: str, count: int, tmp_path: Path) -> None:
    here = on_gpus(tmp_path, 2)
    lines, right = parts()[part].table(here)
    assert not right
    missing = [line.partition(":")[0] for line in lines if line.endswith(": missing")]
    assert len(missing) == count
    for name in missing:
        figures = {"requests_per_second": 9.0 if "-rows-" in name else 10.0, "cpu_ms_per_request": 20.0}
        Results(here.folder(part)).write(name, figures)
    lines, right = parts()[part].table(here)
    assert right
    assert any("rows" in line and "9.000 0.9000 (0.9000 to 0.9000) n=3 req/s" in line for line in lines)


@pytest.mark.parametrize(("gpus", "devices"), [(1, ["0", "0"]), (2, ["0", "1"])])
def test_groups_of_servers_have_a_gpu_each_where_there_are_two(
    gpus: int, devices: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[tuple[str, str]] = []

    def run(_: Context, command: list[str], log: Path, *, devices: str = "0,1", **_more: Any) -> int:
        ran.append((command[3], devices))
        return 0

    monkeypatch.setattr(Context, "run", run)
    parts()["cost"].run(on_gpus(tmp_path, gpus))
    assert sorted(ran) == list(zip(["off", "plain"], devices, strict=True))
    ran.clear()
    parts()["tp-cost"].run(on_gpus(tmp_path, 2))
    assert ran == [("ranks", "0,1")]


PLACED = {
    "start_s": 70.0,
    "answers": [200, 200],
    "mib": [100_000, 100_000],
    "shares": [
        {"stage": 0, "devices": "0", "share": 0.9},
        {"stage": 1, "devices": "1", "share": 0.6},
        {"stage": 2, "devices": "1", "share": 0.1},
    ],
}


@pytest.mark.parametrize(
    ("used", "answers", "right"),
    [
        ([90_000, 70_000], [200, 200], True),
        ([92_000, 70_000], [200, 200], False),
        ([90_000, 72_000], [200, 200], False),
        ([90_000, 70_000], [200, 503], False),
    ],
)
def test_stages_stay_within_the_shares_that_the_profile_has(
    used: list[int], answers: list[int], right: bool, tmp_path: Path
) -> None:
    here = on_gpus(tmp_path, 2)
    Results(here.folder("placement")).write("placement", {**PLACED, "mib_in_use_at_most": used, "answers": answers})
    assert parts()["placement"].table(here)[1] is right


def test_the_profile_has_the_thinker_on_one_gpu_and_the_others_on_another() -> None:
    assert placement.shares() == PLACED["shares"]
