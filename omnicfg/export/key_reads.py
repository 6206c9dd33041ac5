"""Which string keys does a package read from a certain kind of mapping? A data-flow analysis over its source.

The caller says where such a mapping enters (:data:`Entry`). From there it is followed through assignments,
attributes of ``self``, returns, copies and arguments, over all modules at once, until nothing new is found. A
key is read by ``m.get(K)``, ``m[K]``, ``m.pop(K)``, ``m.setdefault(K)`` and ``K in m``; a key that is a
parameter is looked for at the calls of that function.

Order of statements and branches is ignored: for the forms above the answer can be too large, not too small.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

Entry = Callable[[ast.expr, str], bool]
"""Does this expression, in the module of that relative path, give such a mapping?"""

_READERS = {"get", "pop", "setdefault"}
_COPIES = {"dict", "copy", "deepcopy", "cast", "MappingProxyType"}


@dataclass(eq=False)
class Function:
    """A function, method or module body, with what has been learned about it."""

    name: str
    module: str
    owner: str
    parent: Function | None
    body: list[ast.AST]
    parameters: list[str] = field(default_factory=list)
    variadic: str | None = None
    mappings: set[str] = field(default_factory=set)
    """Local names that hold such a mapping."""
    keys: set[str] = field(default_factory=set)
    """Parameters that are used as a key."""
    returns_mapping: bool = False

    def sees(self, name: str) -> bool:
        """Whether ``name`` holds such a mapping here or in a function around this one."""
        return name in self.mappings or (self.parent is not None and self.parent.sees(name))

    def owning(self, parameter: str) -> Function | None:
        """This function or one around it: the one that has the parameter."""
        if parameter in self.parameters or parameter == self.variadic:
            return self
        return None if self.parent is None else self.parent.owning(parameter)


@dataclass
class KeyReads:
    """The analysis of one package; :meth:`run` gives key → files that read it."""

    root: Path
    entry: Entry
    functions: list[Function] = field(default_factory=list)
    by_name: dict[str, list[Function]] = field(default_factory=lambda: defaultdict(list))
    by_module: dict[tuple[str, str], list[Function]] = field(default_factory=lambda: defaultdict(list))
    by_class: dict[str, list[Function]] = field(default_factory=lambda: defaultdict(list))
    constants: dict[str, dict[str, str]] = field(default_factory=dict)
    attributes: set[tuple[str, str, str]] = field(default_factory=set)
    found: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def run(self, files: Sequence[Path]) -> dict[str, list[str]]:
        """Key → sorted paths relative to the root."""
        for path in files:
            self._load(path)
        known = -1
        while known != (known := self._known()):
            for function in self.functions:
                self._look(function)
        return {key: sorted(paths) for key, paths in sorted(self.found.items())}

    def _known(self) -> int:
        """How much has been found out so far; it only grows."""
        known = sum(len(f.mappings) + len(f.keys) + f.returns_mapping for f in self.functions)
        return known + len(self.attributes) + sum(map(len, self.found.values()))

    # --------------------------------------------------------------------------------------------- loading
    def _load(self, path: Path) -> None:
        module = path.relative_to(self.root).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        self.constants[module] = {
            target.id: statement.value.value
            for statement in tree.body
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
            for target in statement.targets
            if isinstance(target, ast.Name) and isinstance(statement.value.value, str)
        }
        self._add(Function("<module>", module, "", None, list(tree.body)))

    def _add(self, function: Function) -> None:
        own = function.body
        function.body = []
        self.functions.append(function)
        self.by_name[function.name].append(function)
        self.by_module[function.module, function.name].append(function)
        if function.name == "__init__":
            self.by_class[function.owner].append(function)
        for statement in own:
            self._split(statement, function, function.owner)

    def _split(self, node: ast.AST, function: Function, owner: str) -> None:
        """Put the nodes of a function's own body into it, nested functions into functions of their own."""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = node.args
            names = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
            variadic = arguments.vararg.arg if arguments.vararg else None
            self._add(Function(node.name, function.module, owner, function, list(node.body), names, variadic))
            return
        if isinstance(node, ast.ClassDef):
            for statement in node.body:
                self._split(statement, function, node.name)
            return
        function.body.append(node)
        for child in ast.iter_child_nodes(node):
            self._split(child, function, owner)

    # --------------------------------------------------------------------------------------------- looking
    def _look(self, function: Function) -> None:
        for node in function.body:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value, function)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._assign(node.target, node.value, function)
            elif isinstance(node, ast.Return) and node.value is not None:
                function.returns_mapping = function.returns_mapping or self._is_mapping(node.value, function)
            elif isinstance(node, ast.Call):
                self._call(node, function)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                self._read(node.value, node.slice, function)
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
                self._read(node.comparators[0], node.left, function)

    def _assign(self, target: ast.expr, value: ast.expr, function: Function) -> None:
        if not self._is_mapping(value, function):
            return
        if isinstance(target, ast.Name):
            function.mappings.add(target.id)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "self":
            self.attributes.add((function.module, function.owner, target.attr))

    def _call(self, call: ast.Call, function: Function) -> None:
        if isinstance(call.func, ast.Attribute) and call.func.attr in _READERS and call.args:
            self._read(call.func.value, call.args[0], function)
        for callee in self._callees(call, function):
            for parameter, argument in self._arguments(call, callee):
                if self._is_mapping(argument, function):
                    callee.mappings.add(parameter)
                if parameter in callee.keys:
                    self._key(argument, function)

    def _read(self, mapping: ast.expr, key: ast.expr, function: Function) -> None:
        if self._is_mapping(mapping, function):
            self._key(key, function)

    def _key(self, key: ast.expr, function: Function) -> None:
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            self.found[key.value].add(function.module)
        elif isinstance(key, ast.IfExp):
            self._key(key.body, function)
            self._key(key.orelse, function)
        elif isinstance(key, ast.Name):
            self._named_key(key.id, function)

    def _named_key(self, name: str, function: Function) -> None:
        constant = self.constants[function.module].get(name)
        if constant is not None:
            self.found[constant].add(function.module)
        owner = function.owning(name)
        if owner is not None:
            owner.keys.add(name)
        for node in function.body:
            if isinstance(node, ast.For | ast.comprehension) and _binds(node.target, name):
                for item in node.iter.elts if isinstance(node.iter, ast.Tuple | ast.List) else [node.iter]:
                    # A pair such as ("host", default) binds its first element here.
                    self._key(item.elts[0] if isinstance(item, ast.Tuple) else item, function)

    # ----------------------------------------------------------------------------------------- expressions
    def _is_mapping(self, value: ast.expr, function: Function) -> bool:
        return self.entry(value, function.module) or any(self._is_followed(value, function))

    def _is_followed(self, value: ast.expr, function: Function) -> Iterator[bool]:
        match value:
            case ast.Name(name):
                yield function.sees(name)
            case ast.Attribute(ast.Name("self"), attribute):
                yield (function.module, function.owner, attribute) in self.attributes
            case ast.BoolOp(values=values):
                yield from (self._is_mapping(operand, function) for operand in values)
            case ast.IfExp(body=body, orelse=orelse):
                yield self._is_mapping(body, function)
                yield self._is_mapping(orelse, function)
            case ast.NamedExpr(value=inner):
                yield self._is_mapping(inner, function)
            case ast.Dict(keys=keys, values=values):  # {..., **m}
                for key, item in zip(keys, values, strict=True):
                    yield key is None and self._is_mapping(item, function)
            case ast.Call():
                yield self._call_gives_mapping(value, function)

    def _call_gives_mapping(self, call: ast.Call, function: Function) -> bool:
        func = call.func
        name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
        if name in _COPIES:
            copied = [*call.args, *([func.value] if isinstance(func, ast.Attribute) else [])]
            return any(self._is_mapping(source, function) for source in copied)
        return any(callee.returns_mapping for callee in self._callees(call, function))

    # ----------------------------------------------------------------------------------------------- calls
    def _callees(self, call: ast.Call, function: Function) -> Iterator[Function]:
        """The functions of the package that a call can mean: by name, this module's before any other's."""
        func = call.func
        if isinstance(func, ast.Name):
            name = func.id
        elif isinstance(func, ast.Attribute):
            name = func.attr
        else:
            return
        if name in _READERS:
            return
        near, anywhere = self.by_module.get((function.module, name), []), self.by_name.get(name, [])
        if near:
            yield from near
        elif isinstance(func, ast.Name) or len(anywhere) == 1:
            yield from anywhere
        yield from self.by_class.get(name, [])

    def _arguments(self, call: ast.Call, callee: Function) -> Iterator[tuple[str, ast.expr]]:
        names = list(callee.parameters)
        if names[:1] in (["self"], ["cls"]):
            names = names[1:]
        for index, argument in enumerate(call.args):
            if isinstance(argument, ast.Starred):
                return
            if index < len(names):
                yield names[index], argument
            elif callee.variadic is not None:
                yield callee.variadic, argument
        for keyword in call.keywords:
            if keyword.arg is not None:
                yield keyword.arg, keyword.value


def _binds(target: ast.expr, name: str) -> bool:
    """Whether a loop target binds ``name``, alone or as the first of a tuple."""
    if isinstance(target, ast.Tuple):
        return bool(target.elts) and _binds(target.elts[0], name)
    return isinstance(target, ast.Name) and target.id == name
