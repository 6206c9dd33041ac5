"""A seeded mutator over real profiles: the slips of people, of editors and of merge tools, and YAML's own oddities."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from typing import Final

NASTY_VALUES: Final = (
    "null", "~", "", "{}", "[]", "[[]]", "[{}]", "{a: {b: c}}", "[1, two, 3.0, null]", "{stage_id: 0}", "- 1",
    "[0, 0, abc, -1]", '"0,0,abc,-1"', '"0,1,2,3"', "{? [a, b] : c}", "{1: one, 2.5: two, true: three}", "true",
    "false", "yes", "off", "'true'", '"false"', "True", "'0'", '"8"', "'0.9'", "'null'", "' '", '""', "0", "-1", "1",
    "8", "010", "0x1F", "0b11", "0o17", "1_000", "12:30:45", "2020-01-01", "1.5", "-0.0", "1e3", "1e999", ".inf",
    "-.inf", ".nan", "1" * 400, "9" * 5000, "0x" + "f" * 5000, "1" + ":59" * 2000, "1000000000",
    "1.7976931348623157e308", "18446744073709551616", "0b", "0x", "0_", "-", "+", ".", "..", "...", "---",
    "${oc.env:HOME}", "${oc.env:NO_SUCH_VARIABLE}", "${oc.env:NO_SUCH_VARIABLE,8}", "${pipeline}", "${stages}",
    "${.stage_id}", "${..pipeline}", "${", "${}", "${a", "$ {a}", "\\${a}", "${oc.decode:'[1,2]'}", "${no:x}", "???",
    "${stages[0].stage_id}", "${platforms.npu}", "'${oc.env:HOME} and ${oc.env:PATH}'", "${${pipeline}}",
    "&anchor value", "*anchor", "&anchor {a: 1}", "&anchor [*anchor]", "!!int 8", "!!int eight", "!!str 8",
    "!!bool maybe", "!!float 1", "!!null x", "!!binary aGk=", "!!set {a, b}", "!!python/object/apply:os.system [id]",
    "!own x", "! 8", "!!map [1]", "!!seq {a: 1}", "!!omap [a: 1]", "!!timestamp 2020-01-01", "|", ">", "|9\n  x", "'",
    '"', '"\\x"', '"\\ud800"', '"\\u0000"', "'it''s'", "@at", "`tick`", "%percent", "?", ":", "#", "- -", "[", "]",
    "{", "}", "[,]", "{,}", "a: b: c", "[a: b]", "*", "&", "!", "<<", "{<<: 1}", "{<<: {a: 1}}", "{<<: [1]}",
    "\u00fc\u4e2d\U0001f600", "\u202e", "\ufeff", "\x07", "\x00", "\x1b[31m", "\x85", "\u2028", "\t", "a\tb",
    "x" * 5000, "['" + "a" * 300 + "']", "[" * 70 + "]" * 70, "{a: " * 70 + "}" * 70, "[" * 3000, "v1", "v2", "v3",
    "duplex", "turn", "..", "/dev/zero.yaml", "missing.yaml", "mutant.yaml", "glm_image.yaml", "a" * 300 + ".yaml",
    '"a\\0b.yaml"', "~/x.yaml",
)  # fmt: skip
KEYS: Final = (
    "stages", "platforms", "connectors", "edges", "base_config", "pipeline", "async_chunk", "session_mode",
    "model_runner", "duplex_session", "active_stream_window", "trust_remote_code", "enable_prefix_caching",
    "stage_args", "stage_id", "devices", "num_replicas", "env", "runtime", "engine_args", "engine_extras",
    "default_sampling_params", "default_pooling_params", "input_connectors", "output_connectors", "parallel_config",
    "tensor_parallel_size", "gpu_memory_utilization", "max_num_seqs", "max_num_batched_tokens", "stop_token_ids",
    "extra", "name", "cuda", "npu", "NPU", "from", "to", "max_sessions", "server_vad_model_path",
    "use_v2_model_runner", "async_scheduling", "scheduler_cls", "<<", "? ", "- ", "null", "~", "1", "2.5", "true",
    "'stages'", "[a, b]", "{a: b}", "*anchor", "&anchor key", "!!int 1", ".nan", "",
)  # fmt: skip

SUPPRESSIONS: Final = (
    "# omnicfg: ignore[OC101] because x", "# omnicfg: ignore[OC101, OC103,OC501] because of\tthis", "# omnicfg: ignore",
    "# omnicfg: ignore-file[OC101] because x", "# omnicfg: ignore-file[OC002, OC008, OC021] because x", "# omnicfg:",
    "# omnicfg: ignore[OC101]", "# omnicfg: ignore[] because x", "# omnicfg: ignore[OC101 because x",
    "# omnicfg: ignore[OC999] because", "# omnicfg: ignor[OC101] because x", "# omnicfg: ignore[OC902] because x",
    "# omnicfg: ignore[" + "OC101," * 400 + "] because x", "# omnicfg: ignore[\x1b[31m] because \u202e",
    "#omnicfg:ignore[a]", "# x # omnicfg: y",
)  # fmt: skip

_PAIR: Final = re.compile(r"^(?P<indent>\s*(?:- )?)(?P<key>[^:#\s][^:#]*):(?P<value>(?:\s.*)?)$")

Lines = list[str]
Mutation = Callable[[Lines, random.Random], None]


def mutate(text: str, rng: random.Random) -> tuple[bytes, list[str]]:
    """The text after one to five mutations, and their names."""
    lines = text.split("\n")
    chosen = [rng.choice(_MUTATIONS) for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5)))]
    for mutation in chosen:
        mutation(lines, rng)
        lines = lines or [""]
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    names = [mutation.__name__ for mutation in chosen]
    if rng.random() < 0.12:
        damage = rng.choice(_BYTE_MUTATIONS)
        raw, names = damage(raw, rng), [*names, damage.__name__]
    return raw, names


def _pairs(lines: Lines) -> list[tuple[int, re.Match[str]]]:
    return [(index, match) for index, line in enumerate(lines) if (match := _PAIR.match(line))]


def _pick(lines: Lines, rng: random.Random) -> int:
    return rng.randrange(len(lines))


# ------------------------------------------------------------------------------------------------- whole lines
def delete_line(lines: Lines, rng: random.Random) -> None:
    del lines[_pick(lines, rng)]
    lines[:] = lines or [""]


def delete_block(lines: Lines, rng: random.Random) -> None:
    start = _pick(lines, rng)
    del lines[start : start + rng.randrange(1, 12)]
    lines[:] = lines or [""]


def duplicate_line(lines: Lines, rng: random.Random) -> None:
    index = _pick(lines, rng)
    lines.insert(index, lines[index])


def duplicate_block(lines: Lines, rng: random.Random) -> None:
    start, target = _pick(lines, rng), _pick(lines, rng)
    lines[target:target] = lines[start : start + rng.randrange(1, 12)]


def swap_lines(lines: Lines, rng: random.Random) -> None:
    one, other = _pick(lines, rng), _pick(lines, rng)
    lines[one], lines[other] = lines[other], lines[one]


def indent_line(lines: Lines, rng: random.Random) -> None:
    index = _pick(lines, rng)
    lines[index] = " " * rng.randrange(1, 5) + lines[index]


def dedent_line(lines: Lines, rng: random.Random) -> None:
    index = _pick(lines, rng)
    lines[index] = lines[index].removeprefix(" " * rng.randrange(1, 5))


def indent_block(lines: Lines, rng: random.Random) -> None:
    start, shift = _pick(lines, rng), rng.choice((-2, 2, 4))
    for index in range(start, min(start + rng.randrange(2, 12), len(lines))):
        lines[index] = " " * shift + lines[index] if shift > 0 else lines[index].removeprefix("  ")


def tab_indent(lines: Lines, rng: random.Random) -> None:
    index = _pick(lines, rng)
    lines[index] = "\t" + lines[index].lstrip(" ")


def truncate(lines: Lines, rng: random.Random) -> None:
    cut = _pick(lines, rng)
    lines[cut:] = [lines[cut][: rng.randrange(len(lines[cut]) + 1)]]


def new_document(lines: Lines, rng: random.Random) -> None:
    lines.insert(_pick(lines, rng), rng.choice(("---", "...", "--- # again", "%YAML 1.2", "%YAML 9.9", "%TAG ! x")))


def wrap_in_list(lines: Lines, rng: random.Random) -> None:
    lines[:] = ["- " + lines[0], *("  " + line for line in lines[1:])]


# --------------------------------------------------------------------------------------------- keys and values
def nasty_value(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    if pairs:
        index, match = rng.choice(pairs)
        lines[index] = f"{match['indent']}{match['key']}: {rng.choice(NASTY_VALUES)}"


def swap_values(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    if pairs:
        (one, first), (other, second) = rng.choice(pairs), rng.choice(pairs)
        lines[one] = f"{first['indent']}{first['key']}:{second['value']}"
        lines[other] = f"{second['indent']}{second['key']}:{first['value']}"


def quote_value(lines: Lines, rng: random.Random) -> None:
    pairs = [(index, match) for index, match in _pairs(lines) if match["value"].strip()]
    if pairs:
        index, match = rng.choice(pairs)
        lines[index] = f'{match["indent"]}{match["key"]}: "{match["value"].strip()}"'


def misspell_key(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    if pairs:
        index, match = rng.choice(pairs)
        letters = list(match["key"])
        position = rng.randrange(len(letters))
        change = rng.randrange(4)
        if change == 0:
            del letters[position]
        elif change == 1:
            letters.insert(position, rng.choice(string.ascii_letters + "-_ ."))
        elif change == 2:
            letters[position] = letters[position].swapcase()
        else:
            letters[position] = rng.choice(string.ascii_lowercase)
        lines[index] = f"{match['indent']}{''.join(letters)}:{match['value']}"


def other_key(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    if pairs:
        index, match = rng.choice(pairs)
        lines[index] = f"{match['indent']}{rng.choice(KEYS)}:{match['value']}"


def new_pair(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    indent = rng.choice(pairs)[1]["indent"].replace("-", " ") if pairs else ""
    lines.insert(_pick(lines, rng), f"{indent}{rng.choice(KEYS)}: {rng.choice(NASTY_VALUES)}")


def new_top_pair(lines: Lines, rng: random.Random) -> None:
    lines.insert(0, f"{rng.choice(KEYS)}: {rng.choice(NASTY_VALUES)}")


def anchor_and_merge(lines: Lines, rng: random.Random) -> None:
    pairs = _pairs(lines)
    if len(pairs) > 1:
        (first, one), (second, other) = sorted(rng.sample(pairs, 2), key=lambda pair: pair[0])
        lines[first] = f"{one['indent']}{one['key']}: &anchor{one['value']}"
        lines[second] = rng.choice(
            (
                f"{other['indent']}{other['key']}: *anchor",
                f"{other['indent']}<<: *anchor",
                f"{other['indent']}<<: [*anchor, *anchor]",
            )
        )


def suppression(lines: Lines, rng: random.Random) -> None:
    """A comment that means something to omnicfg: at the end of a line, above one, or inside a block of text."""
    index = _pick(lines, rng)
    comment = rng.choice(SUPPRESSIONS)
    if rng.random() < 0.5:
        lines[index] += f"  {comment}"
    else:
        indent = len(lines[index]) - len(lines[index].lstrip(" "))
        lines.insert(index, " " * indent + comment)


def special_character(lines: Lines, rng: random.Random) -> None:
    index = _pick(lines, rng)
    position = rng.randrange(len(lines[index]) + 1)
    character = rng.choice("\0\a\b\t\x1b\x7f\x85\xa0\u2028\u202e\ufeff\ufffd\U0001f600:#&*!|>'\"%@`{}[],?-~$\\")
    lines[index] = lines[index][:position] + character + lines[index][position:]


_MUTATIONS: Final[tuple[Mutation, ...]] = (
    delete_line, delete_block, duplicate_line, duplicate_block, swap_lines, indent_line, dedent_line, indent_block,
    tab_indent, truncate, new_document, wrap_in_list, nasty_value, nasty_value, nasty_value, nasty_value, nasty_value,
    nasty_value, swap_values, swap_values, quote_value, misspell_key, misspell_key, other_key, other_key, new_pair,
    new_pair, new_pair, new_top_pair, new_top_pair, anchor_and_merge, anchor_and_merge, special_character,
    suppression, suppression, suppression,
)  # fmt: skip


# -------------------------------------------------------------------------------------------------------- bytes
def flip_bits(raw: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(raw or b" ")
    for _ in range(rng.randrange(1, 4)):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


def windows_newlines(raw: bytes, rng: random.Random) -> bytes:
    return raw.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r")))


def byte_order_mark(raw: bytes, rng: random.Random) -> bytes:
    return rng.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")) + raw


def other_encoding(raw: bytes, rng: random.Random) -> bytes:
    return raw.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "latin-1", "cp1252")), "replace")


def cut_bytes(raw: bytes, rng: random.Random) -> bytes:
    return raw[: rng.randrange(len(raw) + 1)]


_BYTE_MUTATIONS: Final = (flip_bits, flip_bits, windows_newlines, byte_order_mark, other_encoding, cut_bytes)
