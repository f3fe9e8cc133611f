"""Proof that the owned slices cover a tensor: nothing twice, nothing left out.

Every index i along dim d gets a random weight w_d(i) in the field of 2**61 - 1 elements; an element weighs
the product over its dims. The weight of a slice is then a product of sums over intervals, and an interval's
sum is a difference of two prefix values: a slice costs no more than its number of intervals. The owned slices
cover the tensor exactly once only if their weights and their counts add up to the tensor's. If they do not,
the count of some element differs from one, and the weights add up nevertheless with a probability of at most
dims / 2**61 (Schwartz-Zippel: the difference is a nonzero multilinear polynomial in the random weights).

Sources: J. T. Schwartz, doi:10.1145/322217.322225; R. Zippel, doi:10.1007/3-540-09519-5_73.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from shardproof.layout.slices import Interval, Slice

FIELD = 2**61 - 1


@dataclass(frozen=True)
class Claim:
    """How many elements are claimed, and the weight that says which; claims of several ranks add."""

    count: int = 0
    weight: int = 0

    def __add__(self, other: Claim) -> Claim:
        return Claim(self.count + other.count, (self.weight + other.weight) % FIELD)


def claim(tensor: str, part: Slice) -> Claim:
    """What a rank claims when it owns `part` of the tensor of this name.

    >>> whole = claim("w", Slice.whole((4,)))
    >>> claim("w", Slice.flat(0, 3)) + claim("w", Slice.flat(3, 4)) == whole
    True
    >>> claim("w", Slice.flat(0, 3)) + claim("w", Slice.flat(2, 3)) == whole
    False
    """
    weight = 1
    for dim, intervals in enumerate(part.dims):
        weight = weight * _weight(tensor, dim, intervals) % FIELD
    return Claim(part.numel, weight)


def _weight(tensor: str, dim: int, intervals: tuple[Interval, ...]) -> int:
    return sum(_prefix(tensor, dim, stop) - _prefix(tensor, dim, start) for start, stop in intervals) % FIELD


@lru_cache(maxsize=1 << 16)
def _prefix(tensor: str, dim: int, index: int) -> int:
    """The sum of the weights of all indices below `index`: a random value, so the weights are random too."""
    if index == 0:
        return 0
    digest = blake2b(f"{tensor}\0{dim}\0{index}".encode(), digest_size=16).digest()
    return int.from_bytes(digest, "little") % FIELD
