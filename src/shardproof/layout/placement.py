"""How a tensor lies on one mesh axis."""

from __future__ import annotations

from enum import StrEnum

from shardproof.errors import PlacementError


class Placement(StrEnum):
    """What the ranks along one mesh axis hold of a tensor."""

    SHARD = "shard"
    """Disjoint slices of one tensor."""
    REPLICATE = "replicate"
    """Copies of the same slice."""
    PARTIAL = "partial"
    """Summands: the tensor is their sum."""
    DISTINCT = "distinct"
    """Different tensors under the same name, as pipeline stages or local experts have them."""


def placement(word: object, where: str) -> Placement:
    """Return the placement that `word` names; `where` (tensor and axis) goes into the error.

    >>> placement("shard", "weight, axis dp")
    <Placement.SHARD: 'shard'>
    """
    if isinstance(word, str):
        try:
            return Placement(word.lower())
        except ValueError:
            pass
    names = ", ".join(f'"{each}"' for each in Placement)
    raise PlacementError(f"Expected one of {names} for {where}, got {word!r} ({type(word).__name__}).")
