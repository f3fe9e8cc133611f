"""The data of a gradient file, read in blocks: its exact sum of squares, and its bytes scaled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from shardproof.errors import InvalidValueError
from shardproof.files.gradient_file import Element, GradientFile, Run
from shardproof.files.opening import identity_of
from shardproof.sums import GRID_EXPONENT
from shardproof.sums.kernels import Format, Kernel, best_kernel, load_kernel, scale, tally

# Reading into one block of this size, rather than mapping the file: memory stays bounded whatever the size of
# the file, and a file that another program cuts short gives an error, not a bus error.
_BLOCK: Final = 1 << 22
# The compiled kernel pays for its loading time only on large files.
_LARGE: Final = 1 << 28

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Block:
    """`data`: whole numbers of one element type that start at byte `offset`, in this machine's byte order."""

    element: Element
    offset: int
    data: Bytes


def kernel_for(files: list[GradientFile]) -> Kernel:
    """Return the kernel whose loading time is worth it for these files; all give the same bits."""
    large = sum(file.size for file in files) >= _LARGE
    return best_kernel() if large else load_kernel("numpy")


def sum_of_squares(file: GradientFile, kernel: Kernel) -> int:
    """Return the exact sum of squares of all elements, as an integer on the grid of `shardproof.sums`.

    Raises:
        InvalidValueError: an element is NaN or infinite (the first is named); the file changed since it was
            opened.
    """
    with file.path.open("rb") as stream:
        _check_unchanged(file, stream)
        return sum(_block_sum(file, block, kernel) for run in file.runs() for block in _blocks(file, stream, run))


def scaled_bytes(file: GradientFile, factor: float, kernel: Kernel) -> Iterator[memoryview]:
    """Yield the whole file with every number replaced by float64(number) x factor, rounded once.

    Header, names, order, shapes, dtypes and metadata are the file's own bytes. With factor one, so is the data.
    """
    with file.path.open("rb") as stream:
        _check_unchanged(file, stream)
        first = min((tensor.offset for tensor in file.tensors), default=file.size)
        yield _read(file, stream, 0, first).data
        for run in file.runs():
            for block in _blocks(file, stream, run):
                if factor != 1.0:
                    _scale_block(file, block, factor, kernel)
                yield _in_file_order(block.element, block.data).data


def _block_sum(file: GradientFile, block: Block, kernel: Kernel) -> int:
    element = block.element
    if element.format is None:
        kind = np.dtype(f"{'i' if element.signed else 'u'}{element.size}")
        # Squared and summed as integers of any width, moved to the grid once.
        numbers: list[int] = block.data.view(kind).tolist()
        return sum(number * number for number in numbers) << -GRID_EXPONENT
    found = tally(kernel, element.format, [block.data.ctypes.data], [block.data.size // element.size], 2)
    if found.nans or found.infs:
        raise _not_finite(file, block, element.format)
    return found.total


def _scale_block(file: GradientFile, block: Block, factor: float, kernel: Kernel) -> None:
    element = block.element
    if element.format is None:
        raise InvalidValueError(
            f"Expected floating-point elements to scale, got {element.name} in {file.path}, "
            f"{file.place(block.offset)}. Scaled integers would have to be rounded to integers."
        )
    scale(kernel, element.format, [block.data.ctypes.data], [block.data.size // element.size], factor)


def _not_finite(file: GradientFile, block: Block, format: Format) -> InvalidValueError:
    bits = format.bits
    words = block.data.view(f"u{bits.size}")
    if bits.specials == "fnuz":
        special = words == bits.magnitude_mask + 1
    else:
        special = (words & words.dtype.type(bits.magnitude_mask)) >= bits.first_special
    first = int(np.flatnonzero(special)[0])
    magnitude = int(words[first]) & bits.magnitude_mask
    kind = "infinite" if bits.specials == "ieee" and magnitude == bits.first_special else "NaN"
    return InvalidValueError(
        f"Expected finite values, got a value that is {kind} in {file.path}, "
        f"{file.place(block.offset + first * bits.size)}. A norm that is not finite gives no factor."
    )


def _blocks(file: GradientFile, stream: BinaryIO, run: Run) -> Iterator[Block]:
    size = run.element.size
    for start in range(0, run.numbers * size, _BLOCK):
        length = min(_BLOCK, run.numbers * size - start)
        data = _read(file, stream, run.offset + start, length)
        yield Block(run.element, run.offset + start, _in_file_order(run.element, data))


def _in_file_order(element: Element, data: Bytes) -> Bytes:
    # Swapping is its own inverse, so the same call serves reading and writing.
    if element.swapped and element.size > 1:
        data.view(f"u{element.size}").byteswap(inplace=True)
    return data


def _read(file: GradientFile, stream: BinaryIO, offset: int, length: int) -> NDArray[Any]:
    data = np.empty(length, np.uint8)
    stream.seek(offset)
    got = stream.readinto(data)  # type: ignore[attr-defined]
    if got != length:
        raise InvalidValueError(f"Expected {file.path} to stay as it is while it is read; it became shorter.")
    return data


def _check_unchanged(file: GradientFile, stream: BinaryIO) -> None:
    if identity_of(file.path, os.fstat(stream.fileno())) != file.identity:
        raise InvalidValueError(f"Expected {file.path} to stay as it is while it is read; another program wrote it.")
