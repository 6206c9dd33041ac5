"""Which keys of a connector does vllm-omni read, and in which files?

A connector of a deploy YAML is ``{name, extra}``. ``extra`` goes to the connector class, to the adapters around it, to
the functions that cut a stage's output into chunks and to the models of the stages behind it; nobody checks its keys.
So a key that no code reads is accepted and does nothing. What is read is found in the source.
"""

from __future__ import annotations

import ast
from pathlib import Path

from omnicfg.export import source
from omnicfg.export.key_reads import KeyReads

# Keys of a connector and of an edge as load_omni_transfer_config reads them; checked against its source.
ENTRY_KEYS = ("name", "extra")
EDGE_KEYS = ("from", "to")

# The parts of the package where a thing called "extra" is a connector's. Elsewhere the word means other
# things (attention metadata, prompts, rollouts).
_FOLDERS = (
    "vllm_omni/core/",
    "vllm_omni/distributed/omni_connectors/",
    "vllm_omni/engine/",
    "vllm_omni/model_executor/",
    "vllm_omni/platforms/",
    "vllm_omni/worker",
)

# The connector classes: each takes ``extra`` as its ``config``.
_CLASSES = ("vllm_omni/distributed/omni_connectors/connectors/", "vllm_omni/platforms/npu/omni_connectors/")

# Here the connector of a KV transfer travels as one flat mapping: {"type": name, **extra}.
_FLAT = {
    "vllm_omni/core/sched/omni_ar_scheduler.py",
    "vllm_omni/distributed/omni_connectors/kv_transfer_manager.py",
    "vllm_omni/engine/stage_engine_core_client.py",
}

# Keys that the code puts into the mapping before it reads them, or that belong to the mapping around it.
_NOT_WRITTEN_BY_USERS = {"extra", "name", "type"}


def connector_extra_keys() -> dict[str, list[str]]:
    """Key of ``extra`` → the files that read it, relative to the folder that holds the package."""
    import vllm_omni

    package = Path(str(vllm_omni.__file__)).parent
    root = package.parent
    files = [path for path in package.rglob("*.py") if path.relative_to(root).as_posix().startswith(_FOLDERS)]
    found = KeyReads(root, _is_extra).run(sorted(files))
    return {key: paths for key, paths in found.items() if key not in _NOT_WRITTEN_BY_USERS}


def connector_entry_keys() -> list[str]:
    """The keys of a connector; everything else beside them is ignored."""
    return _checked(ENTRY_KEYS)


def edge_keys() -> list[str]:
    """The keys of an edge; everything else in it is ignored."""
    return _checked(EDGE_KEYS)


def _checked(keys: tuple[str, ...]) -> list[str]:
    from vllm_omni.distributed.omni_connectors.utils import initialization

    missing = set(keys) - source.function_strings(initialization.load_omni_transfer_config)
    if missing:
        raise RuntimeError(f"load_omni_transfer_config no longer reads {sorted(missing)}")
    return list(keys)


def _is_extra(value: ast.expr, module: str) -> bool:
    """Where a connector's ``extra`` enters the code."""
    in_class = module.startswith(_CLASSES)
    match value:
        case (
            ast.Attribute(attr="extra")
            | ast.Subscript(slice=ast.Constant("extra"))
            | ast.Call(func=ast.Attribute(attr="get" | "pop"), args=[ast.Constant("extra"), *_])
            | ast.Call(func=ast.Name("getattr"), args=[_, ast.Constant("extra"), *_])
        ):
            return True
        case ast.Call(func=ast.Name("getattr"), args=[owner, ast.Constant("config"), *_]):
            return _is_connector(owner)
        case ast.Attribute(owner, "config"):
            return _is_connector(owner) or (in_class and _is_self(owner))
        case ast.Name("config"):
            return in_class
    return module in _FLAT and _is_flat(value)


def _is_connector(owner: ast.expr) -> bool:
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name == "connector"


def _is_self(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id == "self"


def _is_flat(value: ast.expr) -> bool:
    match value:
        case ast.Attribute(attr="connector_config"):
            return True
        case ast.Call(args=[ast.Constant("connector_config"), *_] | [_, ast.Constant("connector_config"), *_]):
            return True
    return False
