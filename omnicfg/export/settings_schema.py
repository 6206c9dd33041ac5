"""The JSON Schema of ``omnicfg.toml``, made from what :mod:`omnicfg.findings.configuration` takes; Taplo reads it."""

from __future__ import annotations

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import vllm_versions
from omnicfg.diagnostics import Severity
from omnicfg.export.schema_parts import DIALECT, Schema, closed
from omnicfg.findings.configuration import FAIL_ON, NO_GLOB
from omnicfg.findings.settings import OFF
from omnicfg.policy.file import ID
from omnicfg.refusals import REFUSALS
from omnicfg.report.formats import format_names
from omnicfg.rule import DEFAULT_ENGINE, ENGINES, rule_modules, rule_of


def settings_schema() -> Schema:
    """The schema of a configuration; in ``pyproject.toml`` it is that of ``[tool.omnicfg]``."""
    text: Schema = {"type": "string", "minLength": 1}
    files = _list_of(text | {"not": {"pattern": NO_GLOB}}) | {"description": "Globs, relative to this file's folder."}
    entry = closed({"files": files, "rules": _rules()}) | {"required": ["files", "rules"]}
    formats = "|".join(format_names())
    properties: Schema = {
        "platforms": _list_of({"enum": list(deploy_schema().platforms)})
        | {"description": "The platforms to check for; all, where there are none."},
        "engine": {
            "enum": list(ENGINES),
            "default": DEFAULT_ENGINE,
            "description": "The engine that the profiles are for.",
        },
        "vllm-version": {
            "enum": list(vllm_versions()),
            "description": "The release of vLLM whose engine args count, where not the engine's own.",
        },
        "fail-on": {
            "enum": list(FAIL_ON),
            "default": Severity.ERROR.value,
            "description": "What makes the exit code 1.",
        },
        "formats": _list_of({"type": "string", "pattern": f"^({formats})(:.+)?$", "examples": list(format_names())})
        | {"description": "How to tell the findings; with `:FILE`, where to write that."},
        "baseline": text | {"description": "A file with the findings that do not count."},
        "policies": _list_of(text) | {"description": "Policy files to check as well."},
        "rules": _rules(),
        "paths": {"type": "array", "items": entry, "description": "What counts in some files only; the last one wins."},
    }
    return {
        "$schema": DIALECT,
        "$id": "settings.schema.json",
        "title": "Settings",
        "description": "What `omnicfg validate` and `omnicfg lsp` go by. Paths are relative to this file's folder.",
        **closed(properties),
    }


def _rules() -> Schema:
    """A severity for each code; those of policies are known by their form alone."""
    severity: Schema = {"enum": [*(severity.value for severity in Severity), OFF]}
    rules = {rule.code: f"{rule.name}: {rule.what}" for rule in map(rule_of, rule_modules())}
    refusals = {refusal.code: f"{name}: {refusal.what}" for name, refusal in REFUSALS.items()}
    told = dict(sorted({**rules, **refusals}.items()))
    return closed({code: severity | {"description": text} for code, text in told.items()}) | {
        "patternProperties": {f"^{ID}$": severity},
        "description": "The severity of a finding by its code, or `off`.",
    }


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items, "minItems": 1}
