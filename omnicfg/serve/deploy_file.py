"""A plan → one flat deploy file from which vLLM-Omni makes the same plan again.

Bases, overlays, the platform's block and overrides are all applied already: the file has none of them. What
the topology or upstream's compiler adds by itself is left out, since it will be added again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.plan import Plan, StagePlan
from omnicfg.report.yaml import quoted, scalar
from omnicfg.tree import LayerKind, Node, plain

_DERIVED: Final = frozenset(
    {
        "async_chunk",
        "session_mode",
        "duplex_max_sessions",
        "use_v2_model_runner",
        "supports_native_mrv2_data_plane",
    }
)
"""Engine args that are computed for a stage whatever it says itself."""


def deploy_yaml(plan: Plan) -> str:
    """The compiled profile as YAML that versions 1.1 and 1.2 of the language read alike (every string is quoted)."""
    return text_of(escaped(compiled(plan)))


def text_of(document: Mapping[str, Any]) -> str:
    """A document of :func:`compiled` as such YAML; ``${...}`` in it is resolved where the file is read."""
    return "".join(_block(document, ""))


def escaped(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every ``${`` of its texts as a text: they are resolved already, and OmegaConf would again."""
    made = _escaped(document)
    assert isinstance(made, dict)
    return made


def _escaped(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _escaped(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_escaped(child) for child in value]
    if isinstance(value, str) and "${" in value:
        return type(value)(re.sub(r"(\\*)\$\{", r"\1\1\\${", value))
    return value


def compiled(plan: Plan) -> dict[str, Any]:
    """The compiled profile as data: the pipeline-wide fields that are set, then the configured stages."""
    document: dict[str, Any] = {"pipeline": plan.pipeline}
    for name, field in deploy_schema().deploy_fields.items():
        value = plan.deploy.value(name)
        if name not in {"pipeline", "platforms", "stages"} and value is not None and value != field.default:
            document[name] = value
    document["async_chunk"] = plan.deploy.value("async_chunk")
    document["stages"] = [_stage(stage, plan) for stage in plan.stages if "num_replicas" in stage.runtime.items]
    return document


def _stage(stage: StagePlan, plan: Plan) -> dict[str, Any]:
    entry: dict[str, Any] = {"stage_id": stage.stage_id}
    if plan.deploy.value("async_chunk") and not stage.arg("async_chunk"):
        entry["async_chunk"] = False
    for key in ("devices", "num_replicas", "env"):
        if stage.runtime.value(key) is not None:
            entry[key] = stage.runtime.value(key)
    extras: dict[str, Any] = {}
    for name, node in stage.engine_args.items.items():
        assert isinstance(name, str)
        if _is_own(name, node, plan):
            (entry if _is_flat(name, node) else extras)[name] = plain(node)
    if extras:
        entry["engine_extras"] = extras
    for key in ("default_sampling_params", "default_pooling_params", "output_connectors", "input_connectors"):
        value = stage.extras.value(key)
        if value:
            entry[key] = value
    return entry


def _is_own(name: str, node: Node, plan: Plan) -> bool:
    """Whether the stage sets this engine arg itself."""
    if name in _DERIVED or node.layer.kind in {LayerKind.TOPOLOGY, LayerKind.DEFAULT}:
        return False
    inherited = name in deploy_schema().pipeline_wide and plain(node) == plan.deploy.value(name)
    return plain(node) is None or not inherited


def _is_flat(name: str, node: Node) -> bool:
    """Whether it can stand beside ``stage_id``: a field of a stage that is set. Others go into ``engine_extras``."""
    schema = deploy_schema()
    return name in schema.stage_fields and name not in schema.reserved_keys and plain(node) is not None


def _block(value: Mapping[Any, Any], indent: str) -> list[str]:
    """A block mapping, one line an entry; every text that is a value in quotes."""
    lines: list[str] = []
    for key, item in value.items():
        name = scalar(key)
        if isinstance(item, dict) and item:
            lines += [f"{indent}{name}:\n", *_block(item, indent + "  ")]
        elif isinstance(item, list) and item and all(isinstance(entry, dict) and entry for entry in item):
            lines.append(f"{indent}{name}:\n")
            for entry in item:
                first, *rest = _block(entry, indent + "    ")
                lines += [f"{indent}  - {first.lstrip()}", *rest]
        else:
            lines.append(f"{indent}{name}: {_inline(item)}\n")
    return lines


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{scalar(key)}: {_inline(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return quoted(value) if isinstance(value, str) else scalar(value)
