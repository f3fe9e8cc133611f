"""Triton functions that the device kernels share: bit patterns, the search in a table, limbs that take a number.

All arithmetic on patterns is integer arithmetic, so it does not depend on how a GPU treats subnormals. Where a
value's float64 is needed, it is put together from its bits.
"""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl

from shardproof.sums.grid import GRID_EXPONENT, LIMBS

LIMB_BITS: Final = tl.constexpr(32)
LOW: Final = tl.constexpr((1 << 32) - 1)
ORIGIN: Final = tl.constexpr(-GRID_EXPONENT)
WIDTH: Final = tl.constexpr(LIMBS + 2)
NANS: Final = tl.constexpr(LIMBS)
INFS: Final = tl.constexpr(LIMBS + 1)


@triton.jit
def find_piece(ends: tl.tensor, pieces: tl.tensor, tile: tl.tensor) -> tl.tensor:
    """The first piece whose end, counted in tiles, lies above `tile`."""
    low = tile * 0
    high = low + pieces - 1
    while low < high:
        middle = (low + high) // 2
        above = tl.load(ends + middle) > tile
        high = tl.where(above, middle, high)
        low = tl.where(above, low, middle + 1)
    return low


@triton.jit
def words_at(address: tl.tensor, WORD: tl.constexpr, ALIGNED: tl.constexpr) -> tl.tensor:
    """A pointer to patterns; of an aligned one the compiler is told, so that it loads 16 bytes at a time."""
    words = address.to(tl.pointer_type(WORD))
    if ALIGNED:
        words = tl.multiple_of(words, 16)
    return words


@triton.jit
def loaded(words: tl.tensor, start: tl.tensor, count: tl.tensor, BLOCK: tl.constexpr) -> tl.tensor:
    """A block of patterns, with zeros past the end."""
    index = start + tl.arange(0, BLOCK)
    # Whole blocks without a mask: with one, values are loaded one by one.
    if start + BLOCK <= count:
        word = tl.load(words + index)
    else:
        word = tl.load(words + index, mask=index < count, other=0)
    return word


@triton.jit
def magnitudes(word: tl.tensor, MASK: tl.constexpr, SPECIAL: tl.constexpr) -> tl.tensor:
    """Patterns without their sign; where only the sign bit set is NaN, that one becomes SPECIAL, beyond the mask."""
    found = word.to(tl.int64) & MASK
    if SPECIAL > MASK:
        lone = (word.to(tl.int64) & (2 * MASK + 1)) == MASK + 1
        found = tl.where(lone, SPECIAL, found)
    return found


@triton.jit
def float64_of(magnitude: tl.tensor, MANTISSA: tl.constexpr, BIAS: tl.constexpr) -> tl.tensor:
    """The float64 of finite magnitude patterns; exact."""
    if MANTISSA == 52:
        return magnitude.to(tl.float64, bitcast=True)
    bits = (magnitude << (52 - MANTISSA)) + ((1023 - BIAS) << 52)
    # A subnormal is its mantissa times the format's smallest number, itself a normal float64.
    smallest = (magnitude * 0 + ((1024 - BIAS - MANTISSA) << 52)).to(tl.float64, bitcast=True)
    normal = bits.to(tl.float64, bitcast=True)
    return tl.where(magnitude >= (1 << MANTISSA), normal, magnitude.to(tl.float64) * smallest)


@triton.jit
def add_to_limbs(limbs: tl.tensor, number: tl.tensor, position: tl.tensor) -> None:
    """Add number x 2**position, 0 <= number < 2**63, as three addends below 2**32; a limb takes 2**31."""
    place = limbs + (position >> 5)
    shift = position & 31
    low = (number & LOW) << shift
    high = ((number >> 32) << shift) + (low >> 32)
    tl.atomic_add(place, low & LOW, sem="relaxed")
    tl.atomic_add(place + 1, high & LOW, sem="relaxed")
    tl.atomic_add(place + 2, high >> 32, sem="relaxed")
