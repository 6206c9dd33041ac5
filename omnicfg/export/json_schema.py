"""``python -m omnicfg.export.json_schema --out schemas``: JSON Schemas (2020-12) for editors and other tools.

``profile.schema.json`` is for editors: with it yaml-language-server completes and explains the keys of a profile. It
is made from the data of the deploy language (``schemas/vllm-omni/``) and of vLLM's engine args (``schemas/vllm/``), and
knows what one file can show: keys, types, choices, ranges. It does not know which stage is of which kind, so it takes
for every stage what any kind takes, and it leaves open what the language leaves open (``extra``, environment, nested
configs). ``omnicfg validate`` knows more. ``plan.schema.json`` and ``diagnostics.schema.json`` describe what
``omnicfg.Plan.to_dict`` and ``omnicfg validate --format json`` give, ``baseline.schema.json`` what
``omnicfg validate --write-baseline`` writes.

``--check`` writes nothing and ends with 1 where a file is missing or stale.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.catalog.vllm_args import DEFAULT_VLLM, arg_types
from omnicfg.diagnostics import Severity
from omnicfg.export import schema_words as words
from omnicfg.export.bench_schema import bench_schema
from omnicfg.export.capability_schema import capability_schema
from omnicfg.export.policy_schema import policy_schema
from omnicfg.export.schema_parts import DIALECT, Schema, closed, nullable, record
from omnicfg.export.schema_types import annotation_type, combined, json_schema
from omnicfg.export.settings_schema import settings_schema
from omnicfg.export.simulation_schema import simulation_schema
from omnicfg.export.vllm_types import Type
from omnicfg.findings.baseline import VERSION
from omnicfg.value_types import parse_annotation
from omnicfg.wording import listed

_UNSET: Final = "Unset, in vLLM "
_LLM: Final = ("llm_ar", "llm_generation")

# Null unsets any other key; these would crash upstream, or be read as off.
_NEVER_NULL: Final = frozenset(
    {"async_chunk", "num_replicas", "session_mode", "stage_id", "stages", "engine_args", "runtime"}
)


def schemas() -> dict[str, Schema]:
    """File name → schema."""
    return {
        "profile.schema.json": profile_schema(),
        "capability.schema.json": capability_schema(),
        "policy.schema.json": policy_schema(),
        "plan.schema.json": plan_schema(),
        "diagnostics.schema.json": diagnostics_schema(),
        "baseline.schema.json": baseline_schema(),
        "settings.schema.json": settings_schema(),
        "bench.schema.json": bench_schema(),
        "simulation.schema.json": simulation_schema(),
    }


# ---------------------------------------------------------------------------------------------------- profile


def profile_schema() -> Schema:
    """The schema of a deploy profile, base or overlay, as it is written."""
    fields = deploy_schema().deploy_fields
    properties: dict[str, Schema] = {"base_config": json_schema(annotation_type("str | None"))}
    for name, field in fields.items():
        properties[name] = _typed(name, _wide_type(name)) | _default(field.default)
    properties |= {
        "pipeline": json_schema({"choices": sorted(pipelines())}),
        "session_mode": json_schema({"choices": list(deploy_schema().session_modes)}, nullable=False),
        "duplex_session": _block("duplexSession"),
        "connectors": nullable({"type": "object", "additionalProperties": {"$ref": "#/$defs/connector"}}),
        "edges": nullable({"type": "array", "items": {"$ref": "#/$defs/edge"}}),
        "stages": {"type": "array", "items": {"$ref": "#/$defs/stage"}},
        "platforms": nullable(closed({name: _block("platform") for name in deploy_schema().platforms})),
    }
    schema: Schema = {
        "$schema": DIALECT,
        "$id": "profile.schema.json",
        "title": "Deploy profile",
        "description": f"A deploy profile of vLLM-Omni {VLLM_OMNI}, as omnicfg compiles it.",
        "type": ["object", "null"],
        "additionalProperties": False,
        "patternProperties": {"^x-": {"description": "A place for anchors, which nothing reads."}},
        "properties": _described(properties, words.PROFILE),
        "$defs": _definitions(),
    }
    for block in (schema, *schema["$defs"].values()):
        _tell_defaults(block)
    return schema


def _tell_defaults(block: Schema) -> None:
    """Say the defaults in the descriptions, because editors show those; what vLLM decides at start is said there."""
    for schema in block.get("properties", {}).values():
        text, default = schema.get("description", ""), schema.get("default")
        if default is not None and not isinstance(default, dict | list) and _UNSET not in text:
            schema["description"] = f"{text}\n\nDefault: `{json.dumps(default)}`.".lstrip()


def _definitions() -> dict[str, Schema]:
    return {
        "stage": _stage(),
        "engineArgs": closed({name: _engine_arg(name) for name in _engine_arg_names()}),
        "runtime": closed({name: _own(name) for name in ("devices", "num_replicas", "env")}),
        "samplingParams": _open(_params("sampling_params", "diffusion_sampling_params")),
        "poolingParams": _open(_params("pooling_params")),
        "duplexSession": closed(_duplex_session()),
        "platform": closed(_platform()),
        "connector": closed(_connector()),
        "edge": _open(_described({name: {"type": ["integer", "string"]} for name in words.EDGE}, words.EDGE)),
        **{name: _config(config) for name, config in _vllm()["configs"].items()},
    }


def _stage() -> Schema:
    properties = {name: _own(name) for name in ("stage_id", "devices", "num_replicas", "env", "async_chunk")}
    properties |= {name: _own(name) for name in ("input_connectors", "output_connectors")}
    properties |= {
        "default_sampling_params": _block("samplingParams"),
        "default_pooling_params": _block("poolingParams"),
        "engine_args": {"$ref": "#/$defs/engineArgs"},
        "engine_extras": _block("engineArgs"),
        "runtime": {"$ref": "#/$defs/runtime"},
    }
    flat = {name: {"$ref": f"#/$defs/engineArgs/properties/{name}"} for name in _engine_arg_names()}
    return closed(flat | _described(properties, words.STAGE)) | {"required": ["stage_id"]}


def _platform() -> dict[str, Schema]:
    properties = {
        "model_runner": _typed("model_runner", _wide_type("model_runner")),
        "stages": nullable({"type": "array", "items": {"$ref": "#/$defs/stage"}}),
    }
    return _described(properties, words.PLATFORM)


def _connector() -> dict[str, Schema]:
    schema, readers = deploy_schema(), load_json(_DEPLOY)["connector_extra_keys"]
    known = {"anyOf": [{"enum": sorted(schema.connector_classes)}, {"type": "string"}]}
    extra = {name: {"description": "Read by " + listed(files) + "."} for name, files in sorted(readers.items())}
    return _described({"name": known, "extra": nullable(_open(extra))}, words.CONNECTOR)


def _duplex_session() -> dict[str, Schema]:
    fields = deploy_schema().duplex_fields
    properties = {name: _typed(name, annotation_type(field.type)) for name, field in fields.items()}
    defaults = {name: _default(field.default) for name, field in fields.items()}
    return _described({name: schema | defaults[name] for name, schema in properties.items()}, words.DUPLEX)


def _params(*tables: str) -> dict[str, Schema]:
    """The parameters of one or more classes; where they share a name, what either takes."""
    types: dict[str, list[Type]] = {}
    defaults: dict[str, Schema] = {}
    for table in tables:
        for field in load_json(_DEPLOY)[table]:
            types.setdefault(field["name"], []).append(annotation_type(field["type"]))
            defaults.setdefault(field["name"], _default(field.get("default")))
    return {name: json_schema(combined(found)) | defaults[name] for name, found in types.items()}


def _own(name: str) -> Schema:
    """A key of a stage that is the deploy language's own."""
    field = deploy_schema().stage_fields[name]
    schema = _typed(name, annotation_type(field.type)) | _default(field.default)
    return schema | {"description": words.STAGE[name]}


