"""Pass 3: base chains and overlays become one raw profile."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnicfg.errors import ResolveError
from omnicfg.passes.inherit import inherit, merge_documents
from omnicfg.tree import LayerKind, Mapping, Node, plain
from tests.conftest import WriteProfile
from tests.passes.trees import BASE, PROFILE, tree_of


def merged(base: str, upper: str) -> dict[str, object]:
    result: dict[str, object] = plain(merge_documents(tree_of(base, BASE), tree_of(upper, PROFILE)))
    return result


# ------------------------------------------------------------------------------------------------ top-level keys
def test_top_level_keys_replace() -> None:
    base = "a: 1\nduplex_session: {max_sessions: 1, idle_ttl_s: 5}\nedges: [{from: 0, to: 1}, {from: 1, to: 2}]\n"
    upper = "b: 2\nduplex_session: {max_sessions: 2}\nedges: [{from: 0, to: 2}]\n"
    assert merged(base, upper) == {
        "a": 1,
        "duplex_session": {"max_sessions": 2},
        "edges": [{"from": 0, "to": 2}],
        "b": 2,
        "stages": [],
    }


def test_connectors_merge_deeply() -> None:
    base = "connectors: {shm: {name: A, extra: {x: 1, y: {z: 1}}}, old: {name: C}}\n"
    upper = "connectors: {shm: {extra: {x: 2, y: {w: 2}}}, rdma: {name: B}}\n"
    assert merged(base, upper)["connectors"] == {
        "shm": {"name": "A", "extra": {"x": 2, "y": {"z": 1, "w": 2}}},
        "old": {"name": "C"},
        "rdma": {"name": "B"},
    }


@pytest.mark.parametrize("nothing", ["null", "{}", "[]"])
def test_nothing_keeps_the_connectors_stages_and_platforms_of_the_base(nothing: str) -> None:
    base = "connectors: {a: {}}\nplatforms: {npu: {stages: [{stage_id: 0, x: 1}]}}\nstages: [{stage_id: 0}]\n"
    upper = f"connectors: {nothing}\nstages: {nothing}\nplatforms: {nothing}\n"
    assert merged(base, upper) == {
        "connectors": {"a": {}},
        "platforms": {"npu": {"stages": [{"stage_id": 0, "x": 1}]}},
        "stages": [{"stage_id": 0}],
    }


# -------------------------------------------------------------------------------------------------------- stages
def test_stages_merge_by_id_whatever_their_order() -> None:
    base = "stages: [{stage_id: 0, a: 1, b: 1}, {stage_id: 1, a: 1}]\n"
    upper = "stages: [{stage_id: 2, a: 2}, {stage_id: 0, a: 2}]\n"
    assert merged(base, upper)["stages"] == [
        {"stage_id": 0, "a": 2, "b": 1},
        {"stage_id": 1, "a": 1},
        {"stage_id": 2, "a": 2},
    ]


@pytest.mark.parametrize(
    "key",
    [
        "default_sampling_params",
        "default_pooling_params",
        "subtalker_sampling_params",
        "engine_extras",
        "engine_args",
    ],
)
def test_blocks_of_a_stage_that_merge_deeply(key: str) -> None:
    base = f"stages: [{{stage_id: 0, {key}: {{a: 1, b: {{c: 1}}}}}}]\n"
    upper = f"stages: [{{stage_id: 0, {key}: {{b: {{d: 2}}}}}}]\n"
    assert merged(base, upper)["stages"] == [{"stage_id": 0, key: {"a": 1, "b": {"c": 1, "d": 2}}}]


@pytest.mark.parametrize("key", ["compilation_config", "env", "runtime", "parallel_config", "input_connectors"])
def test_blocks_of_a_stage_that_are_replaced(key: str) -> None:
    base = f"stages: [{{stage_id: 0, {key}: {{a: 1, b: 1}}}}]\n"
    upper = f"stages: [{{stage_id: 0, {key}: {{b: 2}}}}]\n"
    assert merged(base, upper)["stages"] == [{"stage_id": 0, key: {"b": 2}}]


def test_lists_in_a_stage_are_replaced() -> None:
    base = "stages: [{stage_id: 0, default_sampling_params: {stop: [a, b]}}]\n"
    upper = "stages: [{stage_id: 0, default_sampling_params: {stop: [c]}}]\n"
    assert merged(base, upper)["stages"] == [{"stage_id": 0, "default_sampling_params": {"stop": ["c"]}}]


def test_null_in_a_stage_unsets() -> None:
    base = "stages: [{stage_id: 0, a: 1, engine_extras: {b: 1}}]\n"
    upper = "stages: [{stage_id: 0, a: null, engine_extras: null}]\n"
    assert merged(base, upper)["stages"] == [{"stage_id": 0, "a": None, "engine_extras": None}]


def test_a_repeated_id_replaces_in_the_base_and_merges_in_the_overlay() -> None:
    base = "stages: [{stage_id: 0, a: 1}, {stage_id: 0, b: 1}]\n"
    upper = "stages: [{stage_id: 0, c: 2}, {stage_id: 0, d: 2}]\n"
    assert merged(base, "x: 1\n")["stages"] == [{"stage_id": 0, "b": 1}]
    assert merged("x: 1\n", upper)["stages"] == [{"stage_id": 0, "c": 2, "d": 2}]


# ----------------------------------------------------------------------------------------------------- platforms
def test_platform_blocks_merge_by_platform_and_stage() -> None:
    base = "platforms: {npu: {model_runner: v1, stages: [{stage_id: 0, a: 1, b: 1}]}, xpu: {stages: [{stage_id: 0}]}}\n"
    upper = "platforms: {npu: {stages: [{stage_id: 0, a: 2}, {stage_id: 1, c: 2}]}, rocm: {model_runner: v2}}\n"
    assert merged(base, upper)["platforms"] == {
        "npu": {"model_runner": "v1", "stages": [{"stage_id": 0, "a": 2, "b": 1}, {"stage_id": 1, "c": 2}]},
        "xpu": {"stages": [{"stage_id": 0}]},
        "rocm": {"model_runner": "v2", "stages": []},
    }


# ------------------------------------------------------------------------------------------------- what is wrong
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages: {a: 1}\n", "1:9: OC008 `stages` is a list of mappings"),
        ("stages: [5]\n", r"1:10: OC008 `stages\[\]` is a single value; it has to be a mapping"),
        ("stages: [null]\n", r"1:10: OC008 `stages\[\]` is null; it has to be a mapping"),
        ("stages: [{a: 1}]\n", "1:10: OC011 this stage entry has no `stage_id`"),
        ("stages: [{stage_id: [0]}]\n", "1:21: OC008 `stage_id` is one number"),
        ("platforms: [npu]\n", "1:12: OC008 `platforms` is a list; it has to be a mapping"),
        ("platforms: {npu: 5}\n", r"1:18: OC008 `platforms\.npu` is a single value; it has to be a mapping"),
        ("connectors: [shm]\n", "1:13: OC008 `connectors` is a list; it has to be a mapping"),
    ],
)
def test_a_block_of_the_wrong_shape_is_refused_where_it_stands(text: str, message: str) -> None:
    with pytest.raises(ResolveError, match=rf"^profile\.yaml:{message}"):
        merge_documents(tree_of("platforms: {npu: {}}\nconnectors: {a: {}}\n", BASE), tree_of(text))


# ------------------------------------------------------------------------------------------------------- history
def origin(node: Node | None) -> tuple[str, object, list[tuple[str, object]]]:
    assert node is not None
    return node.layer.kind.value, plain(node), [(lost.node.layer.kind.value, plain(lost.node)) for lost in node.beaten]


def test_a_value_knows_all_that_it_beat(profile_file: WriteProfile) -> None:
    profile_file("async_chunk: true\nstages: [{stage_id: 0, engine_extras: {a: {b: 1, c: 1}}}]\n", "root.yaml")
    profile_file("base_config: root.yaml\nasync_chunk: false\n", "base.yaml")
    top = profile_file("base_config: base.yaml\nasync_chunk: null\n", "top.yaml")
    overlay = profile_file("async_chunk: true\nstages: [{stage_id: 0, engine_extras: {a: {b: 2}}}]\n", "over.yaml")
    tree, chain = inherit(top, "top.yaml", [overlay])
    assert origin(tree.get("async_chunk")) == ("overlay", True, [("profile", None), ("base", False), ("base", True)])
    inner = tree.sequence("stages").mappings()[0].mapping("engine_extras").mapping("a")
    assert origin(inner.get("b")) == ("overlay", 2, [("base", 1)])
    assert origin(inner.get("c")) == ("base", 1, [])
    assert [Path(document.mark.file).name for document in chain.documents] == [
        "top.yaml",
        "base.yaml",
        "root.yaml",
        "over.yaml",
    ]


def test_what_a_block_replaced_is_known_to_its_entries() -> None:
    tree = merge_documents(
        tree_of("stages: [{stage_id: 0, env: {A: 1, B: 1}}]\n", BASE), tree_of("stages: [{stage_id: 0, env: {A: 2}}]\n")
    )
    env = tree.sequence("stages").mappings()[0].mapping("env")
    assert plain(env) == {"A": 2}
    assert origin(env.get("A")) == ("profile", 2, [("base", 1)])


# --------------------------------------------------------------------------------------------------------- bases
def test_a_base_lies_relative_to_the_file_that_names_it(profile_file: WriteProfile) -> None:
    profile_file("a: 1\n", "lib/root.yaml")
    profile_file("base_config: root.yaml\nb: 2\n", "lib/base.yaml")
    top = profile_file("base_config: ../lib/base.yaml\nc: 3\n", "own/top.yaml")
    tree, _ = inherit(top, "own/top.yaml")
    assert {key: (plain(node), node.mark.file) for key, node in tree.items.items() if key != "stages"} == {
        "a": (1, "lib/root.yaml"),
        "b": (2, "lib/base.yaml"),
        "c": (3, "own/top.yaml"),
    }
    assert tree.items["a"].layer.kind is LayerKind.BASE


def test_a_link_lies_where_it_lies_not_where_it_leads(profile_file: WriteProfile, tmp_path: Path) -> None:
    profile_file("a: 1\n", "base.yaml")
    profile_file("a: 2\n", "real/base.yaml")
    profile_file("base_config: base.yaml\n", "real/top.yaml")
    (tmp_path / "link.yaml").symlink_to("real/top.yaml")
    assert plain(inherit(tmp_path / "link.yaml", "link.yaml")[0])["a"] == 1


def test_an_absolute_base_and_none(profile_file: WriteProfile, tmp_path: Path) -> None:
    profile_file("a: 1\n", "base.yaml")
    top = profile_file(f"base_config: {tmp_path / 'base.yaml'}\n", "own/top.yaml")
    assert plain(inherit(top, "top.yaml")[0])["a"] == 1
    assert plain(inherit(profile_file("base_config: null\nb: 1\n", "none.yaml"), "none.yaml")[0]) == {"b": 1}


def test_a_base_that_is_missing_has_a_near_name(profile_file: WriteProfile) -> None:
    profile_file("a: 1\n", "minicpmo_4_5.yaml")
    with pytest.raises(ResolveError) as refused:
        inherit(profile_file("\nbase_config: minicpm_4_5.yaml\n", "top.yaml"), "top.yaml")
    (reason,) = refused.value.diagnostics
    assert (reason.code, reason.line, reason.column) == ("OC006", 2, 14)
    assert reason.help == "Did you mean `minicpmo_4_5.yaml`? The path is relative to the file that names it."


def test_an_overlay_may_have_bases_of_its_own(profile_file: WriteProfile) -> None:
    profile_file("a: base\nb: base\n", "base.yaml")
    overlay = profile_file("base_config: base.yaml\nb: overlay\n", "overlay.yaml")
    top = profile_file("a: top\nb: top\nc: top\n", "top.yaml")
    tree, _ = inherit(top, "top.yaml", [overlay])
    assert {key: plain(node) for key, node in tree.items.items() if key != "stages"} == {
        "a": "base",
        "b": "overlay",
        "c": "top",
    }


def test_an_overlay_goes_over_the_whole_chain_and_the_next_one_over_it(profile_file: WriteProfile) -> None:
    profile_file("a: 1\nb: 1\nc: 1\nd: 1\n", "base.yaml")
    top = profile_file("base_config: base.yaml\nb: 2\nc: 2\nd: 2\n", "top.yaml")
    one, two = profile_file("c: 3\nd: 3\n", "one.yaml"), profile_file("d: 4\n", "two.yaml")
    tree, _ = inherit(top, "top.yaml", [one, two])
    assert [plain(tree.items[key]) for key in "abcd"] == [1, 2, 3, 4]


def test_merging_leaves_both_files_alone() -> None:
    base, upper = (
        tree_of("connectors: {a: {b: 1}}\nstages: [{stage_id: 0, x: 1}]\n", BASE),
        tree_of("stages: [{stage_id: 0, x: 2}]\n"),
    )
    before = plain(base), plain(upper)
    merge_documents(base, upper)
    assert (plain(base), plain(upper)) == before
    assert isinstance(base, Mapping)


@pytest.mark.parametrize("base", ["qwen3_tts", "qwen3_tts.yaml", "profiles/qwen3_tts.yaml"])
def test_a_base_that_means_a_shipped_profile(tmp_path: Path, base: str) -> None:
    path = tmp_path / "ours.yaml"
    path.write_text(f"base_config: {base}\n", encoding="utf-8")
    with pytest.raises(ResolveError) as refused:
        inherit(path, "ours.yaml")
    assert refused.value.diagnostics[0].help == (
        "`qwen3_tts` is a shipped profile, and a base is a file. Leave `base_config` out, and put this file on top: "
        "`omnicfg resolve qwen3_tts --overlay ours.yaml`."
    )
