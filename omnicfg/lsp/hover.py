"""What an editor shows of a setting: what takes effect on each platform, where it comes from, and what it beat."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from omnicfg.explain import Explanation, Link
from omnicfg.origins import layer_text
from omnicfg.report.terminal import printable
from omnicfg.report.yaml import inline
from omnicfg.secrets import redacted
from omnicfg.tree import LayerKind, Mark, plain

_LONGEST: Final = 200


def render_hover(key: str, on: Mapping[str, Explanation], files: Mapping[str, Path]) -> str:
    """Markdown: one entry for each group of platforms on which the setting has the same value and history.

    ``files`` says where the files lie that marks name.
    """
    groups: dict[str, list[str]] = {}
    for platform, found in on.items():
        groups.setdefault(_entry(found, files), []).append(platform)
    entries = (f"- **{', '.join(platforms)}**: {text}" for text, platforms in groups.items())
    return "\n".join([_code(key), "", *entries, *_evidence(on)])


def _entry(found: Explanation, files: Mapping[str, Path]) -> str:
    if not found.chain:
        return f"not set; vLLM decides at start: {found.unset_because}" if found.unset_because else "not set"
    first, *others = found.chain
    if first.node.layer.kind is LayerKind.ENGINE_DEFAULT:
        told = f"not set; the default of vLLM {first.node.layer.name} applies: {_value(found, first)}"
    else:
        told = f"{_value(found, first)}, {_origin(first, files)}"
    return "\n".join([told, *(f"  - {_lost(found, link, files)}" for link in others)])


def _lost(found: Explanation, link: Link, files: Mapping[str, Path]) -> str:
    how = "from" if link.role == "source" else "over"
    return f"{how} {_value(found, link)}, {_origin(link, files)}" + (f": {link.reason}" if link.reason else "")


def _value(found: Explanation, link: Link) -> str:
    text = printable(inline(redacted(found.route, plain(link.node))))
    return _code(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def _origin(link: Link, files: Mapping[str, Path]) -> str:
    mark = link.node.mark
    return f"{layer_text(link.node.layer, mark)} {_place(mark, files)}"


def _place(mark: Mark, files: Mapping[str, Path]) -> str:
    """A link where the place is in a file that an editor can open."""
    path = files.get(mark.file)
    if path is None or not mark.line:
        return str(mark)
    return f"[{path.name}:{mark.line}:{mark.column}]({path.absolute().as_uri()}#L{mark.line})"


def _evidence(on: Mapping[str, Explanation]) -> list[str]:
    """What capability records say of the setting's stages, each once, with the platforms where it holds."""
    said: dict[str, list[str]] = {}
    for platform, found in on.items():
        for known in found.known:
            stage = f"stage {known.stage.stage_id} ({known.stage.model_stage})"
            text = f"{stage} is **{known.entry['verdict']}**: {known.entry['evidence']} [{known.entry['source']}]"
            said.setdefault(text, []).append(platform)
    return ["", *(f"- {', '.join(platforms)}: {text}" for text, platforms in said.items())] if said else []


def _code(text: str) -> str:
    """Text as it is, in Markdown (https://spec.commonmark.org/0.31.2/#code-spans)."""
    fence = "`"
    while fence in text:
        fence += "`"
    return f"{fence} {text} {fence}" if text.startswith("`") or text.endswith("`") else f"{fence}{text}{fence}"