def _typed(name: str, type_: Type) -> Schema:
    return json_schema(type_, nullable=name not in _NEVER_NULL)


def _wide_type(name: str) -> Type:
    """A top-level field: what the deploy schema declares, with vLLM's names for what it leaves to text."""
    text = deploy_schema().deploy_fields[name].type
    if name not in deploy_schema().pipeline_wide:
        return annotation_type(text)
    types = [annotation_type(each) for each in (text, *_taken_beyond(name, [text]))]
    return combined([*types, _vllm()["args"][name]["type"]] if name in _vllm()["args"] else types)


# ------------------------------------------------------------------------------------------------ engine args


@functools.cache
def _engine_arg_names() -> tuple[str, ...]:
    """What any stage of any engine takes, except for the keys that the deploy language reads itself."""
    schema = deploy_schema()
    owned = frozenset().union(*schema.owners.values()) | set(_vllm()["args"])
    return tuple(sorted(name for name in owned - schema.reserved_keys if not name.startswith("_")))


def _engine_arg(name: str) -> Schema:
    types = [annotation_type(text, _vllm()["configs"]) for text in _annotations(name)]
    arg = _vllm()["args"].get(name)
    if arg is not None:
        types.append(arg["type"])
    schema = json_schema(combined(types)) if types else {}
    if arg is not None and arg["deprecated"]:
        schema |= {"deprecated": True}
    return schema | {"description": _arg_text(name)} | _default(arg["default"] if arg is not None else None)


