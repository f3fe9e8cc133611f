"""A thin layer over llvmlite: vectors of 64 bytes, splats, reductions, and a loop over memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

Value = Any  # llvmlite ships no types

I32, I64 = ir.IntType(32), ir.IntType(64)
BYTE = ir.IntType(8)
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()

VECTOR_BYTES: Final = 64
UNROLL: Final = 4
GROUP_BYTES: Final = VECTOR_BYTES * UNROLL
"""A loop's step: memory is read in groups of this size, of any alignment."""
FETCH_AHEAD: Final = 16384
"""Bytes between what a loop reads and what it fetches into the cache for later."""


def same(vector: Value, number: float) -> Value:
    """The constant vector with `number` in every lane."""
    return ir.Constant(vector, [number] * vector.count)


def splat(b: Value, scalar: Value, lanes: int) -> Value:
    """A vector with `scalar` in every lane."""
    vector = ir.VectorType(scalar.type, lanes)
    undefined = ir.Constant(vector, ir.Undefined)
    first = b.insert_element(undefined, scalar, ir.Constant(I32, 0))
    return b.shuffle_vector(first, undefined, same(ir.VectorType(I32, lanes), 0))


def slices(b: Value, vector: Value, lanes: int) -> list[Value]:
    """Cut a vector into vectors of `lanes` lanes."""
    undefined, index = ir.Constant(vector.type, ir.Undefined), ir.VectorType(I32, lanes)
    return [
        b.shuffle_vector(vector, undefined, ir.Constant(index, list(range(start, start + lanes))))
        for start in range(0, vector.type.count, lanes)
    ]


def retyped(b: Value, vector: Value, element: Value) -> Value:
    """The same bits as lanes of another type."""
    lanes = vector.type.count * width(vector.type.element) // width(element)
    return b.bitcast(vector, ir.VectorType(element, lanes))


def widened(b: Value, vector: Value, element: Value) -> Value:
    """The same floats in a wider type; exact."""
    return b.fpext(vector, ir.VectorType(element, vector.type.count))


def width(element: Value) -> int:
    """Bits of a scalar type."""
    return {F16: 16, F32: 32, F64: 64}[element] if isinstance(element, FLOATS) else int(element.width)


FLOATS = (ir.HalfType, ir.FloatType, ir.DoubleType)


def intrinsic(b: Value, name: str, *operands: Value, result: Value = None) -> Value:
    """Call the LLVM intrinsic of that name on operands of one vector type."""
    vector = operands[0].type
    letter = "f" if isinstance(vector.element, FLOATS) else "i"
    full = f"llvm.{name}.v{vector.count}{letter}{width(vector.element)}"
    signature = ir.FunctionType(result or vector, [vector] * len(operands))
    return b.call(b.module.globals.get(full) or ir.Function(b.module, signature, full), operands)


def reduced(b: Value, operation: str, vector: Value) -> Value:
    """One integer from all lanes."""
    return intrinsic(b, f"vector.reduce.{operation}", vector, result=vector.type.element)


def any_lane(b: Value, masks: Sequence[Value]) -> Value:
    """Whether any lane of any mask is set."""
    some = masks[0]
    for mask in masks[1:]:
        some = b.or_(some, mask)
    bits = ir.IntType(some.type.count)
    return b.icmp_unsigned("!=", b.bitcast(some, bits), ir.Constant(bits, 0))


def loop(
    b: Value,
    vector: Value,
    address: Value,
    groups: Value,
    start: Sequence[Value],
    body: Callable[[list[Value], list[Value]], list[Value]],
    end: Value = None,
) -> list[Value]:
    """Emit a loop over `groups` groups of memory (at least one) and return the state that it ends with.

    `body` gets the state and the pointers of a group's vectors, and returns the next state. With `end`, an
    address, what lies ahead but not beyond it is fetched into the cache early.
    """
    entry, block, done = b.block, b.append_basic_block("group"), b.append_basic_block("done")
    b.branch(block)
    b.position_at_end(block)
    state = [b.phi(value.type) for value in (ir.Constant(I64, 0), *start)]
    for phi, value in zip(state, (ir.Constant(I64, 0), *start), strict=True):
        phi.add_incoming(value, entry)
    first = b.add(address, b.mul(state[0], ir.Constant(I64, GROUP_BYTES)))
    addresses = [b.add(first, ir.Constant(I64, place * VECTOR_BYTES)) for place in range(UNROLL)]
    pointers = [b.inttoptr(place, vector.as_pointer()) for place in addresses]
    if end is not None:
        _fetch_ahead(b, addresses, end)
    following = [b.add(state[0], ir.Constant(I64, 1)), *body(state[1:], pointers)]
    for phi, value in zip(state, following, strict=True):
        phi.add_incoming(value, b.block)
    b.cbranch(b.icmp_signed("<", following[0], groups), block, done)
    b.position_at_end(done)
    return following[1:]


def _fetch_ahead(b: Value, addresses: list[Value], end: Value) -> None:
    # The hardware fetches ahead by itself, but not into the next page of 4 KiB. The second-level cache takes more
    # requests at a time than the first: docs/performance.md.
    kinds = [BYTE.as_pointer(), I32, I32, I32]
    prefetch = b.module.declare_intrinsic("llvm.prefetch", kinds[:1], ir.FunctionType(ir.VoidType(), kinds))
    read, second_level, data = ir.Constant(I32, 0), ir.Constant(I32, 2), ir.Constant(I32, 1)
    for address in addresses:
        ahead = b.add(address, ir.Constant(I64, FETCH_AHEAD))
        nearest = b.select(b.icmp_signed("<", ahead, end), ahead, end)
        b.call(prefetch, [b.inttoptr(nearest, kinds[0]), read, second_level, data])


def when(b: Value, condition: Value, state: Sequence[Value], body: Callable[[list[Value]], list[Value]]) -> list[Value]:
    """Emit `body(state) if condition else state`."""
    before, block, after = b.block, b.append_basic_block("when"), b.append_basic_block("after")
    b.cbranch(condition, block, after)
    b.position_at_end(block)
    changed, last = body(list(state)), b.block
    b.branch(after)
    b.position_at_end(after)
    merged = [b.phi(value.type) for value in state]
    for phi, old, new in zip(merged, state, changed, strict=True):
        phi.add_incoming(old, before)
        phi.add_incoming(new, last)
    return merged


def joined(b: Value, parts: Sequence[Value]) -> Value:
    """Vectors side by side, as one; their number is a power of two."""
    while len(parts) > 1:
        lanes = 2 * parts[0].type.count
        index = ir.Constant(ir.VectorType(I32, lanes), list(range(lanes)))
        parts = [b.shuffle_vector(left, right, index) for left, right in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
