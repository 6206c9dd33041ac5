"""Engine args and config classes of vLLM as data: what ``vllm_types`` can say, and vLLM's own words beside it."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import inspect
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from omnicfg.export.jsonable import jsonable
from omnicfg.export.source import assignments, parse
from omnicfg.export.vllm_annotations import (
    TypeReader,
    bounded,
    declared_annotations,
    field_check,
    has_own_reading,
    shorthands,
)
from omnicfg.export.vllm_fields import ConfigField, config_fields
from omnicfg.export.vllm_types import Type, closed_choices, is_nullable, members, union

_HELP_LENGTH = 600
_DEPRECATED = re.compile(r"(?:deprecated\b|(?:--[\w.-]+|this \w+) is deprecated)", re.IGNORECASE)  # at the start
_REPLACEMENT = re.compile(r"\bUse --([\w.-]+) instead")
_MACHINE = {"envs", "os", "socket", "current_platform", "tempfile", "getpass", "platform"}


class ArgsExporter:
    """Reads one release's engine args; afterwards ``reader`` knows the config classes that they name."""

    def __init__(self, arg_utils: ModuleType) -> None:
        self._arg_utils = arg_utils
        self._engine_args: type = arg_utils.AsyncEngineArgs
        parser = _parser(arg_utils)
        self._actions = {action.dest: action for action in parser._actions}
        self._flags = _flags(parser)
        self._notices = _deprecation_notices(arg_utils)
        self._annotations = declared_annotations(self._engine_args)
        self.reader = TypeReader()

    def args(self) -> dict[str, Any]:
        """Engine arg → its record, in the order of vLLM's dataclass."""
        fields = {field.name: field for field in dataclasses.fields(self._engine_args)}
        links = config_fields(self._arg_utils, fields)
        return {name: self._arg(field, links.get(name) or self._namesake(name)) for name, field in fields.items()}

    def _namesake(self, name: str) -> ConfigField | None:
        """The field of the same name in the config class under which vLLM's help lists the arg."""
        cls = getattr(self._arg_utils, _group(self._actions.get(name), None) or "", None)
        known = dataclasses.is_dataclass(cls) and any(field.name == name for field in dataclasses.fields(cls))
        return ConfigField(cls, name) if known and isinstance(cls, type) else None

    def _arg(self, field: dataclasses.Field[Any], link: ConfigField | None) -> dict[str, Any]:
        action = self._actions.get(field.name)
        default = _default_of(field)
        type_ = self._type(field.name, link, default)
        help_, notice = self._help(field.name, link, action), self._notices.get(field.name)
        record = {
            "flags": self._flags.get(field.name, []),
            "type": type_,
            "nullable": is_nullable(type_),
            "default": default_json(default, type_),
            "choices": closed_choices(type_),
            "help": help_,
            "group": _group(action, link),
            "deprecated": bool(notice or _DEPRECATED.match(help_)),
            "cli": _command_line_form(action) if action else None,
        }
        if notice:
            record["deprecation"] = notice
            if replacement := _REPLACEMENT.search(notice):
                record["replaced_by"] = replacement[1].replace("-", "_")
        if action and action.choices is not None:
            listed = [choice for choice in action.choices if choice is not None]
            if record["choices"] is not None and set(listed) != set(record["choices"]):
                record["cli_choices"] = listed
        if action and action.default is not argparse.SUPPRESS and action.default != default:
            record["cli_default"] = default_json(action.default, type_)
        return record

    def _type(self, name: str, link: ConfigField | None, default: Any) -> Type:
        """The config field's type, since that is what validates; null too where the flat arg may stay unset."""
        flat = self.reader.read(self._annotations[name])
        type_ = config_field_type(self.reader, link) if link else flat
        if type_ == "any" or (link and has_own_reading(link.cls, link.name) and not _has_choices(type_)):
            type_ = flat  # the class converts what it is given: its own annotation says what comes out
        return union([type_, "none"]) if default is None or is_nullable(flat) else type_

    def _help(self, name: str, link: ConfigField | None, action: argparse.Action | None) -> str:
        """vLLM's text: from the parser, else from the docstring of the field that the arg ends in."""
        text = (action.help if action else None) or ""
        if not text.strip():
            docs: Mapping[str, str] = self._arg_utils.get_attr_docs(self._engine_args)
            text = docs.get(name, "")
        if not text.strip() and link is not None:
            text = self._arg_utils.get_attr_docs(link.cls).get(link.name, "")
        return short_help(text.replace("%%", "%"))

    def configs(self) -> dict[str, Any]:
        """Config class → its settable fields, for every class that an arg or another config names."""
        records: dict[str, Any] = {}
        while waiting := sorted(set(self.reader.configs) - set(records)):
            for name in waiting:
                records[name] = self._config(self.reader.configs[name])
        return dict(sorted(records.items()))

    def _config(self, cls: type) -> dict[str, Any]:
        declared: Any = cls
        docs: Mapping[str, str] = self._arg_utils.get_attr_docs(cls)
        fields = {field.name: self._field(cls, field, docs) for field in dataclasses.fields(declared)}
        return {
            "help": short_help(inspect.getdoc(cls) or ""),
            "open": declared.__pydantic_config__.get("extra") == "allow",
            "fields": {name: record for name, record in fields.items() if record is not None},
        }

    def _field(self, cls: type, field: dataclasses.Field[Any], docs: Mapping[str, str]) -> dict[str, Any] | None:
        """The record of a config field; None for one that vLLM fills in itself."""
        default, settable = _pydantic_default(cls, field)
        type_ = config_field_type(self.reader, ConfigField(cls, field.name)) if settable else "object"
        if type_ == "object":
            return None
        help_ = short_help(docs.get(field.name, ""))
        required = default is dataclasses.MISSING
        return {
            "type": type_,
            "nullable": is_nullable(type_),
            "default": None if required else default_json(default, type_),
            "choices": closed_choices(type_),
            "help": help_,
            "deprecated": bool(_DEPRECATED.match(help_)),
        } | ({"required": True} if required else {})

    def environment(self) -> dict[str, str]:
        """``Class.field`` → the expression of every default that is read from the machine that runs vLLM.

        The data holds what the expression gives with no such variable set.
        """
        found: dict[str, str] = {}
        for cls in (self._engine_args, *self._engine_args.__mro__[1:-1], *self.reader.configs.values()):
            tree = parse(Path(inspect.getsourcefile(cls) or ""))
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
                    found |= {f"{cls.__name__}.{name}": text for name, text in _machine_defaults(tree, node).items()}
        return dict(sorted(found.items()))


