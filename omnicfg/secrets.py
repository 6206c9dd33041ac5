"""What must never be printed: the values of keys that look like credentials, passwords inside URLs, and tokens whose
shape tells them wherever they stand."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

HIDDEN: Final = "***"

_ALWAYS: Final = frozenset(
    {
        "apikey",
        "authorization",
        "credential",
        "credentials",
        "passphrase",
        "passwd",
        "password",
        "pwd",
        "secret",
        "secrets",
    }
)
_KEYS_OF: Final = frozenset({"access", "account", "api", "auth", "encryption", "license", "private", "signing", "ssh"})
# Tokens of a vocabulary, not of an account.
_VOCABULARY: Final = frozenset(
    {
        "audio", "begin", "bos", "boundary", "cls", "codec", "end", "eos", "first", "image", "last", "mask", "next",
        "pad", "per", "sep", "special", "speech", "start", "stop", "text", "think", "unk", "video", "vision",
    }
)  # fmt: skip
_COUNTS: Final = frozenset({"max", "min", "num"})
# Some part of every key that can be a credential's, to tell most keys apart at once.
_SIGNS: Final = ("token", "key", "secret", "pass", "auth", "cred", "pwd")

# Patterns are compiled where one is needed. Those of keys and URLs find their end without going back, so that a line
# of a megabyte takes no longer than it must.
_WORDS: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
_URL_LOGIN: Final = r"(?<=://)[^/\s@]++(?=@)"
# Tokens of Hugging Face, GitHub (docs.github.com, "About authentication to GitHub"), GitLab (docs.gitlab.com, "Token
# overview"), AWS, Slack, and of services that speak OpenAI's protocol.
_TOKEN: Final = (
    r"(?<![\w-])(?:hf_[A-Za-z0-9]{30,}+|gh[oprsu]_[A-Za-z0-9]{30,}+|github_pat_\w{30,}+|glpat-[\w.-]{20,}+|AKIA[0-9A-Z]{16}+"
    r"|xox[abeprs]-[\w-]{20,}+|sk-(?:[a-z]{2,8}-)?[A-Za-z0-9]{20,}+[\w-]*+)(?![\w-])"
)
_TOKEN_SIGNS: Final = ("hf_", "gh", "github_pat_", "glpat-", "AKIA", "xox", "sk-")
_YAML_KEY: Final = r"""(["']?)(?<![\w.-])(?P<key>[A-Za-z_][\w.-]*+)\1[ \t]*:(?:[ \t]+|$)"""
_QUOTED: Final = r""""(?:\\.|[^"\\])*"|'(?:''|[^'])*'"""
# On command lines: `--api-key VALUE`, also as items of a list, and `API_KEY=VALUE`.
_FLAG: Final = r"""(?<![\w-])--(?P<key>[A-Za-z][\w.-]*+)(?:=|["',]*+[ \t]+)["']?(?P<value>[^\s"',]++)"""
_ASSIGNED: Final = r"""(?<![\w.-])(?P<key>[A-Za-z_]\w*+)=["']?(?P<value>[^\s"']++)"""
_FLOW_END: Final = r"[,}\]]|$"


class Secret(str):
    """Text that must not be shown whatever key it stands under, such as that of an environment variable."""

    __slots__ = ()


def looks_secret(key: object) -> bool:
    """Whether the value under this key is probably a credential: ``hf_token``, ``API_KEY``; not ``eos_token``."""
    text = str(key)
    folded = text.lower()
    if not any(sign in folded for sign in _SIGNS):
        return False
    words = [word.lower() for word in re.findall(_WORDS, text)]
    if not words:
        return False
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if not _ALWAYS.isdisjoint(words) or last == "auth":
        return True
    if last == "key":
        return before in _KEYS_OF
    if last == "token":
        return before not in _VOCABULARY and words[0] not in _COUNTS
    return last in ("keys", "tokens") and before in _KEYS_OF


def redacted(key: object, value: Any) -> Any:
    """``value`` as it may be shown under ``key``: credentials hidden at every depth, everything else as it is.

    ``key`` may be a whole route, as a tuple or with dots: what lies below a credential's key is hidden as well.
    """
    if any(map(looks_secret, _steps(key))):
        return _hidden(value)
    if isinstance(value, Mapping):
        return {name: redacted(name, child) for name, child in value.items()}
    if isinstance(value, list):
        return [redacted(flag_of(before), child) for before, child in zip(["", *value], value, strict=False)]
    if isinstance(value, Secret):
        return _hidden(value)
    return without_arguments(value) if isinstance(value, str) else value


def _steps(key: object) -> Iterable[object]:
    if isinstance(key, tuple):
        return key
    return key.split(".") if isinstance(key, str) else (key,)


def flag_of(word: Any) -> str:
    """The name of the flag that the next word of a command is the value of."""
    return word[2:] if isinstance(word, str) and word.startswith("--") and "=" not in word else ""


def _hidden(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _hidden(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_hidden(child) for child in value]
    return value if value is None or isinstance(value, bool) or value == "" else HIDDEN


def without_arguments(text: str) -> str:
    """The same as :func:`without_passwords`, and what is given to a secret flag or variable: ``--api-key ***``."""
    for pattern in (_FLAG, _ASSIGNED) if "--" in text or "=" in text else ():
        text = _compiled(pattern).sub(_without_value, text)
    return without_passwords(text)


def _without_value(match: re.Match[str]) -> str:
    if not looks_secret(match["key"]):
        return match[0]
    start, end = (place - match.start() for place in match.span("value"))
    return f"{match[0][:start]}{HIDDEN}{match[0][end:]}"


def without_passwords(text: str) -> str:
    """``text`` with the user and password of every URL hidden, and whatever has the shape of a token."""
    if any(sign in text for sign in _TOKEN_SIGNS):
        text = _compiled(_TOKEN).sub(HIDDEN, text)
    return re.sub(_URL_LOGIN, HIDDEN, text) if "://" in text else text


def secret_spans(line: str, above: str = "") -> list[tuple[int, int]]:
    """The parts of a line of YAML or of a command that must not be shown: start and end, from 0, in order, apart.

    The key or flag of its first value may end the line ``above``, which may go on by a backslash.
    """
    found = _secrets(line)
    if above:
        before = above.rstrip().removesuffix("\\").rstrip() + " "
        joined = before + re.sub(r"^(\s*)-(?=\s)", r"\1 ", line)
        found += [(start - len(before), end - len(before)) for start, end in _secrets(joined) if start >= len(before)]
    spans: list[tuple[int, int]] = []
    for start, end in sorted(span for span in found if span[0] < span[1]):
        if spans and start < spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))
    return spans


def _secrets(line: str) -> list[tuple[int, int]]:
    """Start and end of each; some may be empty, or lie in others."""
    keys = [match for match in re.finditer(_YAML_KEY, line) if looks_secret(match["key"])]
    first, length = len(line) - len(line.lstrip(" \t-?")), len(line.rstrip())
    found = [(key.end(), _value_end(line, key.end(), length, in_block=key.start() <= first)) for key in keys]
    found += [match.span() for pattern in (_URL_LOGIN, _TOKEN) for match in re.finditer(pattern, line)]
    for pattern in (_FLAG, _ASSIGNED):
        found += [match.span("value") for match in re.finditer(pattern, line) if looks_secret(match["key"])]
    return found


def _value_end(line: str, start: int, length: int, *, in_block: bool) -> int:
    """Where the value of a key ends: at the end of the line, unless it is quoted or one of several in braces."""
    quoted = _compiled(_QUOTED).match(line, start)
    if quoted:
        return quoted.end()
    if in_block or line.startswith(("{", "["), start):
        return length
    end = _compiled(_FLOW_END).search(line, start)
    return end.start() if end else len(line)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def redacted_setting(text: str) -> str:
    """A ``KEY=VALUE`` text as it may be shown."""
    key, equals, value = text.partition("=")
    if equals and value and looks_secret(key):
        return f"{key}={HIDDEN}"
    spans = secret_spans(text)
    for start, end in reversed(spans):
        text = text[:start] + HIDDEN + text[end:]
    return text
