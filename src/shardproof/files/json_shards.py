"""Shards as JSON text: a list of lists of numbers, one for each rank."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from shardproof.clip import checked_limit, clip_shards, factor_of_sum
from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums import ExactSum


@dataclass(frozen=True)
class ClippedShards:
    """The clipped shards, with the norm, limit and factor that made them."""

    norm: float
    limit: float
    factor: float
    shards: list[list[float]]


def clip_json(text: bytes, limit: float | None, where: str = "the input") -> ClippedShards:
    """Return `clip_shards` of the shards that `text` holds, with norm and factor.

    Args:
        text: JSON in UTF-8, a list of lists of numbers.
        limit: the largest norm allowed, >= 0; inf and None mean no limit.
        where: what errors call the input.

    Raises:
        InvalidValueError: not JSON (NaN and Infinity are not), nested too deep, a number outside float64's range,
            a bad limit.
        InvalidTypeError: JSON of another form.

    >>> clip_json(b"[[3, 0], [0, 4]]", 2)
    ClippedShards(norm=5.0, limit=2.0, factor=0.4, shards=[[1.2, 0.0], [0.0, 1.6]])
    """
    limit = checked_limit(limit)
    shards = parse_shards(text, where)
    clipped = clip_shards(shards, limit)
    squares = ExactSum.of_squares(itertools.chain.from_iterable(shards))
    return ClippedShards(squares.root(), limit, factor_of_sum(squares, limit), clipped)


def parse_shards(text: bytes, where: str = "the input") -> Any:
    """Return the list that `text` holds as JSON; its values are left to the rule's own checks.

    >>> parse_shards(b"[[1], [2.5]]")
    [[1], [2.5]]
    """
    try:
        shards = json.loads(text.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise InvalidValueError(f"Expected a list of lists of numbers, got {where}, nested too deep.") from error
    except ValueError as error:
        raise InvalidValueError(
            f"Expected JSON, a list of lists of numbers, got {where}: {error}. "
            "Gradients in binary are read from files that end in .npy or .safetensors."
        ) from error
    if not isinstance(shards, list):
        raise InvalidTypeError(
            f"Expected a list with one list of numbers for each rank in {where}, got {_json_name(shards)}."
        )
    return shards


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number, and no finite one")


def _json_name(value: object) -> str:
    names = {dict: "an object", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
