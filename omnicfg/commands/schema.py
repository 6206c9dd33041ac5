"""``omnicfg schema``: the keys of the deploy language, of vLLM's engine args, and the pipelines."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

from omnicfg.catalog.upstream import Field, deploy_schema, pipelines
from omnicfg.commands._options import VLLM_VERSION, refuse_unread
from omnicfg.commands._plans import vllm_version_of
from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.parser import Argument, Option

HELP = "Print the keys of profiles and stages, vLLM's engine args, or the pipelines."

TOPIC = Annotated[str | None, Argument("TOPIC", help="profile, stage, pipelines or vllm.", words=lambda: _TOPICS)]
NAME = Annotated[str | None, Argument("NAME", help="Only this key or pipeline.")]
FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print them.")]

_LONGEST: Final = 80  # characters of a cell in a list

Entries = list[dict[str, Any]]


def run(topic: TOPIC = None, name: NAME = None, vllm_version: VLLM_VERSION = None, format: FORMAT = "text") -> None:
    """A topic's entries, or one of them. Raises :class:`UsageError` with a near name for one that does not exist."""
    if topic != "vllm" and (topic is None or topic in _TOPICS):
        way = " ".join(["schema", *filter(None, [topic])])
        refuse_unread(way, {"--vllm-version": vllm_version}, "The engine args of a release: `omnicfg schema vllm`.")
    if topic is None:
        entries: Entries = [{"name": key, "what": what} for key, (what, _) in _TOPICS.items()]
    elif topic in _TOPICS:
        entries = _TOPICS[topic][1](vllm_version_of(vllm_version))
    else:
        raise UsageError(f"no topic `{topic}`", did_you_mean(topic, _TOPICS) or f"Topics: {', '.join(_TOPICS)}.")
    if name is not None:
        entries = [_named(name, entries)]
    if format == "json":
        from omnicfg.report.json import dumps

        sys.stdout.write(dumps(entries if name is None else entries[0]))
    elif name is None:
        sys.stdout.write(_table(entries))
    else:
        sys.stdout.write(_page(entries[0]))


def _named(name: str, entries: Entries) -> dict[str, Any]:
    for entry in entries:
        if entry["name"] == name:
            return entry
    hint = did_you_mean(name, (entry["name"] for entry in entries)) or "Without a name, all of them are listed."
    raise UsageError(f"no entry `{name}`", hint)


def _profile(_version: str) -> Entries:
    schema = deploy_schema()
    entries = _fields({name: field for name, field in schema.deploy_fields.items() if name != "duplex_session"})
    return [*entries, *_fields(schema.duplex_fields, "duplex_session.")]


def _stage(_version: str) -> Entries:
    return _fields(deploy_schema().stage_fields)


def _fields(fields: Mapping[str, Field], prefix: str = "") -> Entries:
    return [
        {
            "name": prefix + field.name,
            "type": field.type,
            "default": field.default,
            "source": f"{field.file}:{field.line}",
        }
        for field in fields.values()
    ]


def _pipelines(_version: str) -> Entries:
    return [
        {
            "name": key,
            "stages": [f"{stage['stage_id']} {stage['model_stage']}" for stage in pipeline["stages"]],
            "profile": pipeline.get("default_deploy_config_name"),
            "source": pipeline["source"]["file"],
        }
        for key, pipeline in pipelines().items()
    ]


def _vllm(version: str) -> Entries:
    from omnicfg.catalog.vllm_args import engine_args

    return [
        {
            "name": name,
            "type": _type_text(arg["type"]),
            "default": arg["default"],
            "choices": arg["choices"],
            "group": arg["group"],
            "help": arg["help"],
        }
        for name, arg in engine_args(version).items()
    ]


def _type_text(kind: Any) -> str:
    from omnicfg.report.yaml import inline

    return kind if isinstance(kind, str) else inline(kind)


_TOPICS: Final[dict[str, tuple[str, Callable[[str], Entries]]]] = {
    "profile": ("the keys at the top level of a profile", _profile),
    "stage": ("the keys of a stage, beside the engine args", _stage),
    "pipelines": ("the registered pipelines with their stages and default profiles", _pipelines),
    "vllm": ("vLLM's engine args, all of which a stage takes", _vllm),
}


def _text(key: str, value: Any) -> str:
    from omnicfg.report.yaml import inline

    if isinstance(value, str):
        return value
    if value is None:
        return "null" if key == "default" else ""
    return ", ".join(map(str, value)) if isinstance(value, list) and key != "default" else inline(value)


def _brief(text: str) -> str:
    """What of a text has a place in one line of a list; the page of the entry has the rest."""
    first = " ".join(text.partition("\n")[0].split())
    return first if len(first) <= _LONGEST else first[: _LONGEST - 1] + "…"


def _table(entries: Entries) -> str:
    from omnicfg.report.table import Cell, Row, render_table
    from omnicfg.report.terminal import Style, has_colour, width_of

    keys = [key for key in entries[0] if key not in ("choices", "group")]
    rows: list[Row] = [
        [Cell(entry["name"], "name"), *(_brief(_text(key, entry[key])) for key in keys if key != "name")]
        for entry in entries
    ]
    return render_table(rows, Style(has_colour(sys.stdout)), width_of(sys.stdout), headers=keys)


def _page(entry: dict[str, Any]) -> str:
    from omnicfg.report.table import Cell, Row, render_table
    from omnicfg.report.terminal import Style, has_colour, width_of

    rows: list[Row] = [[Cell(key, "name"), Cell(_text(key, value), lines=True)] for key, value in entry.items()]
    return render_table(rows, Style(has_colour(sys.stdout)), width_of(sys.stdout))