def _annotations(name: str) -> list[str]:
    """How vllm-omni declares an arg: for every stage, or in each class that owns it; and what it takes beyond that."""
    own = deploy_schema().stage_fields.get(name) or deploy_schema().deploy_fields.get(name)
    tables = (_table("engine_args"), _table("diffusion_args"))
    declared = [own.type] if own is not None else [table[name]["type"] for table in tables if name in table]
    return [*declared, *_taken_beyond(name, declared)]


def _taken_beyond(name: str, declared: Iterable[str]) -> Iterator[str]:
    """The kinds that the typed config of some stage takes for an arg and that no declaration of it has."""
    admitted = [parse_annotation(text) for text in declared]
    admitted += [arg_types(DEFAULT_VLLM)[name]] if name in arg_types(DEFAULT_VLLM) else []
    taken = [kinds[name] for kinds in deploy_schema().value_types.values() if name in kinds]
    for part in sorted({part for text in taken for part in text.split(" | ")}):
        if not any(parse_annotation(part).kinds <= type_.kinds or "any" in type_.kinds for type_ in admitted):
            yield part


def _arg_text(name: str) -> str:
    """What the arg does, what it becomes when it is unset, which stages take it, or where it is declared."""
    what = words.STAGE.get(name) or _help(name) or words.PROFILE.get(name, "")
    sentences = [what, _unset(name), _owners(name), "" if what else _declared(name)]
    return "\n\n".join(sentence for sentence in sentences if sentence)


def _help(name: str) -> str:
    arg = _vllm()["args"].get(name)
    if arg is not None and arg["help"]:
        return str(arg["help"])
    return str(_table("engine_args").get(name, {}).get("help") or "")


def _unset(name: str) -> str:
    resolved = _vllm()["resolved"].get(name)
    if resolved is None or name not in _vllm()["args"]:
        return ""
    cases = "; ".join(_case(case) for case in (resolved, *resolved.get("cases", ())))
    return f"{_UNSET}{DEFAULT_VLLM}: {cases}."


def _case(case: Mapping[str, Any]) -> str:
    if case["value"] is None:
        return str(case["when"])
    return f"`{json.dumps(case['value'])}` ({case['when']})"


def _owners(name: str) -> str:
    owners = [kind for kind, names in deploy_schema().owners.items() if name in names]
    if not owners:
        return f"An engine arg of vLLM {DEFAULT_VLLM}: the bundled engine takes it, vllm-omni {VLLM_OMNI} does not."
    if set(owners) == set(deploy_schema().owners):
        return "For all stages."
    return f"For {'LLM' if set(owners) == set(_LLM) else listed(owners)} stages."


