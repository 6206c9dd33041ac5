"""``flags.json``: the command line of ``vllm serve --omni`` as data; what each flag takes, and which stages it reaches.

Upstream's own parser says which flags there are. Which stages a flag reaches is found by giving it a value and asking
the function that a server asks (``_stage_cli_overrides``) for each kind of stage.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib.machinery
import importlib.util
import inspect
import json
import re
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from omnicfg.export.jsonable import jsonable

_SAMPLES = {
    "int": "3",
    "float": "0.5",
    "json": '{"a": 1}',
    "json_object": '{"a": 1}',
    "dict_or_str": "word",
    "human_int": "3",
    "human_int_or_auto": "3",
    "config": "{}",
    "stage_overrides": '{"0": {}}',
}


def serve_parser() -> Any:
    """Upstream's parser of ``vllm``, with the ``serve`` command in it."""
    _stand_in("torchaudio")
    from vllm_omni.entrypoints.cli.serve import OmniServeCommand
    from vllm_omni.utils.tracking_parser import TrackingArgumentParser

    parser = TrackingArgumentParser(prog="vllm")
    OmniServeCommand().subparser_init(parser.add_subparsers(dest="subparser"))
    return parser


def serve_actions(parser: Any) -> list[argparse.Action]:
    """The actions of the ``serve`` command."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: list[argparse.Action] = commands.choices["serve"]._actions
    return found


def export_flags(release: str) -> dict[str, Any]:
    """The whole file."""
    from vllm_omni.config import omni_config
    from vllm_omni.engine import arg_utils

    parser = serve_parser()
    actions = [action for action in serve_actions(parser) if action.option_strings and action.dest != "help"]
    flags = [_flag(action, parser) for action in actions]
    dropped = (arg_utils.internal_blacklist_keys() | arg_utils.SHARED_FIELDS) - omni_config_override_keys()
    return {
        "vllm_omni": release,
        "flags": sorted(flags, key=lambda flag: flag["dest"]),
        "dropped_from_stage_overrides": sorted(dropped),
        "refused_on_diffusion_stages": sorted(
            {"model", "model_arch", "stage_id"} | omni_config._DIFFUSION_SHARED_ONLY_ENGINE_FIELDS
        ),
        "removed": ["stage_configs_path", "stage_configs"],
        "owned_by_no_stage": sorted(flag["dest"] for flag in flags if _has_no_owner(flag["dest"])),
        "read_by_server": sorted(
            flag["dest"] for flag in flags if flag["reach"] == "stages" and flag["dest"] in _read_by_server()
        ),
    }


@functools.cache
def _read_by_server() -> frozenset[str]:
    """The names that the modules of the HTTP server read from the parsed command line themselves."""
    package = importlib.util.find_spec("vllm_omni")
    assert package is not None
    assert package.origin is not None
    entrypoints = Path(package.origin).parent / "entrypoints"
    paths = [entrypoints / "openai" / "api_server.py", entrypoints / "cli" / "serve.py"]
    read = (node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    return frozenset(
        node.attr
        for node in read
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "args"
    )


def omni_config_override_keys() -> frozenset[str]:
    from vllm_omni.config.stage_config import deploy_runtime_override_keys

    found: frozenset[str] = deploy_runtime_override_keys()
    return found


def _flag(action: argparse.Action, parser: Any) -> dict[str, Any]:
    kind, config = kind_of(action)
    flag: dict[str, Any] = {"dest": action.dest, "options": list(action.option_strings), "kind": kind}
    if isinstance(action, argparse.BooleanOptionalAction):
        flag["kind"] = "bool"
    elif action.nargs == 0:
        flag["kind"], flag["const"] = "const", jsonable(action.const)
    elif action.nargs is not None:
        flag["nargs"] = action.nargs
        if action.const is not None:
            flag["const"] = jsonable(action.const)
    if isinstance(action, argparse._AppendAction):
        flag["adds_up"] = True
    if action.choices is not None:
        flag["choices"] = sorted(map(str, action.choices))
    if config is not None:
        flag["config"] = config
    flag |= {"keys": keys} if (keys := config_keys(action.type)) else {}
    value = _sample(action, flag, parser)
    if config is not None:
        flag["defaults"] = jsonable(_converted(value))
    reach, refused = _reach(action.dest, _converted("word" if value is None else value))
    if not reach and flag["kind"] == "str" and is_engine_arg(action.dest):
        reach, refused = _reach(action.dest, _SAMPLES["json"])  # some texts are JSON, and nothing else will do
    flag["reach"] = "stages" if reach or is_engine_arg(action.dest) else _elsewhere(action)
    if flag["reach"] == "stages":
        flag["stages"] = reach
        if not is_engine_arg(action.dest):
            flag["needs_no_owner"] = True
    if refused:
        flag["refused_by_diffusion"] = True
    return flag


def is_engine_arg(dest: str) -> bool:
    """Whether upstream takes a flag for an engine arg, which some stage of the pipeline has to own."""
    from vllm_omni.config.omni_config import _global_stage_cli_fields

    return dest in _global_stage_cli_fields()


def _has_no_owner(dest: str) -> bool:
    """Whether upstream takes a flag for an engine arg that it then finds no kind of stage for."""
    from vllm_omni.config.omni_config import _STAGE_ENGINE_FIELDS_BY_EXECUTION_TYPE

    return is_engine_arg(dest) and not any(dest in owned for owned in _STAGE_ENGINE_FIELDS_BY_EXECUTION_TYPE.values())


def kind_of(action: argparse.Action) -> tuple[str, str | None]:
    """What text a flag takes, and the name of vLLM's config where that is JSON for one."""
    convert: Any = action.type
    if convert is None or convert is str:
        return "str", None
    if convert in (int, float):
        return convert.__name__, None
    if convert is json.loads:
        return "json", None
    name = getattr(convert, "__qualname__", "").split(".")[0]
    if name in ("optional_type", "parse_type"):
        inner = inspect.getclosurevars(convert).nonlocals["return_type"]
        kind = kind_of(argparse.Action([], "x", type=inner))[0]
        return (f"optional {kind}" if name == "optional_type" and not kind.startswith("optional") else kind), None
    if getattr(convert, "__name__", "") == "parse_dataclass":
        return "config", inspect.signature(convert).parameters["cls"].default.__name__
    known = {
        "union_dict_and_str": "dict_or_str",
        "human_readable_int": "human_int",
        "human_readable_int_or_auto": "human_int_or_auto",
        "_nonneg_finite_float": "float",
        "_json_object": "json_object",
        "_parse_stage_overrides": "stage_overrides",
    }
    return known.get(name, "str"), None


