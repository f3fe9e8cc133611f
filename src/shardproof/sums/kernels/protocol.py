"""What a kernel is: four functions over raw memory, and the records that they return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from shardproof.sums.kernels.formats import Format

Order = Literal[1, 2]


@dataclass(frozen=True)
class Tally:
    """The exact sum over the finite values, and how many values were not finite.

    `total` is an integer that stands for total x 2**GRID_EXPONENT (shardproof.sums.grid).
    """

    total: int = 0
    nans: int = 0
    infs: int = 0

    def merge(self, other: Tally) -> Tally:
        """The tally of both; neither operand changes."""
        return Tally(self.total + other.total, self.nans + other.nans, self.infs + other.infs)


@dataclass(frozen=True)
class Largest:
    """The largest magnitude among the finite values (0.0 when there is none), and the non-finite counts."""

    magnitude: float = 0.0
    nans: int = 0
    infs: int = 0

    def merge(self, other: Largest) -> Largest:
        """The largest of both; neither operand changes."""
        return Largest(max(self.magnitude, other.magnitude), self.nans + other.nans, self.infs + other.infs)


class Kernel(Protocol):
    """A module with these four functions. Arguments are checked by `shardproof.sums.kernels.calls`."""

    def tally(
        self, format: Format, addresses: Sequence[int], counts: Sequence[int], order: Order, threads: int
    ) -> Tally:
        """The exact sum of |value|**order."""

    def largest(self, format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int) -> Largest:
        """The largest magnitude."""

    def powers(
        self,
        format: Format,
        addresses: Sequence[int],
        counts: Sequence[int],
        p: float,
        exponent: int,
        threads: int,
    ) -> Tally:
        """The exact sum of the float64 values (|value| x 2**-exponent)**p."""

    def scale(
        self, format: Format, addresses: Sequence[int], counts: Sequence[int], factor: float, threads: int
    ) -> None:
        """Replace each value by float64(value) x factor, rounded once to the format."""
