"""Python annotations of vLLM's config classes as types of ``vllm_types``."""

from __future__ import annotations

import ast
import dataclasses
import enum
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any

from omnicfg.export.source import assignments, parse
from omnicfg.export.vllm_types import Type, union

Check = Callable[[Any], bool]
_PLAIN: dict[Any, Type] = {
    Any: "any",
    object: "any",
    NoneType: "none",
    None: "none",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    Path: "str",
    dict: {"dict": ["any", "any"]},
    list: {"list": "any"},
    set: {"set": "any"},
}
_NUMBER_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of")
_LENGTH_BOUNDS = ("min_length", "max_length", "pattern")


class TypeReader:
    """Turns annotations into types, and remembers the config classes that they name."""

    def __init__(self) -> None:
        self.configs: dict[str, type] = {}

    def read(self, annotation: Any, check: Check | None = None) -> Type:
        """The type of an annotation.

        ``check`` says whether vLLM itself takes a value there. It decides how choices may be spelt: the members of an
        enum by name or by value, in which case, with dashes.

        Raises:
            TypeError: for an annotation that this language has no words for.
        """
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is None:
            return self._read_class(annotation, check)
        if origin is typing.Annotated:
            return self._read_annotated(arguments[0], arguments[1:], check)
        if origin in (typing.Union, UnionType):
            spelling = None if str in arguments else check  # beside any string, every spelling is taken
            return union(self.read(argument, spelling) for argument in arguments)
        if origin is typing.Literal:
            return _choices([list(arguments)], check)
        return self._read_container(origin, arguments, check)

    def _read_container(self, origin: Any, arguments: tuple[Any, ...], check: Check | None) -> Type:
        if not (isinstance(origin, type) and issubclass(origin, Collection)):
            return "object"  # type[X], a callable
        if issubclass(origin, Mapping):
            return {"dict": [self.read(argument) for argument in arguments]}
        if origin is tuple and Ellipsis not in arguments:
            return {"tuple": [self.read(argument) for argument in arguments]}
        element = self.read(arguments[0], check and (lambda item: check([item])))
        return {"set" if issubclass(origin, Set) else "list": element}

    def _read_class(self, annotation: Any, check: Check | None) -> Type:
        if annotation in _PLAIN:
            return _PLAIN[annotation]
        if not isinstance(annotation, type):
            raise TypeError(f"no type for the annotation {annotation!r}")
        if issubclass(annotation, enum.Enum):
            members = list(annotation)
            return _choices([[m.value for m in members], [m.name for m in members]], check)
        if hasattr(annotation, "__pydantic_fields__"):
            known = self.configs.setdefault(annotation.__name__, annotation)
            if known is not annotation:
                raise TypeError(f"two config classes are named {annotation.__name__}")
            return {"config": annotation.__name__}
        return {"dict": ["any", "any"]} if issubclass(annotation, dict) else "object"

    def _read_annotated(self, inner: Any, metadata: Sequence[Any], check: Check | None) -> Type:
        names = {type(item).__name__ for item in metadata}
        if "SkipValidation" in names:  # vLLM hands over an object of its own here
            return "object"
        if "GetPydanticSchema" in names:  # what is taken is known to a function only
            return "any"
        return bounded(self.read(inner, check), metadata)


def bounded(type_: Type, metadata: Sequence[Any]) -> Type:
    """A type with the bounds that pydantic holds of it, wherever they apply in a union."""
    bounds: dict[str, Any] = {}
    for item in metadata:
        for name in (*_NUMBER_BOUNDS, *_LENGTH_BOUNDS):
            bound = getattr(item, name, None)
            if bound is not None:
                bounds[name] = bound
    if not bounds:
        return type_
    parts = type_["any_of"] if isinstance(type_, dict) and "any_of" in type_ else [type_]
    return union(_bound(part, bounds) for part in parts)


def _bound(type_: Type, bounds: dict[str, Any]) -> Type:
    if type_ in ("int", "float"):
        fitting = {name: bound for name, bound in bounds.items() if name in _NUMBER_BOUNDS}
        return {str(type_): fitting} if fitting else type_
    if type_ == "str":
        fitting = {name: bound for name, bound in bounds.items() if name in _LENGTH_BOUNDS}
        return {"str": fitting} if fitting else type_
    if isinstance(type_, dict) and ("list" in type_ or "set" in type_) and "min_length" in bounds:
        return type_ | {"min_length": bounds["min_length"]}
    return type_


