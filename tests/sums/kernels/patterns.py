"""Gradients as bit patterns: what a kernel meets, and what is made to trip it."""

from __future__ import annotations

import random
from functools import cache

from shardproof.sums.kernels import Format


def random_patterns(format: Format, count: int, seed: int = 0) -> list[int]:
    """Any bit pattern at all: every exponent, subnormals, NaN, infinities."""
    generator = random.Random(seed)
    return [generator.getrandbits(8 * format.bits.size) for _ in range(count)]


def within(format: Format, count: int, lowest: int, highest: int, seed: int = 0) -> list[int]:
    """Finite values of both signs with an exponent field from `lowest` to `highest`."""
    bits, generator = format.bits, random.Random(seed)
    return [
        generator.getrandbits(1) << (bits.exponent + bits.mantissa)
        | generator.randint(lowest, highest) << bits.mantissa
        | generator.getrandbits(bits.mantissa)
        for _ in range(count)
    ]


def corner_patterns(format: Format) -> list[int]:
    """Zeros, the smallest and largest subnormals, ones, the largest finite values, and what lies beyond."""
    bits = format.bits
    one = bits.bias << bits.mantissa
    magnitudes = [0, 1, 2, 3, (1 << bits.mantissa) - 1, 1 << bits.mantissa, one - 1, one, one + 1]
    magnitudes += [bits.first_special - 2, bits.first_special - 1, bits.first_special, bits.magnitude_mask]
    kept = [magnitude for magnitude in magnitudes if magnitude <= bits.magnitude_mask]
    return kept + [magnitude | bits.magnitude_mask + 1 for magnitude in kept]


@cache
def streams(format: Format) -> dict[str, list[int]]:
    """Named runs of 5,000 to 20,000 values, long enough to cross chunks of any kernel's size."""
    bits = format.bits
    top = (bits.first_special - 1) >> bits.mantissa
    middle = top // 2
    near = within(format, 6000, max(middle - 3, 1), middle, 1)
    largest_finite = bits.first_special - 1
    return {
        "all equal": [(middle << bits.mantissa) | 1] * 20_000,
        "all the largest": [largest_finite] * 9_000,
        "all the smallest": [1] * 9_000,
        "all zero": [0, bits.magnitude_mask + 1 if bits.specials != "fnuz" else 0] * 2_500,
        "close together": near,
        "wide": within(format, 9_000, 0, top - 1, 2),
        "up and down": [p for p in within(format, 12, 1, top - 1, 3) for _ in range(700)],
        "one tiny value in every chunk": [1 if i % 500 == 77 else p for i, p in enumerate(near)],
        "one huge value late": [*near, largest_finite, *near],
        "zeros between": [0 if i % 3 else p for i, p in enumerate(near)],
        "subnormals": [p % (1 << bits.mantissa) for p in near],
        "non-finite between": [bits.magnitude_mask if i % 400 == 3 else p for i, p in enumerate(near)],
        "any pattern": random_patterns(format, 9_000, 4),
    }
