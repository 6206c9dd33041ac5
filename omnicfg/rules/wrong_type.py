"""OC102: a value of a kind that its setting does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from omnicfg.catalog.upstream import VLLM_OMNI, deploy_schema, pipelines
from omnicfg.diagnostics import Fix, Severity
from omnicfg.fixes.edits import rewrite_value
from omnicfg.forms import misread
from omnicfg.keys import Block, blocks_of
from omnicfg.near import near, slip_of
from omnicfg.origins import is_flag
from omnicfg.rule import Finding, Rule, Subject
from omnicfg.secrets import looks_secret, redacted
from omnicfg.tree import LayerKind, Mapping, Node, Scalar, Sequence, plain
from omnicfg.value_types import ValueType, kind_of
from omnicfg.variables import can_be_named, can_hold
from omnicfg.wording import in_yaml

RULE = Rule(
    code="OC102",
    name="wrong-type",
    severity=Severity.ERROR,
    what=(
        "A value of a kind that its setting does not take: text for a number, a list for a mapping, and so on; or one "
        "that cannot be read, such as `0..3` for CPUs. Where plugins may bring words of their own, a word that is "
        "nearly one of the engine's is a warning, and any other that the engine does not bring a note."
    ),
    why=(
        "vLLM-Omni's flat path hands the value on unchecked, so it fails late or is taken for something else; its "
        'typed path refuses it at start. `devices: 0` is such a case: device lists are text (`"0"`). In `env` a '
        "boolean becomes the word `True` or `False`, which hardly any program looks for."
    ),
    bad="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: 0
""",
    good="""\
pipeline: qwen3_tts
async_chunk: false
stages:
  - stage_id: 0
    devices: "0"
""",
)

# Null unsets a key; for these there is nothing to fall back on, so upstream crashes or reads it as off.
_NULL_IS_WRONG = frozenset({"async_chunk", "num_replicas", "session_mode", "stage_id"})


def check_document(document: Mapping, subject: Subject) -> Iterator[Finding]:
    """Every value whose setting has a known type; quoted booleans and numbers are OC103's."""
    for block in blocks_of(document, subject):
        if block.place == "env":
            yield from _variables(block)
        for key, node in block.node.items.items():
            wanted = block.types.get(key) if isinstance(key, str) else None
            value = plain(node)
            if wanted is None or not block.takes(key):
                continue  # what nothing reads is OC101's
            yield from _word(key, node, wanted, block, subject)
            if wanted.admits(value):
                yield from _items(key, node, wanted, block)
                yield from _alone(key, node, wanted, block, subject)
                yield from _notation(str(key), node, block)
                continue
            if is_misquoted(node, wanted) or (value is None and key not in _NULL_IS_WRONG):
                continue
            fix = _fix(node, wanted, subject)
            is_secret = looks_secret(key)
            shown = _shown(redacted(key, value)) + ("" if is_secret else _reading(node))
            yield Finding(
                node.mark,
                f"`{key}` in {block.what} is {shown}; it has to be {wanted}",
                None if is_secret else _help(key, node, wanted),
                block.stage_id,
                block.platform,
                fix=fix,
            )


def _variables(block: Block) -> Iterator[Finding]:
    """Names and values that no process can have in its environment: whoever is to start with them does not."""
    for name, node in block.node.items.items():
        if not can_be_named(name):
            message = f"`{name}` in {block.what} is no name that a variable can have"
            yield Finding(block.node.key_mark(name), message, None, block.stage_id, block.platform)
        elif not can_hold(plain(node)):
            message = f"`{name}` in {block.what} holds a null character, which ends the value of a variable"
            yield Finding(node.mark, message, None, block.stage_id, block.platform)


