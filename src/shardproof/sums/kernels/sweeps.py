"""Compiled loops of the Numba kernel: pieces into chunks, chunks through vector passes, digits into limbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shardproof.sums.grid import GRID_EXPONENT, LIMB_BITS, LIMB_MASK, LIMBS
from shardproof.sums.kernels.tags import (
    GROUP_BYTES,
    Numbers,
    Tag,
    careful_pass,
    copied,
    fast_pass,
    numbers,
    survey_pass,
    word_at,
)

ROOM: Final = LIMBS + 2
"""Limbs of an accumulator: a number of 64 bits that starts in the last limb of the grid reaches two further."""

CARRY_AFTER: Final = 1 << 28
CAREFUL_CHUNKS: Final = 8
NANS, INFS, ADDITIONS, WINDOW, CAREFUL, LARGEST, STATE = range(7)

# Memory that compiled code reaches by address belongs to the caller. An array made there would be freed after the
# last use of its *name*.
BUFFER_BYTES: Final = 8192 * 4

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function, *, cache: bool = False) -> Function:
    """Compile at the first call, for use without the GIL."""
    return cast("Function", njit(nogil=True, error_model="numpy", boundscheck=False, cache=cache)(function))


@compiled
def sweep(
    tag: Tag,
    addresses: Integers,
    counts: Integers,
    begin: int,
    end: int,
    summing: bool,
    limbs: Integers,
    state: Integers,
    buffer: Bytes,
) -> None:
    """Work through values `begin` to `end` of all pieces laid end to end.

    Whole chunks are read where they lie. What is shorter is gathered into `buffer`, so that neither small pieces
    nor the ends of large ones cost a pass each.
    """
    n = numbers(tag)
    gathered, filled, position = buffer.ctypes.data, 0, 0
    for piece in range(counts.size):
        first, last = max(begin - position, 0), min(end - position, counts[piece])
        position += counts[piece]
        while first < last:
            address = addresses[piece] + first * n.size
            take = min(last - first, n.chunk - filled)
            if last - first >= n.chunk:
                take = n.chunk
                one_chunk(tag, address, take, addresses[piece] + last * n.size, summing, limbs, state)
            else:
                copied(gathered + filled * n.size, address, take * n.size)
                filled += take
                if filled == n.chunk:
                    one_chunk(tag, gathered, filled, gathered, summing, limbs, state)
                    filled = 0
            first += take
    if filled:
        buffer[filled * n.size : -(-filled * n.size // GROUP_BYTES) * GROUP_BYTES] = 0
        one_chunk(tag, gathered, filled, gathered, summing, limbs, state)
    carry(limbs)


@compiled
def one_chunk(tag: Tag, address: int, count: int, end: int, summing: bool, limbs: Integers, state: Integers) -> None:
    """Add a chunk, or note its largest magnitude.

    Memory is readable, and zero, to the end of the last group. What follows up to the address `end` is next.
    """
    groups = -(-count * numbers(tag).size // GROUP_BYTES)
    if not summing:
        note_largest(tag, address, groups, end, state)
    elif state[CAREFUL] > 0 or not add_fast(tag, address, groups, end, limbs, state):
        state[CAREFUL] = CAREFUL_CHUNKS if state[CAREFUL] <= 0 else state[CAREFUL] - 1
        add_careful(tag, address, groups, end, limbs, state)


@compiled
def add_fast(tag: Tag, address: int, groups: int, end: int, limbs: Integers, state: Integers) -> bool:
    """Add a chunk in one pass; in a second where the window was wrong. False, and nothing added, where none fits."""
    n = numbers(tag)
    while True:
        window = state[WINDOW]
        found = fast_pass(tag, address, groups, end, window)
        largest, smallest = found[2 * n.fast_levels] + 1, found[2 * n.fast_levels + 1] + 1
        if largest == 0:
            return True
        if smallest < n.usable_low or largest >= n.usable_high:
            return False
        lowest = max(top(n, largest), n.fast_lowest)
        highest = min(bottom(n, smallest) + n.fast_span, n.fast_highest)
        if lowest <= window <= highest:
            for level in range(n.fast_levels):
                unit = window - n.fast_width - level * n.fast_step
                add(limbs, state, found[2 * level], found[2 * level + 1], unit)
            return True
        if lowest > highest:
            return False
        state[WINDOW] = (lowest + highest) // 2


@compiled
def add_careful(tag: Tag, address: int, groups: int, end: int, limbs: Integers, state: Integers) -> None:
    """Add a chunk of any contents: windows from the largest magnitude down until nothing is left."""
    n = numbers(tag)
    found = survey_pass(tag, address, groups, end)
    largest, smallest = found[0] + 1, found[1] + 1
    if largest == 0:
        return
    if smallest < n.usable_low or largest >= n.usable_high:
        add_one_by_one(tag, address, groups, limbs, state)
    if largest >= n.usable_high:
        largest = careful_pass(tag, address, groups, 0, n.usable_high, n.usable_high)[2 * n.careful_levels]
    while largest >= n.usable_low:
        window = max(top(n, largest), n.careful_lowest)
        low = max(lowest_pattern(n, window - n.careful_span), n.usable_low)
        digits = careful_pass(tag, address, groups, window, low, largest + 1)
        for level in range(n.careful_levels):
            unit = window - n.careful_width - level * n.careful_step
            add(limbs, state, digits[2 * level], digits[2 * level + 1], unit)
        largest = digits[2 * n.careful_levels]


@compiled
def note_largest(tag: Tag, address: int, groups: int, end: int, state: Integers) -> None:
    """Note the largest finite magnitude pattern of a chunk, and count what is not finite."""
    n = numbers(tag)
    largest = survey_pass(tag, address, groups, end)[0] + 1
    if largest >= n.special:
        for place in range(groups * GROUP_BYTES // n.size):
            count_special(n, word_at(tag, address + place * n.size) & n.mask, state)
        largest = careful_pass(tag, address, groups, 0, n.special, n.special)[2 * n.careful_levels]
    state[LARGEST] = max(state[LARGEST], largest)


# ---- one value at a time


@compiled
def add_one_by_one(tag: Tag, address: int, groups: int, limbs: Integers, state: Integers) -> None:
    """Add, by integer arithmetic, the values that no vector pass takes; count those that are not finite."""
    n = numbers(tag)
    values = GROUP_BYTES // n.size
    for group in range(groups):
        start, some = address + group * GROUP_BYTES, 0
        for place in range(values):
            magnitude = word_at(tag, start + place * n.size) & n.mask
            some += (0 < magnitude < n.usable_low) or magnitude >= n.usable_high
        for place in range(values if some else 0):
            magnitude = word_at(tag, start + place * n.size) & n.mask
            if magnitude >= n.special:
                count_special(n, magnitude, state)
            elif 0 < magnitude < n.usable_low or magnitude >= n.usable_high:
                add_value(n, magnitude, limbs, state)


@compiled
def count_special(n: Numbers, magnitude: int, state: Integers) -> None:
    """Count a NaN or an infinity; nothing else."""
    state[INFS] += magnitude == n.special
    state[NANS] += magnitude > n.special


@compiled
def add_value(n: Numbers, magnitude: int, limbs: Integers, state: Integers) -> None:
    """Add one finite value or its square: its mantissa is an integer, and so is the square of that."""
    field = magnitude >> n.mantissa
    mantissa = magnitude - (max(field - 1, 0) << n.mantissa)
    unit = n.order * (max(field, 1) - n.bias - n.mantissa)
    if n.order == 1:
        add(limbs, state, mantissa, 0, unit)
        return
    high, low = mantissa >> 26, mantissa & ((1 << 26) - 1)
    add(limbs, state, low * low, 0, unit)
    add(limbs, state, high * low, 0, unit + 27)
    add(limbs, state, high * high, 0, unit + 52)


# ---- windows and limbs


@compiled
def top(n: Numbers, magnitude: int) -> int:
    """The lowest window for a term of that pattern: the term is below 2**(window - 1)."""
    return n.order * (max(magnitude >> n.mantissa, 1) - n.bias + 1) + 1


@compiled
def bottom(n: Numbers, magnitude: int) -> int:
    """The exponent of the lowest bit that a term of that pattern can have."""
    return n.order * (max(magnitude >> n.mantissa, 1) - n.bias - n.mantissa)


@compiled
def lowest_pattern(n: Numbers, exponent: int) -> int:
    """The lowest pattern whose `bottom` is not below `exponent`."""
    field = -(-exponent // n.order) + n.bias + n.mantissa
    return field << n.mantissa if field > 1 else 1


@compiled
def add(limbs: Integers, state: Integers, low: int, high: int, exponent: int) -> None:
    """Add (low + high x 2**32) x 2**exponent to the limbs; -2**36 <= low < 2**54 and -2**33 <= high <= 2**33."""
    place, shift = (exponent - GRID_EXPONENT) >> 5, (exponent - GRID_EXPONENT) & 31
    high += low >> LIMB_BITS
    low = (low & LIMB_MASK) << shift
    middle = (high & LIMB_MASK) << shift
    limbs[place] += low & LIMB_MASK
    limbs[place + 1] += (low >> LIMB_BITS) + (middle & LIMB_MASK)
    limbs[place + 2] += (middle >> LIMB_BITS) + ((high >> LIMB_BITS) << shift)
    # This moves a limb by less than 2**34, so that many additions cannot overflow one.
    state[ADDITIONS] += 1
    if state[ADDITIONS] >= CARRY_AFTER:
        carry(limbs)
        state[ADDITIONS] = 0


@compiled
def carry(limbs: Integers) -> None:
    """Bring every limb but the last back into [0, 2**32); the sum does not change."""
    for place in range(limbs.size - 1):
        limbs[place + 1] += limbs[place] >> LIMB_BITS
        limbs[place] &= LIMB_MASK
