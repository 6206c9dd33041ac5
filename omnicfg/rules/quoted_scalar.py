"""OC103: a boolean or number in quotes."""

from __future__ import annotations

from collections.abc import Iterator

from omnicfg.diagnostics import Severity
from omnicfg.fixes.edits import unquote
from omnicfg.keys import Block, blocks_of
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.rules.wrong_type import is_misquoted
from omnicfg.secrets import redacted
from omnicfg.tree import Mapping, Node, Scalar, plain

RULE = Rule(
    code="OC103",
    name="quoted-scalar",
    severity=Severity.ERROR,
    what="A boolean or number in quotes, which makes it text.",
    why=(
        'Text that is not empty counts as true: `async_chunk: "false"` turns chunking on, and `async_scheduling: '
        '"false"` selects the asynchronous scheduler. Quoted numbers are compared and added as text.'
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: "false"
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
""",
)


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every quoted value whose setting takes no text but would take it without the quotes."""
    blocks = list(blocks_of(document, subject))
    for block in blocks:
        for key, node in block.node.items.items():
            wanted = block.types.get(key) if isinstance(key, str) else None
            if wanted is not None and block.takes(key) and is_misquoted(node, wanted):
                value = redacted(key, plain(node))
                counts = " and counts as true" if "bool" in wanted.kinds else ""
                yield Finding(
                    node.mark,
                    f"`{key}` in {block.what} is the text `{value}`, not {wanted}{counts}",
                    _help(key, node),
                    block.stage_id,
                    block.platform,
                    fix=unquote(subject, node) if key != "stage_id" or _is_alone(block, blocks) else None,
                )


def _is_alone(block: Block, blocks: list[Block]) -> bool:
    """Whether no other entry of the same list would have the stage's id once it is a number."""
    entries = [other for other in blocks if other.place == "stage" and other.platform == block.platform]
    ids = [str(entry.node.value("stage_id")) for entry in entries if "stage_id" in entry.node.items]
    return ids.count(str(block.node.value("stage_id"))) == 1


def _help(key: object, node: Node) -> str:
    if isinstance(node, Scalar) and node.text and "${" in node.text:
        return f"An expression gives text; `${{oc.decode:{node.text}}}` gives the value that the text stands for."
    from omnicfg.passes.read import read_scalar

    value = plain(node)
    unquoted = read_scalar(value)
    text = str(unquoted).lower() if isinstance(unquoted, bool) else value
    return f"Write `{key}: {redacted(key, text)}` without quotes."
