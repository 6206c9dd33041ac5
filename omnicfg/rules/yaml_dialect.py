"""OC106: a plain value that readers of YAML 1.1 and 1.2 take differently."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from omnicfg.diagnostics import Fix, Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.keys import Block, blocks_of
from omnicfg.passes.read import MAX_NUMBER
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.rules.wrong_type import is_misquoted
from omnicfg.secrets import looks_secret
from omnicfg.tree import Mapping, Node, Scalar, Sequence
from omnicfg.value_types import ValueType, kind_of

RULE = Rule(
    code="OC106",
    name="yaml-dialect",
    severity=Severity.WARNING,
    what=(
        "A value without quotes that is one thing to vLLM-Omni and another to other readers of YAML: `yes` and `off`, "
        "`010`, `12:30`, `1_000`, `0o17`, `-.5`, a date; or a key that is read as true or false."
    ),
    why=(
        "vLLM-Omni reads profiles by YAML 1.1 (PyYAML under OmegaConf), where `off` is false, `010` is 8 and `12:30` "
        "is 750. Editors, formatters and most other tools read YAML 1.2, where these are the words and numbers that "
        "they look like. Whoever writes the file back through such a tool changes what is served. The finding says "
        "both readings; where the setting does not take vLLM-Omni's, that is OC102's."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: off
stages:
  - stage_id: 0
    max_num_seqs: 010
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    max_num_seqs: 8
""",
)

_FIRST: Final = frozenset("yYnNoO+-.0123456789")
# YAML 1.2's core schema: https://yaml.org/spec/1.2.2/#1032-tag-resolution
_WORDS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~"), None),
}
_NUMBERS: Final[tuple[tuple[str, Callable[[str], int | float]], ...]] = (
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+", lambda text: int(text, 8)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text, 16)),
    (r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", lambda text: float(text.replace(".", ""))),
)
# YAML 1.1's timestamps, which OmegaConf takes out of PyYAML: https://yaml.org/type/timestamp.html
_DATE: Final = r"\d{4}-\d\d?-\d\d?(?:(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d.*)?"


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every plain scalar of a file, and every key that is a boolean where any key may stand."""
    blocks: list[Block] | None = None
    for owner, key, node in _scalars(document):
        if node is None:
            blocks = list(blocks_of(document, subject)) if blocks is None else blocks
            if not any(block.node is owner and block.known is not None for block in blocks):
                yield _boolean_key(owner, key)
            continue
        message = _difference(node)
        if message is None:
            continue
        blocks = list(blocks_of(document, subject)) if blocks is None else blocks
        block = next((block for block in blocks if block.node is owner), None)
        wanted = block.types.get(key) if block else None
        if wanted is None or _is_fine(node, wanted):
            stage_id, platform = (block.stage_id, block.platform) if block else (None, None)
            if looks_secret(key):
                message = f"`{key}` is not in quotes and is read differently by readers of YAML 1.1 and 1.2"
                yield Finding(node.mark, message, "Put it in quotes.", stage_id, platform)
            else:
                yield Finding(node.mark, message, _help(node, wanted), stage_id, platform, fix=_fix(node, subject))


def _scalars(document: Mapping) -> Iterator[tuple[Mapping, Any, Scalar | None]]:
    """Each plain scalar that might be read differently, with the mapping and key it stands under.

    A boolean key comes with ``None`` for a scalar.
    """
    stack: list[tuple[Mapping, Any, Node]] = [(document, None, document)]
    while stack:
        owner, key, node = stack.pop()
        if isinstance(node, Mapping):
            stack += [(node, name, child) for name, child in node.items.items()]
            for name in node.items:
                if name is True or name is False:
                    yield node, name, None
        elif isinstance(node, Sequence):
            stack += [(owner, None, child) for child in node.items]
        elif isinstance(node, Scalar) and not node.quoted and node.text and _may_differ(node.text):
            yield owner, key, node


def _may_differ(text: str) -> bool:
    return text[0] in _FIRST and len(text) <= MAX_NUMBER


def reads_otherwise(node: Node) -> bool:
    """Whether a value is written without quotes and read in two ways."""
    is_plain = isinstance(node, Scalar) and not node.quoted and bool(node.text) and _may_differ(str(node.text))
    return isinstance(node, Scalar) and is_plain and _difference(node) is not None


def _difference(node: Scalar) -> str | None:
    """Both readings in words, where there are two."""
    text, value = node.text, node.value
    assert text is not None
    if type(value) is int and str(value) == text:
        return None
    other = read_core(text)
    if _same(value, other):
        if isinstance(value, str) and _compiled(_DATE).fullmatch(text):
            return f"`{text}` is read as text here, but as a date by readers of YAML 1.1 that know dates"
        return None
    return f"`{text}` is read as {_shown(value)} here, but as {_shown(other)} by readers of YAML 1.2"


def read_core(text: str) -> Any:
    """The value of a plain scalar by YAML 1.2's core schema."""
    if text in _WORDS:
        return _WORDS[text]
    for pattern, number in _NUMBERS:
        if _compiled(pattern).fullmatch(text):
            return number(text)
    return text


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and repr(one) == repr(other)  # unlike ==, true of two that are no number


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "text" if isinstance(value, str) else f"the number {value}"


def _is_fine(node: Scalar, wanted: ValueType) -> bool:
    """Whether the setting takes what is read; otherwise another rule has its word on the value."""
    return wanted.admits(node.value) and not is_misquoted(node, wanted)


def _canonical(node: Scalar) -> str | None:
    """How the value that is read is written for either reader."""
    kind = kind_of(node.value)
    if kind == "bool":
        return "true" if node.value else "false"
    return str(node.value) if kind in ("int", "float") else None


def _help(node: Scalar, wanted: ValueType | None) -> str:
    canonical = _canonical(node)
    if canonical is None:
        return f'Write `"{node.text}"` if it is text.'
    takes_text = wanted is None or wanted.admits(node.text)
    return f"Write `{canonical}`" + (f', or `"{node.text}"` if it is text.' if takes_text else ".")


def _fix(node: Scalar, subject: Subject) -> Fix | None:
    """The value that is read, written for either reader: what is served stays.

    Safe where it is what was meant: `off` is false, but whoever writes `010` or `12:30` hardly meant 8 or 750.
    """
    text, value = str(node.text), node.value
    is_number = not isinstance(value, bool | str)
    is_clear = "_" in text or "b" in text if is_number else isinstance(value, bool) or _same(value, read_core(text))
    return rewrite_value(subject, node, value, safe=is_clear)


def _boolean_key(owner: Mapping, key: Any) -> Finding:
    word = "true" if key else "false"
    return Finding(
        owner.key_mark(key),
        f"this key is read as {word} and not as the word that it is",
        "Put the key in quotes.",
    )
