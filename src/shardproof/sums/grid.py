"""The one fixed grid on which every exact sum lies.

A sum is an integer T that stands for T x 2**GRID_EXPONENT, cut into LIMBS digits of 32 bits, lowest first.

* The smallest square of a float64 is (2**-1074)**2 = 2**-2148; the grid reaches down to 2**-2176, a multiple
  of the limb width, so a limb's place is a plain shift.
* The largest square is below 2**2048; the grid reaches up to 2**(LIMBS * 32 - 2176) = 2**2144. The 96 bits
  between them are room for 2**96 summands.
* A limb is a digit in [0, 2**32) held in an int64. Adding the limbs of up to 2**31 - 1 ranks stays below
  2**63, so a plain integer SUM all-reduce cannot overflow, and any order of addition gives the same integers.
"""

from __future__ import annotations

from typing import Final

LIMB_BITS: Final = 32
LIMBS: Final = 135
GRID_EXPONENT: Final = -2176
MAX_RANKS: Final = 2**31 - 1
LIMB_MASK: Final = (1 << LIMB_BITS) - 1
GRID_BITS: Final = LIMBS * LIMB_BITS


def to_limbs(total: int) -> tuple[int, ...]:
    """Cut `total` (an integer on the grid, 0 <= total < 2**GRID_BITS) into LIMBS digits, lowest first.

    Raises OverflowError when `total` does not fit.

    >>> to_limbs(2**32 + 5)[:3]
    (5, 1, 0)
    """
    if not 0 <= total < 1 << GRID_BITS:
        raise OverflowError(f"Expected a sum in [0, 2**{GRID_BITS}) on the grid, got {total.bit_length()} bits.")
    return tuple((total >> (LIMB_BITS * place)) & LIMB_MASK for place in range(LIMBS))


def from_limbs(limbs: tuple[int, ...] | list[int]) -> int:
    """Put the integer on the grid together again; digits may be any size, as after a SUM over ranks.

    >>> from_limbs([5, 1]) == 2**32 + 5
    True
    """
    return sum(int(limb) << (LIMB_BITS * place) for place, limb in enumerate(limbs))
