"""JSON values compared as the page's tables print them: equal values of equal kinds, 0 is not 0.0."""

from __future__ import annotations

import json

from shardproof.errors import InvalidValueError


def parsed(text: str) -> object:
    """Return the one JSON value that `text` holds; NaN and Infinity are read as Python writes them.

    Raises:
        InvalidValueError: it is not one JSON value, repeats a key, nests too deep, or holds an integer of more
            digits than Python converts.
    """
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except RecursionError:
        raise InvalidValueError("Expected JSON, got a text that nests too deep.") from None
    except ValueError as error:
        raise InvalidValueError(f"Expected one JSON value: {error}") from None


def written(value: object) -> str:
    """Return the one text of a JSON value: equal texts are equal values of equal kinds.

    Keys are sorted, ints stay ints, floats have their shortest form, NaN equals NaN and 0.0 is not -0.0.

    >>> written(parsed("[ 0, 0.0, 1e0 ]"))
    '[0, 0.0, 1.0]'
    """
    try:
        text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    except RecursionError:
        raise InvalidValueError("Expected JSON, got a value that nests too deep.") from None
    # A lone surrogate is legal in JSON's escapes and in no encoding; it stays the escape that it was.
    return text.encode("utf-8", "backslashreplace").decode()


def equal(left: object, right: object) -> bool:
    """Return `left == right` as the page's own programs decide it (0 == 0.0), NaN unequal to all.

    Raises:
        InvalidValueError: the values nest too deep to compare.
    """
    try:
        return left == right
    except RecursionError:
        raise InvalidValueError("Expected JSON values, got some that nest too deep to compare.") from None


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError(f"a key is repeated in {[key for key, _ in pairs][:6]}")
    return result
