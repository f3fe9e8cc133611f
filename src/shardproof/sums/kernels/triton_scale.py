"""Scaling on the device, predicated: each program reads its factor and returns at once where it is one."""

from __future__ import annotations

import triton
import triton.language as tl

from shardproof.sums.kernels.triton_language import find_piece, float64_of, loaded, magnitudes, words_at


@triton.jit(do_not_specialize=["pieces"])
def scale_tiles(
    table: tl.tensor,
    pieces: tl.tensor,
    factors: tl.tensor,
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
    """Replace each value by float64(value) x factors[slot], rounded once. `table`: as for `tally_tiles`."""
    tile = tl.program_id(0).to(tl.int64)
    piece = find_piece(table + 2 * pieces, pieces, tile)
    factor = tl.load(factors + tl.load(table + 3 * pieces + piece))
    if factor != 1.0:
        words = words_at(tl.load(table + piece), WORD, ALIGNED)
        count = tl.load(table + pieces + piece)
        begin = tl.where(piece > 0, tl.load(table + 2 * pieces + piece - 1, mask=piece > 0, other=0), 0)
        for number in range(BLOCKS):
            start = ((tile - begin) * BLOCKS + number) * BLOCK
            if start < count:
                index = start + tl.arange(0, BLOCK)
                word = loaded(words, start, count, BLOCK)
                new = scaled(word, factor, MANTISSA, BIAS, MASK, SPECIAL, INFINITE).to(WORD)
                if start + BLOCK <= count:
                    tl.store(words + index, new)
                else:
                    tl.store(words + index, new, mask=index < count)


@triton.jit
def scaled(
    word: tl.tensor,
    factor: tl.tensor,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    MASK: tl.constexpr,
    SPECIAL: tl.constexpr,
    INFINITE: tl.constexpr,
) -> tl.tensor:
    """Patterns of the scaled values; NaN stays as it is, infinite x 0 is NaN."""
    magnitude = magnitudes(word, MASK, SPECIAL)
    # All bits above the magnitude; where the word was widened they repeat its sign and are cut off again.
    sign = word.to(tl.int64) - (word.to(tl.int64) & MASK)
    special = magnitude >= SPECIAL
    product = float64_of(tl.where(special, 0, magnitude), MANTISSA, BIAS) * factor
    bits = product.to(tl.int64, bitcast=True)
    if MANTISSA == 52:
        rounded = bits
    else:
        rounded = rounded_to(bits, MANTISSA, BIAS)
    if SPECIAL > MASK:
        # This format has no negative zero: its pattern is NaN.
        return tl.where(special, word.to(tl.int64), tl.where(rounded == 0, 0, rounded | sign))
    kept = magnitude
    if INFINITE:
        times_factor = tl.where(factor == 0.0, SPECIAL | (1 << (MANTISSA - 1)), SPECIAL)
        kept = tl.where(magnitude == SPECIAL, times_factor, magnitude)
    return tl.where(special, kept, rounded) | sign


@triton.jit
def rounded_to(bits: tl.tensor, MANTISSA: tl.constexpr, BIAS: tl.constexpr) -> tl.tensor:
    """The pattern nearest to a nonnegative float64 given by its bits, ties to even; by integers, rounded once."""
    field = bits >> 52
    # How far the float64 lies below the format's normal numbers: so many bits more are cut off.
    below = tl.maximum(1024 - BIAS - field, 0)
    cut = tl.minimum(below + (52 - MANTISSA), 62)
    # Subnormals of float64 are far below half of any format's smallest number; their implicit bit may be wrong.
    whole = tl.where(below > 0, (bits & ((1 << 52) - 1)) + (1 << 52), bits - ((1023 - BIAS) << 52))
    odd = (whole >> cut) & 1
    one = odd * 0 + 1
    return (whole + ((one << (cut - 1)) - 1 + odd)) >> cut
