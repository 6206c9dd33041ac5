"""The method, with fake servers: fresh ones, in turning order, resumed where they were left, errors counted."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.bench import campaign as module
from omnicfg.bench.arms import Arm
from omnicfg.bench.campaign import Campaign
from omnicfg.bench.drivers import driver
from omnicfg.bench.loads import Load
from omnicfg.bench.progress import Progress
from omnicfg.bench.prompts import Vocabulary
from omnicfg.bench.report import report_of
from omnicfg.bench.setting import Subject
from omnicfg.bench.store import Store
from omnicfg.errors import ServeError, UsageError
from omnicfg.serve.launch import Launch, Request
from omnicfg.serve.machine import Machine
from tests.bench.fake_openai import FakeOpenAI

pytest.importorskip("aiohttp")
pytest.importorskip("numpy")

SERVER = Path(__file__).with_name("fake_openai.py")
COLD = Load("COLD", 0, 40, 3, 0.0, 1, "text", 2, 6, 1)
SHARED = Load("SHARED", 32, 8, 3, 0.0, 1, "text", 2, 8, 2)
WARM = Load("warm", 0, 40, 3, 0.0, 1, "text", 2, 4, 3)


@dataclass(frozen=True)
class FakeSubject(Subject):
    """Starts the fake server; the arm's name is its behaviour."""

    def launch(self, request: Request, machine: Machine, speech: bool) -> Launch:
        return Launch((sys.executable, str(SERVER), str(request.port), self.arm.name))


def subject(name: str, **changes: Any) -> FakeSubject:
    plan = omnicfg.resolve("tiny_omni")
    return FakeSubject(Arm(name), Request(plan, "model", "fake", "127.0.0.1", 0, config={}), "bundled", **changes)


def setup(arms: list[Subject], loads: tuple[Load, ...]) -> dict[str, Any]:
    named = ("command", "profile", "pipeline", "platform", "model", "engine", "driver")
    return {
        **dict.fromkeys(named, "x"),
        "platform": "cuda",
        "arms": {
            one.name: {"settings": [], "alone": False, "rows": False, "plan": one.digest, "limits": one.limits}
            for one in arms
        },
        "loads": {load.name: load.to_dict() for load in loads},
    }


def campaign(out: Path, *arms: Subject, rounds: int = 2, loads: tuple[Load, ...] = (COLD, SHARED)) -> Campaign:
    store = Store.joined(out, setup(list(arms), loads))
    progress = Progress(StringIO())
    return Campaign(list(arms), loads, [WARM], rounds, driver("own"), Vocabulary(1000), out, store, progress)


def order(one: Campaign) -> list[tuple[int, str]]:
    return [(session.round, session.subject.name) for session in one._sessions()]