def config_keys(convert: Any) -> list[str]:
    """The keys of the JSON that a flag takes for one of vLLM's configs; none where it takes any."""
    if getattr(convert, "__qualname__", "").startswith("optional_type"):
        return config_keys(inspect.getclosurevars(convert).nonlocals["return_type"])
    if getattr(convert, "__name__", "") != "parse_dataclass":
        return []
    taken = inspect.signature(inspect.signature(convert).parameters["cls"].default).parameters.values()
    return [] if any(each.kind is each.VAR_KEYWORD for each in taken) else sorted(each.name for each in taken)


def _sample(action: argparse.Action, flag: dict[str, Any], parser: Any) -> Any:
    """What upstream's parser makes of some value for the flag; ``None`` where none could be found."""
    long = next((option for option in action.option_strings if option.startswith("--")), action.option_strings[0])
    words = [long]
    if flag["kind"] not in ("bool", "const"):
        plain = flag["kind"].removeprefix("optional ")
        words.append(flag["choices"][0] if "choices" in flag else _SAMPLES.get(plain, "word"))
    try:
        explicit = parser.parse_args(["serve", "model", *words]).get_explicit_kwargs_dict()
    except (SystemExit, Exception):  # noqa: BLE001  # a sample that is no value of it
        return None
    return explicit.get(action.dest)


def _converted(value: Any) -> Any:
    from vllm_omni.config.resolver import _convert_dataclasses_to_dict

    return _convert_dataclasses_to_dict({"value": value}).get("value")


