"""The values of checks: which are allowed, how JSON carries them, and when two of them are the same."""

from __future__ import annotations

import math
import re

PLAIN_TEXT = re.compile(r"[ !#-\[\]-~]*").fullmatch
"""Text that needs no escape; most labels and keys."""
NOT_FINITE = ("inf", "-inf", "nan")
"""How JSON carries the floats that it has no numbers for."""


def plain(value: object) -> object:
    """Return `value` as JSON carries it: tuples as lists, inf and nan as strings.

    Raises:
        TypeError: it holds something that is no list, dict with string keys, number, string, bool or None.

    >>> plain({"norm": float("inf"), "values": (1, 2.5, None)})
    {'norm': 'inf', 'values': [1, 2.5, None]}
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    raise TypeError(f"Expected a plain value, got {type(value).__name__}.")


def same(left: object, right: object) -> bool:
    """Return whether two plain values are the same: 0 equals 0.0 and -0.0, True is no number, no tolerance.

    >>> same([0, 1.0], [-0.0, 1]), same(True, 1), same("nan", plain(float("nan")))
    (True, False, True)
    """
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def literal(value: object) -> str:
    """Return Python source for a value; the same text on every version and platform.

    Raises:
        TypeError: it is not a plain value.

    >>> literal({"limit": float("-inf"), "ranks": [[3, 0.5], []]})
    '{"limit": float("-inf"), "ranks": [[3, 0.5], []]}'
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    if isinstance(value, str):
        return f'"{value}"' if PLAIN_TEXT(value) else '"' + "".join(map(_escaped, value)) + '"'
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
    raise TypeError(f"Expected a plain value without tuples inside, got {type(value).__name__}.")


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if " " <= character <= "~" else f"\\U{ord(character):08x}"
