"""Schemes as arguments of compiled functions: each is a Numba type of its own, so each compiles its own code."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final, cast

from llvmlite import ir
from numba import types
from numba.extending import NativeValue, intrinsic, models, register_model, typeof_impl, unbox

from shardproof.sums.kernels import emit, vectors
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.vectors import SCHEMES, Scheme
from shardproof.sums.kernels.windows import Numbers, numbers_of

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
def survey(_: Any, tag: TagType, address: Any, groups: Any, end: Any) -> Any:
    """The largest magnitude pattern, as `vectors.survey` says."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        (large,) = vectors.survey(b, tag.scheme, *args[1:])
        return large

    return _INT(tag, _INT, _INT, _INT), generate


@emitted
def fast_pass(_: Any, tag: TagType, address: Any, groups: Any, end: Any, window: Any) -> Any:
    """The digit sums, then largest and smallest, as `vectors.fast_pass` says."""
    result = types.UniTuple(_INT, 2 * tag.scheme.digits.levels + 2)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return context.make_tuple(b, signature.return_type, vectors.fast_pass(b, tag.scheme, *args[1:]))

    return result(tag, _INT, _INT, _INT, _INT), generate


@emitted
def sieve(
    _: Any, tag: TagType, address: Any, groups: Any, end: Any, window: Any, low: Any, high: Any, spare: Any
) -> Any:
    """The digit sums, then groups kept and the largest in them, as `vectors.sieve` says."""
    result = types.UniTuple(_INT, 2 * tag.scheme.digits.levels + 2)

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return context.make_tuple(b, signature.return_type, vectors.sieve(b, tag.scheme, *args[1:]))

    return result(tag, _INT, _INT, _INT, _INT, _INT, _INT, _INT), generate


@emitted
def word_at(_: Any, tag: TagType, address: Any) -> Any:
    """The bit pattern at an address of any alignment."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        word = tag.scheme.words.element
        loaded = b.load(b.inttoptr(args[1], word.as_pointer()), align=1)
        return loaded if word.width == 64 else b.zext(loaded, emit.I64)

    return _INT(tag, _INT), generate


@emitted
def set_word_at(_: Any, tag: TagType, address: Any, pattern: Any) -> Any:
    """Write a bit pattern to an address of any alignment."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        word = tag.scheme.words.element
        narrow = args[2] if word.width == 64 else b.trunc(args[2], word)
        b.store(narrow, b.inttoptr(args[1], word.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(tag, _INT, _INT), generate


@emitted
def eight_bytes_at(_: Any, address: Any) -> Any:
    """Eight bytes from an address of any alignment, as an integer."""

    def generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
        return b.load(b.inttoptr(args[0], emit.I64.as_pointer()), align=1)

    return _INT(_INT), generate


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
