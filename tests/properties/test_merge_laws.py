"""How layers combine, whatever is in them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import omnicfg
from omnicfg.passes.inherit import merge_documents
from omnicfg.passes.read import read_text
from omnicfg.tree import Layer, LayerKind, plain
from tests.fuzz.restructure import to_yaml
from tests.properties.profiles import (
    PLATFORMS,
    STAGE_IDS,
    Document,
    documents,
    plan_of,
    platform_blocks,
    roots,
    written,
)

LAYER = Layer(LayerKind.PROFILE)
EMPTY: tuple[Document, ...] = (
    {},
    {"stages": []},
    {"stages": None},
    {"connectors": None},
    {"connectors": {}},
    {"platforms": None},
    {"platforms": {}},
    {"base_config": None},
    {"stages": [], "connectors": {}, "platforms": {}},
)


# ------------------------------------------------------------------------------------------------------ identity
@given(roots(), st.sampled_from(EMPTY), st.sampled_from(PLATFORMS))
def test_an_empty_overlay_changes_nothing(root: Document, empty: Document, platform: str) -> None:
    with written(root, empty) as (profile, overlay):
        assert plan_of(profile, platform, overlays=[overlay]) == plan_of(profile, platform)


@given(roots(), st.sampled_from(PLATFORMS))
def test_a_profile_that_only_names_its_base_is_its_base(root: Document, platform: str) -> None:
    with written(root, {"base_config": "file0.yaml"}) as (base, profile):
        assert plan_of(profile, platform) == plan_of(base, platform)


@given(roots(), st.sampled_from(PLATFORMS))
def test_a_profile_over_itself_is_itself(root: Document, platform: str) -> None:
    with written(root, root) as (profile, again):
        assert plan_of(profile, platform, overlays=[again]) == plan_of(profile, platform)


# ------------------------------------------------------------------------------------------------- associativity
@given(roots(), documents(), documents(), st.sampled_from(PLATFORMS))
def test_a_chain_of_bases_is_a_list_of_overlays(low: Document, middle: Document, top: Document, platform: str) -> None:
    chained = ({**middle, "base_config": "file0.yaml"}, {**top, "base_config": "file1.yaml"})
    with written(low, *chained, middle, top) as (base, _, profile, *overlays):
        assert plan_of(profile, platform) == plan_of(base, platform, overlays=overlays)


@given(roots(), documents(), documents(), st.sampled_from(PLATFORMS))
def test_a_chain_merged_in_two_steps_equals_one(low: Document, middle: Document, top: Document, platform: str) -> None:
    lower = merge_documents(*(read_text(to_yaml(document), LAYER, "x") for document in (low, middle)))
    with written(plain(lower), low, middle, top) as (half, base, *overlays):
        assert plan_of(half, platform, overlays=overlays[1:]) == plan_of(base, platform, overlays=overlays)


# ----------------------------------------------------------------------------------------------------- platforms
@given(roots(), platform_blocks(), st.sampled_from(PLATFORMS), st.sampled_from(PLATFORMS))
def test_a_platform_block_touches_only_its_platform(root: Document, block: Document, owner: str, other: str) -> None:
    with_block = {**root, "platforms": {**(root.get("platforms") or {}), owner: block}}
    without = {**root, "platforms": {key: value for key, value in with_block["platforms"].items() if key != owner}}
    with written(with_block, without) as (profile, plain_profile):
        if other != owner:
            assert plan_of(profile, other) == plan_of(plain_profile, other)


# ---------------------------------------------------------------------------------------------------------- order
def shuffled(value: Any, draw: st.DataObject) -> Any:
    """The value with the keys of every mapping, and the entries of every list of stages, in another order."""
    if isinstance(value, dict):
        keys = draw.draw(st.permutations(list(value)))
        return {key: shuffled(value[key], draw) for key in keys}
    if isinstance(value, list) and all(isinstance(item, dict) and "stage_id" in item for item in value):
        return [shuffled(item, draw) for item in draw.draw(st.permutations(value))]
    return copy.deepcopy(value)


@given(roots(), documents(), st.sampled_from(PLATFORMS), st.data())
def test_the_order_of_keys_and_of_stages_never_matters(
    root: Document, top: Document, platform: str, data: st.DataObject
) -> None:
    with written(root, top, shuffled(root, data), shuffled(top, data)) as (profile, overlay, *others):
        assert plan_of(profile, platform, overlays=[overlay]) == plan_of(others[0], platform, overlays=others[1:])


# ------------------------------------------------------------------------------------------------------ overrides
SETTINGS: tuple[tuple[str, object], ...] = (
    ("max_num_seqs", 77),
    ("gpu_memory_utilization", 0.33),
    ("enable_prefix_caching", None),
    ("kv_cache_dtype", "fp8_e5m2"),
    ("devices", "6,7"),
    ("num_replicas", 9),
)


@given(roots(), documents(), st.sampled_from(PLATFORMS), st.sampled_from(STAGE_IDS), st.sampled_from(SETTINGS))
def test_a_setting_of_the_command_line_wins_over_everything(
    root: Document, top: Document, platform: str, stage_id: int, setting: tuple[str, object]
) -> None:
    key, value = setting
    with written(root, top) as (profile, overlay):
        plan = omnicfg.resolve(
            profile, platform=platform, overlays=[overlay], overrides={f"stages.{stage_id}.{key}": value}
        )
    node = plan.find(f"stages.{stage_id}.{key}")
    assert node is not None
    assert (plain(node), node.layer.kind) == (value, LayerKind.OVERRIDE)


@given(roots(), st.sampled_from(PLATFORMS), st.booleans())
def test_a_pipeline_wide_setting_reaches_every_stage_that_says_nothing_itself(
    root: Document, platform: str, value: bool
) -> None:
    with written(root) as (profile,):
        plan = omnicfg.resolve(profile, platform=platform, overrides={"trust_remote_code": value})
    assert [stage.arg("trust_remote_code") for stage in plan.stages] == [value] * 3


@given(roots(), documents(), st.sampled_from(PLATFORMS))
def test_setting_what_is_set_changes_nothing(root: Document, top: Document, platform: str) -> None:
    with written(root, top) as (profile, overlay):
        plan = omnicfg.resolve(profile, platform=platform, overlays=[overlay])
        again = {
            f"stages.{stage.stage_id}.max_num_seqs": stage.arg("max_num_seqs")
            for stage in plan.stages
            if stage.arg("max_num_seqs") is not None
        }
        assert plan_of(profile, platform, overlays=[overlay], overrides=again) == {**plan.to_dict(), "profile": None}
