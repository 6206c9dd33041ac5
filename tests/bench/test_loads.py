"""Loads: the published rows as data, a user's own tables, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.bench.loads import Load, chosen, quick, read_loads, shipped, tables, warm_up
from omnicfg.bench.prompts import Vocabulary, prompts_of
from omnicfg.errors import OmnicfgError, UsageError

HEADER = "name,shared_prefix_tokens,own_tokens_mean,output_tokens,concurrency,prompts,seed"


def table(tmp_path: Path, *lines: str, header: str = HEADER) -> Path:
    path = tmp_path / "loads.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def problems(path: Path) -> list[tuple[int, int, str]]:
    with pytest.raises(OmnicfgError) as caught:
        read_loads(path)
    assert all(one.path == str(path) for one in caught.value.diagnostics)
    return [(one.line, one.column, one.message) for one in caught.value.diagnostics]


def test_all_published_rows_are_shipped() -> None:
    counts = {name: len(read_loads(path)) for name, path in tables().items()}
    assert counts["qwen3-omni"] + counts["minicpm-o-4-5"] == 44
    assert counts.keys() == {"qwen3-omni", "minicpm-o-4-5", "quick"}


@pytest.mark.parametrize(("pipeline", "seed", "prefixes"), [("qwen3_omni_moe", 50057, 32), ("minicpmo_4_5", 50136, 32)])
def test_a_pipeline_has_the_loads_of_its_model(pipeline: str, seed: int, prefixes: int) -> None:
    [load] = chosen(shipped(pipeline), ["MP32_c64"])
    assert (load.seed, load.prefixes, load.prompts) == (seed, prefixes, 512)
    assert (load.shared_prefix_tokens, load.own_tokens_mean) == (3840, 256)


def test_a_pipeline_without_published_loads_has_the_quick_ones() -> None:
    assert shipped("tiny_omni") == quick()
    assert all(load.longest <= 2048 for load in quick())


def test_rows_that_speak_are_told_apart_from_those_that_write() -> None:
    loads = [load for model in ("qwen3_omni_moe", "minicpmo_4_5") for load in shipped(model)]
    assert {load.name for load in loads if load.answer == "speech"} == {"AUD_L4096_h94_c32", "AUD_L2048_h94_c32"}


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    [load] = read_loads(table(tmp_path, "", "# of one's own", "A,10,20,5,2,8,1"))
    assert load == Load("A", 10, 20, 5, 0.0, 1, "text", 2, 8, 1)
    assert load.longest == 35


@pytest.mark.parametrize("blank", ["", "   ", ",,,,,,", " , , , , , , ", "# ,,,"])
def test_a_line_without_values_is_no_load(tmp_path: Path, blank: str) -> None:
    """Spreadsheets write empty rows as commas."""
    path = tmp_path / "loads.csv"
    path.write_text(f"{blank}\n{HEADER}\n{blank}\na,0,5,5,1,1,0\n{blank}\n")
    assert [load.name for load in read_loads(path)] == ["a"]


def test_lengths_that_vary_make_a_request_longer(tmp_path: Path) -> None:
    [load] = read_loads(table(tmp_path, "A,0,101,5,2,8,1,0.5", header=HEADER + ",range_ratio"))
    assert load.longest == 152 + 8


def test_every_wrong_value_is_told_with_its_place(tmp_path: Path) -> None:
    path = table(tmp_path, "A,ten,20,5,2,8,1", "A B,0,1,5,2,8,1", "C,0,20,5,0,8,1")
    assert problems(path) == [
        (2, 3, "`ten` is not a whole number from 0 to 10000000"),
        (3, 1, "`A B` is not a name (letters, digits, `_`, `.`, `-`)"),
        (4, 10, "`0` is not a whole number from 1 to 10000000"),
    ]


@pytest.mark.parametrize(
    ("line", "extra", "place", "message"),
    [
        ("A,0,20,5,2,8", "", (2, 12), "6 values in a table of 7 columns"),
        ("A,0,20,5,2,8,1,1", "", (2, 14), "8 values in a table of 7 columns"),
        ("A,0,20,,2,8,1", "", (2, 1), "the row has no output_tokens"),
        ("A,9,20,5,2,8,1,9", ",prefixes", (2, 16), "9 prefixes for 8 prompts"),
        ("A,9,20,5,2,8,1,3", ",prefixes", (2, 16), "8 prompts do not share out evenly among 3 prefixes"),
        ("A,9,20,5,2,8,1,1.5", ",range_ratio", (2, 16), "`1.5` is not a number from 0 up to 1"),
        ("A,9,20,5,2,8,1,nan", ",range_ratio", (2, 16), "`nan` is not a number from 0 up to 1"),
        ("A,9,20,5,2,8,1,song", ",answer", (2, 16), "`song` is not one of text, speech"),
        ('"A', "", (2, 1), "1 values in a table of 7 columns"),
        ("A,0,1_000,5,2,8,1", "", (2, 5), "`1_000` is not a whole number from 1 to 10000000"),
        ("A,0,\u0663,5,2,8,1", "", (2, 5), "`\u0663` is not a whole number from 1 to 10000000"),
        ("A,0,-3,5,2,8,1", "", (2, 5), "`-3` is not a whole number from 1 to 10000000"),
        ("A\u00e4,0,20,5,2,8,1", "", (2, 1), "`A\u00e4` is not a name (letters, digits, `_`, `.`, `-`)"),
        ("A,0,2,5,2,8,1,0.6", ",range_ratio", (2, 15), "a prompt could come without a token"),
    ],
)
def test_what_is_wrong_in_a_row(tmp_path: Path, line: str, extra: str, place: tuple[int, int], message: str) -> None:
    assert problems(table(tmp_path, line, header=HEADER + extra)) == [(*place, message)]


def test_a_prompt_of_a_prefix_alone_is_one(tmp_path: Path) -> None:
    [load] = read_loads(table(tmp_path, "A,1,1,5,2,8,1,0.9", header=HEADER + ",range_ratio"))
    assert load.shortest == 1


def test_a_table_with_nothing_to_measure_holds_no_load(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no load"):
        read_loads(table(tmp_path, "warm,0,20,5,2,8,1"))


def test_a_warm_up_for_the_shortest_load_has_no_empty_prompt(tmp_path: Path) -> None:
    loads = read_loads(table(tmp_path, "A,0,1,1,1,4,1"))
    assert all(load.shortest >= 1 for load in warm_up(loads, loads))


def test_a_column_that_is_misspelt_missing_or_there_twice(tmp_path: Path) -> None:
    path = table(tmp_path, header="name,shared_prefix_token,own_tokens_mean,output_tokens,concurrency,prompts,name")
    assert problems(path) == [
        (1, 6, "there is no column `shared_prefix_token` in a table of loads"),
        (1, 76, "column `name` is there twice"),
        (1, 76, "columns are missing: shared_prefix_tokens, seed"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_are_those_of_an_editor(tmp_path: Path, end: str) -> None:
    """Python's own have more ends: a form feed, say."""
    path = tmp_path / "loads.csv"
    path.write_bytes(end.join([HEADER, "#\f\u2028", "A,1,1,1,1,x,1"]).encode())
    assert [place[:2] for place in problems(path)] == [(3, 11)]


