"""Pass 2: ``${...}`` expressions → values, as OmegaConf resolves them for vLLM-Omni.

OmegaConf itself does the work and is imported only where a file has an expression. It is let loose only on forms that
can do no harm: some of its resolvers import modules by name (``oc.coerce``) or evaluate text that another expression
gave (``oc.decode``), and references expand, so that a short text could grow without limit.
"""

from __future__ import annotations

import os
import re
from typing import Final

from omnicfg.confine import may_use
from omnicfg.passes.read import MAX_BYTES, MAX_DEPTH
from omnicfg.refusals import refuse, refuse_and_go_on
from omnicfg.tree import Mapping, Mark, Node, Route, Scalar, Sequence, grow, leaves, plain

MAX_EXPRESSIONS: Final = 256


def _variable(default: str) -> str:
    return rf"\$\{{\s*oc\.env:\s*[A-Za-z_]\w*\s*(?:,(?:{default})*)?\}}"


_TEXT: Final = r"[^${}\\]"
_VARIABLE: Final = _variable(f"{_TEXT}|{_variable(f'{_TEXT}|{_variable(_TEXT)}')}")
_DECODED: Final = rf"\$\{{\s*oc\.decode:\s*{_variable(_TEXT)}\s*\}}"
_LITERAL: Final = rf"\$\{{\s*oc\.(?:create|decode):(?:{_TEXT}|\{{{_TEXT}*\}})*\}}"
_REFERENCE: Final = r"\$\{\s*(?P<path>[\w.\[\]$-]+)\s*\}"
_ALLOWED: Final = f"(?a:{_DECODED}|{_LITERAL}|{_VARIABLE}|{_REFERENCE})"  # compiled where a file has an expression
_ENVIRONMENT: Final = r"oc\.env:\s*([A-Za-z_]\w*)"
_ESCAPED: Final = r"(?<!\\)(?:\\\\)*\\\$\{"

# What a value, and what the evaluation of an expression, counts for beside the characters that they add.
_VALUE: Final = 100
_EVALUATION: Final = 1000


def interpolate(document: Mapping) -> Mapping:
    """The document with every ``${...}`` resolved; the resolved nodes keep the place of the expression."""
    expressions = [
        (route, leaf) for route, leaf in leaves(document) if isinstance(leaf, Scalar) and _has_expression(leaf)
    ]
    if not expressions:
        return document
    if len(expressions) > MAX_EXPRESSIONS:
        refuse("too-large", expressions[MAX_EXPRESSIONS][1].mark, f"more than {MAX_EXPRESSIONS} `${{...}}` expressions")
    harmless: Node = document
    good: list[tuple[Route, Scalar]] = []
    for route, leaf in expressions:
        if _has_good_form(leaf):
            good.append((route, leaf))
        else:
            harmless = _replaced(harmless, route, Scalar(None, leaf.layer, leaf.mark))
    assert isinstance(harmless, Mapping)
    _check_growth(harmless, good)
    container = _container(harmless, expressions[0][1].mark)
    resolved: Node = document
    for route, leaf in good:
        resolved = _replaced(resolved, route, _resolve(container, route, leaf))
    assert isinstance(resolved, Mapping)
    return resolved


def _has_expression(leaf: Scalar) -> bool:
    return isinstance(leaf.value, str) and "${" in leaf.value


def _has_good_form(leaf: Scalar) -> bool:
    rest = re.sub(_ESCAPED, "", re.sub(_ALLOWED, "", leaf.value))
    if "${" in rest:
        refuse_and_go_on(
            "interpolation",
            leaf.mark,
            "this `${...}` expression is not one that a profile may have",
            "Write `${key.of.this.file}`, `${oc.env:NAME}`, `${oc.env:NAME,default}` or `${oc.decode:${oc.env:NAME}}`.",
        )
        return False
    return _has_known_variables(leaf)


def _has_known_variables(leaf: Scalar) -> bool:
    """Whether all variables may be used: who merely writes a profile must not learn of others, default or not."""
    barred = [name for name in re.findall(_ENVIRONMENT, leaf.value) if not may_use(name)]
    if barred:
        refuse_and_go_on(
            "interpolation",
            leaf.mark,
            f"the expression uses the environment variable `{barred[0]}`, which is not allowed",
            f"Where the profile may know it, allow it: `--allow-env {barred[0]}`.",
        )
    return not barred


