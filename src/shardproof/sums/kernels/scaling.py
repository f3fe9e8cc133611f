"""Vector code and compiled loops that scale in place: float64(value) x factor, rounded once to the format."""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types

from shardproof.sums.kernels import emit
from shardproof.sums.kernels.emit import F16, F32, F64, I32, I64, Value
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.sweeps import Bytes, Integers, compiled
from shardproof.sums.kernels.tags import GROUP_BYTES, Tag, TagType, copied, emitted, numbers

_INT: Final = types.int64


def emit_scaling(b: Value, format: Format, address: Value, groups: Value, end: Value, factor: Value) -> None:
    """Emit the loop over `groups` groups of memory."""
    bits = 8 * format.bits.size
    words = ir.VectorType(ir.IntType(bits), 8 * emit.VECTOR_BYTES // bits)
    factors = emit.splat(b, factor, 8)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        for pointer in pointers:
            word = b.load(pointer, align=1)
            b.store(_scaled(b, format, word, factors), pointer, align=1)
        return state

    emit.loop(b, words, address, groups, [], body, end)


def _scaled(b: Value, format: Format, word: Value, factors: Value) -> Value:
    match format:
        case Format.FLOAT64:
            return b.bitcast(b.fmul(emit.retyped(b, word, F64), factors), word.type)
        case Format.FLOAT32:
            wide = [emit.widened(b, part, F64) for part in emit.slices(b, emit.retyped(b, word, F32), 8)]
            narrow = [b.fptrunc(b.fmul(part, factors), ir.VectorType(F32, 8)) for part in wide]
            return b.bitcast(emit.joined(b, narrow), word.type)
        case Format.FLOAT16:
            halves = [emit.widened(b, part, F32) for part in emit.slices(b, emit.retyped(b, word, F16), 16)]
            rounded = [_rounded(b, half, factors, mantissa=10, lowest=-14) for half in halves]
            narrow = [b.fptrunc(part, ir.VectorType(F16, 16)) for part in rounded]
            return b.bitcast(emit.joined(b, narrow), word.type)
        case _:
            return _scaled_bfloat16(b, word, factors)


def _scaled_bfloat16(b: Value, word: Value, factors: Value) -> Value:
    pairs = emit.retyped(b, word, I32)
    upper = b.and_(pairs, emit.same(pairs.type, 0xFFFF0000))
    lower = b.shl(pairs, emit.same(pairs.type, 16))
    upper, lower = (
        b.bitcast(_rounded(b, emit.retyped(b, half, F32), factors, mantissa=7, lowest=-126), pairs.type)
        for half in (upper, lower)
    )
    # A rounded result has nothing in its lower half; a NaN may have, and would spill over without the mask.
    upper = b.and_(upper, emit.same(pairs.type, 0xFFFF0000))
    return b.bitcast(b.or_(upper, b.lshr(lower, emit.same(pairs.type, 16))), word.type)


def _rounded(b: Value, values: Value, factors: Value, *, mantissa: int, lowest: int) -> Value:
    """float32 values x factors, rounded once to `mantissa` bits after the leading one, as float32.

    `lowest` is the exponent of the smallest normal number: below it, the unit of rounding stays the same.
    """
    parts = []
    for part in emit.slices(b, values, 8):
        product = b.fmul(emit.widened(b, part, F64), factors)
        pattern = b.bitcast(product, ir.VectorType(I64, 8))
        field = b.and_(pattern, emit.same(pattern.type, 0x7FF << 52))
        field = emit.intrinsic(b, "umax", field, emit.same(pattern.type, (1023 + lowest) << 52))
        # Adding a number whose unit is the wanted one, and taking it off again, rounds; 1.5 keeps a negative
        # product in the same binade.
        magic = b.add(field, emit.same(pattern.type, ((52 - mantissa) << 52) | (1 << 51)))
        magic = b.bitcast(magic, product.type)
        parts.append(b.fptrunc(b.fsub(b.fadd(product, magic), magic), ir.VectorType(F32, 8)))
    return _with_signs(b, emit.joined(b, parts), values)


def _with_signs(b: Value, results: Value, values: Value) -> Value:
    """The signs of the values: a product that rounds to zero has lost its own."""
    integers = ir.VectorType(I32, values.type.count)
    sign = emit.same(integers, 0x80000000)
    kept = b.and_(b.bitcast(values, integers), sign)
    magnitude = b.and_(b.bitcast(results, integers), emit.same(integers, 0x7FFFFFFF))
    return b.bitcast(b.or_(magnitude, kept), values.type)


@emitted
def scaled_groups(_: Any, tag: TagType, address: Any, groups: Any, end: Any, factor: Any) -> Any:
    """Scale `groups` groups of memory in place."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        emit_scaling(b, tag.format, *args[1:])
        return context.get_dummy_value()

    return types.void(tag, _INT, _INT, _INT, types.float64), generate


@emitted
def byte_at(_: Any, address: Any) -> Any:
    """The byte at an address."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.zext(b.load(b.inttoptr(args[0], emit.BYTE.as_pointer())), I64)

    return _INT(_INT), generate


@emitted
def set_byte(_: Any, address: Any, value: Any) -> Any:
    """Write the byte at an address."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        b.store(b.trunc(args[1], emit.BYTE), b.inttoptr(args[0], emit.BYTE.as_pointer()))
        return context.get_dummy_value()

    return types.void(_INT, _INT), generate


@compiled
def scale_sweep(
    tag: Tag,
    addresses: Integers,
    counts: Integers,
    begin: int,
    end: int,
    factor: float,
    buffer: Bytes,
) -> None:
    """Scale values `begin` to `end` of all pieces laid end to end; the last group of a piece by way of a copy."""
    n = numbers(tag)
    copy, position = buffer.ctypes.data, 0
    for piece in range(counts.size):
        first, last = max(begin - position, 0), min(end - position, counts[piece])
        position += counts[piece]
        if first < last:
            address, size = addresses[piece] + first * n.size, (last - first) * n.size
            groups = size // GROUP_BYTES
            if groups:
                scaled_groups(tag, address, groups, address + size, factor)
            rest = size - groups * GROUP_BYTES
            if rest:
                copied(copy, address + size - rest, rest)
                scaled_groups(tag, copy, 1, copy, factor)
                copied(address + size - rest, copy, rest)


# ---- formats of one byte


@compiled
def count_bytes(addresses: Integers, counts: Integers, begin: int, end: int, table: Integers) -> None:
    """Count each byte in a table of 4 x 256: equal neighbours go to different rows and do not wait for each other."""
    position = 0
    for piece in range(counts.size):
        first, last = max(begin - position, 0), min(end - position, counts[piece])
        position += counts[piece]
        for place in range(first, last):
            table[place & 3, byte_at(addresses[piece] + place)] += 1


@compiled
def replace_bytes(addresses: Integers, counts: Integers, begin: int, end: int, table: Integers) -> None:
    """Replace each byte by its entry in a table of 256."""
    position = 0
    for piece in range(counts.size):
        first, last = max(begin - position, 0), min(end - position, counts[piece])
        position += counts[piece]
        for place in range(first, last):
            address = addresses[piece] + place
            set_byte(address, table[byte_at(address)])
