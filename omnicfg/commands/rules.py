"""``omnicfg rules``: what ``validate`` finds, and what cannot be compiled at all."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from omnicfg.errors import UsageError
from omnicfg.near import did_you_mean
from omnicfg.parser import Argument, Option
from omnicfg.refusals import REFUSALS
from omnicfg.rule import Rule, rule_modules, rule_of

HELP = "List the rules, or print the page of one."


def _names() -> list[str]:
    return [*REFUSALS, *(rule.name for rule in _rules()), *(rule.code for rule in _rules())]


RULE = Annotated[
    str | None, Argument("RULE", help="A code such as OC101, or a name such as unknown-key.", words=_names)
]
FORMAT = Annotated[str, Option("--format", choices=("text", "json"), help="How to print them.")]


def run(rule: RULE = None, format: FORMAT = "text") -> None:
    """All rules, or the page of one. Raises :class:`UsageError` with a near name for one that does not exist."""
    entries = [*_refusals(), *(_entry(each) for each in _rules())]
    if rule is not None:
        entries = [_found(rule, entries)]
    if format == "json":
        from omnicfg.report.json import dumps

        sys.stdout.write(dumps(entries if rule is None else entries[0]))
    elif rule is None:
        sys.stdout.write(_table(entries))
    else:
        sys.stdout.write(_page(entries[0]))


def _rules() -> list[Rule]:
    return [rule_of(module) for module in rule_modules()]


def _entry(rule: Rule) -> dict[str, Any]:
    entry = {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "what": rule.what,
        "why": rule.why,
        "bad": rule.bad,
        "good": rule.good,
    }
    settings = {"bad_settings": list(rule.settings), "good_settings": list(rule.good_settings)}
    return {**entry, **({"base": rule.base} if rule.base else {}), **(settings if rule.settings else {})}


def _refusals() -> list[dict[str, Any]]:
    """Reasons to stop compiling: errors that no setting of the tool can soften."""
    return [
        {"code": refusal.code, "name": name, "severity": "error", "what": refusal.what}
        for name, refusal in REFUSALS.items()
    ]


def _found(asked: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    for entry in entries:
        if asked.upper() == entry["code"] or asked.lower() == entry["name"]:
            return entry
    names = [word for entry in entries for word in (entry["name"], entry["code"])]
    raise UsageError(f"no rule `{asked}`", did_you_mean(asked, names) or "`omnicfg rules` lists them.")


def _table(entries: list[dict[str, Any]]) -> str:
    from omnicfg.report.table import Cell, render_table
    from omnicfg.report.terminal import Style, has_colour, width_of

    rows = [
        [Cell(entry["code"], "name"), entry["name"], Cell(entry["severity"], entry["severity"]), entry["what"]]
        for entry in entries
    ]
    headers = ["code", "name", "severity", "what"]
    return render_table(rows, Style(has_colour(sys.stdout)), width_of(sys.stdout), headers=headers)


def _page(entry: dict[str, Any]) -> str:
    from omnicfg.report.terminal import Style, has_colour, width_of, wrap

    style, width = Style(has_colour(sys.stdout)), width_of(sys.stdout) or 100
    severity = style(entry["severity"], entry["severity"])
    parts = [f"{style('strong', entry['code'])} {entry['name']} ({severity})\n"]
    parts += ["\n" + "\n".join(wrap(entry[name], width)) + "\n" for name in ("what", "why") if name in entry]
    for name in ("base", "bad", "good"):
        if name in entry:
            title = "base.yaml" if name == "base" else style(name, name.capitalize())
            options = "".join(f" --set '{setting}'" for setting in entry.get(f"{name}_settings", ()))
            indented = "".join(f"    {line}".rstrip() + "\n" for line in entry[name].splitlines())
            parts.append(f"\n{title}{options and f', with{options}'}:\n\n{indented}")
    return "".join(parts)
