"""Pass 2: ``${...}`` expressions → values, as OmegaConf resolves them for vLLM-Omni.

OmegaConf itself does the work and is imported only where a file has an expression. What it may cost is bounded:
expressions expand by reference, so a short text could otherwise grow without limit.
"""

from __future__ import annotations

from typing import Final

from omnicfg.passes.read import MAX_BYTES, MAX_NODES
from omnicfg.refusals import refuse
from omnicfg.tree import Mapping, Mark, Node, Route, Scalar, Sequence, grow, leaves, plain

MAX_EXPRESSIONS: Final = 256


def interpolate(document: Mapping) -> Mapping:
    """The document with every ``${...}`` resolved; the resolved nodes keep the place of the expression."""
    routes = [(route, leaf) for route, leaf in leaves(document) if _is_expression(leaf)]
    if not routes:
        return document
    if len(routes) > MAX_EXPRESSIONS:
        refuse("too-large", routes[MAX_EXPRESSIONS][1].mark, f"more than {MAX_EXPRESSIONS} `${{...}}` expressions")
    container = _container(document, routes[0][1].mark)
    resolved: Node = document
    budget = MAX_BYTES
    for route, leaf in routes:
        value = _resolve(container, route, leaf.mark)
        budget -= len(str(value))
        if budget < 0:
            refuse("too-large", leaf.mark, f"`${{...}}` expressions expand to more than {MAX_BYTES} characters")
        resolved = _replaced(resolved, route, _grown(value, leaf))
    assert isinstance(resolved, Mapping)
    return resolved


def _is_expression(node: Node) -> bool:
    return isinstance(node, Scalar) and isinstance(node.value, str) and "${" in node.value


def _container(document: Mapping, mark: Mark) -> object:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.create(plain(document))
    except (OmegaConfBaseException, ValueError, TypeError, RecursionError) as error:
        refuse("interpolation", mark, f"`${{...}}` cannot be parsed: {_first_line(error)}", "Check the expression.")


def _resolve(container: object, route: Route, mark: Mark) -> object:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    value: object = container
    try:
        for step in route:
            value = value[step]  # type: ignore[index]
        return OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except (OmegaConfBaseException, ValueError, TypeError, RecursionError, KeyError, IndexError) as error:
        refuse(
            "interpolation",
            mark,
            f"the expression cannot be resolved: {_first_line(error)}",
            "Set the environment variable or give a default: `${oc.env:NAME,default}`.",
        )


def _grown(value: object, leaf: Node) -> Node:
    node = grow(value, leaf.layer, leaf.mark)
    if sum(1 for _ in leaves(node)) > MAX_NODES:
        refuse("too-large", leaf.mark, f"the expression expands to more than {MAX_NODES} values")
    if isinstance(node, Scalar) and isinstance(leaf, Scalar):
        node.quoted, node.text = leaf.quoted, leaf.text
    return node


def _replaced(tree: Node, route: Route, node: Node) -> Node:
    """A copy of ``tree`` with ``node`` at ``route``; nodes off the route are shared."""
    if not route:
        return node
    step, rest = route[0], route[1:]
    if isinstance(tree, Mapping):
        mapping = tree.copy()
        mapping.items[step] = _replaced(mapping.items[step], rest, node)
        return mapping
    if isinstance(tree, Sequence) and isinstance(step, int):
        sequence = tree.copy()
        sequence.items[step] = _replaced(sequence.items[step], rest, node)
        return sequence
    raise TypeError(f"{step!r} leads nowhere in {tree!r}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