def config_field_type(reader: TypeReader, link: ConfigField) -> Type:
    """The type of a field of a config class, with its bounds and shorthands; null only where the class takes it."""
    cls: Any = link.cls
    check = field_check(cls, link.name)
    annotation = declared_annotations(cls)[link.name]
    type_ = bounded(reader.read(annotation, check), cls.__pydantic_fields__[link.name].metadata)
    if type_ == "object":
        return type_
    extra: list[Type] = ["none"] if check(None) else []
    if type_ == "any" or (has_own_reading(cls, link.name) and not _has_choices(type_)):
        names = shorthands(cls, check)
        if type_ == "any" and names in (None, "str"):
            return "any"
        extra += [names] if names else []
    return union([*(member for member in members(type_) if member not in ("any", "none")), *extra])


def _has_choices(type_: Type) -> bool:
    return any(isinstance(member, dict) and "choices" in member for member in members(type_))


def _parser(arg_utils: ModuleType) -> argparse.ArgumentParser:
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser: argparse.ArgumentParser = FlexibleArgumentParser(add_help=False)
    arg_utils.EngineArgs.add_cli_args(parser)
    arg_utils.AsyncEngineArgs.add_cli_args(parser, async_args_only=True)
    return parser


def _flags(parser: argparse.ArgumentParser) -> dict[str, list[str]]:
    """Engine arg → every flag that the parser takes for it, those that its help shows first."""
    flags = {action.dest: list(action.option_strings) for action in parser._actions}
    for flag, action in parser._option_string_actions.items():
        if flag not in flags[action.dest]:
            flags[action.dest].append(flag)
    return flags