def _reach(dest: str, value: Any) -> tuple[dict[str, dict[str, Any]], bool]:
    """Kind of stage → the engine args of it that a value sets, and whether diffusion stages refuse the flag.

    An engine arg stands for the flag's own value as ``null``, for another one with ``"*"`` in the value's place, and
    for the value read as JSON as ``"json:*"``.
    """
    from vllm_omni.config.omni_config import _STAGE_ENGINE_FIELDS_BY_EXECUTION_TYPE, _stage_cli_overrides
    from vllm_omni.config.stage_config import StageExecutionType

    given = _resolver_input(dest, value)
    reach: dict[str, dict[str, Any]] = {}
    refused = False
    for kind in StageExecutionType:
        try:
            set_to = _stage_cli_overrides(0, given, execution_type=kind)
        except (TypeError, ValueError) as error:
            unknown = "Unknown diffusion config field" in str(error)
            refused = refused or unknown
            # A sample that is no value of the field: the field itself is there.
            set_to = {} if unknown or dest not in _STAGE_ENGINE_FIELDS_BY_EXECUTION_TYPE[kind] else given
        if set_to:
            reach[kind.value] = {key: None if got == value else _template(got, value) for key, got in set_to.items()}
    return reach, refused


def _resolver_input(dest: str, value: Any) -> dict[str, Any]:
    """What is left of a flag when the resolver gets it: the server takes some away before."""
    from vllm_omni.entrypoints.utils import prepare_stage_config_inputs

    if dest in ("stage_overrides", "robot_openpi_idle_timeout"):
        return {}
    if dest == "no_guardrails":
        return {"model_config": {"guardrails": False}}
    kwargs: dict[str, Any] = prepare_stage_config_inputs("model", {dest: value}, trust_remote_code=None).kwargs
    return kwargs


def _template(got: Any, value: Any) -> Any:
    if isinstance(value, str) and value == _SAMPLES["json"] and got == json.loads(value):
        return "json:*"
    text = json.dumps(jsonable(_converted(got)))
    return json.loads(text.replace(json.dumps(jsonable(value)), '"*"'))


def _elsewhere(action: argparse.Action) -> str:
    """Who takes a flag that reaches no stage."""
    dest = action.dest
    from dataclasses import fields

    from vllm_omni.config.omni_config import VllmOmniOrchestratorConfig, _frontend_cli_fields

    if dest in {"omni", "model", "deploy_config", "stage_overrides", "strategy_config", "async_chunk", "config"}:
        return "profile"
    if dest in _frontend_cli_fields():
        return "server"
    if "no effect." in " ".join((action.help or "").split()) or not any(_readers(dest)):
        return "nothing"
    return "orchestrator" if dest in {each.name for each in fields(VllmOmniOrchestratorConfig)} else "server"


def _readers(dest: str) -> Iterator[Path]:
    """The files that do more with a flag than declare it."""
    declared = re.compile(rf'^\s*"--|dest=|^\s*{dest}: |^\s*"{dest}",$')
    mention = re.compile(rf"\b{dest}\b")
    for file, text in _sources().items():
        lines = text.splitlines() if dest in text else []
        if any(mention.search(line) and not declared.search(line) and "#" not in line for line in lines):
            yield file


@functools.cache
def _sources() -> dict[Path, str]:
    """Every module of vllm-omni and vllm."""
    found: dict[Path, str] = {}
    for package in ("vllm_omni", "vllm"):
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        for file in sorted(Path(spec.origin).parent.rglob("*.py")):
            found[file] = file.read_text(encoding="utf-8")
    return found


def _stand_in(name: str) -> None:
    """An empty module for one that is imported, but not used, on the way to the parser."""
    if importlib.util.find_spec(name) is None:
        sys.meta_path.append(_StandIn(name))


class _StandIn:
    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, *_places: Any) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != self.name:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        module = types.ModuleType(spec.name)
        attribute: Callable[[str], Any] = _attribute
        module.__getattr__ = attribute  # type: ignore[method-assign]
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})
