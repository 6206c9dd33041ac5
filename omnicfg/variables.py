"""What a process can have in its environment; the same for the rule and for the start (environ(7))."""

from __future__ import annotations


def can_be_named(name: object) -> bool:
    """Whether a variable can have this name: not empty, without ``=``, which would end it, or a null character."""
    text = str(name)
    return bool(text) and "=" not in text and "\0" not in text


def can_hold(value: object) -> bool:
    """Whether a variable can have this value: a null character would end it."""
    return "\0" not in str(value)