def _choices(spellings: list[list[Any]], check: Check | None) -> Type:
    """A choice between members, in the ways of spelling them (the first is preferred) that vLLM takes."""
    if check is None:
        names = spellings[-1]
        return {"choices": names, "ignore_case": True} if len(spellings) > 1 else {"choices": names}
    known = [value for group in spellings for value in group if isinstance(value, str | int)]
    taken = [value for value in known if check(value)] or known
    taken += ["auto"] if "auto" not in taken and check("auto") else []  # read as unset
    texts = [value for value in taken if isinstance(value, str)]
    type_: dict[str, Any] = {"choices": taken}
    if texts and all(check(text.swapcase()) for text in texts):
        type_ |= {"choices": _without_twins(taken), "ignore_case": True}
    if any("_" in text for text in texts) and all(check(text.replace("_", "-")) for text in texts):
        type_["dashes"] = True
    return type_


def _without_twins(values: list[Any]) -> list[Any]:
    kept: dict[Any, Any] = {}
    for value in values:
        kept.setdefault(value.lower() if isinstance(value, str) else value, value)
    return list(kept.values())


def field_check(cls: type, name: str) -> Check:
    """Whether a config class takes a value for a field: pydantic's own validation of that field alone.

    A field's validators run; what the class checks across fields, and what depends on the machine, does not.
    """
    from pydantic_core import SchemaValidator, ValidationError

    schema: Any = getattr(cls, "__pydantic_core_schema__")  # noqa: B009  # not declared on ``type``
    definitions = schema.get("definitions") if schema["type"] == "definitions" else None
    while schema["type"] != "dataclass-args":
        schema = schema["schema"]
    field = next(field["schema"] for field in schema["fields"] if field["name"] == name)
    alone: Any = {"type": "typed-dict", "fields": {name: {"type": "typed-dict-field", "schema": field}}}
    validator = SchemaValidator(
        {"type": "definitions", "schema": alone, "definitions": definitions} if definitions else alone
    )

    def check(value: Any) -> bool:
        try:
            validator.validate_python({name: value})
        except (ValidationError, KeyError, TypeError, ValueError, AttributeError, AssertionError):
            return False  # validators of vLLM index enums and call methods: what they raise is a refusal
        return True

    return check


def shorthands(cls: type, check: Check) -> Type | None:
    """The strings that a field takes beside what its annotation says: any, or names from a table of its module."""
    if check("no such name"):
        return "str"
    tables = [value for value in vars(sys.modules[cls.__module__]).values() if isinstance(value, dict)]
    names = sorted({name for table in tables for name in table if isinstance(name, str) and check(name)})
    return {"choices": names} if names else None


def has_own_reading(cls: type, name: str) -> bool:
    """Whether the class rewrites what it is given for a field before it validates it."""
    decorators: Any = getattr(cls, "__pydantic_decorators__")  # noqa: B009  # not declared on ``type``
    return any(
        validator.info.mode in ("before", "plain") and {name, "*"} & set(validator.info.fields)
        for validator in decorators.field_validators.values()
    )


def declared_annotations(cls: type) -> dict[str, Any]:
    """The annotations of a dataclass and its bases, evaluated with the names that only type checkers see.

    vLLM writes ``if TYPE_CHECKING: from … import LoadFormats`` with ``else: LoadFormats = str``; the names are what a
    user wants to know. Only literals are taken from there: classes need no more than their runtime stand-in.
    """
    found: dict[str, Any] = {}
    for owner in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        names = _names(owner.__module__)
        for node in _class(owner).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                code = compile(ast.Expression(node.annotation), str(inspect.getsourcefile(owner)), "eval")
                found[node.target.id] = _evaluated(eval(code, names), names)
    return found


def _evaluated(annotation: Any, names: dict[str, Any]) -> Any:
    return eval(annotation, names) if isinstance(annotation, str) else annotation


def _class(cls: type) -> ast.ClassDef:
    tree = parse(Path(inspect.getsourcefile(cls) or ""))
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)


@cache
def _names(module: str) -> dict[str, Any]:
    source = Path(str(sys.modules[module].__file__))
    names = dict(vars(sys.modules[module]))
    for node in _type_checking_imports(parse(source)):
        for alias in node.names:
            literal = _literal(str(node.module), alias.name)
            if literal is not None:
                names[alias.name] = literal
            else:
                names.setdefault(alias.name, getattr(sys.modules.get(str(node.module)), alias.name, Any))
    return names


def _literal(module: str, name: str) -> Any:
    """``name`` where a module of vLLM assigns it a ``Literal``: read, not imported, for the module may load kernels."""
    root = Path(str(sys.modules["vllm"].__file__)).parent.parent
    path = root.joinpath(*module.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    value = assignments(parse(source)).get(name)
    if isinstance(value, ast.Subscript) and ast.unparse(value.value) == "Literal":
        return eval(ast.unparse(value), {"Literal": typing.Literal})
    return None


def _type_checking_imports(tree: ast.Module) -> Iterator[ast.ImportFrom]:
    for statement in tree.body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            for node in statement.body:
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vllm"):
                    yield node