def test_columns_without_a_name_are_told_as_that(tmp_path: Path) -> None:
    """Spreadsheets write them behind the last one that is used."""
    end = len(HEADER)
    assert problems(table(tmp_path, "A,0,20,5,2,8,1,,", header=f"{HEADER},,")) == [
        (1, end + 2, "a column has no name"),
        (1, end + 3, "a column has no name"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("0,300,5,1,8,7,1,0", "0,600,5,4,32,7,1,0", True),
        ("0,300,5,1,8,7,1,0", "0,300,5,1,8,8,1,0", False),
        ("0,300,5,1,8,7,1,0", "64,300,5,1,8,7,1,0", False),
        ("64,300,5,1,8,7,1,0", "96,30,9,4,8,7,1,0", True),
        ("64,300,5,1,8,7,1,0", "64,300,5,1,16,7,1,0", False),
        ("0,300,5,1,8,7,1,0", "0,300,5,1,8,7,1,0.5", False),
        ("0,300,5,1,8,7,1,0.5", "0,300,5,4,8,7,1,0.5", True),
        ("0,300,5,1,8,7,1,0.5", "0,300,5,1,16,7,1,0.5", False),
        ("0,300,5,1,8,7,1,0.5", "0,600,9,1,8,7,1,0.3", True),
        ("64,300,5,1,8,7,1,0.5", "64,600,5,1,8,7,1,0.5", True),
        ("64,300,5,1,24,7,1,0", "64,300,5,1,8,7,1,0.5", True),
        ("0,300,5,1,24,7,1,0", "0,300,5,1,8,7,1,0.5", False),
        ("0,300,5,1,8,7,1,0", "0,300,5,1,9,7,1,1e-17", True),
        ("64,300,5,1,8,7,2,0", "96,30,9,4,8,7,4,0", True),
        ("64,300,5,1,8,7,2,0", "64,300,5,1,8,7,1,0", False),
    ],
)
def test_loads_that_would_hit_each_others_prompts_are_told(tmp_path: Path, one: str, other: str, alike: bool) -> None:
    pytest.importorskip("numpy", reason="needs the extra bench")
    header, (first, second, both) = f"{HEADER},prefixes,range_ratio", (tmp_path / name for name in ("1", "2", "both"))
    for folder in (first, second, both):
        folder.mkdir()
    begun = [
        {tuple(prompt.tokens[:8]) for prompt in prompts_of(read_loads(path)[0], Vocabulary(150_000))}
        for path in (table(first, f"A,{one}", header=header), table(second, f"B,{other}", header=header))
    ]
    assert bool(begun[0] & begun[1]) == alike
    path = table(both, f"A,{one}", f"B,{other}", header=header)
    if not alike:
        assert len(read_loads(path)) == 2
        return
    [(line, column, message)] = problems(path)
    assert (line, path.read_text().splitlines()[2][column - 1]) == (3, "7")
    assert message.startswith("load `A` has seed 7 too, so what it sends is in the prefix cache")


