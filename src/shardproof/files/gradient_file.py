"""What a gradient file holds, whatever its container: tensors as places in the file's bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from shardproof.sums.kernels import Format


@dataclass(frozen=True)
class Element:
    """How one element is stored: `parts` numbers of `size` bytes each, 2 for complex and else 1.

    `format` is None for integers. `swapped`: the bytes are not in this machine's order.
    """

    name: str
    size: int
    format: Format | None
    parts: int = 1
    signed: bool = True
    swapped: bool = False


@dataclass(frozen=True)
class Tensor:
    """One tensor: prod(shape) elements from byte `offset` on; `name` is empty in a `.npy` file."""

    name: str
    element: Element
    shape: tuple[int, ...]
    offset: int
    fortran_order: bool = False

    @property
    def elements(self) -> int:
        """How many elements."""
        return math.prod(self.shape)

    @property
    def numbers(self) -> int:
        """How many stored numbers: twice the elements where they are complex."""
        return self.elements * self.element.parts

    @property
    def end(self) -> int:
        """The byte after the last."""
        return self.offset + self.numbers * self.element.size

    def place(self, number: int) -> str:
        """Words for the `number`-th stored number: the tensor's name and the index of the element."""
        index, flat = [], number // self.element.parts
        for length in self.shape if self.fortran_order else reversed(self.shape):
            flat, remainder = divmod(flat, length)
            index.append(remainder)
        shown = index if self.fortran_order else index[::-1]
        which = f"tensor {self.name!r}" if self.name else "the array"
        return f"{which}, index {shown[0] if len(shown) == 1 else tuple(shown)}"


@dataclass(frozen=True)
class Run:
    """Neighbouring tensors of one element type, read as one: `numbers` numbers from byte `offset` on."""

    element: Element
    offset: int
    numbers: int


@dataclass(frozen=True)
class Identity:
    """Which file this is (`device`, `inode`), and what tells that it was written since: `size`, `modified` (ns)."""

    device: int
    inode: int
    size: int
    modified: int


@dataclass(frozen=True)
class GradientFile:
    """A file whose header was read and found whole; `tensors` in file order, covering every data byte once."""

    path: Path
    tensors: tuple[Tensor, ...]
    identity: Identity

    @property
    def size(self) -> int:
        """Bytes, header included."""
        return self.identity.size

    @property
    def elements(self) -> int:
        """How many elements all tensors hold."""
        return sum(tensor.elements for tensor in self.tensors)

    def runs(self) -> Iterator[Run]:
        """The data in as few pieces as element types allow, so that many small tensors cost no more."""
        for element, group in itertools.groupby(self.tensors, key=lambda tensor: tensor.element):
            tensors = list(group)
            yield Run(element, tensors[0].offset, sum(tensor.numbers for tensor in tensors))

    def place(self, byte: int) -> str:
        """Words for the number that starts at `byte`."""
        tensor = next(tensor for tensor in self.tensors if tensor.offset <= byte < tensor.end)
        return tensor.place((byte - tensor.offset) // tensor.element.size)
