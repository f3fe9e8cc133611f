"""Where two results part inside nested lists: the places by name, and both as JSON with those places marked."""

from __future__ import annotations

import json
from collections.abc import Iterator

from markupsafe import Markup, escape
from pydantic import JsonValue

from shardproof.report.page import printable

Place = tuple[int | str, ...]
NAMED = 6
"""Places that a sentence names before it counts the rest."""


def places(actual: JsonValue, expected: JsonValue) -> tuple[Place, ...]:
    """Return every innermost place where the two differ; numbers are compared by value, and True is not 1.

    >>> places([[2.0, 0.0], [0.0, 2.0]], [[1.2, 0], [0, 1.6]])
    ((0, 0), (1, 1))
    >>> places([1, 2, 3], [1, 2]), places(1, [1]), places(0.0, 0)
    (((2,),), ((),), ())
    """
    return tuple(_places(actual, expected, ()))


def told(found: tuple[Place, ...], actual: JsonValue, expected: JsonValue) -> str:
    """Say in words where two results differ, for a reader who does not see the marks.

    >>> told(places([1, [2]], [1, [3]]), [1, [2]], [1, [3]])
    'differs at [1][0]'
    >>> told(places([1], [1, 2]), [1], [1, 2])
    'differs at [1] (missing)'
    """
    if not found:
        return ""
    if found == ((),):
        return "differs as a whole"
    named = [_name(place) + _lack(place, actual, expected) for place in found[:NAMED]]
    more = f" and {len(found) - NAMED} places more" if len(found) > NAMED else ""
    return f"differs at {', '.join(named)}{more}"


def marked(value: JsonValue, found: tuple[Place, ...]) -> Markup:
    """Return a value as JSON text, escaped, with the places in `found` inside <mark>.

    >>> marked([[2.0, 0.0]], ((0, 0),))
    Markup('[[<mark>2.0</mark>, 0.0]]')
    """
    return _marked(value, frozenset(found), ())


def _places(actual: JsonValue, expected: JsonValue, at: Place) -> Iterator[Place]:
    if isinstance(actual, list) and isinstance(expected, list):
        for index in range(max(len(actual), len(expected))):
            if index < len(actual) and index < len(expected):
                yield from _places(actual[index], expected[index], (*at, index))
            else:
                yield (*at, index)
    elif isinstance(actual, dict) and isinstance(expected, dict):
        for key in dict.fromkeys([*actual, *expected]):
            if key in actual and key in expected:
                yield from _places(actual[key], expected[key], (*at, key))
            else:
                yield (*at, key)
    elif isinstance(actual, bool) != isinstance(expected, bool) or actual != expected:
        yield at


def _name(place: Place) -> str:
    return "".join(f"[{json.dumps(part)}]" for part in place)


def _lack(place: Place, actual: JsonValue, expected: JsonValue) -> str:
    if not _holds(actual, place):
        return " (missing)"
    return "" if _holds(expected, place) else " (not expected)"


def _holds(value: JsonValue, place: Place) -> bool:
    for part in place:
        if isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        elif isinstance(value, dict) and part in value:
            value = value[str(part)]
        else:
            return False
    return True


def _marked(value: JsonValue, found: frozenset[Place], at: Place) -> Markup:
    if isinstance(value, list):
        text = _joined("[", [_marked(item, found, (*at, index)) for index, item in enumerate(value)], "]")
    elif isinstance(value, dict):
        items = [escape(_json(key)) + ": " + _marked(item, found, (*at, key)) for key, item in value.items()]
        text = _joined("{", items, "}")
    else:
        text = escape(_json(value))
    return Markup("<mark>{}</mark>").format(text) if at in found else text


def _joined(start: str, items: list[Markup], end: str) -> Markup:
    return Markup(start) + Markup(", ").join(items) + Markup(end)


def _json(value: JsonValue) -> str:
    return printable(json.dumps(value, ensure_ascii=False))