def _declared(name: str) -> str:
    field = deploy_schema().stage_fields.get(name)
    if field is not None:
        return f"Declared in {field.file}:{field.line} of vllm-omni {VLLM_OMNI}."
    for table in ("engine_args", "diffusion_args"):
        entry = _table(table).get(name)
        if entry is not None:
            return f"Declared in {entry['file']}:{entry['line']} of vllm-omni {VLLM_OMNI}."
    return ""


def _config(config: Mapping[str, Any]) -> Schema:
    """A config class of vLLM. It stays open: vllm-omni brings another vLLM, which may know other fields."""
    properties = {}
    for name, field in config["fields"].items():
        schema = json_schema(field["type"])
        if field["deprecated"]:
            schema |= {"deprecated": True}
        text = {"description": field["help"]} if field["help"] else {}
        properties[name] = schema | text | _default(field["default"])
    text = {"description": config["help"]} if config["help"] else {}
    return text | _open(properties)


# ----------------------------------------------------------------------------------------- plan, diagnostics


def plan_schema() -> Schema:
    """The schema of ``Plan.to_dict()``."""
    text, maybe, flag = {"type": "string"}, {"type": ["string", "null"]}, {"type": "boolean"}
    stage: dict[str, Schema] = {
        "stage_id": {"type": "integer", "description": "The stage's number in the pipeline."},
        "model_stage": text | {"description": "Its name in the pipeline, such as thinker."},
        "stage_type": {"enum": sorted({kind["stage_type"] for kind in deploy_schema().execution_types.values()})},
        "worker_type": {"enum": ["ar", "generation", None]},
        "scheduler_cls": maybe | {"description": "The scheduler's class."},
        "input_sources": {"type": "array", "items": {"type": "integer"}, "description": "The stages it reads from."},
        "final_output": flag | {"description": "Whether its output leaves the pipeline."},
        "final_output_type": maybe,
        "hf_config_name": maybe | {"description": "The part of the checkpoint's config that describes it."},
        "is_comprehension": flag | {"description": "Whether it owns the tokenizer."},
        "custom_process_input_func": maybe,
        "sampling_constraints": {"type": "object", "description": "Sampling parameters that nobody can change."},
        "engine_args": {"type": "object", "description": "What its engine is started with."},
        "runtime": {"type": "object", "description": "Where it runs: process, devices, replicas, environment."},
        "extras": {"type": "object", "description": "Request defaults, connectors, prompt hooks."},
    }
    fields = [name for name in deploy_schema().deploy_fields if name not in ("stages", "platforms")]
    plan: dict[str, Schema] = {
        "profile": text | {"description": "The profile as it was named."},
        "platform": {"enum": list(deploy_schema().platforms)},
        "pipeline": {"enum": sorted(pipelines())},
        "deploy": record({name: {} for name in fields}) | {"description": "The settings of the profile as a whole."},
        "stages": {"type": "array", "items": record(stage)},
    }
    head = {"$schema": DIALECT, "$id": "plan.schema.json", "title": "Plan"}
    return head | {"description": "A compiled profile: `omnicfg.Plan.to_dict()`."} | record(plan)


def diagnostics_schema() -> Schema:
    """The schema of ``omnicfg validate --format json``."""
    text, maybe, count = {"type": "string"}, {"type": ["string", "null"]}, {"type": "integer", "minimum": 0}
    names = "|".join(deploy_schema().platforms)
    diagnostic: dict[str, Schema] = {
        "code": {"type": "string", "pattern": r"^(OC\d{3}|[A-Z][A-Z0-9_-]*)$"},
        "name": text | {"pattern": "^[a-z0-9-]+$"},
        "severity": {"enum": [severity.value for severity in Severity]},
        "message": text,
        "path": text | {"description": "Empty: the finding is about no file."},
        "line": count | {"description": "From 1; 0: no line."},
        "column": count | {"description": "From 1; 0: no column."},
        "end_line": count,
        "end_column": count | {"description": "Exclusive."},
        "platform": maybe
        | {
            "pattern": rf"^({names})(,({names}))*$",
            "description": "Null: on every platform that was looked at. Otherwise the names, joined by commas.",
        },
        "stage_id": {"type": ["integer", "null"]},
        "help": maybe | {"description": "What to do."},
        "url": text | {"format": "uri", "description": "The page on the rule."},
        "fix": {"anyOf": [_fix(), {"type": "null"}], "description": "What would mend it; null: nothing known."},
    }
    summary = {"profiles": count} | {severity.value: count for severity in Severity}
    summary |= {
        "suppressed": count | {"description": "Findings that a comment in their file suppresses; not listed."},
        "baseline": count | {"description": "Findings that the baseline knows; not listed."},
    }
    report: dict[str, Schema] = {
        "diagnostics": {"type": "array", "items": record(diagnostic)},
        "summary": record(summary) | {"description": "How many profiles were checked, and what was found."},
    }
    head = {"$schema": DIALECT, "$id": "diagnostics.schema.json", "title": "Diagnostics"}
    return head | {"description": "What `omnicfg validate --format json` prints."} | record(report)


