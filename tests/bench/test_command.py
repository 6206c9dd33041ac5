"""``omnicfg bench``: what it refuses before anything is started, and what it does on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omnicfg.cli import main, run
from omnicfg.commands import bench
from omnicfg.commands._options import reading
from omnicfg.errors import OmnicfgError, UsageError
from omnicfg.parser import Option, parameters
from omnicfg.wording import listed
from tests.bench.fake_openai import FakeOpenAI


def refused(*words: str) -> tuple[str, str | None]:
    with pytest.raises(OmnicfgError) as caught:
        run(["bench", *words])
    first = caught.value.diagnostics[0]
    return first.message, first.help


def quick(model: Path, out: Path) -> list[str]:
    """A bench of a few small loads."""
    return ["bench", "prefix-cache", "qwen3_omni_moe", "--model", str(model), "--quick", "--out", str(out)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["prefix-cash", "tiny_omni"], "`omnicfg bench` cannot `prefix-cash`"),
        (["prefix-cache"], "takes one profile, and 0 are named"),
        (["equality", "tiny_omni", "tiny_omni"], "takes one profile, and 2 are named"),
        (["compare", "h20"], "takes two reports"),
        (["compare", "nothing.json", "h20"], "`nothing.json` cannot be read: No such file or directory"),
        (["compare", "h20", "h20:qwen3-omni"], "has no results of a model that is not named"),
        (["prefix-cache", "no_profile"], "no profile `no_profile`"),
        (["prefix-cache", "tiny_omni", "--arm", "a:x"], "`x` sets nothing"),
        (["prefix-cache", "tiny_omni", "--url", "http://127.0.0.1:9"], "`--url` is one arm, and needs its name"),
        (["prefix-cache", "tiny_omni", "--platform", "tpu"], "tpu"),
        (["prefix-cache", "tiny_omni", "--rounds", "0"], "`--rounds` is 0"),
    ],
)
def test_what_is_refused_at_once(words: list[str], message: str) -> None:
    assert message in refused(*words)[0]


def test_an_action_that_is_none_is_answered_with_those_that_are() -> None:
    assert refused("measure", "tiny_omni")[1] == "It can: prefix-cache, equality, report, compare, simulate, trace."


@pytest.mark.parametrize("words", [["simulate", "NAME", "--trace", "chat"], ["simulate", "NAME"], ["report", "NAME"]])
@pytest.mark.parametrize("name", ["h20", "h20:qwen3-omni"])
def test_published_results_are_not_taken_for_measurements(words: list[str], name: str) -> None:
    """They can be compared with, and nothing else; a name that is none is not answered with theirs."""
    told = refused(*(name if word == "NAME" else word for word in words))
    assert told == (
        f"`{name}` holds published rates of loads, not the measurements behind them",
        (
            "Name the folder that `omnicfg bench prefix-cache --out` wrote. "
            f"`omnicfg bench compare DIR {name}` holds such a folder against what is published."
        ),
    )


def test_what_can_be_named_as_a_report() -> None:
    report = "A report is a report.json, or the folder that `omnicfg bench prefix-cache --out` wrote."
    message = "`nothing` cannot be read: No such file or directory"
    assert refused("simulate", "nothing", "--trace", "chat") == (message, report)
    assert refused("compare", "nothing", "h20") == (message, f"Published: h20. {report}")


def test_two_tables_contradict_each_other(model: Path) -> None:
    words = ["prefix-cache", "qwen3_omni_moe", "--model", str(model), "--quick", "--loads-file", "x.csv"]
    assert "contradict" in refused(*words)[0]


def test_a_load_that_is_not_there_has_a_near_name(model: Path) -> None:
    words = ["prefix-cache", "qwen3_omni_moe", "--model", str(model), "--loads", "MP32_c64,DECV_c46"]
    assert refused(*words)[1] == "Did you mean `DECV_c64`?"


def test_a_table_of_ones_own_is_told_with_the_place_of_its_mistake(model: Path, tmp_path: Path) -> None:
    table = tmp_path / "loads.csv"
    table.write_text(
        "name,shared_prefix_tokens,own_tokens_mean,output_tokens,concurrency,prompts,seed\nA,0,few,1,1,1,1\n"
    )
    words = ["prefix-cache", "qwen3_omni_moe", "--model", str(model), "--loads-file", str(table)]
    with pytest.raises(OmnicfgError) as caught:
        run(["bench", *words])
    [one] = caught.value.diagnostics
    assert (one.path, one.line, one.column) == (str(table), 2, 5)


def test_loads_that_no_arm_can_take_leave_nothing_to_measure(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["prefix-cache", "qwen3_omni_moe", "--model", str(model), "--loads", "P16384_h0_c64"]
    assert refused(*words, "--set", "stages.0.max_model_len=4096")[0] == "there is nothing to measure"
    assert "P16384_h0_c64 is not measured with arm off: a request takes 16392 tokens" in capsys.readouterr().err


def test_a_plan_that_fails_validation_is_not_benched(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "prefix-cache", "qwen3_omni_moe", "--model", str(model), "--out", str(tmp_path / "out")]
    assert run([*words, "--arm", "on", "--arm", "bad:stages.0.max_num_seqs=few"]) == 1
    told = capsys.readouterr().err
    assert "max_num_seqs" in told
    assert "arm bad is not measured, since its plan has errors" in told
    assert not (tmp_path / "out").exists()


def test_a_running_server_is_measured_arm_by_arm(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("numpy")
    out = tmp_path / "out"
    words = ["bench", "prefix-cache", "qwen3_omni_moe", "--model", str(model), "--quick", "--out", str(out)]
    words += ["--rounds", "1", "--format", "json", "--set", "stages.0.max_model_len=2048"]
    for name, behaviour in (("off", {"off"}), ("on", set())):
        with FakeOpenAI(behaviours=frozenset(behaviour)) as fake:
            assert run([*words, "--url", fake.url, "--arm", name]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out.split("\n}\n")[1] + "\n}")
    assert report["engine"] == "running server"
    shared = next(load for load in report["loads"] if load["name"] == "P512_h94_c4")["arms"]
    assert (shared["off"]["hit_rate"]["median"], shared["off"]["ratio"]) == (0.0, None)
    assert shared["on"]["hit_rate"]["median"] > 0.8
    assert shared["on"]["ratio"]["median"] > 0
    assert {path.name for path in out.iterdir()} >= {"report.json", "report.md", "setup.json", "measurements"}
    assert "every arm of every round on a server that ran already" in (out / "report.md").read_text()


def test_requests_that_fail_make_the_exit_code_one(model: Path, tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    pytest.importorskip("numpy")
    words = ["bench", "prefix-cache", "qwen3_omni_moe", "--model", str(model), "--quick", "--rounds", "1"]
    with FakeOpenAI(behaviours=frozenset({"short"})) as fake:
        assert run([*words, "--out", str(tmp_path / "out"), "--url", fake.url, "--arm", "on"]) == 1


def test_a_server_that_is_not_there_is_told(model: Path, tmp_path: Path) -> None:
    words = ["prefix-cache", "qwen3_omni_moe", "--model", str(model), "--quick", "--arm", "on"]
    with FakeOpenAI() as fake:
        pass
    assert "does not answer" in refused(*words, "--out", str(tmp_path / "out"), "--url", fake.url)[0]


def test_a_key_is_not_kept_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x", "bench", "--api-key", "sesame", "--api-key=sesame", "a b"])
    assert bench._command() == "omnicfg bench --api-key '***' '--api-key=***' 'a b'"


def test_no_report_tells_a_secret_of_a_setting_or_of_an_address(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("numpy")
    words = quick(model, tmp_path / "out")
    words += ["--arm", "on:stages.0.env={HF_TOKEN: sesame}", "--url", "http://me:sesame@127.0.0.1:9"]
    monkeypatch.setattr("sys.argv", ["omnicfg", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "does not answer" in capsys.readouterr().err
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not any(b"sesame" in path.read_bytes() for path in written)
    assert "HF_TOKEN: ***" in (tmp_path / "out/setup.json").read_text()


def test_too_little_time_for_anything_is_told_as_that(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same command again would not go on."""
    pytest.importorskip("numpy")
    words = quick(model, tmp_path / "out")
    assert run([*words, "--arm", "on", "--url", "http://127.0.0.1:9", "--seconds", "5"]) == 1
    assert "nothing is measured: no load fits into so few `--seconds`" in capsys.readouterr().err


