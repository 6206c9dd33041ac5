"""Traces: what a file says, what is wrong with it, and what a load comes to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from omnicfg.bench.loads import Load
from omnicfg.bench.prompts import Vocabulary, lengths_of, prompts_of
from omnicfg.bench.simulation.trace import Call, Part, calls_of, lines, read_trace, shipped
from omnicfg.commands._simulating import write_trace
from omnicfg.errors import OmnicfgError, ServeError, UsageError

pytest.importorskip("numpy")

LOAD = Load("MP", 48, 16, 4, 0.0, 3, "text", 4, 12, 7)


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    return str(path)


def test_parts_with_names_are_shared_and_those_without_are_not(tmp_path: Path) -> None:
    name = written(
        tmp_path,
        "output_tokens,arrival_s,prompt,answer\n20,1.5,system:100 doc/7:3000 40,\n10,0.25,system:100 8,turn-1\n",
    )
    first, second = read_trace(name)
    assert first == Call(0.25, (Part(100, "system"), Part(8)), 10, "turn-1")
    assert second.prompt == (Part(100, "system"), Part(3000, "doc/7"), Part(40))
    assert (second.prompt_tokens, second.parts[-1]) == (3140, Part(20))


@pytest.mark.parametrize(
    ("row", "column", "message"),
    [
        ("soon,5,1,", 1, "`soon` is not a number of seconds"),
        ("inf,5,1,", 1, "`inf` is not a number of seconds"),
        ("1764547200,5,1,", 1, "`1764547200` is not a number of seconds from 0 to 10000000, after the beginning"),
        ("1_0,5,1,", 1, "`1_0` is not a number of seconds"),
        ("\u0661,5,1,", 1, "`\u0661` is not a number of seconds"),
        ('0,"5,1,', 3, '`"5` is not a prompt'),
        ("0,system:x 5,1,", 3, "`system:x 5` is not a prompt"),
        ("0,-5,1,", 3, "`-5` is not a prompt"),
        ("0,0,1,", 3, "`0` is not a prompt"),
        ("0,99999999,1,", 3, "`99999999` is not a prompt"),
        ("0,5,0,", 5, "`0` is not a whole number"),
        ("0,5,1,a b", 7, "`a b` is not a name"),
        ("0,,1,", 1, "the row has no prompt"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, row: str, column: int, message: str) -> None:
    name = written(tmp_path, f"arrival_s,prompt,output_tokens,answer\n0,5,1,\n{row}\n")
    with pytest.raises(OmnicfgError) as caught:
        read_trace(name)
    [one] = caught.value.diagnostics
    assert (one.path, one.line, one.column) == (name, 3, column)
    assert one.message.startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("arrival_s,prompt,output_tokens\n", "holds no request"),
        ("arrival_s,prompt\n0,5\n", "columns are missing: output_tokens"),
        ("arrival_s,prompt,output_tokens,user\n", "no column `user` in a table of requests"),
    ],
)
def test_what_is_no_trace(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(OmnicfgError) as caught:
        read_trace(written(tmp_path, text))
    assert message in caught.value.diagnostics[0].message


def test_a_prompt_may_have_many_parts_and_what_is_wrong_with_one_is_told_in_short(tmp_path: Path) -> None:
    head = "arrival_s,prompt,output_tokens\n"
    [call] = read_trace(written(tmp_path, f"{head}0,{'5 ' * 70_000},1\n"))
    assert call.prompt_tokens == 350_000
    with pytest.raises(OmnicfgError) as caught:
        read_trace(written(tmp_path, f"{head}0,5,{'7' * 200_000}\n"))
    assert caught.value.diagnostics[0].message == f"`{'7' * 60}…` is not a whole number from 1 to 10000000"


def test_a_cell_in_quotes(tmp_path: Path) -> None:
    [call] = read_trace(written(tmp_path, 'arrival_s,"prompt",output_tokens\n-0,"a:10 5", 3\n'))
    assert (call.prompt, str(call.arrival_s), call.output_tokens) == ((Part(10, "a"), Part(5)), "0.0", 3)


def test_a_trace_that_is_not_there() -> None:
    for name, help in (("nowhere.csv", "Shipped: chat."), ("chatt", "Did you mean `chat`?")):
        with pytest.raises(UsageError, match="cannot be read") as caught:
            read_trace(name)
        assert str(caught.value.diagnostics[0].help).startswith(help)


def test_a_load_has_the_lengths_the_prefixes_and_the_order_of_its_prompts() -> None:
    prompts = prompts_of(LOAD, Vocabulary(1000))
    calls = calls_of(LOAD)
    assert [call.prompt_tokens for call in calls] == [len(prompt.tokens) for prompt in prompts]
    same = {(call.prompt[0].name, tuple(prompt.tokens[:48])) for call, prompt in zip(calls, prompts, strict=True)}
    assert len(same) == 3
    assert {call.arrival_s for call in calls} == {0.0}


def test_the_lengths_of_a_load_are_known_without_its_tokens() -> None:
    """So are those of a load of more tokens than there is memory for."""
    for load in (LOAD, replace(LOAD, prefixes=1, range_ratio=0.5), replace(LOAD, shared_prefix_tokens=0)):
        drawn = [(len(prompt.tokens), prompt.output_tokens) for prompt in prompts_of(load, Vocabulary(1000))]
        assert list(lengths_of(load)) == drawn
    vast = replace(LOAD, own_tokens_mean=10_000_000, prompts=3 * 60_000)
    assert sum(call.prompt_tokens for call in calls_of(vast)) == 10_000_048 * 180_000


def test_without_numpy_it_is_told_where_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("omnicfg.bench.simulation.trace.find_spec", lambda _: None)
    with pytest.raises(ServeError, match="need the Python package `numpy`"):
        calls_of(LOAD)


def test_a_load_without_a_prefix_shares_nothing() -> None:
    load = Load("A", 0, 16, 4, 0.5, 1, "text", 4, 12, 7)
    assert {part.name for call in calls_of(load) for part in call.prompt} == {None}
    assert len({call.prompt_tokens for call in calls_of(load)}) > 3


def test_requests_come_at_a_rate() -> None:
    times = [call.arrival_s for call in calls_of(Load("A", 0, 16, 4, 0.0, 1, "text", 4, 2000, 7), 50.0)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(40, rel=0.1)
    assert times == [call.arrival_s for call in calls_of(Load("A", 0, 16, 4, 0.0, 1, "text", 4, 2000, 7), 50.0)]


def test_a_trace_that_is_written_reads_the_same(tmp_path: Path) -> None:
    longest = replace(LOAD, name="a" * 64, prompts=600, prefixes=200)
    calls = (*calls_of(LOAD), *calls_of(longest), Call(1.0, (Part(3, "x"), Part(2)), 5, "turn"))
    assert read_trace(written(tmp_path, "\n".join(lines(calls)))) == calls


def test_a_load_whose_requests_have_no_room_in_a_trace_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"a request of load `MP` may have 10,000,020 tokens"):
        write_trace([LOAD, replace(LOAD, shared_prefix_tokens=10_000_000)], None, print)
    assert capsys.readouterr().out == ""


def test_shipped_traces_are_whole() -> None:
    assert "chat" in shipped()
    for name in shipped():
        calls = read_trace(name)
        assert len(calls) > 50
        assert any(part.name for call in calls for part in call.prompt)
