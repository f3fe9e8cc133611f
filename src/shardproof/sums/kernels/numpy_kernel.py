"""The kernel in NumPy: no compiler, and chunks, so that its memory does not grow with the input."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardproof.errors import InvalidValueError
from shardproof.sums.grid import GRID_EXPONENT
from shardproof.sums.kernels.counts import Counts
from shardproof.sums.kernels.formats import Bits, Format
from shardproof.sums.kernels.protocol import Largest, Order, Tally
from shardproof.sums.kernels.python_kernel import decoded, encoded

Words = NDArray[np.unsignedinteger[Any]]
Integers = NDArray[np.uint64]

# Values for each size of a value: intermediate arrays of up to 128 KiB stay in the second-level cache, and eight
# of them at a time, which 64-bit values take, stay below 1 MiB.
CHUNK = {1: 1 << 14, 2: 1 << 14, 4: 1 << 14, 8: 3 << 12}
# A digit is below 2**28 and a chunk's sum of digits below 2**42, so 2**20 chunks stay below 2**62.
_FLUSH = 1 << 20
_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def tally(format: Format, addresses: Sequence[int], counts: Sequence[int], order: Order, threads: int) -> Tally:
    """The exact sum of |value|**order; see shardproof.sums.kernels.tally."""
    chunks = _chunks(format, addresses, counts)
    if format.bits.size <= 2:
        return _counted(format, chunks).tally(order)
    return _tally_digits(format.bits, chunks, order)


def largest(format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int) -> Largest:
    """The largest magnitude; see shardproof.sums.kernels.largest."""
    bits, top, nans, infs = format.bits, 0, 0, 0
    for words in _chunks(format, addresses, counts):
        more_nans, more_infs, finite = _without_specials(bits, words)
        nans, infs = nans + more_nans, infs + more_infs
        if finite.size:
            top = max(top, int((finite & finite.dtype.type(bits.magnitude_mask)).max()))
    return Largest(decoded(format, top), nans, infs)


def powers(
    format: Format, addresses: Sequence[int], counts: Sequence[int], p: float, exponent: int, threads: int
) -> Tally:
    """The exact sum of (|value| x 2**-exponent)**p; see shardproof.sums.kernels.powers."""
    found = Tally()
    for words in _chunks(format, addresses, counts):
        nans, infs, finite = _without_specials(format.bits, words)
        with np.errstate(all="ignore"):
            terms = np.power(np.ldexp(np.abs(_values(format, finite)), -exponent), p)
        if not np.isfinite(terms).all():
            raise InvalidValueError(
                f"Expected an exponent with (|value| x 2**-exponent)**{p:g} inside float64, got "
                f"exponent={exponent}. Take it from power_exponent(p, largest magnitude over all ranks)."
            )
        total = _tally_digits(Format.FLOAT64.bits, iter([terms.view(np.uint64)]), 1).total
        found = found.merge(Tally(total, nans, infs))
    return found


def scale(format: Format, addresses: Sequence[int], counts: Sequence[int], factor: float, threads: int) -> None:
    """Scale in place; see shardproof.sums.kernels.scale."""
    table = _scaled_table(format, factor) if format.bits.size == 1 else None
    for address, count in zip(addresses, counts, strict=True):
        for words in _piece(format, address, count):
            words[...] = _scaled(format, words, factor) if table is None else table[words]


# ---- reading memory


def _chunks(format: Format, addresses: Sequence[int], counts: Sequence[int]) -> Iterator[Words]:
    """Chunks of a limited size; small pieces are gathered, so that none costs a round of calls."""
    chunk = CHUNK[format.bits.size]
    buffer, filled = np.empty(chunk, _UNSIGNED[format.bits.size]), 0
    for address, count in zip(addresses, counts, strict=True):
        for words in _piece(format, address, count):
            if filled + words.size > chunk:
                yield buffer[:filled]
                filled = 0
            if words.size == chunk:
                yield words
            else:
                buffer[filled : filled + words.size] = words
                filled += words.size
    if filled:
        yield buffer[:filled]


def _piece(format: Format, address: int, count: int) -> Iterator[Words]:
    if count == 0:
        return
    size = format.bits.size
    memory = (ctypes.c_char * (count * size)).from_address(address)
    words: Words = np.frombuffer(memoryview(memory), np.dtype(_UNSIGNED[size]))
    for start in range(0, count, CHUNK[size]):
        yield words[start : start + CHUNK[size]]


def _without_specials(bits: Bits, words: Words) -> tuple[int, int, Words]:
    """How many NaN, how many infinite, and the finite patterns (the same array where all are finite)."""
    kind = words.dtype.type
    magnitudes = words & kind(bits.magnitude_mask)
    if bits.specials == "fnuz":
        special = words == kind(bits.magnitude_mask + 1)
    else:
        special = magnitudes >= kind(bits.first_special)
    found = int(np.count_nonzero(special))
    if not found:
        return 0, 0, words
    infs = int(np.count_nonzero(magnitudes == kind(bits.first_special))) if bits.specials == "ieee" else 0
    return found - infs, infs, words[~special]


# ---- 64- and 32-bit formats: digits of the mantissas, added by exponent


def _tally_digits(bits: Bits, chunks: Iterator[Words], order: Order) -> Tally:
    total, nans, infs = 0, 0, 0
    rows: dict[int, NDArray[np.int64]] = {}
    for index, words in enumerate(chunks, 1):
        more_nans, more_infs, finite = _without_specials(bits, words)
        nans, infs = nans + more_nans, infs + more_infs
        fields = ((finite & finite.dtype.type(bits.magnitude_mask)) >> finite.dtype.type(bits.mantissa)).astype(
            np.int64
        )
        for shift, digits in _digits(bits, _mantissas(bits, finite, fields), order):
            # bincount adds in float64: digits below 2**28, 2**14 of them, stay below 2**53 and so exact.
            sums = np.bincount(fields, digits, minlength=1 << bits.exponent).astype(np.int64)
            rows[shift] = rows[shift] + sums if shift in rows else sums
        if index % _FLUSH == 0:
            total, rows = total + _total_of_rows(bits, rows, order), {}
    return Tally(total + _total_of_rows(bits, rows, order), nans, infs)


def _mantissas(bits: Bits, words: Words, fields: NDArray[np.int64]) -> Integers:
    fractions = (words & words.dtype.type((1 << bits.mantissa) - 1)).astype(np.uint64)
    return fractions | ((fields > 0).astype(np.uint64) << np.uint64(bits.mantissa))


def _digits(bits: Bits, mantissas: Integers, order: Order) -> Iterator[tuple[int, Integers]]:
    """Cut mantissa**order into digits below 2**28 and yield them with the exponents of their units."""
    if order == 1:
        yield from _cut(mantissas, 0, bits.mantissa + 1)
    elif bits.mantissa < 32:
        yield from _cut(mantissas * mantissas, 0, 2 * bits.mantissa + 2)
    else:
        # (high x 2**26 + low)**2: every product is below 2**55.
        high, low = mantissas >> np.uint64(26), mantissas & np.uint64((1 << 26) - 1)
        yield from _cut(low * low, 0, 52)
        yield from _cut(high * low, 27, 53)
        yield from _cut(high * high, 52, 54)


def _cut(numbers: Integers, shift: int, width: int) -> Iterator[tuple[int, Integers]]:
    if width <= 28:
        yield shift, numbers
    else:
        yield shift, numbers & np.uint64((1 << 27) - 1)
        yield shift + 27, numbers >> np.uint64(27)


def _total_of_rows(bits: Bits, rows: dict[int, NDArray[np.int64]], order: Order) -> int:
    return sum(
        int(row[field]) << (order * bits.unit(int(field)) + shift - GRID_EXPONENT)
        for shift, row in rows.items()
        for field in np.flatnonzero(row)
    )


# ---- 16- and 8-bit formats: count each pattern, then add pattern by pattern


def _counted(format: Format, chunks: Iterator[Words]) -> Counts:
    bits = format.bits
    magnitudes, lone_signs = np.zeros(bits.magnitude_mask + 1, np.int64), 0
    for words in chunks:
        if bits.specials == "fnuz":
            lone_signs += int(np.count_nonzero(words == words.dtype.type(bits.magnitude_mask + 1)))
        magnitudes += np.bincount(words & words.dtype.type(bits.magnitude_mask), minlength=magnitudes.size)
    return Counts(format, magnitudes, lone_signs)


# ---- values and back


def _values(format: Format, words: Words) -> NDArray[np.float64]:
    """Patterns as float64; exact."""
    match format:
        case Format.FLOAT64 | Format.FLOAT32 | Format.FLOAT16:
            return words.view(format.value).astype(np.float64)
        case Format.BFLOAT16:
            return (words.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
        case _:
            return np.array([decoded(format, pattern) for pattern in range(256)])[words]


def _scaled(format: Format, words: Words, factor: float) -> Words:
    with np.errstate(all="ignore"):
        products = _values(format, words) * factor
        if format is Format.BFLOAT16:
            return _to_bfloat16(products)
        return products.astype(format.value).view(words.dtype)


def _to_bfloat16(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Round to the nearest bfloat16, ties to even, in one rounding.

    float32 rounded to odd (cut off, with the lowest bit set where anything was cut) keeps on which side of a
    tie the float64 lay, so rounding it again to 8 bits gives what rounding once gives.
    """
    nearest = values.astype(np.float32)
    words = nearest.view(np.uint32)
    back = nearest.astype(np.float64)
    away = np.abs(back) > np.abs(values)
    odd = (words - away) | (back != values)
    rounded = (odd + np.uint32(0x7FFF) + ((odd >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(values), (words >> np.uint32(16)) | np.uint32(0x40), rounded).astype(np.uint16)


def _scaled_table(format: Format, factor: float) -> NDArray[np.uint8]:
    values = [decoded(format, pattern) for pattern in range(256)]
    return np.array([encoded(format, value * factor) for value in values], np.uint8)
