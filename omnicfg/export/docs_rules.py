"""The pages on rules and refusals: one each, and their tables of contents."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from types import ModuleType
from typing import Final

from omnicfg.catalog.upstream import VLLM_OMNI
from omnicfg.export.docs_commands import command_pages
from omnicfg.export.docs_output import console, fenced, table
from omnicfg.export.refusal_examples import EXAMPLES, PROFILE, Example
from omnicfg.refusals import REFUSALS, Refusal
from omnicfg.rule import DEFAULT_ENGINE, Rule, rule_modules, rule_of

_FAMILIES: Final = {
    "1": "Keys and values",
    "2": "Stages and platforms",
    "3": "Overrides",
    "4": "Topology and connectors",
    "5": "Capabilities",
    "6": "Resources",
    "7": "Engine args",
    "8": "Side effects",
    "9": "Suppressions",
}
BASE: Final = "base.yaml"
CONFIG: Final = "config.json"
_MADE: Final = "<!-- Made by `python -m omnicfg.export.docs` from {source}. -->\n"
_HEADERS: Final = ("code", "name", "severity", "what it finds")

_ABOUT_RULES: Final = """\
What `omnicfg validate` finds. Errors stop `omnicfg serve`; warnings and notes do not. What cannot be compiled at all
has codes below OC100: [refusals](refusals.md). OC851 to OC856 are findings in [command lines](commands.md).
"""
_ABOUT_REFUSALS: Final = """\
Why a profile cannot be compiled. Each is an error: `resolve`, `diff` and `serve` end with exit code 2, and `validate`
reports it beside the findings of its [rules](index.md).
"""


def rule_pages() -> dict[str, str]:
    """Page name → text, for every rule, every refusal and the two tables."""
    pages = {f"{rule_of(module).code}.md": _rule_page(module) for module in rule_modules()}
    pages |= {f"{refusal.code}.md": _refusal_page(name, refusal) for name, refusal in REFUSALS.items()}
    pages |= command_pages()
    return {"index.md": _index(), "refusals.md": _refusals(), **dict(sorted(pages.items()))}


def _rule_page(module: ModuleType) -> str:
    rule = rule_of(module)
    name = module.__name__.rpartition(".")[2]
    parts = [
        f"# {rule.code} {rule.name}\n",
        _MADE.format(source=f"omnicfg/rules/{name}.py"),
        f"Severity: {rule.severity.value}. {rule.what}\n",
        f"## Why\n\n{rule.why}\n",
        *([f"## The base of both\n\n`{BASE}`:\n\n{fenced('yaml', rule.base)}"] if rule.base else []),
        *([f"## The model of both\n\n`{CONFIG}`:\n\n{fenced('json', rule.config)}"] if rule.config else []),
        f"## Bad\n\n{fenced('yaml', rule.bad)}",
        console(("validate", PROFILE, *_engine(rule), *_model(rule), *_settings(rule.settings)), _files_of(rule)),
        f"## Good\n\n{fenced('yaml', rule.good)}",
        *([f"with `{' '.join(_settings(rule.good_settings))}`\n"] if rule.good_settings else []),
        "[All rules](index.md)\n",
    ]
    return "\n".join(parts)


def _files_of(rule: Rule) -> dict[str, bytes]:
    beside = {BASE: rule.base, CONFIG: rule.config}
    return {PROFILE: rule.bad.encode(), **{name: text.encode() for name, text in beside.items() if text}}


def _settings(settings: tuple[str, ...]) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def _model(rule: Rule) -> tuple[str, ...]:
    return ("--model", ".") if rule.config else ()


def _engine(rule: Rule) -> tuple[str, ...]:
    return () if rule.engine == DEFAULT_ENGINE else ("--engine", rule.engine)


def _refusal_page(name: str, refusal: Refusal) -> str:
    example = EXAMPLES[name]
    parts = [
        f"# {refusal.code} {name}\n",
        _MADE.format(source="omnicfg/refusals.py"),
        f"Severity: error; the profile cannot be compiled. {refusal.what}\n",
        "## Example\n",
        *_files(example),
        console(example.command, example.files()),
        f"## What vllm-omni {VLLM_OMNI} does\n\n{example.upstream}\n",
        "[All refusals](refusals.md)\n",
    ]
    return "\n".join(parts)


def _files(example: Example) -> Iterator[str]:
    for name, text in {PROFILE: example.profile, **example.beside}.items():
        if example.beside:
            yield f"`{name}`:\n"
        yield fenced("yaml", text)


def _index() -> str:
    parts = [
        "# Rules\n",
        _MADE.format(source="omnicfg/rules/"),
        _ABOUT_RULES,
    ]
    rules = [rule_of(module) for module in rule_modules()]
    for family, members in groupby(rules, key=lambda rule: rule.code[2]):
        rows = [(f"[{rule.code}]({rule.code}.md)", rule.name, rule.severity.value, rule.what) for rule in members]
        parts.append(f"## {_FAMILIES[family]}\n\n{table(_HEADERS, rows)}")
    return "\n".join(parts)


def _refusals() -> str:
    rows = [(f"[{refusal.code}]({refusal.code}.md)", name, refusal.what) for name, refusal in REFUSALS.items()]
    parts = [
        "# Refusals\n",
        _MADE.format(source="omnicfg/refusals.py"),
        _ABOUT_REFUSALS,
        table(("code", "name", "what it means"), rows),
    ]
    return "\n".join(parts)
