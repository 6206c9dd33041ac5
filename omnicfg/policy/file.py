"""Reads policy files: YAML with the policies of a team, each with its examples."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from omnicfg.catalog.upstream import deploy_schema
from omnicfg.catalog.vllm_args import known_engine_args, vllm_versions
from omnicfg.diagnostics import Diagnostic, Severity
from omnicfg.errors import OmnicfgError, ResolveError
from omnicfg.near import did_you_mean
from omnicfg.passes.deploy import RUNTIME_KEYS
from omnicfg.passes.read import load_text, read_text
from omnicfg.policy.expression import MAX_LENGTH, Expression, Setting
from omnicfg.tree import Layer, LayerKind, Mapping, Mark, Node, Scalar, Sequence, plain

ID: Final = r"(?!OC\d)[A-Z][A-Z0-9]*(?:[-_][A-Z0-9]+)*"
NAME: Final = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
MAX_POLICIES: Final = 500
FILE_KEYS: Final = ("policies",)
POLICY_KEYS: Final = ("id", "name", "message", "help", "severity", "platforms", "deny", "require", "examples")
EXAMPLE_KEYS: Final = ("profile", "platform", "set")
EXPECTED: Final = ("pass", "fail")
RUNTIME: Final = ("process", *RUNTIME_KEYS, "requires_multimodal_data")  # all that a stage's `runtime` has
_KINDS: Final = ("deny", "require")
# What people write who know another language of policies.
_ALIASES: Final = {"expr": "deny", "expression": "deny", "when": "deny", "if": "deny", "assert": "require"}


class PolicyError(OmnicfgError):
    """A policy file that cannot be used."""


@dataclass(frozen=True)
class Example:
    """A profile that a policy is tried on. ``profile`` is a path, a shipped name, or the text of a profile."""

    expected: str
    profile: str
    platform: str
    settings: dict[str, Any]
    mark: Mark

    @property
    def is_inline(self) -> bool:
        return "\n" in self.profile


@dataclass(frozen=True)
class Policy:
    """One policy: a finding where ``expression`` is true (``denies``), or where it is not."""

    id: str
    name: str
    message: str
    help: str | None
    severity: Severity
    platforms: tuple[str, ...]
    expression: Expression
    denies: bool
    mark: Mark
    examples: tuple[Example, ...]


def read_policies(paths: Iterable[Path | str]) -> list[Policy]:
    """The policies of several files, in order. Raises :class:`PolicyError` with everything that is wrong with them."""
    found: list[Policy] = []
    problems: list[Diagnostic] = []
    for path in paths:
        try:
            found += _Reader(Path(path)).policies()
        except (PolicyError, ResolveError) as error:
            problems += error.diagnostics
    problems += _repeated(found)
    if problems:
        raise PolicyError(problems)
    return found


def _repeated(policies: list[Policy]) -> Iterator[Diagnostic]:
    seen: dict[str, Policy] = {}
    for policy in policies:
        if policy.id in seen:
            first = seen[policy.id].mark
            yield problem(policy.mark, f"the policy `{policy.id}` is already at {first}", "Give it another `id`.")
        seen.setdefault(policy.id, policy)


def problem(mark: Mark, message: str, help: str | None = None) -> Diagnostic:
    """What is wrong with a policy file."""
    return Diagnostic.at(mark, "OC000", "policy", Severity.ERROR, message, help=help)


def _refuse(mark: Mark, message: str, help: str | None = None) -> NoReturn:
    raise PolicyError([problem(mark, message, help)])


class _Reader:
    def __init__(self, path: Path) -> None:
        self.shown = str(path)
        self.source = load_text(path, self.shown)
        try:
            self.tree = read_text(self.source, Layer(LayerKind.PROFILE), self.shown)
        except ResolveError as error:
            if error.diagnostics[0].name != "wrong-container":
                raise
            _refuse(Mark(self.shown, 1, 1, 1, 2), "a policy file is a mapping", "Begin it with `policies:`.")

    def policies(self) -> list[Policy]:
        _check_keys(self.tree, FILE_KEYS, "a policy file")
        entries = self.tree.get("policies")
        if not isinstance(entries, Sequence):
            _refuse(_mark(entries, self.tree), "`policies` is a list of policies", "Write `- id: ...` below it.")
        if len(entries.items) > MAX_POLICIES:
            _refuse(entries.mark, f"more than {MAX_POLICIES} policies")
        found: list[Policy] = []
        problems: list[Diagnostic] = []
        for entry in entries.items:
            try:
                found.append(self._policy(entry))
            except PolicyError as error:
                problems += error.diagnostics
        if problems:
            raise PolicyError(problems)
        return found

    def _policy(self, entry: Node) -> Policy:
        if not isinstance(entry, Mapping):
            _refuse(entry.mark, "a policy is a mapping", "Write `- id: ...` and the other keys below it.")
        _check_keys(entry, POLICY_KEYS, "a policy")
        given = [key for key in _KINDS if key in entry.items]
        if len(given) != 1:
            _refuse(
                entry.mark._replace(end_line=entry.mark.line, end_column=entry.mark.column + 1),
                f"a policy has one expression, not {len(given) or 'none'}",
                "`deny:` is what must not be true, `require:` what must be.",
            )
        platforms = self._platforms(entry)
        return Policy(
            _text(entry, "id", ID, "capital letters, digits, `-` and `_`; codes of `OC` and digits are omnicfg's own"),
            _text(entry, "name", NAME, "small letters, digits and `-`", "policy"),
            _text(entry, "message"),
            _text(entry, "help", default="") or None,
            self._severity(entry),
            platforms,
            self._expression(entry.items[given[0]]),
            given[0] == "deny",
            entry.items["id"].mark,
            tuple(self._examples(entry, platforms)),
        )

    def _severity(self, entry: Mapping) -> Severity:
        names = [severity.value for severity in Severity]
        return Severity(_choice(entry.get("severity"), names, Severity.ERROR.value))

    def _platforms(self, entry: Mapping) -> tuple[str, ...]:
        known = deploy_schema().platforms
        node = entry.get("platforms")
        if node is None:
            return known
        nodes = node.items if isinstance(node, Sequence) else [node]
        if not nodes:
            _refuse(node.mark, "a policy for no platform never applies", "Leave `platforms` out for all of them.")
        return tuple(dict.fromkeys(_choice(each, known, "") for each in nodes))

    def _expression(self, node: Node) -> Expression:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            _refuse(node.mark, "an expression is text", "Quote it.")
        if not node.value.strip():
            _refuse(node.mark, "the expression is empty", "Write what `deny` or `require` is about.")
        if len(node.value) > MAX_LENGTH:
            _refuse(node.mark, f"an expression of more than {MAX_LENGTH} characters", "Make several policies of it.")
        expression = Expression(node.value, node.mark, self.source)
        for setting in (*expression.settings(), *expression.deploy_settings()):
            wrong = _wrong_name(setting)
            if wrong is not None:
                _refuse(expression.place(setting.start, len(setting.name)), *wrong)
        return expression

    def _examples(self, entry: Mapping, platforms: tuple[str, ...]) -> Iterator[Example]:
        node = entry.get("examples")
        if node is None:
            return
        if not isinstance(node, Mapping):
            _refuse(node.mark, "`examples` is a mapping", "Write `pass:` and `fail:` below it, each with a list.")
        _check_keys(node, EXPECTED, "`examples`")
        for expected, listed in node.items.items():
            if not isinstance(listed, Sequence):
                _refuse(listed.mark, f"`{expected}` is a list of profiles")
            for each in listed.items:
                yield self._example(str(expected), each, platforms)

    def _example(self, expected: str, node: Node, platforms: tuple[str, ...]) -> Example:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            return Example(expected, node.value, _first(platforms), {}, node.mark)
        if not isinstance(node, Mapping):
            _refuse(node.mark, "an example is a profile", "A path, a shipped name, or the text of a profile.")
        _check_keys(node, EXAMPLE_KEYS, "an example")
        settings = node.get("set")
        if settings is not None and not isinstance(settings, Mapping):
            _refuse(settings.mark, "`set` is a mapping", "Write `stages.0.max_num_seqs: 8` below it, for example.")
        given = {} if settings is None else {str(key): plain(value) for key, value in settings.items.items()}
        platform = _choice(node.get("platform"), platforms, _first(platforms))
        return Example(expected, _text(node, "profile"), platform, given, node.items["profile"].mark)


def _wrong_name(setting: Setting) -> tuple[str, str] | None:
    """What is wrong with the name of a setting, and what to do. `has` of such a name is false in every profile."""
    part, name, _ = setting
    if part == "extras":
        return None
    if part == "runtime":
        where = f"An engine arg is `engine_args.{name}`." if name in known_names() else f"Names: {', '.join(RUNTIME)}."
        return None if name in RUNTIME else (f"`runtime` has no `{name}`", did_you_mean(name, RUNTIME) or where)
    if part == "deploy":
        known = deploy_schema().deploy_fields
        hint = did_you_mean(name, known) or "What a stage has is in `stages`; `omnicfg schema profile` lists these."
        return None if name in known else (f"`deploy` has no `{name}`", hint)
    if name in RUNTIME:
        return f"`{name}` is no engine arg", f"It is `runtime.{name}`."
    # A model's own engine args may have any name, but hardly one that is nearly another's.
    meant = None if name in known_names() else did_you_mean(name, known_names())
    return None if meant is None else (f"no engine arg is called `{name}`", meant)


def known_names() -> frozenset[str]:
    """Every name that an engine arg of a stage can have: vLLM's of all shipped versions, and the deploy language's."""
    schema = deploy_schema()
    names = {name for version in vllm_versions() for name in known_engine_args(version)}
    derived = {"use_v2_model_runner", *(f"duplex_{name}" for name in schema.duplex_fields)}
    return frozenset(names.union(schema.stage_fields, schema.topology_fields, schema.deploy_fields, derived))


def _first(platforms: tuple[str, ...]) -> str:
    return "cuda" if "cuda" in platforms else platforms[0]


def _check_keys(node: Mapping, allowed: Iterable[str], what: str) -> None:
    known = tuple(allowed)
    for key in node.items:
        if key not in known:
            alias = _ALIASES.get(str(key)) if known == POLICY_KEYS else None
            hint = f"Write `{alias}:`." if alias else did_you_mean(str(key), known) or f"Keys: {', '.join(known)}."
            _refuse(node.key_mark(key), f"{what} has no key `{key}`", hint)


def _choice(node: Node | None, allowed: Iterable[str], default: str) -> str:
    if node is None:
        return default
    value, known = plain(node), tuple(allowed)
    if value not in known:
        hint = did_you_mean(str(value), known) or f"One of: {', '.join(known)}."
        _refuse(node.mark, f"`{value}` is none of the values that can stand here", hint)
    return str(value)


def _text(entry: Mapping, key: str, pattern: str | None = None, form: str = "", default: str | None = None) -> str:
    node = entry.get(key)
    if node is None and default is not None:
        return default
    if node is None:
        _refuse(entry.mark._replace(end_line=entry.mark.line, end_column=entry.mark.column + 1), f"`{key}` is missing")
    value = plain(node)
    if not isinstance(value, str):
        _refuse(node.mark, f"`{key}` has to be text", "Quote it.")
    if not value.strip():
        _refuse(node.mark, f"`{key}` is empty", "Write what it is for.")
    if pattern and not re.fullmatch(pattern, value):
        _refuse(node.mark, f"`{value}` cannot be the {key} of a policy", f"Use {form}.")
    return value


def _mark(node: Node | None, parent: Mapping) -> Mark:
    return Mark(parent.mark.file, 1, 1, 1, 2) if node is None else node.mark
