"""Values side by side: every platform has a cell, every cell its chain, and nothing shows what it must not."""

from __future__ import annotations

from pathlib import Path

from omnicfg.compiler import compile_profile, load, pipeline_of
from omnicfg.errors import ResolveError
from omnicfg.overview.sheet import MAX_CHAIN, MAX_TEXT, Block, Cell, Row, sheet
from omnicfg.plan import Plan
from omnicfg.rule import all_platforms
from tests.conftest import WriteProfile

BASE = """\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 10
    devices: "0"
platforms:
  npu:
    stages:
      - {stage_id: 0, max_num_seqs: 4}
"""


def sheet_of(path: Path, platforms: tuple[str, ...] = all_platforms()) -> tuple[Block, ...]:
    profile = load(path)
    plans: dict[str, Plan] = {}
    for platform in platforms:
        try:
            plans[platform] = compile_profile(profile, platform, pipeline_of(profile))
        except ResolveError:
            continue
    return sheet(plans, platforms, "vllm-omni")


def row(blocks: tuple[Block, ...], stage_id: int | None, key: str) -> Row:
    return next(row for block in blocks if block.stage_id == stage_id for row in block.rows if row.key == key)


def cell(blocks: tuple[Block, ...], stage_id: int | None, key: str, platform: str = "cuda") -> Cell:
    found = row(blocks, stage_id, key).cells[all_platforms().index(platform)]
    assert found is not None
    return found


def test_a_cell_tells_who_set_the_value_and_what_it_won_against(profile_file: WriteProfile) -> None:
    profile_file(BASE, "base.yaml")
    path = profile_file("base_config: base.yaml\nstages: [{stage_id: 0, max_num_seqs: 16}]\n")
    blocks = sheet_of(path)
    npu = cell(blocks, 0, "max_num_seqs", "npu")
    assert npu.layer == "platform"
    assert [(said.role, said.value, said.layer) for said in npu.chain] == [
        ("wins", "4", "platform npu"),
        ("lost", "16", "profile"),
        ("lost", "10", "base"),
    ]
    folder = path.parent
    assert [said.place for said in npu.chain] == [
        f"{folder}/base.yaml:10:37",
        f"{path}:2:38",
        f"{folder}/base.yaml:5:19",
    ]
    assert npu.chain[1].reason == "set for platform npu"
    assert cell(blocks, 0, "max_num_seqs").chain[0].value == "16"


def test_platforms_with_the_same_value_have_equal_cells(profile_file: WriteProfile) -> None:
    blocks = sheet_of(profile_file(BASE))
    assert len(set(row(blocks, 0, "max_num_seqs").cells)) == 2
    assert len(set(row(blocks, 0, "runtime.devices").cells)) == 1


def test_every_part_of_a_stage_is_there_under_its_own_name(profile_file: WriteProfile) -> None:
    blocks = sheet_of(
        profile_file(f"{BASE}  cuda: {{stages: [{{stage_id: 0, default_sampling_params: {{top_k: 5}}}}]}}\n")
    )
    assert [block.title for block in blocks] == [
        "pipeline-wide",
        "stage 0: qwen3_tts (llm, ar)",
        "stage 1: code2wav (llm, generation)",
    ]
    keys = {each.key for each in blocks[1].rows}
    assert {"max_num_seqs", "runtime.devices", "topology.final_output"} <= keys
    sampling = row(blocks, 0, "extras.default_sampling_params.top_k")
    assert [each is not None for each in sampling.cells] == [name == "cuda" for name in all_platforms()]


def test_a_platform_that_refuses_the_profile_has_no_cells(profile_file: WriteProfile) -> None:
    blocks = sheet_of(profile_file(f"model_runner: v2\n{BASE}"))
    found = row(blocks, 0, "max_num_seqs")
    assert [each is None for each in found.cells] == [name in ("npu", "xpu") for name in all_platforms()]
    assert sheet({}, all_platforms(), "vllm-omni") == ()


def test_findings_stand_at_a_value_its_key_and_what_it_won_against(profile_file: WriteProfile) -> None:
    base = profile_file(
        f"{BASE}connectors:\n  shared: {{name: SharedMemoryConnector, extra: {{a: [1, 2]}}}}\n", "base.yaml"
    )
    blocks = sheet_of(profile_file("base_config: base.yaml\nstages: [{stage_id: 0, max_num_seqs: 16}]\n"))
    assert f"{base}:5:19" in cell(blocks, 0, "max_num_seqs").places
    assert {f"{base}:12:{column}" for column in (49, 52, 53, 56)} == set(
        cell(blocks, None, "connectors.shared.extra.a").places
    )


def test_what_is_known_of_a_setting_is_told() -> None:
    blocks = sheet_of(Path("minicpmo_4_5_turn"))
    assert cell(blocks, 0, "enable_prefix_caching", "npu").known.startswith(
        "unvalidated: Not validated on this platform"
    )
    assert cell(blocks, 0, "max_num_seqs").known == ""


def test_credentials_are_hidden_at_every_depth_and_in_what_lost(profile_file: WriteProfile) -> None:
    token = "hf_" + "A" * 34
    profile_file(f"{BASE}env: {{HF_TOKEN: {token}}}\n", "base.yaml")
    path = profile_file(
        "base_config: base.yaml\nstages:\n  - stage_id: 0\n    api_key: abc-123\n    note: https://me:pass-123@host/\n"
        f"    secrets: {{first: abc-123, deep: {{second: [abc-123]}}}}\n    plain: {token}\n    {token}: 1\n"
    )
    text = repr(sheet_of(path))
    assert "abc-123" not in text
    assert "pass-123" not in text
    assert token not in text
    assert "secrets.deep.second" in text


def test_long_texts_and_chains_are_bounded(profile_file: WriteProfile) -> None:
    long, key = "x" * 100_000, "k" * 500
    path = profile_file(BASE, "f0.yaml")
    for number in range(1, 30):
        text = f"base_config: f{number - 1}.yaml\nstages: [{{stage_id: 0, max_num_seqs: {number}, {key}: {long}}}]\n"
        path = profile_file(text, f"f{number}.yaml")
    blocks = sheet_of(path)
    assert len(cell(blocks, 0, "max_num_seqs").chain) == MAX_CHAIN
    value = next(row for row in blocks[1].rows if row.key.endswith(key)).cells[0]
    assert value is not None
    assert len(value.chain[0].value) < MAX_TEXT + 40
    assert value.chain[0].value.endswith("… (100000 characters)")


def test_what_hides_text_is_an_escape(profile_file: WriteProfile) -> None:
    path = profile_file(f'{BASE}    "a\u202eb": "c\u202ed"\n'.replace("platforms:", "platforms: #"))
    assert "\u202e" not in repr(sheet_of(profile_file(BASE.replace('"0"', '"0\u202e1"'), "other.yaml")))
    assert path.exists()
