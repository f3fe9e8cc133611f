"""Vector code of the Numba kernel: passes over memory that split every value or square into exact digits.

Adding a magic number M = 1.5 x 2**w to a term t < 2**(w - 1) rounds t to a multiple of 2**(w - width); the bit
pattern of t + M less that of M *is* that multiple, as an integer, and integers add in any order. What was rounded
off is exact again and goes to the next digit, `step` bits lower. docs/exact-sums.md has the proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llvmlite import ir

from shardproof.sums.kernels import emit
from shardproof.sums.kernels.emit import F16, F32, F64, I64, Value
from shardproof.sums.kernels.formats import Format


@dataclass(frozen=True)
class Digits:
    """Digits of `width` bits, `levels` of them, each `step` bits below the one before, cut by floats of a type."""

    element: Value
    levels: int

    @property
    def bits(self) -> int:
        """Bits of the float, and of the integers that add its patterns."""
        return emit.width(self.element)

    @property
    def width(self) -> int:
        """Bits from the window down to the unit of the first digit: the float's mantissa."""
        return 52 if self.element is F64 else 23

    @property
    def bias(self) -> int:
        """The float's exponent bias."""
        return 1023 if self.element is F64 else 127

    @property
    def step(self) -> int:
        """One less than the width: two magic numbers side by side must fit one float."""
        return self.width - 1

    @property
    def span(self) -> int:
        """Bits from the window down to the unit of the last digit."""
        return self.width + self.step * (self.levels - 1)

    @property
    def integers(self) -> Value:
        """The vector type that adds patterns."""
        return ir.VectorType(ir.IntType(self.bits), 8 * emit.VECTOR_BYTES // self.bits)


@dataclass(frozen=True)
class Scheme:
    """How one format is summed."""

    format: Format
    order: int
    digits: Digits

    @property
    def words(self) -> Value:
        """The vector type that holds bit patterns."""
        bits = 8 * self.format.bits.size
        return ir.VectorType(ir.IntType(bits), 8 * emit.VECTOR_BYTES // bits)


SCHEMES: Final = {
    (format, order): Scheme(format, order, digits)
    for order in (1, 2)
    for format, digits in (
        (Format.FLOAT64, Digits(F64, 3)),
        (Format.FLOAT32, Digits(F64, 2)),
        (Format.FLOAT16, Digits(F32, 3)),
        (Format.BFLOAT16, Digits(F32, 3)),
    )
}

MIDDLE: Final = {1: 3, 2: 5}
"""By order, the window to which float32 values are scaled: the scale of every window is then a normal float32."""

Term = Callable[[Value], Value]  # adds the term to its argument, in one rounding


def survey(b: Value, scheme: Scheme, address: Value, groups: Value, end: Value) -> list[Value]:
    """Emit a pass that finds the largest magnitude pattern, NaN and infinity included."""
    words = scheme.words
    mask = emit.same(words, scheme.format.bits.magnitude_mask)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        (large,) = state
        for pointer in pointers:
            large = emit.intrinsic(b, "umax", large, b.and_(b.load(pointer, align=1), mask))
        return [large]

    (large,) = emit.loop(b, words, address, groups, [emit.same(words, 0)], body, end)
    return [_as_int64(b, emit.reduced(b, "umax", large), signed=False)]


def fast_pass(b: Value, scheme: Scheme, address: Value, groups: Value, end: Value, window: Value) -> list[Value]:
    """Emit the pass that takes every value to lie inside the window.

    Returns the sums of the digits, highest first, each as two integers: low + high x 2**32; then the largest and
    the smallest nonzero magnitude pattern, each less one (-1 and the largest unsigned number where there is none),
    which tell whether all did lie inside.
    """
    words, magic = scheme.words, _magic(b, scheme.digits, window)
    mask, one = emit.same(words, scheme.format.bits.magnitude_mask), emit.same(words, 1)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        *sums, large, small = state
        for pointer in pointers:
            word = b.load(pointer, align=1)
            # Zero wraps round to the smallest signed and the largest unsigned number: it is ignored by both.
            less_one = b.sub(b.and_(word, mask), one)
            large = emit.intrinsic(b, "smax", large, less_one)
            small = emit.intrinsic(b, "umin", small, less_one)
            sums = _added(b, scheme, magic, sums, word)
        return [*sums, large, small]

    none = emit.same(words, -1)
    *sums, large, small = emit.loop(b, words, address, groups, [*_zeros(scheme.digits), none, none], body, end)
    return [
        *_totals(b, scheme, magic, sums, groups),
        _as_int64(b, emit.reduced(b, "smax", large), signed=True),
        _as_int64(b, emit.reduced(b, "umin", small), signed=False),
    ]


def sieve(
    b: Value,
    scheme: Scheme,
    address: Value,
    groups: Value,
    end: Value,
    window: Value,
    low: Value,
    high: Value,
    spare: Value,
) -> list[Value]:
    """Emit the pass that adds only values with low <= magnitude pattern < high, and keeps the others.

    Groups with others go to the memory at `spare`, one after the other, as magnitudes, with zeros for what was
    added. `spare` may be `address`: writing never overtakes reading. Float32 values are scaled first, exactly, by
    a power of two.

    Returns the sums of the digits, highest first, each as two integers: low + high x 2**32; then how many groups
    were kept, and the largest magnitude pattern in them.
    """
    words, zero = scheme.words, emit.same(scheme.words, 0)
    mask = emit.same(words, scheme.format.bits.magnitude_mask)
    lows = emit.splat(b, _narrowed(b, low, words.element), words.count)
    reach = emit.splat(b, _narrowed(b, b.sub(high, low), words.element), words.count)
    factor = None
    if scheme.digits.element is F32:
        factor, window = _scale_to_middle(b, scheme, window)
    magic = _magic(b, scheme.digits, window)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        *sums, kept, large = state
        others, unkept = [], []
        for pointer in pointers:
            magnitude = b.and_(b.load(pointer, align=1), mask)
            inside = b.icmp_unsigned("<", b.sub(magnitude, lows), reach)
            sums = _added(b, scheme, magic, sums, b.select(inside, magnitude, zero), factor)
            other = b.select(inside, zero, magnitude)
            others.append(other)
            unkept.append(b.icmp_unsigned("!=", other, zero))

        def keep(state: list[Value]) -> list[Value]:
            kept, large = state
            for place, other in enumerate(others):
                offset = b.add(b.mul(kept, _int64(emit.GROUP_BYTES)), _int64(place * emit.VECTOR_BYTES))
                b.store(other, b.inttoptr(b.add(spare, offset), words.as_pointer()), align=1)
                large = emit.intrinsic(b, "umax", large, other)
            return [b.add(kept, _int64(1)), large]

        return [*sums, *emit.when(b, emit.any_lane(b, unkept), [kept, large], keep)]

    start = [*_zeros(scheme.digits), _int64(0), zero]
    *sums, kept, large = emit.loop(b, words, address, groups, start, body, end)
    return [
        *_totals(b, scheme, magic, sums, groups),
        kept,
        _as_int64(b, emit.reduced(b, "umax", large), signed=False),
    ]


def _scale_to_middle(b: Value, scheme: Scheme, window: Value) -> tuple[Value, Value]:
    """The vector of the factor 2**k and the window of the scaled values, the nearest to MIDDLE of like parity."""
    k = b.sub(_int64(MIDDLE[scheme.order]), window)
    k = b.ashr(k, _int64(scheme.order - 1))
    pattern = b.shl(b.add(k, _int64(scheme.digits.bias)), _int64(scheme.digits.width))
    factor = b.bitcast(_narrowed(b, pattern, emit.I32), F32)
    return emit.splat(b, factor, scheme.digits.integers.count), b.add(window, b.mul(k, _int64(scheme.order)))


# ---- digits


def _zeros(digits: Digits) -> list[Value]:
    return [emit.same(digits.integers, 0)] * digits.levels


def _magic(b: Value, digits: Digits, window: Value) -> list[Value]:
    """The magic numbers 1.5 x 2**(window - step x level), as vectors of floats."""
    integer, half = ir.IntType(digits.bits), 1 << (digits.width - 1)
    numbers = []
    for level in range(digits.levels):
        exponent = b.add(window, _int64(digits.bias - digits.step * level))
        pattern = b.or_(b.shl(exponent, _int64(digits.width)), _int64(half))
        number = b.bitcast(_narrowed(b, pattern, integer), digits.element)
        numbers.append(emit.splat(b, number, digits.integers.count))
    return numbers


def _added(
    b: Value, scheme: Scheme, magic: list[Value], sums: list[Value], word: Value, factor: Value = None
) -> list[Value]:
    """Add the digits of every value in `word`, times the factor, to the sums."""
    sums = list(sums)
    for values in _decoded(b, scheme.format, word, scheme.digits.element):
        scaled = values if factor is None else b.fmul(values, factor)
        for term, level in _terms(b, scheme, scaled):
            _split(b, magic, sums, term, level)
    return sums


def _terms(b: Value, scheme: Scheme, x: Value) -> list[tuple[Term, int]]:
    """What to add for each value, and the first level at which it can have a digit."""
    if scheme.order == 1:
        return [(_plain(b, emit.intrinsic(b, "fabs", x)), 0)]
    if scheme.format is not Format.FLOAT64:
        return [(lambda addend: emit.intrinsic(b, "fma", x, x, addend), 0)]
    # A square of 106 bits as two floats; the second is below 2**-53 of the first, hence below the first digit.
    high = b.fmul(x, x)
    return [(_plain(b, high), 0), (_plain(b, emit.intrinsic(b, "fma", x, x, b.fneg(high))), 1)]


def _plain(b: Value, number: Value) -> Term:
    return lambda addend: b.fadd(number, addend)


def _split(b: Value, magic: list[Value], sums: list[Value], term: Term, first: int) -> None:
    """Cut one vector of terms into digits from level `first` on and add them to `sums`, in place."""
    for level in range(first, len(magic)):
        if level == first:
            rounded = term(magic[level])
        elif level < len(magic) - 1:
            rest = term(b.fsub(magic[level - 1], rounded))
            term = _plain(b, rest)
            rounded = term(magic[level])
        else:
            # The last digit needs no exact rest: both magic numbers go in at once, and one addition is saved.
            both = b.fadd(magic[level - 1], magic[level])
            rounded = term(b.fsub(both, rounded))
        sums[level] = b.add(sums[level], b.bitcast(rounded, sums[level].type))


def _totals(b: Value, scheme: Scheme, magic: list[Value], sums: list[Value], groups: Value) -> list[Value]:
    """Take the magic numbers' own patterns off again and add the lanes: low x 1 and high x 2**32 for each level."""
    digits = scheme.digits
    vectors = emit.UNROLL * (scheme.words.count // digits.integers.count)
    totals = []
    for level, (number, lanes) in enumerate(zip(magic, sums, strict=True)):
        terms = vectors * (2 if scheme.format is Format.FLOAT64 and scheme.order == 2 and level else 1)
        times = _narrowed(b, b.mul(groups, _int64(terms)), digits.integers.element)
        pattern = b.bitcast(number, digits.integers)
        exact = b.sub(lanes, b.mul(pattern, emit.splat(b, times, digits.integers.count)))
        totals += _low_and_high(b, exact, signed=level > 0)
    return totals


def _low_and_high(b: Value, lanes: Value, *, signed: bool) -> list[Value]:
    """The sum of all lanes as two integers of 64 bits: the lower halves' and the upper halves'."""
    if lanes.type.element.width == 32:
        # Digits of the first level are not negative, and may need the bit that others need for their sign.
        wide = ir.VectorType(I64, lanes.type.count)
        return [emit.reduced(b, "add", (b.sext if signed else b.zext)(lanes, wide)), _int64(0)]
    low = emit.reduced(b, "add", b.and_(lanes, emit.same(lanes.type, 0xFFFFFFFF)))
    return [low, emit.reduced(b, "add", b.ashr(lanes, emit.same(lanes.type, 32)))]


# ---- values


def _decoded(b: Value, format: Format, word: Value, element: Value) -> list[Value]:
    """A vector of patterns as vectors of exact floats of `element`, 64 bytes each."""
    match format:
        case Format.FLOAT64:
            floats = [emit.retyped(b, word, F64)]
        case Format.FLOAT32:
            floats = [emit.retyped(b, word, F32)]
        case Format.FLOAT16:
            floats = [emit.widened(b, part, F32) for part in emit.slices(b, emit.retyped(b, word, F16), 16)]
        case _:
            # bfloat16 is the upper half of a float32; the order of values does not matter to a sum.
            pairs = emit.retyped(b, word, emit.I32)
            upper = b.and_(pairs, emit.same(pairs.type, 0xFFFF0000))
            lower = b.shl(pairs, emit.same(pairs.type, 16))
            floats = [emit.retyped(b, half, F32) for half in (lower, upper)]
    if element is F64 and format is not Format.FLOAT64:
        return [emit.widened(b, part, F64) for wide in floats for part in emit.slices(b, wide, 8)]
    return floats


def _int64(number: int) -> Value:
    return ir.Constant(I64, number)


def _narrowed(b: Value, number: Value, integer: Value) -> Value:
    return number if integer.width == number.type.width else b.trunc(number, integer)


def _as_int64(b: Value, number: Value, *, signed: bool) -> Value:
    if number.type.width == 64:
        return number
    return b.sext(number, I64) if signed else b.zext(number, I64)
