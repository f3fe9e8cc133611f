"""What the audit sees, in plain Python, so that an implementation of the map can predict it.

A contract of the map may declare a lowering: a module with

    readings(cell: Cell) -> dict[str, tuple]       # reading -> the arguments of solve; {} where not expressible
    predicted(cell: Cell, result) -> list[Ended]   # what solve's result means on each rank

Where solve raises, the result is {"raises": the exception's name}, as a check observes it (`answer`).

A *reading* is one way in which a wrong program could look at a layout ("the innermost axis only", "what DTensor
knows"). Its name says nothing about one layout, so that a subject can be held against the same reading everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Lies = Literal["shard", "replicate", "partial", "distinct"]
PADDING = -1
"""The index of an element that belongs to no logical tensor."""


@dataclass(frozen=True)
class Piece:
    """One parameter as a rank holds it.

    Attributes:
        name: the local parameter name.
        tensor: the logical tensor; tied copies and copies on other ranks have the same.
        on: axis -> how the tensor lies on it; every axis of the cell is named.
        told: the axes on which the framework's own object (a DTensor) knows its placement.
        dtype: "float32", "bfloat16", ...
        indices: for each local element its flat index in the logical tensor; PADDING for padding.
        values: the local gradient before the call, one value for each index; None: the parameter has no gradient.
    """

    name: str
    tensor: str
    on: Mapping[str, Lies]
    told: tuple[str, ...]
    dtype: str
    indices: tuple[int, ...]
    values: tuple[float, ...] | None


@dataclass(frozen=True)
class Holds:
    """What one rank holds; at: axis -> its coordinate."""

    at: Mapping[str, int]
    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Cell:
    """One call: the mesh axes (name -> size, outermost first), what each rank holds, and the call's arguments."""

    axes: Mapping[str, int]
    ranks: tuple[Holds, ...]
    limit: float
    norm_type: float = 2.0


@dataclass(frozen=True)
class Ended:
    """How a call is predicted to end on one rank.

    Attributes:
        outcome: it returns, raises, or waits for a collective that never comes.
        norm: what it returns; None where the contract says nothing about it.
        values: for each piece the gradient after the call; None where nothing is said, or the piece has none.
    """

    outcome: Literal["returned", "raised", "hang"] = "returned"
    norm: float | None = None
    values: tuple[tuple[float, ...] | None, ...] | None = None


def answer(solve: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What an implementation returns for the arguments, or {"raises": name} where it raises.

    >>> answer(max, ([],))
    {'raises': 'ValueError'}
    """
    try:
        return solve(*arguments)
    except Exception as error:
        return {"raises": type(error).__name__}