def _items(key: object, node: Node, wanted: ValueType, block: Block) -> Iterator[Finding]:
    """The first of what a list or mapping of plain values may not hold; blocks in it have rules of their own."""
    inside = wanted.items
    if inside is None or inside.kinds <= {"mapping", "none"}:
        return
    wrong = [(which, item) for which, item in _named_items(node) if not inside.admits(plain(item))]
    if wrong:
        which, item = wrong[0]
        value = redacted(key, plain(item))
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        yield Finding(
            item.mark,
            f"{which} of `{key}` in {block.what} is {_shown(value)}{more}; it has to be {inside}",
            f"Write `{value}` without quotes." if is_misquoted(item, inside) else None,
            block.stage_id,
            block.platform,
        )


def _notation(key: str, node: Node, block: Block) -> Iterator[Finding]:
    """What upstream cannot read of a value that is of the right kind."""
    found = None if block.place == "env" else misread(key, plain(node))
    if found is None:
        return
    is_item = isinstance(node, Sequence) and found.part is not None
    marks = [item.mark for item in node.items if plain(item) == found.part] if isinstance(node, Sequence) else []
    holds = "is empty" if found.part is None else f"holds {in_yaml(found.part)}"
    yield Finding(
        marks[-1] if is_item and marks else node.mark,
        f"`{key}` in {block.what} {holds}; it has to be {found.wanted}",
        None,
        block.stage_id,
        block.platform,
    )


def _named_items(node: Node) -> Iterator[tuple[str, Node]]:
    if isinstance(node, Mapping):
        yield from ((f"`{name}`", item) for name, item in node.items.items())
    elif isinstance(node, Sequence):
        yield from ((f"item {number}", item) for number, item in enumerate(node.items, 1))


def _word(key: object, node: Node, wanted: ValueType, block: Block, subject: Subject) -> Iterator[Finding]:
    """A word where any is taken, because plugins may bring their own, but that is none of the engine's."""
    if not wanted.words:
        return
    is_diffusion = "diffusion" in _kinds(block, subject)
    named = _method(node) if is_diffusion else node
    word = None if named is None else plain(named)
    if named is None or not isinstance(word, str) or wanted.has_word(word) or "." in word:
        return  # a name with dots is a class of one's own
    meant = slip_of(word, wanted.words)
    owner = f"vLLM-Omni {VLLM_OMNI}" if is_diffusion else f"vLLM {subject.vllm_version}"
    yield Finding(
        named.mark,
        f"`{key}` in {block.what} is `{word}`, which {owner} does not bring",
        f"Did you mean `{meant}`?" if meant else f"Without a plugin it has to be one of {', '.join(wanted.words)}.",
        block.stage_id,
        block.platform,
        severity=Severity.WARNING if meant else Severity.NOTE,
        fix=rewrite_value(subject, named, meant, safe=False) if meant else None,
    )


def _alone(key: object, node: Node, wanted: ValueType, block: Block, subject: Subject) -> Iterator[Finding]:
    """A quantization method by its name alone, which a diffusion stage cannot build without its parameters."""
    known = deploy_schema().diffusion_quantization
    if key not in known["settings"] or _kinds(block, subject) != {"diffusion"}:
        return
    word = plain(node)
    if isinstance(word, str) and wanted._replace(words=tuple(known["not_alone"])).has_word(word):
        yield Finding(
            node.mark,
            f"`{key}` in {block.what} is `{word}`, which a diffusion stage cannot build from its name alone",
            f"Write `{key}: {{method: {word}, ...}}` with what the method needs.",
            block.stage_id,
            block.platform,
        )


def _kinds(block: Block, subject: Subject) -> set[str | None]:
    """The kinds of the stages that a block is for: the profile's own settings are for all of them."""
    stages = pipelines()[subject.pipeline]["stages"] if subject.pipeline and block.place == "profile" else []
    return {stage["execution_type"] for stage in stages} or {subject.stage_kind(block.stage_id)}


def _method(node: Node) -> Node | None:
    """What names the method where a mapping says more about it."""
    return node.items.get("method", node.items.get("quant_method")) if isinstance(node, Mapping) else node


