"""Sums of the short formats, from how often each magnitude pattern occurs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from shardproof.sums.grid import GRID_EXPONENT
from shardproof.sums.kernels.formats import Bits, Format
from shardproof.sums.kernels.protocol import Largest, Order, Tally
from shardproof.sums.kernels.python_kernel import decoded

_LOW_HALF = np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class Counts:
    """How often each magnitude pattern occurs, and how often the pattern with only the sign bit set does."""

    format: Format
    magnitudes: NDArray[np.int64]
    lone_signs: int

    def tally(self, order: Order) -> Tally:
        """The exact sum of |value|**order."""
        nans, infs = self._specials()
        return Tally(_total(self.format.bits, self._finite(), order), nans, infs)

    def largest(self) -> Largest:
        """The largest magnitude."""
        found = np.flatnonzero(self._finite())
        return Largest(decoded(self.format, int(found[-1])) if found.size else 0.0, *self._specials())

    def _finite(self) -> NDArray[np.int64]:
        return self.magnitudes[: self.format.bits.first_special]

    def _specials(self) -> tuple[int, int]:
        bits = self.format.bits
        if bits.specials == "fnuz":
            return self.lone_signs, 0
        specials = int(self.magnitudes[bits.first_special :].sum())
        infs = int(self.magnitudes[bits.first_special]) if bits.specials == "ieee" else 0
        return specials - infs, infs


def _total(bits: Bits, counts: NDArray[np.int64], order: Order) -> int:
    """The sum of count x mantissa**order by exponent field, as an integer on the grid."""
    fields = np.flatnonzero(np.bincount(np.flatnonzero(counts) >> bits.mantissa))
    total = 0
    for field in map(int, fields):
        row = counts[field << bits.mantissa : (field + 1) << bits.mantissa].astype(np.uint64)
        weights = (np.arange(row.size, dtype=np.uint64) + np.uint64((1 << bits.mantissa) if field else 0)) ** order
        # Weights are below 2**22 and there are at most 2**10: with 32 bits of a count at a time, below 2**64.
        low, high = int((weights * (row & _LOW_HALF)).sum()), int((weights * (row >> np.uint64(32))).sum())
        total += (low + (high << 32)) << (order * bits.unit(field) - GRID_EXPONENT)
    return total
