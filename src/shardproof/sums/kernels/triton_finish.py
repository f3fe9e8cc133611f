"""From limbs to norm and factor on the device: carries, the correctly rounded root, the verdict over all ranks."""

from __future__ import annotations

from typing import Final

import triton
import triton.language as tl

from shardproof.sums.grid import GRID_EXPONENT, LIMBS
from shardproof.sums.kernels.triton_language import LIMB_BITS, LOW, WIDTH

COUNT: Final = tl.constexpr(LIMBS)
LANES: Final = tl.constexpr(256)
GRID: Final = tl.constexpr(GRID_EXPONENT)
HALF: Final = tl.constexpr((1 << 54) - 1)
INFINITY: Final = tl.constexpr(0x7FF << 52)
LAST_FIELD: Final = tl.constexpr(0x7FD)
NOT_A_NUMBER: Final = tl.constexpr(0x7FF8 << 48)


@triton.jit
def carry(before: tl.tensor, after: tl.tensor) -> tl.tensor:
    """What two neighbouring runs of limbs do to a carry: 0 stops it, 1 makes one, 2 hands on what comes from below."""
    return tl.where(after == 2, before, after)


@triton.jit
def carry_free(row: tl.tensor, index: tl.tensor) -> tl.tensor:
    """Limb `index` and the upper half of the one below it: at most 2**32 + 2**31."""
    own = tl.load(row + index, mask=(index >= 0) & (index < COUNT), other=0)
    below = tl.load(row + index - 1, mask=(index >= 1) & (index <= COUNT), other=0)
    return (own & LOW) + (below >> 32)


@triton.jit
def digits_of(row: tl.tensor) -> tl.tensor:
    """The digits in [0, 2**32) of nonnegative limbs, all carries at once: a lane reads its neighbours' limbs itself."""
    index = tl.arange(0, LANES)
    below = carry_free(row, index - 1)
    makes = tl.where(below > LOW, 1, tl.where(below == LOW, 2, 0)).to(tl.int32)
    into = tl.associative_scan(makes, 0, carry)
    # A run that only hands on, down to the lowest limb, hands on nothing.
    return (carry_free(row, index) + tl.where(into == 1, 1, 0)) & LOW


@triton.jit(do_not_specialize=["stripes"])
def merge_stripes(limbs: tl.tensor, stripes: tl.tensor, packed: tl.tensor, counts: tl.tensor) -> None:
    """Add the stripes of one slot, carry, write digits to packed[slot]; add the counts of non-finite values up."""
    slot = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, LANES)
    row = limbs + slot * stripes * WIDTH
    total = tl.load(row + index, mask=index < WIDTH, other=0)
    for stripe in range(1, stripes):
        total += tl.load(row + stripe * WIDTH + index, mask=index < WIDTH, other=0)
    tl.store(row + index, total, mask=index < WIDTH)
    tl.debug_barrier()
    tl.store(packed + slot * COUNT + index, digits_of(row), mask=index < COUNT)
    lone = tl.where(index >= COUNT, total, 0)
    tl.atomic_add(counts, tl.sum(tl.where(index == COUNT, lone, 0)), sem="relaxed")
    tl.atomic_add(counts + 1, tl.sum(tl.where(index == COUNT + 1, lone, 0)), sem="relaxed")


@triton.jit
def digit_at(digits: tl.tensor, place: tl.tensor) -> tl.tensor:
    """One digit of a vector of them; 0 outside."""
    return tl.sum(tl.where(tl.arange(0, LANES) == place, digits, 0))


@triton.jit
def bits_from(digits: tl.tensor, start: tl.tensor) -> tl.tensor:
    """Bits start ... start + 53 of the number that the digits make up."""
    place = start >> 5
    shift = start & 31
    low = digit_at(digits, place) >> shift
    middle = digit_at(digits, place + 1) << (32 - shift)
    # Shifted by 64 or more there is nothing left of it; such a shift is not defined.
    high = digit_at(digits, place + 2) << tl.minimum(64 - shift, 63)
    return (low | middle | high) & HALF


@triton.jit
def placed(exponent: tl.tensor, mantissa: tl.tensor) -> tl.tensor:
    """The float64 pattern of mantissa x 2**(exponent - 1074), mantissa <= 2**53; inf above the largest.

    The leading bit of a normal number adds one to the field; a mantissa that was rounded up to 2**53 adds two.
    """
    pattern = (tl.minimum(exponent, LAST_FIELD) << 52) + mantissa
    return tl.where(exponent > LAST_FIELD, INFINITY, pattern)