def _deprecation_notices(arg_utils: ModuleType) -> dict[str, str]:
    """Engine arg → the notice that vLLM prints for it: module constants named after the arg."""
    values = assignments(parse(Path(inspect.getsourcefile(arg_utils) or "")))
    notices: dict[str, str] = {}
    for name, value in values.items():
        if name.endswith("_DEPRECATION_MESSAGE"):
            arg = name.removesuffix("_DEPRECATION_MESSAGE").strip("_").lower()
            notices[arg] = str(ast.literal_eval(value))
    return notices


def _group(action: argparse.Action | None, link: ConfigField | None) -> str | None:
    """The config class that vLLM's help lists the arg under."""
    title = getattr(getattr(action, "container", None), "title", None)
    if title and title.endswith("Config"):
        return str(title)
    return link.cls.__name__ if link else None


def _command_line_form(action: argparse.Action) -> str:
    """How the command line takes the value, in one word."""
    if isinstance(action, argparse.BooleanOptionalAction):
        return "flag"
    if action.nargs == 0:
        return "switch"
    if action.nargs == "+":
        return "list"
    if action.nargs == "?":
        return "flag_or_value"
    return _PARSERS.get(_parser_name(action.type), "str")


_PARSERS = {
    "int": "int",
    "float": "float",
    "loads": "json",
    "parse_dataclass": "json",
    "union_dict_and_str": "json_or_str",
    "human_readable_int": "human_int",
    "human_readable_int_or_auto": "human_int_or_auto",
}


def _parser_name(parser: Any) -> str:
    """The function at the core of vLLM's ``optional_type(parse_type(f))``."""
    closure = inspect.getclosurevars(parser).nonlocals if inspect.isfunction(parser) else {}
    inner = closure.get("return_type")
    return _parser_name(inner) if inner is not None else getattr(parser, "__name__", "str")


def _default_of(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _pydantic_default(cls: Any, field: dataclasses.Field[Any]) -> tuple[Any, bool]:
    """The default of a config field (``MISSING`` where it must be given), and whether a user can set the field."""
    info = cls.__pydantic_fields__[field.name]
    settable = field.init and info.init is not False
    if info.default_factory is not None:
        return info.default_factory(), settable
    return (dataclasses.MISSING if info.is_required() else info.default), settable


def default_json(value: Any, type_: Type) -> Any:
    """A default as JSON, spelt as the type spells it; a config at its own defaults is ``{}``.

    Raises:
        ValueError: for a config that is not at its own defaults, which the data could not tell.
    """
    if isinstance(value, enum.Enum):
        choices = closed_choices(type_) or []
        spelt = [choice for choice in choices if choice in (value.value, value.name, value.name.lower())]
        return spelt[0] if spelt else jsonable(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        if value != type(value)():
            raise ValueError(f"a default that is not the default of its class: {value!r}")
        return {}
    return jsonable(value)


def short_help(text: str) -> str:
    """The first paragraph on one line; where it announces a list, the list too. Cut at a word."""
    paragraphs = [part for part in re.split(r"\n\s*\n", textwrap.dedent(text).strip()) if part.strip()]
    kept = paragraphs[:1]
    if kept and kept[0].rstrip().endswith(":"):
        kept += [part for part in paragraphs[1:2] if part.lstrip().startswith("-")]
    lines = re.sub(r"\s*\n\s*(?!\s*-\s)", " ", "\n".join(kept))
    return lines if len(lines) <= _HELP_LENGTH else lines[: lines.rindex(" ", 0, _HELP_LENGTH)] + " …"


def _machine_defaults(tree: ast.Module, node: ast.ClassDef) -> dict[str, str]:
    """The fields of a class whose default, or the function that makes it, asks the machine."""
    functions = {item.name: item for item in tree.body if isinstance(item, ast.FunctionDef)}
    found: dict[str, str] = {}
    for statement in node.body:
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value):
            continue
        names = _used_names(statement.value)
        names |= {name for factory in names & set(functions) for name in _used_names(functions[factory])}
        if names & _MACHINE:
            found[statement.target.id] = ast.unparse(statement.value)
    return found


def _used_names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
