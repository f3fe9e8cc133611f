"""Where a scheme's windows lie: from bit patterns to exponents and back."""

from __future__ import annotations

from typing import NamedTuple

from shardproof.sums.kernels.emit import F32
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.vectors import Scheme


class Numbers(NamedTuple):
    """The constants of a scheme. Patterns are magnitude patterns; windows are exponents of two.

    `usable_low` and `usable_high` bound the patterns that vector passes take; others are added one by one. The fast
    pass takes windows from `fast_lowest` to `fast_highest`, the sieve from `lowest` to `highest`.
    """

    order: int
    size: int
    mantissa: int
    bias: int
    mask: int
    special: int
    chunk: int
    levels: int
    width: int
    step: int
    span: int
    usable_low: int
    usable_high: int
    fast_lowest: int
    fast_highest: int
    lowest: int
    highest: int


def numbers_of(scheme: Scheme) -> Numbers:
    """Derive the constants of a scheme."""
    bits, digits = scheme.format.bits, scheme.digits
    # The lowest bit of a window stays a normal float, so that flushing subnormals to zero changes nothing, and the
    # highest magic number is finite.
    lowest, highest = digits.span + 1 - digits.bias, digits.bias - 1
    # Subnormals of float16 are normal float32 once widened, whatever the mode of the CPU; those of others are not.
    low = 1 if scheme.format is Format.FLOAT16 else 1 << bits.mantissa
    found = Numbers(
        order=scheme.order,
        size=bits.size,
        mantissa=bits.mantissa,
        bias=bits.bias,
        mask=bits.magnitude_mask,
        special=bits.first_special,
        # A digit is at most 2**(width - 1), and a chunk has 512 values for a lane of 32 bits, at most 1,024 for one
        # of 64: no lane overflows.
        chunk=4096 if bits.size == 8 else 8192,
        levels=digits.levels,
        width=digits.width,
        step=digits.step,
        span=digits.span,
        usable_low=low,
        usable_high=bits.first_special,
        fast_lowest=lowest,
        fast_highest=highest,
        lowest=lowest,
        highest=highest,
    )
    if digits.element is F32:
        # The sieve scales values into the middle of the range; every window of the format will do.
        return found._replace(lowest=top(found, low), highest=top(found, bits.first_special - 1))
    return found._replace(
        usable_low=max(low, lowest_pattern(found, lowest - digits.span)),
        usable_high=min(bits.first_special, pattern_above(found, highest)),
    )


def top(n: Numbers, magnitude: int) -> int:
    """The lowest window for a term of that pattern: the term is below 2**(window - 1)."""
    return n.order * (max(magnitude >> n.mantissa, 1) - n.bias + 1) + 1


def bottom(n: Numbers, magnitude: int) -> int:
    """The exponent of the lowest bit that a term of that pattern can have."""
    return n.order * (max(magnitude >> n.mantissa, 1) - n.bias - n.mantissa)


def lowest_pattern(n: Numbers, exponent: int) -> int:
    """The lowest pattern whose `bottom` is not below `exponent`."""
    field = -(-exponent // n.order) + n.bias + n.mantissa
    return field << n.mantissa if field > 1 else 1


def pattern_above(n: Numbers, window: int) -> int:
    """The lowest pattern whose `top` is above `window`."""
    field = (window - 1) // n.order - 1 + n.bias
    return (field + 1) << n.mantissa if field > 0 else 0
