"""The kernel in plain Python: slow and small; it judges the others."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction

from shardproof.errors import InvalidValueError
from shardproof.sums.accumulator import ExactSum
from shardproof.sums.kernels.formats import Bits, Format
from shardproof.sums.kernels.protocol import Largest, Order, Tally

_CHUNK = 1024
_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}


def tally(format: Format, addresses: Sequence[int], counts: Sequence[int], order: Order, threads: int) -> Tally:
    """The exact sum of |value|**order; see shardproof.sums.kernels.tally."""
    total, nans, infs = 0, 0, 0
    for values in _chunks(format, addresses, counts):
        finite = [value for value in values if math.isfinite(value)]
        total += (ExactSum.of_squares(finite) if order == 2 else ExactSum.of_magnitudes(finite)).total
        nans, infs = nans + sum(map(math.isnan, values)), infs + sum(map(math.isinf, values))
    return Tally(total, nans, infs)


def largest(format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int) -> Largest:
    """The largest magnitude; see shardproof.sums.kernels.largest."""
    found = Largest()
    for values in _chunks(format, addresses, counts):
        magnitude = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        found = found.merge(Largest(magnitude, sum(map(math.isnan, values)), sum(map(math.isinf, values))))
    return found


def powers(
    format: Format, addresses: Sequence[int], counts: Sequence[int], p: float, exponent: int, threads: int
) -> Tally:
    """The exact sum of (|value| x 2**-exponent)**p; see shardproof.sums.kernels.powers."""
    total, nans, infs = 0, 0, 0
    for values in _chunks(format, addresses, counts):
        terms = [_power(abs(value), p, exponent) for value in values if math.isfinite(value)]
        total += ExactSum.of_magnitudes(terms).total
        nans, infs = nans + sum(map(math.isnan, values)), infs + sum(map(math.isinf, values))
    return Tally(total, nans, infs)


def scale(format: Format, addresses: Sequence[int], counts: Sequence[int], factor: float, threads: int) -> None:
    """Scale in place; see shardproof.sums.kernels.scale."""
    code = f"={_UNSIGNED[format.bits.size]}"
    for address, count in zip(addresses, counts, strict=True):
        for start, values in _piece(format, address, count):
            patterns = [encoded(format, value * factor) for value in values]
            packed = b"".join(struct.pack(code, pattern) for pattern in patterns)
            ctypes.memmove(address + start * format.bits.size, packed, len(packed))


def decoded(format: Format, pattern: int) -> float:
    """The float64 that a bit pattern stands for; exact.

    >>> decoded(Format.BFLOAT16, 0x3F80), decoded(Format.FLOAT8_E4M3FN, 0x7E)
    (1.0, 448.0)
    """
    bits = format.bits
    magnitude, negative = pattern & bits.magnitude_mask, pattern > bits.magnitude_mask
    if magnitude >= bits.first_special:
        inf = bits.specials == "ieee" and magnitude == bits.first_special
        return math.copysign(math.inf if inf else math.nan, -1.0 if negative else 1.0)
    if bits.specials == "fnuz" and negative and magnitude == 0:
        return math.nan
    field, mantissa = magnitude >> bits.mantissa, magnitude & ((1 << bits.mantissa) - 1)
    value = math.ldexp(mantissa + ((1 << bits.mantissa) if field else 0), bits.unit(field))
    return -value if negative else value


def encoded(format: Format, value: float) -> int:
    """The bit pattern nearest to `value`, ties to even; `value` is no larger than the format's largest.

    >>> hex(encoded(Format.BFLOAT16, 1.0))
    '0x3f80'
    """
    bits = format.bits
    sign = bits.magnitude_mask + 1 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return sign | _nan(bits)
    if math.isinf(value):
        return sign | bits.first_special
    magnitude = _nearest(bits, abs(value))
    return 0 if bits.specials == "fnuz" and magnitude == 0 else sign | magnitude


def _nearest(bits: Bits, magnitude: float) -> int:
    exponent = math.frexp(magnitude)[1] - 1 if magnitude else bits.unit(0)  # frexp gives zero the exponent 0
    unit = max(exponent - bits.mantissa, bits.unit(0))
    steps = round(Fraction(magnitude) / Fraction(2) ** unit)  # ties to even, as Fraction rounds
    # A field is one above its distance to the subnormals; the implicit bit of `steps` adds that one, and a
    # mantissa that rounds up to the next power of two carries into the field.
    return ((unit - bits.unit(0)) << bits.mantissa) + steps


def _nan(bits: Bits) -> int:
    if bits.specials == "ieee":
        return bits.first_special | 1 << (bits.mantissa - 1)
    return bits.magnitude_mask if bits.specials == "fn" else bits.magnitude_mask + 1


def _power(magnitude: float, p: float, exponent: int) -> float:
    try:
        return math.pow(math.ldexp(magnitude, -exponent), p)
    except OverflowError:
        raise InvalidValueError(
            f"Expected an exponent with (|value| x 2**-exponent)**{p:g} inside float64, got "
            f"exponent={exponent} for |value|={magnitude!r}. "
            "Take it from power_exponent(p, largest magnitude over all ranks)."
        ) from None


def _chunks(format: Format, addresses: Sequence[int], counts: Sequence[int]) -> Iterator[list[float]]:
    for address, count in zip(addresses, counts, strict=True):
        for _, values in _piece(format, address, count):
            yield values


def _piece(format: Format, address: int, count: int) -> Iterator[tuple[int, list[float]]]:
    size = format.bits.size
    for start in range(0, count, _CHUNK):
        raw = ctypes.string_at(address + start * size, min(_CHUNK, count - start) * size)
        yield start, _unpacked(format, raw)


def _unpacked(format: Format, raw: bytes) -> list[float]:
    # struct knows the IEEE formats; bfloat16 and e5m2 are the upper halves of two of them.
    match format:
        case Format.FLOAT64:
            return [value for (value,) in struct.iter_unpack("=d", raw)]
        case Format.FLOAT32:
            return [value for (value,) in struct.iter_unpack("=f", raw)]
        case Format.FLOAT16:
            return [value for (value,) in struct.iter_unpack("=e", raw)]
        case Format.BFLOAT16:
            patterns = [pattern << 16 for (pattern,) in struct.iter_unpack("=H", raw)]
            return [value for (value,) in struct.iter_unpack("=f", struct.pack(f"={len(patterns)}I", *patterns))]
        case Format.FLOAT8_E5M2:
            patterns = [pattern << 8 for pattern in raw]
            return [value for (value,) in struct.iter_unpack("=e", struct.pack(f"={len(patterns)}H", *patterns))]
        case _:
            return [decoded(format, pattern) for pattern in raw]
