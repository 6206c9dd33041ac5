"""One value and everything behind it, for people and as data."""

from __future__ import annotations

from typing import Any

from omnicfg.evidence import host_memory_text, load_texts
from omnicfg.explain import Explanation, Known, Link
from omnicfg.origins import layer_text, origin_data
from omnicfg.report.table import Cell, Row, render_table
from omnicfg.report.terminal import Style, one_line, paragraph, printable, wrap
from omnicfg.report.yaml import inline
from omnicfg.secrets import flag_of, redacted
from omnicfg.tree import LayerKind, Mapping, Node, Route, Sequence, find, leaves, plain

_TITLES = {
    "prefix_caching": "the prefix cache",
    "model_runner_v2": "Model Runner V2",
    "duplex": "duplex sessions",
    "async_chunk": "async chunks",
}
_LOOKS = {"wins": "strong", "source": "", "lost": "struck"}
_VERDICT_STYLES = {"validated": "good", "broken": "bad", "unvalidated": "warning", "no-benefit": "faint"}


def render_explanation(found: Explanation, style: Style, width: int | None, recipe: str | None = None) -> str:
    """The value, its chain with the winner first, and what capability records say; ``recipe`` is an overlay's text."""
    key = one_line(found.key)
    first = paragraph(f"{key} {_headline(found)}", width)
    parts = [style("strong", key) + first[len(key) :] if first.startswith(key) else first]
    parts.append(paragraph(f"{found.plan.profile} on {found.plan.platform}", width, style, "faint"))
    if found.chain:
        parts.append("\n" + render_table([_row(found, link) for link in found.chain], style, width, indent="  "))
        parts.append(_entries(found, style, width))
    parts += [_known(known, style, width) for known in found.known]
    if recipe is not None:
        parts.append("\nAn overlay that turns it off:\n\n" + "".join(f"    {line}\n" for line in recipe.splitlines()))
    return "".join(parts)


def _headline(found: Explanation) -> str:
    if found.is_set and found.node is not None:
        return f"= {_value(found, found.chain[0])}"
    if found.unset_because:
        return f"is not set; vLLM decides at start: {found.unset_because}"
    if found.node is not None and found.node.layer.kind is LayerKind.ENGINE_DEFAULT:
        return f"is not set; the default of vLLM {found.node.layer.name} applies: {_value(found, found.chain[0])}"
    return "is not set"


def _value(found: Explanation, link: Link) -> str:
    return printable(inline(redacted(found.route, plain(link.node))))


def _row(found: Explanation, link: Link) -> Row:
    node = link.node
    look = _LOOKS[link.role]
    shown = (Cell(text, look) for text in (_value(found, link), *_origin(node)))
    return [Cell(link.role if link.role != "source" else "from", "faint"), *shown, link.reason or ""]


def _origin(node: Node) -> tuple[str, str]:
    """Layer and place; a setting of the command line is its own place."""
    if node.layer.kind is LayerKind.OVERRIDE:
        return node.mark.file, ""
    return layer_text(node.layer, node.mark), str(node.mark)


def _entries(found: Explanation, style: Style, width: int | None) -> str:
    """Where the entries of a block come from, since each may come from a layer of its own."""
    node = found.node
    if not isinstance(node, Mapping) or not node.items:
        return ""
    rows = [
        [
            ".".join(map(str, route)),
            inline(redacted((*found.key.split("."), *route, _flag_before(node, route)), plain(leaf))),
            *_origin(leaf),
        ]
        for route, leaf in leaves(node)
    ]
    return "\n  entries\n" + render_table(rows, style, width, indent="    ")


def _flag_before(node: Mapping, route: Route) -> str:
    """The flag that an item of a list is the value of, where the list is a command line."""
    index = route[-1]
    if not isinstance(index, int) or index == 0 or not isinstance(find(node, route[:-1]), Sequence):
        return ""
    before = find(node, (*route[:-1], index - 1))
    return "" if before is None else flag_of(plain(before))


def _known(known: Known, style: Style, width: int | None) -> str:
    entry, stage = known.entry, known.stage
    verdict = entry["verdict"]
    told = paragraph(
        f"{_TITLES[known.capability]} of stage {stage.stage_id} ({stage.model_stage}) here: {verdict}", width
    )
    head = f"\n{told.removesuffix(verdict + chr(10))}{style(_VERDICT_STYLES[verdict], verdict)}"
    details = [("evidence", entry["evidence"]), ("source", entry["source"])]
    if entry.get("refuse"):
        details.insert(0, ("rule", "turning it on here is an error"))
    if "default" in entry:
        details.append(("shipped", "on" if entry["default"] else "off"))
    memory = host_memory_text(entry)
    details += [("cost", memory)] if memory else []
    details += [("load", text) for text in load_texts(entry)]
    return head + "\n" + "".join(_detail(name, text, width) for name, text in details)


def _detail(name: str, text: str, width: int | None) -> str:
    lead = f"  {name + ':':<10}"
    lines = wrap(printable(" ".join(text.split())), None if width is None else max(width - len(lead), 20))
    return "".join(f"{lead if index == 0 else ' ' * len(lead)}{line}\n" for index, line in enumerate(lines))


def explanation_data(found: Explanation, recipe: str | None = None) -> dict[str, Any]:
    """The JSON form: ``chain`` starts with the winner; ``value`` is null where nothing is set or known."""
    node = found.node
    return {
        "key": found.key,
        "profile": found.plan.profile,
        "platform": found.plan.platform,
        "pipeline": found.plan.pipeline,
        "set": found.is_set,
        "value": None if node is None else redacted(found.route, plain(node)),
        "unset_because": found.unset_because,
        "chain": [
            {
                "value": redacted(found.route, plain(link.node)),
                **origin_data(link.node),
                "role": link.role,
                "reason": link.reason,
            }
            for link in found.chain
        ],
        "evidence": [
            {
                "stage_id": known.stage.stage_id,
                "model_stage": known.stage.model_stage,
                "capability": known.capability,
                **known.entry,
            }
            for known in found.known
        ],
        "overlay_that_turns_it_off": recipe,
    }
