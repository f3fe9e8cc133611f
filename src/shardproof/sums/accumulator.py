"""The exact sum in pure Python: slow, small, and the judge of every kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from shardproof.sums.grid import GRID_EXPONENT, from_limbs, to_limbs
from shardproof.sums.root import rounded_ratio_to_root, rounded_root, scaled_float


@dataclass
class ExactSum:
    """A sum of nonnegative numbers kept exactly, as the integer `total` x 2**GRID_EXPONENT.

    Adding and merging are integer additions, so every order and every partition gives the same `total`.
    Python's integers have no width; `limbs()` refuses what does not fit the grid.

    >>> parts = ExactSum.of_squares([3e200]).merge(ExactSum.of_squares([4e200]))
    >>> parts.root()
    5e+200
    """

    total: int = 0

    @classmethod
    def of_squares(cls, values: Iterable[float]) -> Self:
        """The exact sum of value**2 over finite ints and floats."""
        return cls(sum(square_on_grid(value) for value in values))

    @classmethod
    def of_magnitudes(cls, values: Iterable[float]) -> Self:
        """The exact sum of abs(value) over finite ints and floats."""
        return cls(sum(magnitude_on_grid(value) for value in values))

    @classmethod
    def from_limbs(cls, limbs: Sequence[int]) -> Self:
        """The sum that these digits of 32 bits stand for; digits may exceed 32 bits, as after a SUM."""
        return cls(from_limbs(list(limbs)))

    def merge(self, other: ExactSum) -> ExactSum:
        """The sum of both; neither operand changes."""
        return ExactSum(self.total + other.total)

    def limbs(self) -> tuple[int, ...]:
        """The sum as LIMBS digits of 32 bits, lowest first; raises OverflowError when it does not fit."""
        return to_limbs(self.total)

    def fraction(self) -> Fraction:
        """The exact value."""
        return Fraction(self.total) * Fraction(2) ** GRID_EXPONENT

    def value(self) -> float:
        """The sum, rounded once to float64; inf above the largest."""
        return scaled_float(self.total, GRID_EXPONENT)

    def root(self) -> float:
        """The square root of the sum, rounded once to float64; inf above the largest."""
        return rounded_root(self.total)

    def ratio_to_root(self, limit: float) -> float:
        """limit / sqrt(sum), rounded once to float64, also where the root itself rounds to inf."""
        return rounded_ratio_to_root(limit, self.total)


def magnitude_on_grid(value: float) -> int:
    """abs(value) as an integer on the grid; exact for every finite float64 and every integer."""
    numerator, denominator = abs(value).as_integer_ratio()
    return numerator << (-GRID_EXPONENT - (denominator.bit_length() - 1))


def square_on_grid(value: float) -> int:
    """value**2 as an integer on the grid; exact for every finite float64 and every integer."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator * numerator) << (-GRID_EXPONENT - 2 * (denominator.bit_length() - 1))
