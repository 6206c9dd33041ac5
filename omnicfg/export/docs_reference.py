"""Reference pages and sections that are made from data: keys of profiles and records, the scope of the prefix cache."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from omnicfg.catalog.paths import load_json
from omnicfg.catalog.upstream import VLLM_OMNI, Field, deploy_schema
from omnicfg.export import schema_words as words
from omnicfg.export.docs_output import output_of, table

_KEY_HEADERS: Final = ("key", "type", "default", "meaning")
_ABOUT_KEYS: Final = f"""\
The deploy language of vLLM-Omni {VLLM_OMNI}. `schemas/profile.schema.json` says the same to editors, together with the
engine args; `omnicfg schema stage` and `omnicfg schema vllm` list what else a stage takes.
"""
_ABOUT_SCOPE: Final = """\
For each stage of each shipped profile: the value of `enable_prefix_caching` that takes effect, which layer sets it, and
what is known of it there. `omnicfg matrix` prints the same; `omnicfg explain PROFILE stages.0.enable_prefix_caching`
tells the whole story of one cell.

- **validated**: measured, with figures.
- **unvalidated**: nobody has shown that it works.
- **broken**: shown not to work.
- **no-benefit**: works, gains nothing.

The facts come from the [capability records](capability-records.md), which name their public sources.
"""
_NAMED_KINDS: Final = {
    "entries": "list of entries",
    "range": "`[lowest, highest]`",
    "sentence": "text",
    "sideEffect": "side effect",
    "source": "text",
}
_BLOCKS: Final = {
    "engine_args": "mapping",
    "engine_extras": "mapping",
    "runtime": "mapping",
    "base_config": "str | None",
}


def profile_page() -> str:
    """The page ``profile-reference.md``."""
    schema = deploy_schema()
    stage = {name: schema.stage_fields.get(name) for name in words.STAGE}
    parts = [
        "# Keys of a profile\n",
        "<!-- Made by `python -m omnicfg.export.docs` from schemas/ and omnicfg/export/schema_words.py. -->\n",
        _ABOUT_KEYS,
        "## Top level\n\n" + table(_KEY_HEADERS, list(_rows(words.PROFILE, schema.deploy_fields))),
        "## A stage\n\nBeside the engine args, which stand among these keys or in `engine_args`.\n\n"
        + table(_KEY_HEADERS, list(_rows(words.STAGE, {name: field for name, field in stage.items() if field}))),
        "## `duplex_session`\n\n" + table(_KEY_HEADERS, list(_rows(words.DUPLEX, schema.duplex_fields))),
        "## A connector\n\n" + table(("key", "meaning"), [(f"`{key}`", text) for key, text in words.CONNECTOR.items()]),
        f"Classes that vLLM-Omni {VLLM_OMNI} knows: "
        + ", ".join(f"`{name}`" for name in sorted(schema.connector_classes))
        + ".\n",
        "## An edge\n\n" + table(("key", "meaning"), [(f"`{key}`", text) for key, text in words.EDGE.items()]),
        "## A platform\n",
        f"Platforms: {', '.join(schema.platforms)}.\n",
        table(("key", "meaning"), [(f"`{key}`", text) for key, text in words.PLATFORM.items()]),
    ]
    return "\n".join(parts)


def _rows(texts: Mapping[str, str], fields: Mapping[str, Field]) -> Iterator[tuple[str, str, str, str]]:
    for key, text in texts.items():
        field = fields.get(key)
        type_ = field.type if field is not None else _BLOCKS[key]
        yield f"`{key}`", f"`{type_}`", _default(field), text


def _default(field: Field | None) -> str:
    if field is None or field.default in (None, {}, []) or isinstance(field.default, dict):
        return ""
    return f"`{json.dumps(field.default)}`"


def scope_page() -> str:
    """The page ``prefix-cache-scope.md``."""
    parts = [
        "# Where the prefix cache is on\n",
        "<!-- Made by `python -m omnicfg.export.docs` from profiles/. -->\n",
        _ABOUT_SCOPE,
        output_of(("matrix", "--format", "markdown"), {}),
    ]
    return "\n".join(parts)


def record_fields() -> str:
    """The tables of a record's fields, for ``capability-records.md``."""
    schema = _record_schema()
    parts = [_record_section("A record", schema)]
    titles = {"stage": "A stage", "entry": "An entry", "when": "`when`", "costs": "`costs`"}
    titles |= {"sideEffect": "A side effect", "payload": "`payload`", "bundled": "`bundled`"}
    parts += [_record_section(title, schema["$defs"][name]) for name, title in titles.items()]
    return "\n".join(parts)


def _record_section(title: str, block: Mapping[str, Any]) -> str:
    required = block.get("required", ())
    rows = [
        (f"`{name}`", "required" if name in required else "", _kind(entry), _meaning(entry))
        for name, entry in _flattened(block["properties"])
    ]
    text = f"{block['description']}\n\n" if title != "A record" and block.get("description") else ""
    return f"### {title}\n\n{text}" + table(("field", "", "type", "meaning"), rows)


def _flattened(properties: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields, those of nested blocks under dotted names."""
    for name, entry in properties.items():
        yield f"{prefix}{name}", entry
        nested = entry if entry.get("properties") else entry.get("items", {})
        mark = "." if entry.get("properties") else "[]."
        yield from _flattened(nested.get("properties", {}), f"{prefix}{name}{mark}")


def _meaning(entry: Mapping[str, Any]) -> str:
    shared = _record_schema()["$defs"].get(_target(entry), {}) if "$ref" in entry else {}
    return str(entry.get("description") or shared.get("description", ""))


def _target(entry: Mapping[str, Any]) -> str:
    return str(entry["$ref"]).rpartition("/")[2]


def _kind(entry: Mapping[str, Any]) -> str:
    if "$ref" in entry:
        return _NAMED_KINDS.get(_target(entry), _target(entry))
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    if "const" in entry:
        return f"`{json.dumps(entry['const'])}`"
    if entry.get("type") == "array":
        return f"list of {_kind(entry['items'])}"
    if "oneOf" in entry:
        return " or ".join(_kind(option) for option in entry["oneOf"])
    return "text" if entry["type"] == "string" else str(entry["type"])


def _record_schema() -> Mapping[str, Any]:
    schema: Mapping[str, Any] = load_json("schemas/capability.schema.json")
    return schema
