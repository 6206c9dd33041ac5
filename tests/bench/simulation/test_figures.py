"""What measurements say of one replica: the seconds that explain them, or what they lack."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from omnicfg.bench.loads import Load
from omnicfg.bench.report import report_of
from omnicfg.bench.simulation.cluster import Traffic, simulate
from omnicfg.bench.simulation.figures import figures
from omnicfg.bench.simulation.replica import Limits, Speed
from omnicfg.bench.simulation.study import Cluster, study
from omnicfg.bench.simulation.trace import calls_of, lines, read_trace
from omnicfg.catalog.paths import schemas_dir
from omnicfg.cli import run
from omnicfg.errors import UsageError
from tests.bench.test_report import SETUP, measurement

pytest.importorskip("simpy")
pytest.importorskip("numpy")

LIMITS = Limits(block_tokens=16, blocks=4000, requests=8, step_tokens=512)
SPEED = Speed((0.007, 2e-5, 0.0, 3e-4, 0.0, 0.001))
LOADS = (
    Load("P256_h0_c8", 0, 256, 4, 0.0, 1, "text", 8, 32, 1),
    Load("P1024_h0_c8", 0, 1024, 4, 0.0, 1, "text", 8, 32, 2),
    Load("P512_h94_c8", 480, 32, 4, 0.0, 1, "text", 8, 48, 3),
    Load("DEC_c8", 0, 32, 64, 0.5, 1, "text", 8, 32, 4),
    Load("DEC_c1", 0, 32, 64, 0.5, 1, "text", 1, 4, 5),
    Load("MP4_c4", 240, 16, 8, 0.0, 4, "text", 4, 32, 6),
    Load("P64_c8", 0, 64, 1, 0.0, 1, "text", 8, 64, 7),
)


def report(**changes: Any) -> dict[str, Any]:
    """What a machine of that speed would have been measured at."""
    limits = {"max_num_seqs": 8, "max_num_batched_tokens": 512, "kv_cache_memory_bytes": 1 << 30}
    setup = {**SETUP, "loads": {load.name: load.to_dict() for load in LOADS}}
    setup["arms"] = {name: {**arm, "limits": limits} for name, arm in SETUP["arms"].items()}
    measured = []
    for load in LOADS:
        outcome = simulate(Traffic.of(calls_of(load), 16, load.concurrency), 1, "round-robin", LIMITS, SPEED)
        told = {"hit_rate": outcome.hit_rate, "cache_tokens": 4000 * 16, "block_tokens": 16, **changes}
        measured.append(measurement(1, "on", load.name, outcome.requests_per_second, **told))
    return report_of(setup, measured)


def test_the_seconds_that_things_take_are_found_again() -> None:
    told = figures(report(), "on")
    assert told.limits == LIMITS
    assert told.speed.seconds == pytest.approx(SPEED.seconds, abs=1e-6)
    for fit in told.fits:
        assert fit.error == pytest.approx(0, abs=1e-4)
        assert fit.simulated.hit_rate == pytest.approx(fit.measured.hit_rate, abs=1e-5)
    shown = told.to_dict()
    assert shown["decode_step_ms"] == pytest.approx(7.3, abs=1e-3)
    assert shown["prefill_tokens_per_second"] == pytest.approx(512 / (0.007 + 512 * 2e-5), rel=1e-3)


def test_an_arm_without_a_cache_is_one_without_hits() -> None:
    assert figures(report(queried_tokens=0), "on").limits.caching is False


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"block_tokens": None}, "does not say of arm `on`: block_tokens"),
        ({"cache_tokens": None}, "does not say of arm `on`: cache_tokens"),
        ({"errors": 1}, "no load of arm `on` was measured in text and without errors"),
    ],
)
def test_measurements_that_say_too_little(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        figures(report(**changes), "on")


@pytest.mark.parametrize("field", ["prompts", "prefixes", "shared_prefix_tokens", "own_tokens_mean", "concurrency"])
@pytest.mark.parametrize("value", [-1, 1 << 40, "many", None])
def test_a_report_of_somebody_else_is_no_program(field: str, value: Any) -> None:
    told = report()
    told["loads"][0][field] = value
    with pytest.raises(UsageError, match="is not what `omnicfg bench` writes"):
        figures(told, "on")


@pytest.mark.parametrize("field", ["prompts", "prefixes", "own_tokens_mean", "output_tokens", "concurrency"])
def test_a_load_of_nothing_is_none(field: str) -> None:
    """Of the first load all that is sent is its own tokens: without them, its prompts are empty."""
    told = report()
    told["loads"][0][field] = 0
    with pytest.raises(UsageError, match="is not what `omnicfg bench` writes"):
        figures(told, "on")


@pytest.mark.parametrize("rate", [5e-324, 1e-300, 1e17])
def test_a_rate_at_which_nothing_is_measured_is_no_rate(rate: float) -> None:
    told = report()
    told["loads"][0]["arms"]["on"]["requests_per_second"]["median"] = rate
    with pytest.raises(UsageError, match="is not what `omnicfg bench` writes"):
        figures(told, "on")


def test_an_arm_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no arm `onn`") as caught:
        figures(report(), "onn")
    assert caught.value.diagnostics[0].help == "Did you mean `on`?"
    with pytest.raises(UsageError) as caught:
        figures(report(), "cold")
    assert caught.value.diagnostics[0].help == f"Its arms: {', '.join(report()['arms'])}."


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "report.json").write_text(json.dumps(report()))
    return str(tmp_path)


WORDS = ("--trace", "chat", "--arm", "on", "--replicas", "1,2", "--cache-tokens", "16000,64000")


def test_a_study_as_a_command(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "simulate", folder, *WORDS, "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    schema = json.loads((schemas_dir() / "simulation.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(told)
    assert {(one["replicas"], one["routing"]) for one in told["runs"] if one["replicas"] == 1} == {(1, "round-robin")}
    assert {one["routing"] for one in told["runs"]} == {"cache-aware", "least-loaded", "prefix-aware", "round-robin"}
    assert told["chosen"] in told["runs"]
    assert told["settings"][0] == "a replica's cache: `kv_cache_memory_bytes: 268435456` of the stage"
    assert told["measured"]["arm"] == "on"


def test_a_study_for_people(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--routing", "prefix-aware"]
    assert run(["bench", "simulate", folder, *words]) == 0
    text = capsys.readouterr().out
    assert "Choose 1 replica, 16,000 tokens of cache each" in text
    assert "one server, `num_replicas: 1`, no router" in text
    assert run(["bench", "simulate", folder, *words, "--format", "markdown"]) == 0
    assert "| replicas | routing | cache (tokens) |" in capsys.readouterr().out


def test_clusters_are_told_to_be_left_out_where_some_are(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "simulate", folder, "--trace", "chat", "--arm", "on", "--replicas", "1", "--cache-tokens"]
    for sizes, left_out in (("64000", False), ("4000,64000", False), ("32000,64000", True)):
        assert run([*words, sizes]) == 0
        assert ("a cluster is left out" in capsys.readouterr().out) == left_out


def test_it_is_told_how_far_it_is() -> None:
    told: list[str] = []

    def each(clusters: Sequence[Cluster]) -> Iterator[Cluster]:
        for number, one in enumerate(clusters, start=1):
            told.append(f"{number} of {len(clusters)}: {one}")
            yield one

    study(read_trace("chat"), figures(report(), "on"), (1, 2), ("cache-aware",), (16000, 64000), 1000, each)
    assert told == [
        "1 of 4: 1 replica, round-robin, 16,000 tokens each",
        "2 of 4: 2 replicas, cache-aware, 16,000 tokens each",
        "3 of 4: 1 replica, round-robin, 64,000 tokens each",
        "4 of 4: 2 replicas, cache-aware, 64,000 tokens each",
    ]


def test_a_routing_that_is_named_twice_is_tried_once(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    twice = ["--routing", "round-robin,round-robin", "--routing", "round-robin", "--format", "json"]
    words = ["--trace", "chat", "--arm", "on", "--replicas", "2", "--cache-tokens", "4000"]
    assert run(["bench", "simulate", folder, *words, *twice]) == 0
    assert len(json.loads(capsys.readouterr().out)["runs"]) == 1


def test_a_goal_that_nothing_reaches(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "simulate", folder, *WORDS, "--ttft-ms", "1"]) == 1
    assert "None of these has 99% of first tokens within 1 ms. The quickest: " in capsys.readouterr().out


def test_more_replicas_are_chosen_where_the_goal_needs_them(folder: str, capsys: pytest.CaptureFixture[str]) -> None:
    busy = Path(folder) / "busy.csv"
    busy.write_text("\n".join(lines(calls_of(Load("A", 0, 1024, 4, 0.0, 1, "text", 8, 200, 9), 40.0))))
    words = ["--trace", str(busy), "--arm", "on", "--cache-tokens", "64000", "--format", "json"]
    assert run(["bench", "simulate", folder, *words]) == 0
    told = json.loads(capsys.readouterr().out)
    alone = next(one for one in told["runs"] if one["replicas"] == 1)
    assert alone["ttft_ms"]["p99"] > 1000
    assert told["chosen"]["replicas"] == 2
    assert len(told["settings"]) > 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "takes one report and a trace"),
        (["FOLDER"], "takes one report and a trace"),
        (["FOLDER", "--trace", "chat", "--arm", "on", "--replicas", "0"], "`--replicas 0` is no list of numbers"),
        (["FOLDER", "--trace", "chat", "--arm", "on", "--replicas", "1,x"], "`--replicas 1,x` is no list"),
        (["FOLDER", "--trace", "chat", "--arm", "on", "--routing", "random"], "no routing `random`"),
        (["FOLDER", "--trace", "chat", "--arm", "on", "--arm", "off"], "takes one arm"),
        (["FOLDER", "--trace", "chat", "--arm", "on", "--cache-tokens", "500"], "a request takes"),
        (["nowhere", "--trace", "chat"], "`nowhere` cannot be read"),
    ],
)
def test_what_is_refused(folder: str, words: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run(["bench", "simulate", *(folder if word == "FOLDER" else word for word in words)])


def test_a_trace_of_loads(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "trace", "qwen3_omni_moe", "--loads", "MP32_c64,DEC100_c32", "--rate", "8"]) == 0
    header, first, *rest = capsys.readouterr().out.splitlines()
    assert header == "arrival_s,prompt,output_tokens"
    assert len(rest) == 512 + 256 - 1
    assert float(first.split(",")[0]) < 1
    with pytest.raises(UsageError, match="is no rate"):
        run(["bench", "trace", "--quick", "--rate", "0"])


@pytest.mark.parametrize(
    ("prompts", "rate", "message"),
    [
        (200_000, "8", "a trace has room for 199,999 requests, and these loads have 200,000"),
        (10, "1e-7", "the last request comes after .* s, and a trace ends at 10,000,000"),
    ],
)
def test_no_trace_is_written_that_could_not_be_read(tmp_path: Path, prompts: int, rate: str, message: str) -> None:
    table = tmp_path / "loads.csv"
    table.write_text(
        f"name,shared_prefix_tokens,own_tokens_mean,output_tokens,concurrency,prompts,seed\na,0,5,5,1,{prompts},0\n"
    )
    with pytest.raises(UsageError, match=message):
        run(["bench", "trace", "--loads-file", str(table), "--rate", rate])