@triton.jit
def root_bits(digits: tl.tensor, top: tl.tensor) -> tl.tensor:
    """The float64 pattern of the square root, rounded once, ties up; inf above the largest.

    With q the exponent of the root's last place and Z = floor(4 x sum / 2**2q), the root in units of 2**q, rounded
    half up, is (isqrt(Z) + 1) >> 1: whether (2 r - 1)**2 <= 4 x sum / 2**2q depends on the floor alone, since the left
    side is an integer. Z has at most 108 bits: `high` and `low`.
    """
    # Even, and at least that of the smallest subnormal root.
    start = tl.maximum((top - 106) & -2, -2 * 1074 - 2 - GRID)
    low = bits_from(digits, start)
    high = bits_from(digits, start + 54)
    guess = tl.sqrt(high.to(tl.float64) * 18014398509481984.0 + low.to(tl.float64))
    root = tl.minimum(guess.to(tl.int64), HALF)
    upper = root >> 27
    lower = root & ((1 << 27) - 1)
    cross = 2 * upper * lower
    square_low = lower * lower + ((cross & ((1 << 27) - 1)) << 27)
    square_high = upper * upper + (cross >> 27) + (square_low >> 54)
    rest = ((high - square_high) << 54) + (low - (square_low & HALF))
    # The guess is off by less than 6: three roundings of 2**-53 of a number below 2**54, and the cut.
    for _ in range(8):
        less = rest < 0
        rest = tl.where(less, rest + 2 * root - 1, rest)
        root = tl.where(less, root - 1, root)
    for _ in range(8):
        more = rest > 2 * root
        rest = tl.where(more, rest - 2 * root - 1, rest)
        root = tl.where(more, root + 1, root)
    return placed((start + 2 + GRID) // 2 + 1074, (root + 1) >> 1)


@triton.jit
def value_bits(digits: tl.tensor, top: tl.tensor) -> tl.tensor:
    """The float64 pattern of the sum itself, rounded once, ties to even; inf above the largest."""
    last_place = tl.maximum(top - 52, -1074 - GRID)
    kept = bits_from(digits, last_place - 1)
    place = (last_place - 1) >> 5
    below = tl.max(tl.where(tl.arange(0, LANES) < place, digits, 0))
    part = digit_at(digits, place) & ((tl.full((), 1, tl.int64) << ((last_place - 1) & 31)) - 1)
    half = kept & 1
    kept = kept >> 1
    up = half & tl.where((below | part) > 0, 1, kept & 1)
    return placed(last_place + GRID + 1074, kept + up)


@triton.jit(do_not_specialize=["ranks"])
def finish(
    limbs: tl.tensor,
    header: tl.tensor,
    ranks: tl.tensor,
    limits: tl.tensor,
    eps: tl.tensor,
    norms: tl.tensor,
    factors: tl.tensor,
    ORDER: tl.constexpr,
) -> None:
    """Norm and factor of one sum from the summed packet; NaN and one where ranks disagree or a value is not finite.

    `header`: the first eight words of the packet (shardproof.torch.packet). The norm is that of the exact sum; the
    factor is limit / norm above the limit, or min(1, limit / (norm + eps)) with an eps. `eps` is a pointer, because
    Triton takes a number of Python's as float32.
    """
    row = tl.program_id(0)
    digits = digits_of(limbs + row * COUNT)
    index = tl.arange(0, LANES)
    place = tl.max(tl.where(digits > 0, index, -1))
    leading = digit_at(digits, place)
    top = place.to(tl.int64) * LIMB_BITS - 1
    for bit in range(32):
        top += tl.where((leading >> bit) > 0, 1, 0)
    if ORDER == 2:
        bits = root_bits(digits, top)
    else:
        bits = value_bits(digits, top)
    bits = tl.where(place < 0, 0, bits)
    mark = tl.load(header)
    void = ranks * tl.load(header + 1) - mark * mark
    for word in range(2, 6):
        void = void | tl.load(header + word)
    nans = tl.load(header + 6)
    infs = tl.load(header + 7)
    bits = tl.where(infs > 0, INFINITY, bits)
    bits = tl.where((void != 0) | (nans > 0), NOT_A_NUMBER, bits)
    norm = bits.to(tl.float64, bitcast=True)
    limit = tl.load(limits + row)
    bound = norm + tl.load(eps)
    # A norm of NaN or inf scales nothing. Other lanes divide by one, so that no quotient overflows.
    over = tl.where(bits < INFINITY, bound > limit, False)
    factor = tl.where(over, limit, 1.0) / tl.where(over, bound, 1.0)
    tl.store(norms + row, norm)
    tl.store(factors + row, factor)