def baseline_schema() -> Schema:
    """The schema of ``omnicfg validate --write-baseline``."""
    entry: dict[str, Schema] = {
        "code": {"type": "string", "minLength": 1},
        "path": {"type": "string", "description": "The file, relative to the folder of the baseline."},
        "where": {"type": "string", "description": "The key's path, a stage by its id; else the message."},
        "stage_id": {"type": ["integer", "null"]},
        "count": {"type": "integer", "minimum": 1, "description": "How many such findings there are."},
        "message": {"type": "string", "description": "For people; nothing is told apart by it."},
    }
    properties: dict[str, Schema] = {
        "version": {"const": VERSION},
        "findings": {"type": "array", "items": record(entry)},
    }
    head = {"$schema": DIALECT, "$id": "baseline.schema.json", "title": "Baseline"}
    about = "The findings that `omnicfg validate --baseline` does not count."
    return head | {"description": about} | record(properties)


def _fix() -> Schema:
    place: Schema = {"type": "integer", "minimum": 1}
    edit = {
        "path": {"type": "string"},
        "line": place,
        "column": place,
        "end_line": place,
        "end_column": place | {"description": "Exclusive; an empty range inserts."},
        "text": {"type": "string", "description": "What stands there afterwards."},
    }
    fix: dict[str, Schema] = {
        "title": {"type": "string"},
        "safe": {"type": "boolean", "description": "What the profile means stays what it clearly was."},
        "edits": {"type": "array", "items": record(edit), "minItems": 1},
    }
    return record(fix)


# ------------------------------------------------------------------------------------------------------ parts

_DEPLOY: Final = f"schemas/vllm-omni/{VLLM_OMNI}/deploy.json"


def _vllm() -> Mapping[str, Any]:
    data: Mapping[str, Any] = load_json(f"schemas/vllm/{DEFAULT_VLLM}.json")
    return data


@functools.cache
def _table(name: str) -> Mapping[str, Mapping[str, Any]]:
    return {field["name"]: field for field in load_json(_DEPLOY)[name]}


def _default(value: Any) -> Schema:
    """A default that says something: null and empty blocks go without saying."""
    return {} if value is None or value in ({}, []) else {"default": value}


def _described(properties: Mapping[str, Schema], texts: Mapping[str, str]) -> dict[str, Schema]:
    return {name: schema | {"description": texts[name]} for name, schema in properties.items()}


def _open(properties: Mapping[str, Schema]) -> Schema:
    return {"type": "object", "properties": dict(properties)}


def _block(name: str) -> Schema:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"}, {"type": "null"}]}


# ----------------------------------------------------------------------------------------------- command line


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check the files; the exit code is 1 where one is stale."""
    parser = argparse.ArgumentParser(
        prog="python -m omnicfg.export.json_schema", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the schemas")
    parser.add_argument("--check", action="store_true", help="only tell whether the files are up to date")
    options = parser.parse_args(arguments)
    stale = 0
    for name, schema in schemas().items():
        path = options.out / name
        text = json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        if not options.check:
            path.write_text(text, encoding="utf-8")
            print(path)
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is stale", file=sys.stderr)
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
