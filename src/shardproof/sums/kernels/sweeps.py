"""Compiled loops of the Numba kernel: pieces into chunks, chunks through vector passes, digits into limbs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from shardproof.sums.grid import GRID_EXPONENT, LIMB_BITS, LIMB_MASK, LIMBS
from shardproof.sums.kernels import windows
from shardproof.sums.kernels.tags import (
    GROUP_BYTES,
    Tag,
    copied,
    eight_bytes_at,
    fast_pass,
    numbers,
    set_word_at,
    sieve,
    survey,
    word_at,
)
from shardproof.sums.kernels.windows import Numbers

ROOM: Final = LIMBS + 2
"""Limbs of an accumulator: a number of 64 bits that starts in the last limb of the grid reaches two further."""

CARRY_AFTER: Final = 1 << 28
CAREFUL_CHUNKS: Final = 8
"""After a chunk that no window holds, so many are taken carefully at once."""
SLACK: Final = 4
"""Bits that a window keeps free above the largest term, for the next chunk's."""
NANS, INFS, ADDITIONS, WINDOW, CAREFUL, LARGEST, STATE = range(7)

# Memory that compiled code reaches by address belongs to the caller. An array made there would be freed after the
# last use of its *name*.
CHUNK_BYTES: Final = 1 << 15
BUFFER_BYTES: Final = 2 * CHUNK_BYTES

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
    gathered, spare = buffer.ctypes.data, buffer.ctypes.data + CHUNK_BYTES
    filled, position = 0, 0
    for piece in range(counts.size):
        first, last = max(begin - position, 0), min(end - position, counts[piece])
        position += counts[piece]
        while first < last:
            address = addresses[piece] + first * n.size
            take = min(last - first, n.chunk - filled)
            if last - first >= n.chunk:
                take = n.chunk
                one_chunk(tag, address, take, addresses[piece] + last * n.size, summing, limbs, state, spare)
            else:
                copied(gathered + filled * n.size, address, take * n.size)
                filled += take
                if filled == n.chunk:
                    one_chunk(tag, gathered, filled, gathered, summing, limbs, state, spare)
                    filled = 0
            first += take
    if filled:
        buffer[filled * n.size : -(-filled * n.size // GROUP_BYTES) * GROUP_BYTES] = 0
        one_chunk(tag, gathered, filled, gathered, summing, limbs, state, spare)
    carry(limbs)


top, bottom = compiled(windows.top), compiled(windows.bottom)
lowest_pattern, pattern_above = compiled(windows.lowest_pattern), compiled(windows.pattern_above)


@compiled
def one_chunk(
    tag: Tag, address: int, count: int, end: int, summing: bool, limbs: Integers, state: Integers, spare: int
) -> None:
    """Add a chunk, or note its largest magnitude.

    Memory is readable, and zero, to the end of the last group. What follows up to the address `end` is next.
    """
    groups = -(-count * numbers(tag).size // GROUP_BYTES)
    if not summing:
        note_largest(tag, address, groups, end, state)
    elif state[CAREFUL] > 0:
        state[CAREFUL] -= 1
        add_carefully(tag, address, groups, end, limbs, state, spare)
    elif not add_fast(tag, address, groups, end, limbs, state):
        state[CAREFUL] = CAREFUL_CHUNKS
        add_carefully(tag, address, groups, end, limbs, state, spare)


@compiled
def add_fast(tag: Tag, address: int, groups: int, end: int, limbs: Integers, state: Integers) -> bool:
    """Add a chunk in one pass; in a second where the window was wrong. False, and nothing added, where none fits."""
    n = numbers(tag)
    while True:
        window = state[WINDOW]
        found = fast_pass(tag, address, groups, end, window)
        largest, smallest = found[2 * n.levels] + 1, found[2 * n.levels + 1] + 1
        if largest == 0:
            return True
        if smallest < n.usable_low or largest >= n.usable_high:
            return False
        lowest = max(top(n, largest), n.fast_lowest)
        highest = min(bottom(n, smallest) + n.span, n.fast_highest)
        if lowest <= window <= highest:
            for level in range(n.levels):
                add(limbs, state, found[2 * level], found[2 * level + 1], window - n.width - level * n.step)
            return True
        if lowest > highest:
            state[WINDOW] = min(lowest + SLACK, n.highest)
            return False
        state[WINDOW] = (lowest + highest) // 2


@compiled
def add_carefully(tag: Tag, address: int, groups: int, end: int, limbs: Integers, state: Integers, spare: int) -> None:
    """Add a chunk of any contents: one window after the other, each from the largest magnitude that is left."""
    n = numbers(tag)
    window = min(max(state[WINDOW], n.lowest), n.highest)
    whole = groups
    while groups:
        low = max(lowest_pattern(n, window - n.span), n.usable_low)
        high = max(min(pattern_above(n, window), n.usable_high), low)
        found = sieve(tag, address, groups, end, window, low, high, spare)
        for level in range(n.levels):
            add(limbs, state, found[2 * level], found[2 * level + 1], window - n.width - level * n.step)
        address, groups, end, largest = spare, found[2 * n.levels], spare, found[2 * n.levels + 1]
        if groups and not n.usable_low <= largest < n.usable_high:
            largest = add_one_by_one(tag, spare, groups, limbs, state)
            if largest == 0:
                return
        window = min(max(top(n, largest), n.lowest), n.highest)
        if groups * 4 > whole:
            state[WINDOW] = min(window + SLACK, n.highest)


@compiled
def note_largest(tag: Tag, address: int, groups: int, end: int, state: Integers) -> None:
    """Note the largest finite magnitude pattern of a chunk, and count what is not finite."""
    n = numbers(tag)
    largest = survey(tag, address, groups, end)
    if largest >= n.special:
        largest = 0
        for place in range(groups * GROUP_BYTES // n.size):
            magnitude = word_at(tag, address + place * n.size) & n.mask
            count_special(n, magnitude, state)
            largest = max(largest, magnitude if magnitude < n.special else 0)
    state[LARGEST] = max(state[LARGEST], largest)


# ---- one value at a time


@compiled
def add_one_by_one(tag: Tag, address: int, groups: int, limbs: Integers, state: Integers) -> int:
    """Add, by integer arithmetic, the magnitudes that no vector pass takes; count those that are not finite.

    They are overwritten with zeros. Returns the largest magnitude of the others, 0 where there is none.
    """
    n = numbers(tag)
    largest = 0
    for eight in range(address, address + groups * GROUP_BYTES, 8):
        if eight_bytes_at(eight) == 0:
            continue
        for place in range(eight, eight + 8, n.size):
            magnitude = word_at(tag, place)
            if n.usable_low <= magnitude < n.usable_high:
                largest = max(largest, magnitude)
            elif magnitude > 0:
                if magnitude >= n.special:
                    count_special(n, magnitude, state)
                else:
                    add_value(n, magnitude, limbs, state)
                set_word_at(tag, place, 0)
    return largest


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


# ---- limbs


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
