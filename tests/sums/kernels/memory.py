"""Bit patterns laid out in real memory for the kernels to read, and what they stand for as fractions."""

from __future__ import annotations

import ctypes
import math
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import chain

from shardproof.sums import GRID_EXPONENT
from shardproof.sums.kernels import Format, Kernel, Order, Tally, scale, tally

CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}
GUARD = b"\xa5"


@dataclass
class Pieces:
    """Pieces of patterns in one block of memory, each at an address of its own, with guards between them."""

    format: Format
    pieces: Sequence[Sequence[int]]
    offset: int = 0
    addresses: list[int] = field(init=False)

    def __post_init__(self) -> None:
        size, gap = self.format.bits.size, 16
        self.counts = [len(piece) for piece in self.pieces]
        self._memory = ctypes.create_string_buffer(GUARD * (sum(self.counts) * size + gap * (len(self.counts) + 4)))
        self.addresses, at = [], ctypes.addressof(self._memory) + gap + self.offset
        for piece in self.pieces:
            packed = struct.pack(f"={len(piece)}{CODES[size]}", *piece)
            ctypes.memmove(at, packed, len(packed))
            self.addresses.append(at)
            at += len(packed) + gap

    @property
    def arguments(self) -> tuple[Format, list[int], list[int]]:
        """The first arguments of every kernel function."""
        return self.format, self.addresses, self.counts

    def read(self) -> list[list[int]]:
        """The patterns as they stand in memory now."""
        size = self.format.bits.size
        return [
            list(struct.unpack(f"={count}{CODES[size]}", ctypes.string_at(address, count * size)))
            for address, count in zip(self.addresses, self.counts, strict=True)
        ]

    def guards_are_whole(self) -> bool:
        """Whether every byte outside the pieces still has its first value."""
        raw, start = bytearray(self._memory.raw[:-1]), ctypes.addressof(self._memory)
        for address, count in reversed(list(zip(self.addresses, self.counts, strict=True))):
            del raw[address - start : address - start + count * self.format.bits.size]
        return set(raw) == set(GUARD)


@lru_cache(maxsize=1 << 17)
def value_of(format: Format, pattern: int) -> Fraction | float:
    """What a pattern stands for, from the formats' definition; NaN and infinities as floats."""
    bits = format.bits
    width = bits.exponent + bits.mantissa
    sign, magnitude = pattern >> width, pattern & ((1 << width) - 1)
    exponent, fraction = magnitude >> bits.mantissa, magnitude & ((1 << bits.mantissa) - 1)
    if bits.specials == "ieee" and exponent == (1 << bits.exponent) - 1:
        return math.nan if fraction else math.copysign(math.inf, -sign)
    if bits.specials == "fn" and magnitude == (1 << width) - 1:
        return math.nan
    if bits.specials == "fnuz" and pattern == 1 << width:
        return math.nan
    mantissa = Fraction(fraction, 1 << bits.mantissa) + (exponent > 0)
    return (-1) ** sign * mantissa * Fraction(2) ** (max(exponent, 1) - bits.bias)


def counted(format: Format, pieces: Sequence[Sequence[int]]) -> list[tuple[Fraction | float, int]]:
    """Each value that occurs, and how often."""
    return [(value_of(format, pattern), times) for pattern, times in Counter(chain(*pieces)).items()]


def expected_tally(format: Format, pieces: Sequence[Sequence[int]], order: int) -> Tally:
    """The tally by rational arithmetic."""
    values = counted(format, pieces)
    total = sum((abs(v) ** order * times for v, times in values if isinstance(v, Fraction)), Fraction(0))
    on_grid = total / Fraction(2) ** GRID_EXPONENT
    assert on_grid.denominator == 1
    nans = sum(times for v, times in values if isinstance(v, float) and math.isnan(v))
    infs = sum(times for v, times in values if isinstance(v, float) and math.isinf(v))
    return Tally(int(on_grid), nans, infs)


@lru_cache(maxsize=1 << 17)
def expected_scaled(format: Format, pattern: int, factor: float) -> Fraction | float:
    """float64(value) x factor as a float64, rounded once to the format, ties to even, by fractions."""
    value = value_of(format, pattern)
    if isinstance(value, float):
        return value * factor
    exact = Fraction(float(value) * factor)
    if exact == 0:
        return exact
    bits = format.bits
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    exponent -= magnitude < Fraction(2) ** exponent
    unit = Fraction(2) ** (max(exponent, 1 - bits.bias) - bits.mantissa)
    return round(exact / unit) * unit


def sign_of(format: Format, pattern: int) -> int:
    """The sign bit."""
    return pattern >> (format.bits.exponent + format.bits.mantissa)


def check_tally(kernel: Kernel, pieces: Pieces, order: Order, threads: int = 1) -> None:
    """The kernel's tally is that of rational arithmetic, and memory is as it was."""
    assert tally(kernel, *pieces.arguments, order, threads) == expected_tally(pieces.format, pieces.pieces, order)
    assert pieces.read() == [list(piece) for piece in pieces.pieces]


def check_scale(kernel: Kernel, pieces: Pieces, factor: float, threads: int = 1) -> None:
    """The kernel's products are those of rational arithmetic, signs of zeros too, and nothing else has changed."""
    scale(kernel, *pieces.arguments, factor, threads)
    format = pieces.format
    for before, after in zip(pieces.pieces, pieces.read(), strict=True):
        for old, new in zip(before, after, strict=True):
            wanted, found = expected_scaled(format, old, factor), value_of(format, new)
            assert wanted == found or (wanted != wanted and found != found), (hex(old), hex(new))
            if found == found and (found or format.bits.specials != "fnuz"):
                assert sign_of(format, old) == sign_of(format, new), (hex(old), hex(new))
    assert pieces.guards_are_whole()
