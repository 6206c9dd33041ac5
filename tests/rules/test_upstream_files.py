"""What the rules say about vllm-omni's own 110 deploy files on five platforms: all that is wrong, and nothing else.

``upstream_findings.txt`` holds every finding, in groups that say why they are true. After a change of the rules,
``pytest tests/rules/test_upstream_files.py --update-snapshots`` writes it anew; read the difference before you
commit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import omnicfg
from omnicfg.diagnostics import Diagnostic, Severity

SNAPSHOT = Path(__file__).with_name("upstream_findings.txt")


class Group(NamedTuple):
    """Findings that are true for the same reason."""

    reason: str
    holds: Callable[[Diagnostic], bool]


def _about(code: str, pattern: str) -> Callable[[Diagnostic], bool]:
    return lambda found: found.code == code and bool(re.search(pattern, f"{found.path} {found.message}"))


GROUPS = (
    Group(
        "On npu, upstream's typed path refuses the file: no stage config takes these two keys.",
        _about("OC101", r"^glm_image\.yaml .*`(scheduler_cls|sequence_parallel_size)`"),
    ),
    Group(
        "No deploy file at all, but the settings of a side model; read as a deploy file it gives all defaults.",
        _about("OC101", r"^qwen3_tts_forced_aligner\.yaml "),
    ),
    Group(
        "Relics: every connector, adapter and stage processor of the release was searched, and none reads these keys.",
        _about("OC104", r"`connector_get_(sleep_s|max_wait|max_wait_first_chunk)`"),
    ),
    Group(
        "Read from the meta of a payload, which the sender fills; never from a connector's `extra`.",
        _about("OC104", r"`codec_streaming`"),
    ),
    Group(
        "Of an edge, only `from` and `to` are read.",
        _about("OC104", r"`(window_size|max_inflight)` of an edge"),
    ),
    Group("Defined, but no stage and no edge names it.", _about("OC402", "")),
    Group("Its pipeline has no duplex plugin, so the server takes turns.", _about("OC403", r"^personaplex\.yaml ")),
    Group(
        "Left unset under async_chunk, so vLLM's default (on) applies where static review found the cache broken; "
        "the sibling files say false.",
        _about("OC501", r"^(fish_qwen3_omni_2gpu|qwen3_omni_moe_mori_intranode)\.yaml .* unset, "),
    ),
    Group(
        "Stage 2 is inherited on device 5, where this file puts a replica of stage 1: 1.7 of its memory.",
        _about("OC601", r"^minicpmo_4_5_8x4090_stage1_replicas\.yaml "),
    ),
    Group(
        "A note: vLLM's KV transfer has no address of its own any more from 0.32.0 on.",
        _about("OC706", r"^hunyuan-image-3-mooncakeconnector\.yaml .*`kv_ip`"),
    ),
    Group(
        "Notes: what the cache that is on takes of the host's memory, by the published figures of its model.",
        _about("OC604", r"^qwen3_omni_moe_mori_intranode\.yaml "),
    ),
    Group(
        "Notes: what else the prefix cache, or duplex without chunks, changes; each with its source in the record.",
        _about("OC801", r"^(aura_omni|qwen3_omni_moe_(mori_intranode|thinking))\.yaml "),
    ),
    Group(
        "Says that the stage owns the tokenizer, which its pipeline denies; the pipeline decides.",
        _about("OC701", r"^hunyuan.image.3.*\.yaml .*`is_comprehension` in stage 0"),
    ),
    Group(
        "Names no pipeline and is no pipeline's default file: upstream takes the pipeline from the served model, "
        "which these files alone cannot tell.",
        _about("OC013", ""),
    ),
)


@pytest.fixture(scope="module")
def found(upstream_deploy: Path) -> list[Diagnostic]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(upstream_deploy)
        return omnicfg.validate(sorted(path.name for path in Path().glob("*.yaml")))


def _line(one: Diagnostic) -> str:
    return f"{one.path}:{one.line}:{one.column} {one.code} {one.severity} {one.platform or 'all'}: {one.message}"


def _text(found: list[Diagnostic]) -> str:
    sections = [
        f"# {group.reason}\n" + "".join(f"{_line(one)}\n" for one in found if group.holds(one)) for group in GROUPS
    ]
    return "\n".join(sections)


def test_the_findings_are_those_of_the_snapshot(found: list[Diagnostic], pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("update_snapshots"):
        SNAPSHOT.write_text(_text(found), encoding="utf-8")
    assert _text(found) == SNAPSHOT.read_text(encoding="utf-8")


def test_every_finding_has_its_reason(found: list[Diagnostic]) -> None:
    """What fits no group is a false alarm, until somebody can say why it is true."""
    assert [_line(one) for one in found if sum(group.holds(one) for group in GROUPS) != 1] == []


@pytest.mark.parametrize("group", GROUPS, ids=[group.reason[:40] for group in GROUPS])
def test_no_reason_is_left_over(found: list[Diagnostic], group: Group) -> None:
    assert any(map(group.holds, found))


# ------------------------------------------------------------------- what is known to be wrong in the shipped files
def places(found: list[Diagnostic], code: str, *files: str) -> list[tuple[str, int, int, str | None]]:
    return [
        (one.path, one.line, one.column, one.platform)
        for one in found
        if one.code == code and (not files or one.path in files)
    ]


def test_glm_image_cannot_start_on_npu(found: list[Diagnostic]) -> None:
    assert places(found, "OC101", "glm_image.yaml") == [
        ("glm_image.yaml", 68, 9, "npu"),
        ("glm_image.yaml", 73, 9, "npu"),
    ]


def test_a_device_is_asked_for_more_than_it_has(found: list[Diagnostic]) -> None:
    assert [(_line(one), one.stage_id) for one in found if one.code == "OC601"] == [
        (
            (
                "minicpmo_4_5_8x4090_stage1_replicas.yaml:19:29 OC601 error all: "
                "device 5 is asked for 0.8 (stage 1) + 0.9 (stage 2) = 1.7 of its memory"
            ),
            1,
        )
    ]


def test_three_connector_settings_are_read_by_nothing(upstream_deploy: Path, found: list[Diagnostic]) -> None:
    relics = ("connector_get_sleep_s", "connector_get_max_wait", "connector_get_max_wait_first_chunk")
    for relic in relics:
        assert sum(f"`{relic}`" in one.message for one in found) == 46
    carrying = set()
    for path in sorted(upstream_deploy.glob("*.yaml")):
        connectors = omnicfg.resolve(path, pipeline="qwen3_tts").deploy.value("connectors") or {}
        carrying |= {path.name for one in connectors.values() if set(relics) & set(one.get("extra") or {})}
    assert len(carrying) == 55


def test_duplex_without_a_plugin(found: list[Diagnostic]) -> None:
    assert places(found, "OC403") == [("personaplex.yaml", 16, 15, None)]


def test_auras_comment_is_not_what_auras_file_says(upstream_deploy: Path, found: list[Diagnostic]) -> None:
    """A comment is nobody's setting, and the caches of stages 0 and 1 are validated there.

    What duplex without chunks does to the speech is a note.
    """
    plan = omnicfg.resolve(upstream_deploy / "aura_omni.yaml").to_dict()
    assert (plan["deploy"]["session_mode"], plan["deploy"]["async_chunk"]) == ("duplex", False)
    assert [stage["engine_args"].get("enable_prefix_caching") for stage in plan["stages"]][:2] == [True, True]
    assert {one.code for one in found if one.path == "aura_omni.yaml"} == {"OC104", "OC801"}


def test_a_prefix_cache_that_is_merely_left_unset(found: list[Diagnostic]) -> None:
    assert places(found, "OC501") == [
        ("fish_qwen3_omni_2gpu.yaml", 35, 15, None),
        ("qwen3_omni_moe_mori_intranode.yaml", 75, 15, None),
    ]


def test_a_file_that_is_no_deploy_config(found: list[Diagnostic]) -> None:
    assert places(found, "OC101", "qwen3_tts_forced_aligner.yaml") == [("qwen3_tts_forced_aligner.yaml", 12, 1, None)]


def test_connectors_that_nobody_refers_to(found: list[Diagnostic]) -> None:
    """bagel_think inherits bagel's; the minimax files are bases whose nixl profiles leave the connector unused."""
    unused = [one for one in found if one.code == "OC402"]
    assert [
        (one.path, one.line, one.message.removeprefix("no stage and no edge uses connector ")) for one in unused
    ] == [
        ("bagel.yaml", 44, "`rdma_connector`"),
        ("hunyuan_image_3_moe.yaml", 18, "`yuanrong_te_connector`"),
        ("hunyuan_image_3_moe.yaml", 28, "`shared_memory_connector`"),
        (
            "minimax_h3_disaggregated.yaml",
            8,
            "`shared_memory_connector` (in profile minimax_h3_disaggregated_nixl.yaml)",
        ),
        (
            "minimax_h3_disaggregated_turbo.yaml",
            8,
            "`shared_memory_connector` (in profile minimax_h3_disaggregated_turbo_nixl.yaml)",
        ),
    ]


def test_nothing_else_is_an_error(found: list[Diagnostic]) -> None:
    assert {(one.path, one.code) for one in found if one.severity is Severity.ERROR} == {
        ("glm_image.yaml", "OC101"),
        ("minicpmo_4_5_8x4090_stage1_replicas.yaml", "OC601"),
        ("qwen3_tts_forced_aligner.yaml", "OC101"),
    }
