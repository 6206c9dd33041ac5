"""Engines on several nodes, by vLLM's own means: what a plan asks for, and what vLLM would only refuse late.

Nothing is made here: ``distributed_executor_backend`` runs the workers of one replica, ``data_parallel_*`` the
replicas, ``nnodes`` and its kin name the node. The node that answers is started as any server, the others with
``--headless``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import Any, Final

from omnicfg.diagnostics import Diagnostic
from omnicfg.plan import StagePlan
from omnicfg.serve.preflight import problem

_BACKENDS: Final = ("mp", "ray", "uni")
"""What runs the workers of a replica behind a server; a dotted name is a class of somebody's."""
_WHERE_RAY_IS_ASKED: Final = ("distributed_executor_backend", "data_parallel_backend")


def refusals(stage: StagePlan, headless: bool) -> Iterator[Diagnostic]:
    """What does not go together on any machine."""
    backend = stage.arg("distributed_executor_backend")
    if isinstance(backend, str) and backend not in _BACKENDS and "." not in backend:
        yield problem(
            f"`distributed_executor_backend: {backend}` runs no workers of a server",
            f"One of: {', '.join(_BACKENDS)}.",
        )
    nodes, rank = _number(stage, "nnodes", 1), _number(stage, "node_rank", 0)
    if nodes > 1 and "ray" in {stage.arg(name) for name in _WHERE_RAY_IS_ASKED}:
        yield problem("`nnodes` is for the backend mp; ray knows its nodes itself", "Leave `nnodes` out, or ray.")
    if rank >= nodes:
        yield problem(f"`node_rank: {rank}` of {nodes} node(s)", "Ranks begin at 0; `nnodes` says how many there are.")
    if headless and number(stage) == 0:
        yield problem(
            "`--headless` is for nodes that answer nobody, and this is the one that answers",
            "Leave it out, or set `node_rank` or `data_parallel_start_rank` for another node.",
        )
    if rank > 0 and not headless:
        yield problem(f"node {rank} answers nobody: the node with rank 0 does", "Add `--headless`.")
    if headless and stage.arg("data_parallel_hybrid_lb"):
        yield problem("with `data_parallel_hybrid_lb` every node answers", "Leave `--headless` out.")


def problems(stage: StagePlan) -> Iterator[Diagnostic]:
    """What this machine lacks."""
    asked = [name for name in _WHERE_RAY_IS_ASKED if stage.arg(name) == "ray"]
    if asked and importlib.util.find_spec("ray") is None:
        yield problem(
            f"`{asked[0]}: ray` needs Ray, which is not installed in this environment",
            "`pip install 'ray[default]'` on every node, or choose mp.",
        )


def notices(stage: StagePlan, headless: bool) -> Iterator[str]:
    """What there is to know about this node."""
    nodes, replicas = _number(stage, "nnodes", 1), _number(stage, "data_parallel_size", 1)
    head = stage.arg("master_addr") if nodes > 1 else stage.arg("data_parallel_address")
    if headless:
        yield f"this node answers nobody; the one at {head or '127.0.0.1'} does"
    elif nodes > 1:
        yield f"waiting for {nodes - 1} more node(s) at {head or '127.0.0.1'}"
    elif replicas > _number(stage, "data_parallel_size_local", replicas):
        yield f"waiting for the other nodes' replicas at {head or '127.0.0.1'}"


def replicas_here(stage: StagePlan, replicas: int) -> range:
    """Which of a stage's data-parallel replicas run on this node."""
    nodes, rank = _number(stage, "nnodes", 1), _number(stage, "node_rank", 0)
    here = _number(stage, "data_parallel_size_local", max(1, replicas // nodes))
    start = _number(stage, "data_parallel_start_rank", rank * replicas // nodes)
    return range(start, min(start + here, replicas))


def number(stage: StagePlan) -> int:
    """What tells this node from the others of its engine; the one that answers is 0."""
    return _number(stage, "node_rank", 0) or _number(stage, "data_parallel_start_rank", 0)


def _number(stage: StagePlan, name: str, default: int) -> int:
    value: Any = stage.arg(name)
    return value if type(value) is int else default