def _fix(node: Node, wanted: ValueType, subject: Subject) -> Fix | None:
    """The same value in the form that the setting takes; another one of its choices only if that is asked for."""
    value = plain(node)
    if isinstance(value, str) and wanted.choices:
        close = near(value, wanted.choices)
        return rewrite_value(subject, node, close, safe=False) if close else None
    if not isinstance(node, Scalar) or node.text != str(value):
        return None
    if isinstance(value, int) and not isinstance(value, bool) and wanted.kinds <= {"str", "none"}:
        return rewrite_value(subject, node, node.text, safe=True)
    if isinstance(value, float) and wanted.kinds <= {"int", "none"} and value.is_integer():
        return rewrite_value(subject, node, int(value), safe=True)
    return None


def is_misquoted(node: object, wanted: ValueType) -> bool:
    """Whether the value is a quoted boolean or number where one without quotes is meant."""
    if (
        not isinstance(node, Scalar)
        or not isinstance(node.value, str)
        or "str" in wanted.kinds
        or "any" in wanted.kinds
    ):
        return False
    from omnicfg.passes.read import read_scalar

    try:
        unquoted = read_scalar(node.value)
    except (ValueError, IndexError):
        return False
    return not isinstance(unquoted, str) and unquoted is not None and wanted.admits(unquoted)


def _shown(value: object) -> str:
    kind = kind_of(value)
    if kind in ("mapping", "list"):
        return f"a {kind}"
    if value is None:
        return "null"
    text = f"the {'text' if kind == 'str' else kind} `{value if kind == 'str' else in_yaml(value)}`"
    return text if len(text) <= 80 else text[:77] + "...`"


def _reading(node: Node) -> str:
    """What was written, where it does not look like what is read."""
    from omnicfg.rules.yaml_dialect import reads_otherwise

    if not isinstance(node, Scalar) or node.text == str(node.value) or not reads_otherwise(node):
        return ""
    return f" (which is how `{node.text}` is read)"


def _is_of_the_shell(node: Node) -> bool:
    """Whether the value was given as ``--set``; the API's have no place in a text."""
    return node.layer.kind is LayerKind.OVERRIDE and bool(node.mark.line)


def _number_of(text: str, wanted: ValueType) -> str | None:
    """The number that a text means which only people and vLLM's command line read as one: `30%`, `4k`, `4K`.

    ``k`` is 1000 and ``K`` is 1024 there (vllm 0.32.0, ``human_readable_int`` in ``vllm/utils/argparse_utils.py``).
    """
    percent = _PERCENT.fullmatch(text)
    if percent and "float" in wanted.kinds:
        return f"{float(percent[1]) / 100:g}"
    count = _COUNT.fullmatch(text)
    return str(int(count[1]) * _UNITS[count[2]]) if count and "int" in wanted.kinds else None


_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?%")
_COUNT = re.compile(r"([0-9]{1,9})([kmgKMG])")
_UNITS = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _help(key: object, node: Node, wanted: ValueType) -> str | None:
    value = plain(node)
    if isinstance(value, str) and wanted.choices:
        close = near(value, wanted.choices)
        return f"Did you mean `{close}`?" if close else None
    form = _form(key, node, wanted)
    if form is None:
        return None
    if is_flag(node):
        return f'Write `"{key}": {form}`.'
    if form.startswith('"') and _is_of_the_shell(node):
        return f"Write the value as `'{form}'`; the shell takes the outer quotes away."
    return f"Write `{key}: {form}`."


def _form(key: object, node: Node, wanted: ValueType) -> str | None:
    """The value that was meant, as it has to be written."""
    value = plain(node)
    if isinstance(value, str):
        return _number_of(value, wanted)
    if isinstance(value, list):
        is_devices = key == "devices" and all(type(item) is int for item in value)
        return f'"{",".join(map(str, value))}"' if is_devices else None
    if "bool" in wanted.kinds:
        return str(bool(value)).lower() if type(value) is int and value in (0, 1) else None
    if isinstance(value, int | float) and "str" in wanted.kinds:
        return f'"{node.text if isinstance(node, Scalar) and node.text else value}"'
    if isinstance(value, float) and wanted.kinds <= {"int", "none"} and value.is_integer():
        return str(int(value))
    return None
