"""The shipped profiles: upstream's values on every platform but for the differences declared here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnicfg
from omnicfg.catalog.paths import data_root, profiles_dir
from omnicfg.catalog.upstream import pipelines

PLATFORMS = ("cuda", "npu", "rocm", "xpu", "musa")
MODELINE = "# yaml-language-server: $schema=../schemas/profile.schema.json"

# Not in the release: upstream added the first four after it, the other two are ours.
NOT_IN_THE_RELEASE = {
    "qwen3_omni_moe_mrv2",
    "qwen3_omni_duplex_mrv2",
    "minicpmo_4_5_turn_mrv2",
    "minicpmo_4_5_turn_mrv2_h200",
    "qwen3_tts_v1",
    "tiny_omni",
}

# Upstream's files carry these keys and nothing in the release reads them; ours do without.
DEAD_KEYS = {
    "codec_streaming",
    "connector_get_sleep_s",
    "connector_get_max_wait",
    "connector_get_max_wait_first_chunk",
}

EVERYWHERE = PLATFORMS
CACHE = "stages.0.engine_args.enable_prefix_caching"
ABSENT = "(absent)"

# profile, platforms, route → (upstream's value, ours).
DECLARED: list[tuple[str, tuple[str, ...], str, Any, Any]] = [
    # Defaults of the prefix-cache scope table, which is newer than the release.
    ("qwen3_omni_moe", EVERYWHERE, CACHE, False, True),
    ("minicpmo_4_5_turn", ("cuda",), CACHE, False, True),
    ("glm_image", ("cuda", "rocm", "xpu", "musa"), CACHE, False, True),
    ("moss_tts_local", EVERYWHERE, CACHE, False, True),
    # Upstream's own typed loader refuses these two keys, so the file does not load there.
    (
        "glm_image",
        ("npu",),
        "stages.0.engine_args.scheduler_cls",
        "vllm_omni.core.sched.omni_ar_scheduler.OmniARScheduler",
        ABSENT,
    ),
    ("glm_image", ("npu",), "stages.0.engine_args.sequence_parallel_size", 1, ABSENT),
]

# Upstream finds the pipeline of these by the file's name; ours name it.
PIPELINE_MADE_EXPLICIT = {
    "fish_qwen3_omni",
    "glm_image",
    "higgs_multimodal_qwen3",
    "indextts2",
    "moss_tts_local",
    "qwen2_5_omni",
    "qwen3_omni_duplex",
    "qwen3_omni_moe",
    "qwen3_tts",
    "qwen3_tts_mrv2",
    "voxcpm2",
    "voxtral_tts",
}

ALL = sorted(path.stem for path in profiles_dir().glob("*.yaml"))
FROM_UPSTREAM = [name for name in ALL if name not in NOT_IN_THE_RELEASE]


def declared(profile: str, platform: str) -> dict[str, tuple[Any, Any]]:
    return {
        route: (upstream, ours)
        for name, platforms, route, upstream, ours in DECLARED
        if name == profile and platform in platforms
    }


def values(node: Any, route: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf below ``node`` with its route; an empty container is a leaf. Dead keys are passed over."""
    children = dict(node) if isinstance(node, dict) else dict(enumerate(node)) if isinstance(node, list) else {}
    if not children:
        yield route, node
    for key, child in children.items():
        if key not in DEAD_KEYS:
            yield from values(child, f"{route}.{key}" if route else str(key))


def compiled(profile: str | Path, platform: str, pipeline: str | None = None) -> dict[str, Any]:
    plan = omnicfg.resolve(profile, platform=platform, pipeline=pipeline).to_dict()
    del plan["profile"]
    return dict(values(plan))


@pytest.mark.parametrize("profile", FROM_UPSTREAM)
def test_upstream_s_values_but_for_what_is_declared(profile: str, upstream_deploy: Path) -> None:
    pipeline = omnicfg.resolve(profile).pipeline
    for platform in PLATFORMS:
        ours = compiled(profile, platform)
        theirs = compiled(upstream_deploy / f"{profile}.yaml", platform, pipeline)
        differences = {
            route: (theirs.get(route, ABSENT), ours.get(route, ABSENT))
            for route in sorted(ours.keys() | theirs.keys())
            if theirs.get(route, ABSENT) != ours.get(route, ABSENT)
        }
        if profile in PIPELINE_MADE_EXPLICIT:
            assert differences.pop("deploy.pipeline") == (None, pipeline)
        assert differences == declared(profile, platform), platform


def test_what_is_declared_to_be_missing_upstream_is_missing(upstream_deploy: Path) -> None:
    assert [name for name in ALL if not (upstream_deploy / f"{name}.yaml").exists()] == sorted(NOT_IN_THE_RELEASE)


@pytest.mark.parametrize("profile", ALL)
def test_each_profile_starts_with_its_schema(profile: str) -> None:
    first, second, *_ = (profiles_dir() / f"{profile}.yaml").read_text("utf-8").splitlines()
    assert first == MODELINE
    assert second.startswith("# "), "then a sentence on what it is for"


@pytest.mark.parametrize("profile", ALL)
def test_each_profile_names_its_pipeline_or_a_shipped_base_that_does(profile: str) -> None:
    lines = (profiles_dir() / f"{profile}.yaml").read_text("utf-8").splitlines()
    named = {key: value for key, _, value in (line.partition(": ") for line in lines)}
    if "base_config" in named:
        assert Path(named["base_config"]).stem in ALL
    else:
        assert named["pipeline"] in pipelines()


@pytest.mark.parametrize("profile", ALL)
def test_no_profile_carries_a_dead_key(profile: str) -> None:
    text = (profiles_dir() / f"{profile}.yaml").read_text("utf-8")
    assert [key for key in sorted(DEAD_KEYS) if key in text] == []


@pytest.mark.parametrize("path", sorted((profiles_dir() / "pipelines").glob("*.json")), ids=lambda path: path.stem)
def test_a_topology_of_our_own_has_upstream_s_form_and_true_lines(path: Path) -> None:
    topology = json.loads(path.read_text("utf-8"))
    model = pipelines()["qwen3_omni_moe_thinker_only"]
    assert topology.keys() - {"default_model"} == model.keys()
    assert {frozenset(stage) for stage in topology["stages"]} == {frozenset(model["stages"][0])}
    assert topology["model_type"] == path.stem
    assert data_root() / topology["source"]["file"] == path

    lines = path.read_text("utf-8").splitlines()
    for owner in (topology, *topology["stages"]):
        for key, line in owner["lines"].items():
            assert lines[line - 1].strip().startswith(f'"{key}":' if key else "{")