def test_the_command_completes_loads() -> None:
    assert "MP32_c64" in bench.load_names()
    assert "warm" not in bench.load_names()


def test_equality_takes_two_arms_and_starts_them_itself(model: Path, tmp_path: Path) -> None:
    words = ["equality", "qwen3_omni_moe", "--model", str(model), "--quick", "--out", str(tmp_path / "out")]
    with pytest.raises(UsageError, match="takes two arms"):
        run(["bench", *words, "--arm", "on"])


OPTIONS = {
    "--model": "x", "--loads": "x", "--quick": None, "--loads-file": "x", "--arm": "x", "--rounds": "3",
    "--engine": "bundled", "--url": "x", "--api-key": "x", "--driver": "own", "--out": "x", "--seconds": "1",
    "--platform": "cuda", "--overlay": "x", "--set": "x=1", "--pipeline": "x", "--batch-invariant": None,
    "--trace": "x", "--replicas": "1", "--routing": "x", "--cache-tokens": "1", "--ttft-ms": "1000", "--rate": "1",
    "--format": "text", "--root": ".", "--allow-env": "X",
}  # fmt: skip
READ = {
    "prefix-cache": {
        "--model", "--loads", "--quick", "--loads-file", "--arm", "--rounds", "--engine", "--url", "--api-key",
        "--driver", "--out", "--seconds", "--platform", "--overlay", "--set", "--pipeline", "--format", "--root",
        "--allow-env",
    },
    "equality": {
        "--model", "--loads", "--quick", "--loads-file", "--arm", "--engine", "--out", "--platform", "--overlay",
        "--set", "--pipeline", "--batch-invariant", "--format", "--root", "--allow-env",
    },
    "report": {"--out", "--format"},
    "compare": {"--format"},
    "simulate": {"--arm", "--trace", "--replicas", "--routing", "--cache-tokens", "--ttft-ms", "--format"},
    "trace": {"--loads", "--quick", "--loads-file", "--platform", "--pipeline", "--rate", "--root", "--allow-env"},
}  # fmt: skip


