"""Ways in which a wrong program may look at a layout; what the lowerings of several contracts share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from shardproof.failures.lowering import PADDING, Cell, Piece

Axes = tuple[str, ...]
Element = tuple[str, int]

KNOWN: Final[Mapping[str, Callable[[Piece], Axes]]] = MappingProxyType(
    {
        "nothing": lambda piece: (),
        "what DTensor is told": lambda piece: piece.told,
        "their cuts": lambda piece: tuple(axis for axis, how in piece.on.items() if how == "shard"),
    }
)
"""What tensors may know of themselves, whatever group a program uses: name -> the axes for one piece."""

ROLES: Final = ("dp", "dp_replicate", "dp_shard", "cp", "tp", "pp", "ep")
"""Axes that programs ask for by name, whether a layout has them or not."""

_DATA = ("dp", "cp", "node")
_MAGNITUDE = 8


def groups(cell: Cell) -> dict[str, Axes]:
    """The groups of ranks that a program may have at hand: name -> axes.

    The names are the same for every layout: a program that asks for an axis that is not there sums over none.

    >>> groups(Cell({"dp": 2, "tp": 2}, (), 1.0))["the last axis"]
    ('tp',)
    """
    axes = tuple(cell.axes)
    data = tuple(axis for axis in axes if axis.startswith(_DATA))
    copying = tuple(axis for axis in axes if all(piece.on[axis] == "replicate" for piece in pieces(cell)))
    return {
        "no axis": (),
        "all axes": axes,
        "the first axis": axes[:1],
        "the last axis": axes[-1:],
        "every axis but the first": axes[1:],
        "every axis but the last": axes[:-1],
        "the data axes": data,
        "the model axes": _without(axes, data),
        "the axes that only copy": copying,
        "the axes that cut or part something": _without(axes, copying),
        **{f"the axis {role}": tuple(axis for axis in axes if axis == role) for role in ROLES},
        **{f"every axis but {role}": _without(axes, (role,)) for role in ROLES},
    }


def pieces(cell: Cell) -> list[Piece]:
    """All pieces of all ranks."""
    return [piece for rank in cell.ranks for piece in rank.pieces]


def clips(cell: Cell) -> bool:
    """Whether the cell is a plain clip by the 2-norm: finite gradients without summands, a limit of at least 0."""
    finite = all(math.isfinite(value) for piece in pieces(cell) for value in piece.values or ())
    summands = any(how == "partial" for piece in pieces(cell) for how in piece.on.values())
    return finite and not summands and cell.norm_type == 2 and cell.limit >= 0


def exponent(cell: Cell) -> int:
    """The k for which the largest gradient times 2**k lies in [128, 256).

    Contracts round to 12 decimals, which would be nothing or everything of tiny and huge gradients.
    """
    largest = max((abs(value) for piece in pieces(cell) for value in piece.values or ()), default=0.0)
    return _MAGNITUDE - math.frexp(largest)[1] if largest else 0


def elements(piece: Piece) -> list[tuple[Element, float]]:
    """The logical elements of a piece with their gradients; padding is none of them."""
    pairs = zip(piece.indices, piece.values or (), strict=False)
    return [((piece.tensor, index), value) for index, value in pairs if index != PADDING]


def filled(piece: Piece, given: Callable[[Element], float]) -> tuple[float, ...] | None:
    """A piece's gradient with given values; padding stays what it was, a gradient that is not there stays so."""
    if piece.values is None:
        return None
    return tuple(
        value if index == PADDING else given((piece.tensor, index))
        for index, value in zip(piece.indices, piece.values, strict=True)
    )


def spread(piece: Piece, given: Iterator[float], power: int) -> tuple[float, ...] | None:
    """A piece's gradient from the next values of `given`, times 2**power; padding and absence as in `filled`."""
    return filled(piece, lambda element: times(next(given), power))


def times(value: float, power: int) -> float:
    """`value` times 2**power; inf above the largest float64."""
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.inf


def _without(axes: Axes, others: Axes) -> Axes:
    return tuple(axis for axis in axes if axis not in others)