def test_a_load_that_is_there_twice(tmp_path: Path) -> None:
    assert problems(table(tmp_path, "A,0,20,5,2,8,1", "A,0,20,5,2,8,2")) == [(3, 1, "load `A` is there twice")]


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"x" * (1 << 21)])
def test_what_is_no_table_at_all(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "loads.csv"
    path.write_bytes(content)
    with pytest.raises(OmnicfgError):
        read_loads(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_loads(tmp_path / "none.csv")


def test_loads_are_chosen_by_name() -> None:
    assert [load.name for load in chosen(quick(), ["MP4_c4", "P256_h0_c4"])] == ["P256_h0_c4", "MP4_c4"]
    assert "warm" not in {load.name for load in chosen(quick(), [])}
    with pytest.raises(UsageError) as caught:
        chosen(quick(), ["P256_h0_c8"])
    assert caught.value.diagnostics[0].help == "Did you mean `P256_h0_c4`?"
    with pytest.raises(UsageError) as caught:
        chosen(quick(), ["loads.csv"])
    assert caught.value.diagnostics[0].help == "`--loads-file` takes a file."


@pytest.mark.parametrize("content", ["", "\n \n", "# to come\n,,\n"])
def test_a_file_without_a_table(tmp_path: Path, content: str) -> None:
    path = tmp_path / "loads.csv"
    path.write_text(content)
    assert problems(path) == [(1, 1, "there is no table in the file")]


def test_a_row_of_empty_quotes_is_none(tmp_path: Path) -> None:
    [load] = read_loads(table(tmp_path, '"","","","","","",""', "A,10,20,5,2,8,1"))
    assert load.name == "A"


def test_a_table_without_a_warm_up_warms_up_with_its_first_load(tmp_path: Path) -> None:
    loads = read_loads(table(tmp_path, "A,10,20,5,2,80,1"))
    _, own = warm_up(loads, loads)
    assert (own.prompts, own.concurrency) == (8, 2)
    assert warm_up(quick(), loads)[1].seed == 50001


@pytest.mark.parametrize(
    "line", ["A,0,40,5,4,8,1,1", "A,0,40,5,4,64,1,1", "A,64,40,5,4,8,0,1", "A,64,40,5,2,8,1,4"], ids=str
)
def test_the_warm_up_sends_nothing_that_is_measured(tmp_path: Path, line: str) -> None:
    """What it had in common with a measured prompt would be a hit of the prefix cache."""
    pytest.importorskip("numpy", reason="needs the extra bench")
    loads = read_loads(table(tmp_path, line, header=HEADER + ",prefixes"))
    measured, before = (
        {tuple(prompt.tokens[:8]) for load in group for prompt in prompts_of(load, Vocabulary(150_000))}
        for group in (loads, warm_up(loads, loads))
    )
    assert measured & before == set()


FORMS = ((129, 192), (193, 384), (385, 768), (769, 1280), (1281, 3584), (3585, 4500))
"""Tokens of a batch for which vLLM's mixture of experts has a form of its kernel on an H200, beyond CUDA graphs."""


@pytest.mark.parametrize("model", ["qwen3-omni", "minicpm-o-4-5"])
def test_before_that_come_prompts_of_all_sizes_one_at_a_time_even_and_odd(model: str) -> None:
    """Triton has a form of its own for batches with an even number of tokens, of eight experts each."""
    pytest.importorskip("numpy", reason="needs the extra bench")
    published = read_loads(tables()[model])
    *sizes, own = warm_up(published, chosen(published, ()))
    assert own.name == "warm"
    assert all((load.concurrency, load.output_tokens, load.answer) == (1, 1, "text") for load in sizes)
    prompts = [prompt.tokens for load in sizes for prompt in prompts_of(load, Vocabulary(150_000))]
    assert len({tuple(tokens[:16]) for tokens in prompts}) == len(sizes), "one hits another's prefix only"
    found = {(form, len(tokens) % 2) for tokens in prompts for form in FORMS if form[0] <= len(tokens) <= form[1]}
    assert found == {(form, odd) for form in FORMS for odd in (0, 1)}
    assert sum(map(len, prompts)) < 80_000, "a warm-up has to be short"


@pytest.mark.parametrize(("own", "answer"), [(60, 4), (300, 8), (1, 1), (4, 4)])
def test_no_prompt_of_them_is_longer_than_what_is_measured(own: int, answer: int) -> None:
    pytest.importorskip("numpy", reason="needs the extra bench")
    short = Load("SHORT", 0, own, answer, 0.0, 1, "text", 1, 2, 7)
    *sizes, _ = warm_up(quick(), [short])
    assert max(load.longest for load in sizes) <= own + answer
    assert min(load.shortest for load in sizes) >= 1