@pytest.mark.parametrize("action", READ)
def test_an_action_refuses_the_options_of_others(action: str) -> None:
    for option in OPTIONS.keys() - READ[action]:
        value = OPTIONS[option]
        assert refused(action, option, *([] if value is None else [value])) == (
            f"`bench {action}` takes no `{option}`",
            f"`{option}` is for {listed([name for name, read in READ.items() if option in read])}.",
        )


@pytest.mark.parametrize("action", READ)
def test_an_action_takes_its_own(action: str) -> None:
    words = [word for option in sorted(READ[action]) for word in (option, OPTIONS[option]) if word is not None]
    assert "takes no" not in refused(action, "nothing", "nothing", *words)[0]


def test_every_option_of_its_own_is_known_to_belong_to_an_action() -> None:
    declared = [each.declared for command in (bench.run, reading) for each in parameters(command)]
    assert set(OPTIONS) == {one.flags[0] for one in declared if isinstance(one, Option)}


def test_a_key_is_for_a_running_server(monkeypatch: pytest.MonkeyPatch) -> None:
    told = refused("prefix-cache", "tiny_omni", "--api-key", "sesame")
    assert told == ("`bench prefix-cache` takes no `--api-key`", "It is for a server that `--url` names.")
    monkeypatch.setenv("OMNICFG_API_KEY", "sesame")
    assert refused("compare", "h20")[0] == "`omnicfg bench compare` takes two reports"


@pytest.mark.parametrize("url", ["x", "127.0.0.1:8091", "file:///x", "http://", "http://[::1", "http://x:99999"])
def test_what_is_no_servers_address_is_told(url: str) -> None:
    told = refused("prefix-cache", "tiny_omni", "--quick", "--arm", "on", "--url", url)
    assert told == (f"`--url {url}` is no address of a server", "`--url http://127.0.0.1:8091`")


def test_a_report_that_is_not_made_is_refused() -> None:
    told = refused("equality", "tiny_omni", "--format", "markdown")
    assert told == ("`omnicfg bench equality` has no report in markdown", "`--format text`, or `json`.")


@pytest.mark.parametrize("word", [["tiny_omni"], ["--pipeline", "tiny_omni"], ["--platform", "cuda"]])
def test_a_trace_of_named_loads_needs_no_profile_and_takes_none(word: list[str]) -> None:
    named = word[0] if word[0].startswith("--") else "PROFILE"
    assert refused("trace", "--quick", *word) == (
        f"`bench trace --quick` takes no `{named}`",
        "That says which loads, as a profile would: give one of the two.",
    )