def test_every_arm_of_every_round_has_a_fresh_server_and_the_order_turns(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"), subject("on"))
    assert order(made) == [(1, "off"), (1, "on"), (2, "on"), (2, "off")]
    assert made.run()
    assert sorted(path.name for path in (tmp_path / "out/logs").iterdir()) == [
        "1-off-1.log",
        "1-on-1.log",
        "2-off-1.log",
        "2-on-1.log",
    ]
    measured = made.store.measurements()
    assert len(measured) == 8
    assert all(one["server"]["start_s"] > 0 and one["errors"] == 0 for one in measured)
    assert order(made) == []


def test_hits_are_what_the_counters_moved_by_during_the_load(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"), subject("on"), rounds=1)
    made.run()
    rates = {(one["arm"], one["load"]): (one["queried_tokens"], one["hit_rate"]) for one in made.store.measurements()}
    assert rates == {
        ("off", "COLD"): (240, 0.0),
        ("off", "SHARED"): (320, 0.0),
        ("on", "COLD"): (240, 0.0),
        ("on", "SHARED"): (320, 0.7),
    }


def test_the_cache_and_the_memory_are_told(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"), rounds=1, loads=(COLD,))
    made.run()
    [one] = made.store.measurements()
    assert one["cache_tokens"] == 1600
    assert one["resident_gib"]["all"] > 0.001


def test_what_is_there_is_not_measured_again(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"), subject("on"), rounds=1)
    made.run()
    (tmp_path / "out/measurements/1-on-SHARED.json").unlink()
    again = campaign(tmp_path / "out", subject("off"), subject("on"), rounds=1)
    assert [(session.subject.name, [load.name for load in session.loads]) for session in again._sessions()] == [
        ("on", ["SHARED"])
    ]
    assert again.run()
    assert (tmp_path / "out/logs/1-on-2.log").is_file()
    assert not (tmp_path / "out/logs/1-off-2.log").exists()


def test_a_load_for_which_no_time_is_left_is_not_begun(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"))
    made.seconds = 1.0  # the first guess is more
    assert not made.run()
    assert list((tmp_path / "out/logs").iterdir()) == []
    made.forecast.started(0.1)
    made.forecast.measured("off", COLD, 500.0)
    made.forecast.measured("off", SHARED, 0.1)
    made.seconds = 100.0
    assert not made.run()
    assert [one["load"] for one in made.store.measurements()] == ["SHARED"]  # the one before it was too long


def test_two_calls_share_a_folder_and_know_of_each_other(tmp_path: Path) -> None:
    one = campaign(tmp_path / "out", subject("off"), loads=(COLD,))
    other = campaign(tmp_path / "out", subject("off"), loads=(SHARED,))
    assert list(one.store.setup["loads"]) == list(other.store.setup["loads"]) == ["COLD", "SHARED"]
    logs = [made.store.log(1, "off").name for made in (one, other)]
    assert logs == ["1-off-1.log", "1-off-2.log"]


def test_another_plan_under_the_same_name_is_refused_and_a_new_arm_is_not(tmp_path: Path) -> None:
    running = campaign(tmp_path / "out", subject("off"))
    campaign(tmp_path / "out", subject("on"))
    assert list(Store.joined(tmp_path / "out", setup([], (COLD,))).setup["arms"]) == ["off", "on"]
    other = replace(subject("off"), engine="vllm-omni")
    with pytest.raises(UsageError, match="something else: arm off differ"):
        campaign(tmp_path / "out", other)
    with pytest.raises(UsageError, match="load COLD differ"):
        campaign(tmp_path / "out", subject("off"), loads=(replace(COLD, seed=9),))
    assert running.store.setup["arms"].keys() == {"off", "on"}


def test_of_what_nothing_is_measured_may_be_something_else_once_nobody_measures_it(tmp_path: Path) -> None:
    """A server that does not start under its plan is given another one, in the folder that is the default."""
    failed = campaign(tmp_path / "out", subject("dies-early"), subject("on"), rounds=1)
    with pytest.raises(ServeError):
        failed.run()
    del failed
    other = replace(subject("on"), engine="vllm-omni")
    assert list(campaign(tmp_path / "out", subject("off"), other).store.setup["arms"]) == ["off", "on"]
    made = campaign(tmp_path / "out", subject("off"), subject("on"), rounds=1, loads=(COLD,))
    made.run()
    del made
    with pytest.raises(UsageError, match="arm on differ"):
        campaign(tmp_path / "out", subject("off"), other)
    later = campaign(tmp_path / "out", subject("never-ready"), rounds=1, loads=(COLD,))
    del later
    again = campaign(tmp_path / "out", subject("refuses"), replace(subject("never-ready"), engine="vllm-omni"))
    assert list(again.store.setup["arms"]) == ["off", "on", "never-ready", "refuses"]
    del again
    longer = replace(SHARED, prompts=10)
    assert campaign(tmp_path / "out", subject("off"), loads=(COLD, longer)).store.setup["loads"]["SHARED"] == (
        longer.to_dict()
    )


@pytest.mark.parametrize("left", [["measurements"], ["measurements", "logs", "scratch"], ["equality.json"]])
def test_a_call_that_was_killed_at_its_beginning_leaves_a_folder_that_can_be_used(
    tmp_path: Path, left: list[str]
) -> None:
    for name in left:
        (tmp_path / "out" / name).mkdir(parents=True)
    (tmp_path / "out/.setup.json.0123456789abcdef").write_text('{"kind"')
    (tmp_path / "out/measurements").mkdir(exist_ok=True)
    assert campaign(tmp_path / "out", subject("off")).store.measurements() == []
    (tmp_path / "out/setup.json").unlink()
    (tmp_path / "out/measurements/1-off-COLD.json").write_text("{}")
    with pytest.raises(UsageError, match="holds something else"):
        campaign(tmp_path / "out", subject("off"))


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(UsageError, match="holds something else"):
        campaign(tmp_path, subject("off"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"requests_per_second": "8"}, "is no measurement: `requests_per_second` has to be a number"),
        ({"requests_per_second": float("nan")}, "`requests_per_second` has to be a number"),
        ({"requests_per_second": 10**400}, "`requests_per_second` is out of range"),
        ({"errors": True}, "`errors` has to be a whole number"),
        ({"ttft_ms": {"mean": 1}}, "`ttft_ms` has no median, p99"),
        ({"error_samples": [3]}, r"`error_samples\[0\]` has to be a text"),
        ({"machine": {}}, "`machine` has no gpus, cpu, cores, system, versions"),
        ({"round": 2}, "it is of round 2, arm off, load COLD, and named otherwise"),
    ],
)
def test_a_measurement_that_was_changed_is_told_with_what_is_wrong(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    made = campaign(tmp_path / "out", subject("off"), rounds=1, loads=(COLD,))
    made.run()
    path = tmp_path / "out/measurements/1-off-COLD.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    with pytest.raises(UsageError, match=message):
        made.store.measurements()
    path.write_text("{}")
    with pytest.raises(UsageError, match="it has no round, arm, load"):
        made.store.measurements()


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("arms", [], "`arms` has to be a mapping"),
        ("arms", {}, "it has no arms"),
        ("arms", {"off": None}, "`off` has to be a mapping"),
        ("loads", [], "it has no loads"),
        ("loads", {"A": None}, "load A: it has to be a mapping"),
        ("loads", {"A": {}}, "load A: it has no name"),
        ("model", 3, "`model` has to be a text"),
    ],
)
def test_a_setup_that_was_changed_is_told(tmp_path: Path, part: str, value: Any, message: str) -> None:
    campaign(tmp_path / "out", subject("off"))
    path = tmp_path / "out/setup.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), part: value}))
    for reads in (lambda: Store.of(tmp_path / "out"), lambda: campaign(tmp_path / "out", subject("off"))):
        with pytest.raises(UsageError, match=message):
            reads()


def test_two_measurements_are_never_one_file(tmp_path: Path) -> None:
    """Of arm `a` with load `b-c` and arm `a-b` with load `c`, one would count as the other, measured already."""
    loads = {name: replace(COLD, name=name) for name in ("c", "b-c")}
    campaign(tmp_path / "other", subject("a"), subject("a-b"), loads=(loads["c"],))
    with pytest.raises(UsageError, match="arm `a` with load `b-c` and arm `a-b` with load `c` would be kept in one"):
        campaign(tmp_path / "other", subject("a"), subject("a-b"), loads=(loads["c"], loads["b-c"]))


@pytest.mark.parametrize("name", ["setup.json", "measurements", "measurements/1-off-COLD.json"])
def test_what_may_not_be_read_is_told_so(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = campaign(tmp_path / "out", subject("off"), rounds=1, loads=(COLD,))
    made.run()

    def refuse(path: Path) -> Any:
        if path == tmp_path / "out" / name:
            raise PermissionError(13, "Permission denied")
        return original(path)

    which = "iterdir" if name == "measurements" else "read_bytes"
    original = getattr(Path, which)
    monkeypatch.setattr(Path, which, refuse)
    with pytest.raises(UsageError, match=f"{name}` cannot be read: Permission denied") as caught:
        Store.of(tmp_path / "out").measurements()
    assert caught.value.diagnostics[0].help == "Check its permissions."


def test_a_measurement_that_is_broken_is_told(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("off"))
    (tmp_path / "out/measurements/1-off-COLD.json").write_text("{")
    with pytest.raises(UsageError, match=r"1-off-COLD\.json:1:2` is no JSON"):
        made.run()


def test_a_server_that_does_not_start_ends_it_with_its_last_words(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("dies-early"))
    with pytest.raises(ServeError, match=r"exit status 3[^$]*out of memory"):
        made.run()


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnicfg.bench.server.START_S", 0.5)
    with pytest.raises(ServeError, match="did not answer"):
        campaign(tmp_path / "out", subject("never-ready")).run()


def test_a_server_that_dies_under_a_load_ends_it_and_keeps_what_was_measured(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("dies"), rounds=1)
    with pytest.raises(ServeError, match="/metrics does not answer"):
        made.run()
    assert made.store.measurements() == []


def test_a_running_server_is_measured_as_it_is(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        made = campaign(tmp_path / "out", subject("off", url=fake.url), rounds=1)
        assert made.run()
    [cold, _] = made.store.measurements()
    assert (cold["server"], cold["resident_gib"], cold["cache_tokens"]) == (
        {"start_s": None, "log": None, "speaks": False},
        None,
        1600,
    )
    assert {body["model"] for body in fake.asked} == {"fake"}


def test_a_running_server_has_other_prompts_in_every_round(tmp_path: Path) -> None:
    """Otherwise it would know them all from the second round on."""
    with FakeOpenAI() as fake:
        made = campaign(tmp_path / "out", subject("on", url=fake.url), rounds=3)
        assert made.run()
    rates = [(one["round"], one["load"], one["hit_rate"]) for one in made.store.measurements()]
    assert rates == [(round_, load, rate) for round_ in (1, 2, 3) for load, rate in (("COLD", 0.0), ("SHARED", 0.7))]


def test_no_start_is_reckoned_with_where_the_server_runs_already(tmp_path: Path) -> None:
    with FakeOpenAI() as fake:
        made = campaign(tmp_path / "out", subject("off", url=fake.url), rounds=1)
        made.seconds = 40.0  # a first guess is 30 s for a server's start, and 30 s for a load
        assert made.run()
    assert made.kept == 2


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [
        ("counters-fall", "prefix_cache_queries_total went from [0-9]+ to 0"),
        ("counts-nan", "prefix_cache_queries_total went from nan to nan"),
        ("counts-words", "prefix_cache_queries_total went from nan to nan"),
        ("counts-nothing", "/metrics answers 404"),
    ],
)
def test_counters_that_do_not_count_end_it_and_nothing_is_kept(tmp_path: Path, behaviour: str, message: str) -> None:
    with FakeOpenAI(behaviours=frozenset({behaviour})) as fake:
        made = campaign(tmp_path / "out", subject("on", url=fake.url), rounds=1)
        with pytest.raises(ServeError, match=message):
            made.run()
    assert made.store.measurements() == []
    assert (behaviour == "counts-nothing") == (fake.asked == [])


def test_loads_that_an_arm_cannot_take_are_left_out(tmp_path: Path) -> None:
    long = replace(COLD, name="LONG", own_tokens_mean=2046)
    arm = subject("off")
    assert arm.unfit(long, frozenset({"text"})) == "a request takes 2049 tokens, the context 2048"
    assert arm.unfit(replace(COLD, answer="speech"), frozenset({"text"})) == "the driver sends no request for speech"
    assert arm.unfit(COLD, frozenset({"text"})) is None
    made = campaign(tmp_path / "out", arm, loads=(long, COLD), rounds=1)
    assert made.run()
    assert [one["load"] for one in made.store.measurements()] == ["COLD"]


def test_a_report_of_what_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts: dict[str, Any] = {"gpus": [], "cpu": "one", "cores": 1, "system": "Linux", "versions": {}}
    monkeypatch.setattr(module, "machine_facts", lambda: facts)
    made = campaign(tmp_path / "out", subject("off"), subject("on"))
    made.run()
    report = report_of(made.store.setup, made.store.measurements())
    assert report["machines"] == [facts]
    shared = report["loads"][1]["arms"]
    assert shared["on"]["hit_rate"] == {"median": 0.7, "low": 0.7, "high": 0.7}
    assert shared["on"]["rounds"] == 2
    assert shared["off"]["ratio"] is None
    assert shared["on"]["ratio"]["low"] <= shared["on"]["ratio"]["median"] <= shared["on"]["ratio"]["high"]


def test_lines_and_time_left_are_told(tmp_path: Path) -> None:
    made = campaign(tmp_path / "out", subject("refuses"), rounds=1)
    made.run()
    told = made.progress._stream.getvalue()  # type: ignore[attr-defined]
    header, cold, shared = told.splitlines()
    assert header.split()[:4] == ["round", "arm", "load", "hit"]
    assert cold.split()[:4] == ["1", "refuses", "COLD", "0.0%"]
    assert cold.endswith("2 ERRORS")
    assert "0 s" in shared
