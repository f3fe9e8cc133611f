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
    """How one format is summed: the digits of the fast pass, and of the careful one, which has to reach far."""

    format: Format
    order: int
    fast: Digits
    careful: Digits

    @property
    def words(self) -> Value:
        """The vector type that holds bit patterns."""
        bits = 8 * self.format.bits.size
        return ir.VectorType(ir.IntType(bits), 8 * emit.VECTOR_BYTES // bits)


SCHEMES: Final = {
    (format, order): Scheme(format, order, fast, careful)
    for order in (1, 2)
    for format, fast, careful in (
        (Format.FLOAT64, Digits(F64, 3), Digits(F64, 4)),
        (Format.FLOAT32, Digits(F64, 2), Digits(F64, 2)),
        (Format.FLOAT16, Digits(F32, 3), Digits(F64, 2)),
        (Format.BFLOAT16, Digits(F32, 3), Digits(F64, 2)),
    )
}

Term = Callable[[Value], Value]  # adds the term to its argument, in one rounding


def fast_pass(
    b: Value, scheme: Scheme, digits: Digits, address: Value, groups: Value, end: Value, window: Value
) -> list[Value]:
    """Emit the pass that takes every value to lie inside the window; without digits, a mere survey.

    Returns the sums of the digits, highest first, each as two integers: low + high x 2**32; then the largest and
    the smallest nonzero magnitude pattern, each less one (-1 and the largest unsigned number where there is none),
    which tell whether all did lie inside.
    """
    words, magic = scheme.words, _magic(b, digits, window)
    mask, one = emit.same(words, scheme.format.bits.magnitude_mask), emit.same(words, 1)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        *sums, large, small = state
        for pointer in pointers:
            word = b.load(pointer, align=1)
            # Zero wraps round to the smallest signed and the largest unsigned number: it is ignored by both.
            less_one = b.sub(b.and_(word, mask), one)
            large = emit.intrinsic(b, "smax", large, less_one)
            small = emit.intrinsic(b, "umin", small, less_one)
            sums = _added(b, scheme, digits, magic, sums, word)
        return [*sums, large, small]

    none = emit.same(words, -1)
    start = [*[emit.same(digits.integers, 0)] * digits.levels, none, none]
    *sums, large, small = emit.loop(b, words, address, groups, start, body, end)
    return [
        *_totals(b, scheme, digits, magic, sums, groups),
        _as_int64(b, emit.reduced(b, "smax", large), signed=True),
        _as_int64(b, emit.reduced(b, "umin", small), signed=False),
    ]


def careful_pass(
    b: Value, scheme: Scheme, address: Value, groups: Value, window: Value, low: Value, high: Value
) -> list[Value]:
    """Emit the pass that adds only values with low <= magnitude pattern < high; skips groups that have none.

    Returns the sums of the digits, highest first, each as two integers: low + high x 2**32; then the largest
    magnitude pattern below `low`, 0 for none.
    """
    words, magic = scheme.words, _magic(b, scheme.careful, window)
    mask, zero = emit.same(words, scheme.format.bits.magnitude_mask), emit.same(words, 0)
    lows = emit.splat(b, _narrowed(b, low, words.element), words.count)
    reach = emit.splat(b, _narrowed(b, b.sub(high, low), words.element), words.count)

    def body(state: list[Value], pointers: list[Value]) -> list[Value]:
        *sums, entered, below = state
        loaded, inside = [b.load(pointer, align=1) for pointer in pointers], []
        for word in loaded:
            magnitude = b.and_(word, mask)
            inside.append(b.icmp_unsigned("<", b.sub(magnitude, lows), reach))
            under = b.select(b.icmp_unsigned("<", magnitude, lows), magnitude, zero)
            below = emit.intrinsic(b, "umax", below, under)

        def group(state: list[Value]) -> list[Value]:
            *sums, entered = state
            for word, lanes in zip(loaded, inside, strict=True):
                sums = _added(b, scheme, scheme.careful, magic, sums, b.select(lanes, word, zero))
            return [*sums, b.add(entered, ir.Constant(I64, 1))]

        return [*emit.when(b, emit.any_lane(b, inside), [*sums, entered], group), below]

    start = [*[emit.same(scheme.careful.integers, 0)] * scheme.careful.levels, ir.Constant(I64, 0), zero]
    *sums, entered, below = emit.loop(b, words, address, groups, start, body)
    return [
        *_totals(b, scheme, scheme.careful, magic, sums, entered),
        _as_int64(b, emit.reduced(b, "umax", below), signed=False),
    ]


# ---- digits


def _magic(b: Value, digits: Digits, window: Value) -> list[Value]:
    """The magic numbers 1.5 x 2**(window - step x level), as vectors of floats."""
    integer, half = ir.IntType(digits.bits), 1 << (digits.width - 1)
    numbers = []
    for level in range(digits.levels):
        exponent = b.add(window, ir.Constant(I64, digits.bias - digits.step * level))
        pattern = b.or_(b.shl(exponent, ir.Constant(I64, digits.width)), ir.Constant(I64, half))
        number = b.bitcast(_narrowed(b, pattern, integer), digits.element)
        numbers.append(emit.splat(b, number, digits.integers.count))
    return numbers


def _added(b: Value, scheme: Scheme, digits: Digits, magic: list[Value], sums: list[Value], word: Value) -> list[Value]:
    """Add the digits of every value in `word` to the sums."""
    sums = list(sums)
    for values in _decoded(b, scheme.format, word, digits.element):
        for term, level in _terms(b, scheme, values):
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


def _totals(
    b: Value, scheme: Scheme, digits: Digits, magic: list[Value], sums: list[Value], groups: Value
) -> list[Value]:
    """Take the magic numbers' own patterns off again and add the lanes: low x 1 and high x 2**32 for each level."""
    vectors = emit.UNROLL * (scheme.words.count // digits.integers.count)
    totals = []
    for level, (number, lanes) in enumerate(zip(magic, sums, strict=True)):
        terms = vectors * (2 if scheme.format is Format.FLOAT64 and scheme.order == 2 and level else 1)
        times = _narrowed(b, b.mul(groups, ir.Constant(I64, terms)), digits.integers.element)
        pattern = b.bitcast(number, digits.integers)
        exact = b.sub(lanes, b.mul(pattern, emit.splat(b, times, digits.integers.count)))
        totals += _low_and_high(b, exact, signed=level > 0)
    return totals


def _low_and_high(b: Value, lanes: Value, *, signed: bool) -> list[Value]:
    """The sum of all lanes as two integers of 64 bits: the lower halves' and the upper halves'."""
    if lanes.type.element.width == 32:
        # Digits of the first level are not negative, and may need the bit that others need for their sign.
        wide = ir.VectorType(I64, lanes.type.count)
        return [emit.reduced(b, "add", (b.sext if signed else b.zext)(lanes, wide)), ir.Constant(I64, 0)]
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


def _narrowed(b: Value, number: Value, integer: Value) -> Value:
    return number if integer.width == number.type.width else b.trunc(number, integer)


def _as_int64(b: Value, number: Value, *, signed: bool) -> Value:
    if number.type.width == 64:
        return number
    return b.sext(number, I64) if signed else b.zext(number, I64)
