"""vLLM-Omni's deploy language and pipeline topologies, as exported from a release (``omnicfg.export.vllm_omni``)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from omnicfg.catalog.paths import load_json, profiles_dir

VLLM_OMNI: Final = "0.30.0"
_DIRECTORY: Final = f"schemas/vllm-omni/{VLLM_OMNI}"


class Field:
    """One field of the deploy schema: its annotation as text, its default, and its place in upstream's source.

    Two fields are the same only if they are one object: a default may be a list, which has no hash.
    """

    __slots__ = ("default", "file", "line", "name", "type")

    def __init__(self, name: str, type: str, default: Any, file: str, line: int) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.file = file
        self.line = line


class DeploySchema(NamedTuple):
    """The deploy language of one vLLM-Omni release.

    ``value_types`` says by the kind of stage what its typed config takes for a setting, where that is not anything.
    """

    deploy_fields: Mapping[str, Field]
    stage_fields: Mapping[str, Field]
    duplex_fields: Mapping[str, Field]
    topology_fields: Mapping[str, Field]
    reserved_keys: frozenset[str]
    deep_merge_keys: frozenset[str]
    pipeline_wide: tuple[str, ...]
    platforms: tuple[str, ...]
    model_runners: tuple[str, ...]
    v2_refused_on: frozenset[str]
    execution_types: Mapping[str, Mapping[str, Any]]
    session_modes: tuple[str, ...]
    owners: Mapping[str, frozenset[str]]
    parallel_owners: Mapping[str, frozenset[str]]
    ignored_keys: Mapping[str, frozenset[str]]
    value_types: Mapping[str, Mapping[str, str]]
    connector_classes: frozenset[str]
    connector_keys: frozenset[str]
    connector_extra_keys: frozenset[str]
    edge_keys: frozenset[str]
    sampling_params: Mapping[str, Field]
    diffusion_sampling_params: Mapping[str, Field]
    pooling_params: Mapping[str, Field]
    diffusion_args: Mapping[str, Field]
    diffusion_blocks: Mapping[str, frozenset[str]]
    diffusion_choices: Mapping[str, tuple[str, ...]]
    diffusion_quantization: Mapping[str, list[str]]


@functools.cache
def deploy_schema() -> DeploySchema:
    """The schema that profiles are written in."""
    raw = load_json(f"{_DIRECTORY}/deploy.json")
    return DeploySchema(
        deploy_fields=_fields(raw["deploy_fields"]),
        stage_fields=_fields(raw["stage_fields"]),
        duplex_fields=_fields(raw["duplex_session_fields"]),
        topology_fields=_fields(raw["stage_pipeline_fields"]),
        reserved_keys=frozenset(raw["stage_reserved_keys"]),
        deep_merge_keys=frozenset(raw["deep_merge_keys"]),
        pipeline_wide=tuple(raw["pipeline_wide_engine_fields"]),
        platforms=tuple(raw["platforms"]),
        model_runners=tuple(raw["model_runners"]),
        v2_refused_on=frozenset(raw["model_runner_v2_refused_on"]),
        execution_types=raw["execution_types"],
        session_modes=tuple(raw["session_modes"]),
        owners=_by_kind(raw["owners"], "stage"),
        parallel_owners=_by_kind(raw["owners"], "parallel_config"),
        ignored_keys=_by_kind(raw["owners"], "ignored"),
        value_types=raw["value_types"],
        connector_classes=frozenset(raw["connectors"]),
        connector_keys=frozenset(raw["connector_entry_keys"]),
        connector_extra_keys=frozenset(raw["connector_extra_keys"]),
        edge_keys=frozenset(raw["edge_keys"]),
        sampling_params=_fields(raw["sampling_params"]),
        diffusion_sampling_params=_fields(raw["diffusion_sampling_params"]),
        pooling_params=_fields(raw["pooling_params"]),
        diffusion_args=_fields(raw["diffusion_args"]),
        diffusion_blocks={name: frozenset(keys) for name, keys in raw["diffusion_blocks"].items()},
        diffusion_choices={name: tuple(words) for name, words in raw["diffusion_choices"].items()},
        diffusion_quantization=raw["diffusion_quantization"],
    )


def _by_kind(owners: Mapping[str, Mapping[str, list[str]]], part: str) -> dict[str, frozenset[str]]:
    return {kind: frozenset(keys[part]) for kind, keys in owners.items()}


def _fields(entries: list[dict[str, Any]]) -> dict[str, Field]:
    return {
        entry["name"]: Field(entry["name"], entry["type"], entry.get("default"), entry["file"], entry["line"])
        for entry in entries
    }


@functools.cache
def omni_variables() -> frozenset[str]:
    """The environment variables of vLLM-Omni's own that are for everybody, or named as vLLM's are."""
    categories: dict[str, str] = load_json(f"{_DIRECTORY}/variables.json")["variables"]
    return frozenset(
        name for name, category in categories.items() if category == "public_omni" or name.startswith("VLLM_")
    )


@functools.cache
def diffusion_arg_defaults() -> Mapping[str, Any]:
    """The engine args of diffusion stages, each with upstream's default (a mapping for a nested config)."""
    entries = load_json(f"{_DIRECTORY}/deploy.json")["diffusion_args"]
    return {entry["name"]: entry.get("default") for entry in entries}


@functools.cache
def pipelines() -> Mapping[str, Mapping[str, Any]]:
    """Every pipeline by registry key: upstream's, and those that this project ships beside them."""
    known = dict(load_json(f"{_DIRECTORY}/pipelines.json")["pipelines"])
    for key in own_pipelines():
        known[key] = load_json(f"profiles/pipelines/{key}.json")
    return known


@functools.cache
def own_pipelines() -> tuple[str, ...]:
    """The keys of the pipelines that this project ships beside upstream's."""
    return tuple(sorted(path.stem for path in (profiles_dir() / "pipelines").glob("*.json")))


@functools.cache
def default_deploy_files() -> Mapping[str, str]:
    """Deploy file name → the pipeline whose default deploy file it is."""
    files: dict[str, str] = load_json(f"{_DIRECTORY}/pipelines.json")["default_deploy_files"]
    return files
