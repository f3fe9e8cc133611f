"""Exact sums on the device: one launch for any number of tensors of one format, limbs added by integer atomics."""

from __future__ import annotations

import triton
import triton.language as tl

from shardproof.sums.kernels.triton_language import (
    INFS,
    LIMB_BITS,
    LOW,
    NANS,
    ORIGIN,
    WIDTH,
    add_to_limbs,
    find_piece,
    float64_of,
    loaded,
    magnitudes,
    words_at,
)


# Not compiled again for counts that are one, or multiples of 16.
@triton.jit(do_not_specialize=["pieces", "stripes"])
def tally_tiles(
    table: tl.tensor,
    pieces: tl.tensor,
    limbs: tl.tensor,
    stripes: tl.tensor,
    ORDER: tl.constexpr,
    WORD: tl.constexpr,
    ALIGNED: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    MASK: tl.constexpr,
    SPECIAL: tl.constexpr,
    INFINITE: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """Add |value|**ORDER of one tile of one piece to the limbs of the piece's slot.

    `table`: rows of int64 with a column for each piece: address, count, end in tiles, slot. `limbs`: a row of WIDTH
    for each slot and stripe; programs spread over the stripes, so that few wait for the same limb.
    """
    tile = tl.program_id(0).to(tl.int64)
    piece = find_piece(table + 2 * pieces, pieces, tile)
    words = words_at(tl.load(table + piece), WORD, ALIGNED)
    count = tl.load(table + pieces + piece)
    begin = tl.where(piece > 0, tl.load(table + 2 * pieces + piece - 1, mask=piece > 0, other=0), 0)
    slot = tl.load(table + 3 * pieces + piece)
    row = limbs + (slot * stripes + tile % stripes) * WIDTH
    for number in range(BLOCKS):
        start = ((tile - begin) * BLOCKS + number) * BLOCK
        if start < count:
            word = loaded(words, start, count, BLOCK)
            add_block(row, magnitudes(word, MASK, SPECIAL), ORDER, MANTISSA, BIAS, SPECIAL, INFINITE)


@triton.jit
def add_block(
    row: tl.tensor,
    magnitude: tl.tensor,
    ORDER: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    SPECIAL: tl.constexpr,
    INFINITE: tl.constexpr,
) -> None:
    """Add a block by float64 digits where one window holds it, else by integers."""
    large = tl.max(magnitude)
    if MANTISSA == 52:
        add_by_integers(row, magnitude, large, ORDER, MANTISSA, BIAS, SPECIAL, INFINITE)
    else:
        small = tl.min(tl.where(magnitude == 0, SPECIAL, magnitude))
        spread = ORDER * ((large >> MANTISSA) - (small >> MANTISSA))
        # A window of two levels holds 103 bits (docs/exact-sums.md); subnormals have no implicit bit.
        held = (spread <= 102 - ORDER * (MANTISSA + 1)) & (small >= (1 << MANTISSA)) & (large < SPECIAL)
        if held:
            add_by_digits(row, magnitude, large, ORDER, MANTISSA, BIAS)
        else:
            add_by_integers(row, magnitude, large, ORDER, MANTISSA, BIAS, SPECIAL, INFINITE)


@triton.jit
def add_by_digits(
    row: tl.tensor,
    magnitude: tl.tensor,
    large: tl.tensor,
    ORDER: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
) -> None:
    """Two digits of each term by adding magic numbers 1.5 x 2**window: lemmas 1 to 3 of docs/exact-sums.md with d = 52.

    A compiler may fuse x * x into the additions: the square is exact in float64, so nothing changes.
    """
    window = ORDER * ((large >> MANTISSA) - BIAS + 1) + 1
    high_bits = ((window + 1023) << 52) + (1 << 51)
    low_bits = high_bits - (51 << 52)
    high = high_bits.to(tl.float64, bitcast=True)
    low = low_bits.to(tl.float64, bitcast=True)
    # Zeros and normal numbers only, so a shift and an addition make the float64.
    bits = tl.where(magnitude == 0, 0, (magnitude << (52 - MANTISSA)) + ((1023 - BIAS) << 52))
    term = bits.to(tl.float64, bitcast=True)
    if ORDER == 2:
        term = term * term
    first = term + high
    second = (term - (first - high)) + low
    # A digit is at most 2**51, a block has at most 2**11 values: below 2**63.
    firsts = tl.sum(first.to(tl.int64, bitcast=True) - high_bits)
    seconds = tl.sum(second.to(tl.int64, bitcast=True) - low_bits)
    # The lower digits have signs. What they borrow comes off the upper ones, so limbs only ever grow.
    firsts += seconds >> 51
    seconds = seconds & ((1 << 51) - 1)
    unit = window - 52 + ORIGIN
    add_to_limbs(row, firsts, unit)
    add_to_limbs(row, seconds, unit - 51)


@triton.jit
def add_by_integers(
    row: tl.tensor,
    magnitude: tl.tensor,
    large: tl.tensor,
    ORDER: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    SPECIAL: tl.constexpr,
    INFINITE: tl.constexpr,
) -> None:
    """Any finite values by their integer mantissas, limb by limb; counts the others."""
    if large >= SPECIAL:
        special = magnitude >= SPECIAL
        infinite = tl.sum((magnitude == SPECIAL).to(tl.int64)) if INFINITE else large * 0
        tl.atomic_add(row + INFS, infinite, sem="relaxed")
        tl.atomic_add(row + NANS, tl.sum(special.to(tl.int64)) - infinite, sem="relaxed")
        magnitude = tl.where(special, 0, magnitude)
    field = magnitude >> MANTISSA
    mantissa = (magnitude & ((1 << MANTISSA) - 1)) + tl.where(field > 0, 1 << MANTISSA, 0).to(tl.int64)
    position = ORDER * (tl.maximum(field, 1) - BIAS - MANTISSA) + ORIGIN
    if ORDER == 1:
        add_terms(row, mantissa, position)
    elif MANTISSA < 32:
        add_terms(row, mantissa * mantissa, position)
    else:
        # (upper x 2**26 + lower)**2; every product is below 2**54.
        upper = mantissa >> 26
        lower = mantissa & ((1 << 26) - 1)
        add_terms(row, lower * lower, position)
        add_terms(row, upper * lower, position + 27)
        add_terms(row, upper * upper, position + 52)


@triton.jit
def add_terms(row: tl.tensor, term: tl.tensor, position: tl.tensor) -> None:
    """Add term x 2**position for each value, 0 <= term < 2**54: for each limb, the bits that fall into it."""
    some = term > 0
    limb = tl.min(tl.where(some, position >> 5, WIDTH))
    last = tl.max(tl.where(some, (position >> 5) + 2, -1))
    while limb <= last:
        shift = position - limb * LIMB_BITS
        up = term << tl.minimum(tl.maximum(shift, 0), 31)
        down = term >> tl.minimum(tl.maximum(-shift, 0), 63)
        bits = tl.where(shift >= LIMB_BITS, 0, tl.where(shift >= 0, up, down)) & LOW
        total = tl.sum(bits)
        tl.atomic_add(row + limb, total & LOW, sem="relaxed")
        tl.atomic_add(row + limb + 1, total >> 32, sem="relaxed")
        limb += 1


@triton.jit(do_not_specialize=["pieces"])
def largest_tiles(
    table: tl.tensor,
    pieces: tl.tensor,
    tops: tl.tensor,
    counts: tl.tensor,
    WORD: tl.constexpr,
    ALIGNED: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    MASK: tl.constexpr,
    SPECIAL: tl.constexpr,
    INFINITE: tl.constexpr,
    BLOCK: tl.constexpr,
    BLOCKS: tl.constexpr,
) -> None:
    """Raise tops[slot] to the float64 pattern of the largest finite magnitude of a tile; count NaN and infinities.

    Patterns of nonnegative float64 have the order of the numbers, so the maximum is one of integers.
    """
    tile = tl.program_id(0).to(tl.int64)
    piece = find_piece(table + 2 * pieces, pieces, tile)
    words = words_at(tl.load(table + piece), WORD, ALIGNED)
    count = tl.load(table + pieces + piece)
    begin = tl.where(piece > 0, tl.load(table + 2 * pieces + piece - 1, mask=piece > 0, other=0), 0)
    slot = tl.load(table + 3 * pieces + piece)
    for number in range(BLOCKS):
        start = ((tile - begin) * BLOCKS + number) * BLOCK
        if start < count:
            magnitude = magnitudes(loaded(words, start, count, BLOCK), MASK, SPECIAL)
            special = magnitude >= SPECIAL
            found = tl.sum(special.to(tl.int64))
            if found > 0:
                infinite = tl.sum((magnitude == SPECIAL).to(tl.int64)) if INFINITE else found * 0
                tl.atomic_add(counts, found - infinite, sem="relaxed")
                tl.atomic_add(counts + 1, infinite, sem="relaxed")
            top = float64_of(tl.max(tl.where(special, 0, magnitude)), MANTISSA, BIAS)
            tl.atomic_max(tops + slot, top.to(tl.int64, bitcast=True), sem="relaxed")