def _check_growth(document: Mapping, expressions: list[tuple[Route, Scalar]]) -> None:
    growth = _Growth(document)
    total = 0
    for route, leaf in expressions:
        try:
            total += growth.of(route, leaf)
        except RecursionError:
            total = MAX_BYTES + 1
        if total > MAX_BYTES:
            refuse("too-large", leaf.mark, "the `${...}` expressions expand to more than a profile may hold")


class _Growth:
    """An upper bound on what each value of a document expands to, found without resolving anything."""

    def __init__(self, document: Mapping) -> None:
        self.document = document
        self.known: dict[Route, int] = {}
        self.longest_variable = max(map(len, os.environ.values()), default=0)

    def of(self, route: Route, node: Node) -> int:
        if route not in self.known:
            self.known[route] = 0  # counts while the value is being looked at, which only a cycle sees
            self.known[route] = _VALUE + self._content(route, node)
        return self.known[route]

    def _content(self, route: Route, node: Node) -> int:
        if isinstance(node, Mapping):
            return sum(self.of((*route, key), child) for key, child in node.items.items())
        if isinstance(node, Sequence):
            return sum(self.of((*route, index), child) for index, child in enumerate(node.items))
        text = str(plain(node))
        variables = text.count("oc.env:") * (_EVALUATION + self.longest_variable)
        paths = [match["path"] for match in re.finditer(_ALLOWED, text) if match["path"]]
        return len(text) + variables + sum(_EVALUATION + self._target(route, path) for path in paths)

    def _target(self, route: Route, path: str) -> int:
        """The size of what a path leads to; all of the expression that it passes through, if it does."""
        steps = path.replace("[", ".").replace("]", "").split(".")
        dots = len(path) - len(path.lstrip("."))
        at: Route = route[: max(len(route) - dots, 0)] if dots else ()
        node = self._descend(at)
        for step in filter(None, steps):
            child = _child(node, step)
            if child is None:
                return self.of(at, node) if isinstance(node, Scalar) else 0
            at, node = (*at, child[0]), child[1]
        return self.of(at, node)

    def _descend(self, route: Route) -> Node:
        node: Node = self.document
        for step in route:
            child = _child(node, step)
            assert child is not None
            node = child[1]
        return node


def _child(node: Node, step: object) -> tuple[object, Node] | None:
    if isinstance(node, Mapping):
        return (step, node.items[step]) if step in node.items else None
    if isinstance(node, Sequence):
        try:
            index = int(str(step))
            return index, node.items[index]
        except (ValueError, IndexError):
            return None
    return None


def _container(document: Mapping, mark: Mark) -> object:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return OmegaConf.create(plain(document))
    except (OmegaConfBaseException, ValueError, TypeError, RecursionError) as error:
        refuse("interpolation", mark, f"`${{...}}` cannot be parsed: {_first_line(error)}", "Check the expression.")


def _resolve(container: object, route: Route, leaf: Scalar) -> Node:
    """What an expression gives; itself where it cannot be resolved and that is no reason to stop."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    value: object = container
    try:
        for step in route:
            value = value[step]  # type: ignore[index]
        found = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
    except (OmegaConfBaseException, ValueError, TypeError, RecursionError, KeyError, IndexError) as error:
        refuse_and_go_on(
            "interpolation",
            leaf.mark,
            f"the expression cannot be resolved: {_first_line(error)}",
            _OF_VARIABLES if "oc.env" in str(leaf.value) else _OF_KEYS,
        )
        return leaf
    return _grown(found, leaf, len(route))


_OF_KEYS: Final = "`${NAME}` is a key of the top level; `${.NAME}`, with a dot, one of the block that it stands in."
_OF_VARIABLES: Final = "Set the environment variable or give a default: `${oc.env:NAME,default}`."


def _grown(value: object, leaf: Scalar, depth: int) -> Node:
    node = grow(_guarded(value, str(leaf.value)), leaf.layer, leaf.mark)
    if depth + max(len(route) for route, _ in leaves(node)) > MAX_DEPTH:
        refuse("too-large", leaf.mark, f"the expression nests deeper than {MAX_DEPTH} levels")
    if isinstance(node, Scalar):
        node.quoted, node.text = leaf.quoted, leaf.text
    return node


def _guarded(value: object, expression: str) -> object:
    """Text out of a variable or a key whose name is that of a credential is never shown, wherever it stands."""
    from omnicfg.secrets import Secret, looks_secret

    keys = [key for found in re.finditer(_REFERENCE, expression) for key in re.findall(r"[\w-]+", found["path"])]
    names = [*re.findall(_ENVIRONMENT, expression), *keys]
    return Secret(value) if isinstance(value, str) and any(map(looks_secret, names)) else value


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
