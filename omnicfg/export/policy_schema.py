"""The JSON Schema of policy files, made from what :mod:`omnicfg.policy.file` takes."""

from __future__ import annotations

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.diagnostics import Severity
from omnicfg.export.schema_parts import DIALECT, Schema
from omnicfg.policy.expression import MAX_LENGTH
from omnicfg.policy.file import EXPECTED, ID, MAX_POLICIES, NAME

_VARIABLES = "Variables: `profile`, `platform`, `pipeline`, `deploy`, `stages`; with `stage`, each stage is asked."


def policy_schema() -> Schema:
    """The schema of a policy file, for editors."""
    platforms = list(deploy_schema().platforms)
    text: Schema = {"type": "string", "minLength": 1}
    expression: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_LENGTH, "pattern": r"\S"}
    example: Schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["profile"],
        "properties": {
            "profile": text | {"description": "A path, a shipped name, or the text of a profile."},
            "platform": {"enum": platforms, "description": "The platform to compile for."},
            "set": {"type": "object", "description": "Values on top, such as `stages.0.max_num_seqs: 8`."},
        },
    }
    examples: Schema = {"type": "array", "items": {"anyOf": [text, example]}}
    told = {"pass": "Profiles in which the policy finds nothing.", "fail": "Profiles in which it finds something."}
    properties: Schema = {
        "id": {"type": "string", "pattern": f"^{ID}$", "description": "The code of its findings, such as `TEAM001`."},
        "name": {"type": "string", "pattern": f"^{NAME}$", "default": "policy", "description": "A short name."},
        "message": text | {"description": "What a finding says."},
        "help": {"type": "string", "description": "What to do about it."},
        "severity": {
            "enum": [severity.value for severity in Severity],
            "default": Severity.ERROR.value,
            "description": "How bad a finding is.",
        },
        "platforms": {
            "anyOf": [
                {"enum": platforms},
                {"type": "array", "items": {"enum": platforms}, "minItems": 1},
            ],
            "description": "The platforms that it is about; all, where there are none.",
        },
        "deny": expression | {"description": f"CEL: what must not be true. {_VARIABLES}"},
        "require": expression | {"description": f"CEL: what must be true. {_VARIABLES}"},
        "examples": {
            "type": "object",
            "additionalProperties": False,
            "properties": {expected: examples | {"description": told[expected]} for expected in EXPECTED},
            "description": "What `omnicfg policy test` tries.",
        },
    }
    policy: Schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["id", "message"],
        "oneOf": [{"required": ["deny"]}, {"required": ["require"]}],
        "properties": properties,
    }
    return {
        "$schema": DIALECT,
        "$id": "policy.schema.json",
        "title": "Policies",
        "description": "Rules of a team's own, as CEL expressions over the plan: `omnicfg validate --policy FILE`.",
        "type": "object",
        "additionalProperties": False,
        "required": ["policies"],
        "properties": {"policies": {"type": "array", "maxItems": MAX_POLICIES, "items": policy}},
    }
