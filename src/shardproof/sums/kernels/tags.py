"""Schemes as arguments of compiled functions: each is a Numba type of its own, so each compiles its own code."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from llvmlite import ir
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from shardproof.sums.kernels import emit, vectors
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.vectors import SCHEMES, Digits, Scheme

# Numba's disk cache looks at one source file only. The sources of this folder go into the type's name, hence
# into the key, so that a change of any of them compiles again.
_SOURCES: Final = zlib.crc32(b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py"))))

GROUP_BYTES: Final = emit.GROUP_BYTES


@dataclass(frozen=True)
class Tag:
    """A scheme, to hand to a compiled function."""

    format: Format
    order: int


class TagType(types.Type):
    """The Numba type of one tag."""

    def __init__(self, format: Format, order: int) -> None:
        self.format, self.order = format, order
        super().__init__(name=f"Tag({format}, {order}, {_SOURCES})")

    @property
    def scheme(self) -> Scheme:
        """What the tag stands for."""
        return SCHEMES[self.format, self.order]


register_model(TagType)(models.OpaqueModel)


def emitted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's intrinsic: a function that returns a signature and what emits its code. Callers leave out the context."""
    return cast("Callable[..., Any]", intrinsic(function))


_type_of_tag = cache(TagType)  # asked for at every call


@typeof_impl.register(Tag)
def _type_of(tag: Tag, _: object) -> TagType:
    return _type_of_tag(tag.format, tag.order)


@unbox(TagType)
def _unboxed(_: TagType, __: object, context: Any) -> NativeValue:
    return NativeValue(context.context.get_dummy_value())


class Numbers(NamedTuple):
    """The constants of a scheme. Patterns are magnitude patterns; windows are exponents of two.

    The passes take patterns in [usable_low, usable_high); others are added one by one.
    """

    order: int
    size: int
    mantissa: int
    bias: int
    mask: int
    special: int
    usable_low: int
    usable_high: int
    chunk: int
    fast_levels: int
    fast_width: int
    fast_step: int
    fast_span: int
    fast_lowest: int
    fast_highest: int
    careful_levels: int
    careful_width: int
    careful_step: int
    careful_span: int
    careful_lowest: int


def numbers_of(scheme: Scheme) -> Numbers:
    """Derive the constants of a scheme."""
    bits, fast, careful = scheme.format.bits, scheme.fast, scheme.careful
    fast_lowest, fast_highest = windows(fast)
    careful_lowest, careful_highest = windows(careful)
    # Below: lowest bits that stay normal floats, so that flushing subnormals to zero changes nothing. The
    # subnormals of float16 are normal float32 once widened, whatever the mode; those of the others are not.
    low_field = max(1, -(-(careful_lowest - careful.span) // scheme.order) + bits.bias + bits.mantissa)
    high_field = (careful_highest - 1) // scheme.order - 1 + bits.bias
    return Numbers(
        order=scheme.order,
        size=bits.size,
        mantissa=bits.mantissa,
        bias=bits.bias,
        mask=bits.magnitude_mask,
        special=bits.first_special,
        usable_low=1 if scheme.format is Format.FLOAT16 else low_field << bits.mantissa,
        usable_high=min(bits.first_special, (high_field + 1) << bits.mantissa),
        # A digit is at most 2**(width - 1), and a chunk has 512 values for a lane of 32 bits, at most 1,024 for
        # one of 64: no lane overflows.
        chunk=4096 if bits.size == 8 else 8192,  # at most sweeps.BUFFER_BYTES
        fast_levels=fast.levels,
        fast_width=fast.width,
        fast_step=fast.step,
        fast_span=fast.span,
        fast_lowest=fast_lowest,
        fast_highest=fast_highest,
        careful_levels=careful.levels,
        careful_width=careful.width,
        careful_step=careful.step,
        careful_span=careful.span,
        careful_lowest=careful_lowest,
    )


def windows(digits: Digits) -> tuple[int, int]:
    """The lowest and highest window: its lowest bit is a normal float, and so is its highest magic number."""
    return digits.span + 1 - digits.bias, digits.bias - 1


_INT: Final = types.int64


def _constants(b: Any, context: Any, result: Any, numbers: Numbers) -> Any:
    return context.make_tuple(b, result, [ir.Constant(emit.I64, number) for number in numbers])


@emitted
def numbers(_: Any, tag: TagType) -> Any:
    """The scheme's Numbers, as constants."""
    result = types.NamedUniTuple(_INT, len(Numbers._fields), Numbers)
    constants = numbers_of(tag.scheme)
    return result(tag), lambda context, b, signature, args: _constants(b, context, signature.return_type, constants)


@emitted
def fast_pass(_: Any, tag: TagType, address: Any, groups: Any, end: Any, window: Any) -> Any:
    """The digit sums of the fast pass, then largest and smallest, as `vectors.fast_pass` says."""
    result = types.UniTuple(_INT, 2 * tag.scheme.fast.levels + 2)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        outputs = vectors.fast_pass(b, tag.scheme, tag.scheme.fast, *args[1:])
        return context.make_tuple(b, signature.return_type, outputs)

    return result(tag, _INT, _INT, _INT, _INT), generate


@emitted
def survey_pass(_: Any, tag: TagType, address: Any, groups: Any, end: Any) -> Any:
    """Largest and smallest only, as `vectors.fast_pass` says."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        none = Digits(tag.scheme.fast.element, 0)
        no_window = ir.Constant(emit.I64, 0)
        outputs = vectors.fast_pass(b, tag.scheme, none, *[*args[1:], no_window])
        return context.make_tuple(b, signature.return_type, outputs)

    return types.UniTuple(_INT, 2)(tag, _INT, _INT, _INT), generate


@emitted
def careful_pass(_: Any, tag: TagType, address: Any, groups: Any, window: Any, low: Any, high: Any) -> Any:
    """The digit sums of the careful pass, then the largest below, as `vectors.careful_pass` says."""
    result = types.UniTuple(_INT, 2 * tag.scheme.careful.levels + 1)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        outputs = vectors.careful_pass(b, tag.scheme, *args[1:])
        return context.make_tuple(b, signature.return_type, outputs)

    return result(tag, _INT, _INT, _INT, _INT, _INT), generate


@emitted
def word_at(_: Any, tag: TagType, address: Any) -> Any:
    """The bit pattern at an address of any alignment."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        word = tag.scheme.words.element
        loaded = b.load(b.inttoptr(args[1], word.as_pointer()), align=1)
        return loaded if word.width == 64 else b.zext(loaded, emit.I64)

    return _INT(tag, _INT), generate


@emitted
def copied(_: Any, target: Any, source: Any, size: Any) -> Any:
    """Copy `size` bytes from one address to another."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        pointer = emit.BYTE.as_pointer()
        to, origin = (b.inttoptr(address, pointer) for address in args[:2])
        kinds = [pointer, pointer, emit.I64]
        memcpy = b.module.declare_intrinsic("llvm.memcpy", kinds)
        b.call(memcpy, [to, origin, args[2], ir.Constant(ir.IntType(1), 0)])
        return context.get_dummy_value()

    return types.void(_INT, _INT, _INT), generate
