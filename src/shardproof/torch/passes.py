"""Passes over the values of one rank: in place where the host can read them, else copied in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from shardproof.sums.kernels import Format, Kernel, Tally, largest, powers, scale, tally
from shardproof.torch import device
from shardproof.torch.collecting import Columns, Local
from shardproof.torch.gradients import FORMATS, format_of, is_one_region, pieces, place


@dataclass(frozen=True)
class Memory:
    """Contiguous pieces of host memory, by format."""

    addresses: dict[Format, list[int]] = field(default_factory=dict)
    counts: dict[Format, list[int]] = field(default_factory=dict)

    def add(self, form: Format, address: int, count: int) -> None:
        """Add a piece of `count` values at `address`."""
        self.addresses.setdefault(form, []).append(address)
        self.counts.setdefault(form, []).append(count)


@dataclass(frozen=True)
class Chosen:
    """Some of this rank's gradients: what is read in place, and what has to be copied to be read.

    `tensors` are all of them; they keep the memory alive.
    """

    tensors: Sequence[Tensor]
    memory: Memory
    others: Sequence[Tensor]


def chosen(local: Local, entries: Sequence[int]) -> Chosen:
    """The gradients of these entries of the plan; each must have one."""
    columns = local.columns
    tensors: list[Tensor] = _picked(local.values, entries)
    addresses, counts = _picked(columns.addresses, entries), _picked(columns.counts, entries)
    dtypes, direct = _picked(columns.dtypes, entries), _picked(columns.direct, entries)
    if len(set(dtypes)) == 1 and all(direct):
        form = FORMATS[dtypes[0]]
        return Chosen(tensors, Memory({form: addresses}, {form: counts}), [])
    return _sorted_out(tensors, Columns(addresses, counts, dtypes, direct))


def chosen_of(tensors: Sequence[Tensor]) -> Chosen:
    """All of these, as `local_values` gives them."""
    columns = Columns(
        [each.data_ptr() for each in tensors],
        [each.numel() for each in tensors],
        [each.dtype for each in tensors],
        [is_one_region(each) for each in tensors],
    )
    return _sorted_out(tensors, columns)


def as_complex(local: Local, entries: Sequence[int]) -> Local:
    """The same with these entries as complex numbers, not as their parts: passes read their moduli then, as float64."""
    columns = local.columns
    shown = Local(
        list(local.values),
        Columns(list(columns.addresses), list(columns.counts), list(columns.dtypes), list(columns.direct)),
    )
    for index in entries:
        parts = local.values[index]
        if parts is not None:
            shown.values[index] = torch.view_as_complex(parts)
            shown.columns.put(index, shown.values[index])
            shown.columns.direct[index] = False
    return shown


def _read_out(piece: Tensor) -> Tensor:
    """A copy in host memory; of complex numbers their moduli."""
    if not piece.is_complex():
        return piece.cpu().contiguous()
    parts = torch.view_as_real(piece).cpu().double()
    return torch.hypot(parts[..., 0], parts[..., 1]).contiguous()


def _picked(column: list[Any], entries: Sequence[int]) -> list[Any]:
    if len(entries) == len(column):
        return column
    return list(itemgetter(*entries)(column)) if len(entries) > 1 else [column[index] for index in entries]


def _sorted_out(tensors: Sequence[Tensor], columns: Columns) -> Chosen:
    memory, others = Memory(), []
    rows = zip(tensors, columns.addresses, columns.counts, columns.dtypes, columns.direct, strict=True)
    for tensor, address, count, dtype, direct in rows:
        if direct and dtype in FORMATS:
            memory.add(FORMATS[dtype], address, count)
        else:
            others.append(tensor)
    return Chosen(tensors, memory, others)


def _batches(values: Chosen) -> Iterator[Memory]:
    """All values as host memory: what lies so already at once, the rest copied in pieces of bounded size."""
    yield values.memory
    for tensor in values.others:
        for piece in pieces(tensor):
            copied = _read_out(piece)
            yield Memory({format_of(copied): [copied.data_ptr()]}, {format_of(copied): [copied.numel()]})


def _split(values: Chosen) -> tuple[list[Tensor], Chosen]:
    """What the kernels of a GPU take where it lies, and the rest."""
    there, others = device.split(values.tensors if "cpu" in device.KINDS else values.others)
    if not there:
        return there, values
    if len(there) + len(others) == len(values.tensors):
        return there, chosen_of(others)
    return there, replace(values, others=others)


def add_up(kernel: Kernel, values: Chosen, order: int) -> Tally:
    """The exact sum of |value|**order, order 1 or 2, and the non-finite counts."""
    there, values = _split(values)
    found, threads = device.add_up(there, order), torch.get_num_threads()
    for batch in _batches(values):
        for form, addresses in batch.addresses.items():
            found = found.merge(tally(kernel, form, addresses, batch.counts[form], 1 if order == 1 else 2, threads))
    return found


def add_up_powers(kernel: Kernel, values: Chosen, p: float, exponent: int) -> Tally:
    """The exact sum of the float64 powers (|value| x 2**-exponent)**p."""
    found, threads = Tally(), torch.get_num_threads()
    for batch in _batches(values):
        for form, addresses in batch.addresses.items():
            found = found.merge(powers(kernel, form, addresses, batch.counts[form], p, exponent, threads))
    return found


def largest_magnitude(kernel: Kernel, values: Chosen) -> float:
    """The largest finite magnitude; 0.0 for no values."""
    there, values = _split(values)
    found, threads = device.largest(there).magnitude, torch.get_num_threads()
    for batch in _batches(values):
        for form, addresses in batch.addresses.items():
            found = max(found, largest(kernel, form, addresses, batch.counts[form], threads).magnitude)
    return found


def scale_all(kernel: Kernel, values: Chosen, factor: float) -> None:
    """Multiply in place: element = float64(value) x factor, rounded once to its dtype; each memory once."""
    there, once = _split(_once(values))
    device.scale(there, factor)
    threads = torch.get_num_threads()
    for form, addresses in once.memory.addresses.items():
        scale(kernel, form, addresses, once.memory.counts[form], factor, threads)
    for tensor in once.others:
        for piece in pieces(tensor):
            _scale_copy(kernel, piece, factor, threads)
    torch.autograd.graph.increment_version([*there, *once.tensors])


def _once(values: Chosen) -> Chosen:
    """The same without what lies in the very same memory as another one."""
    starts = [address for addresses in values.memory.addresses.values() for address in addresses]
    if not values.others and len(set(starts)) == len(starts):
        return values
    return chosen_of(list({place(each): each for each in values.tensors if each.numel()}.values()))


def _scale_copy(kernel: Kernel, piece: Tensor, factor: float, threads: int) -> None:
    copied = piece.to("cpu", copy=True, memory_format=torch.contiguous_format)
    scale(kernel, format_of(copied), [copied.data_ptr()], [copied.numel()], factor, threads)
    piece.copy_(copied)
