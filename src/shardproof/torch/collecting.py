"""This rank's part of one step: find the gradients, see whether the plan still fits, add up what is owned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from typing import Any
from weakref import ReferenceType

import torch
from torch import Tensor

from shardproof.errors import InvalidTypeError
from shardproof.layout import Identity, Share
from shardproof.sums.kernels import Kernel, Tally, largest, powers, scale, tally
from shardproof.torch.gradients import (
    Memory,
    counted_values,
    format_of,
    is_one_region,
    local_values,
    pieces,
)
from shardproof.torch.in_backward import stepped_in_backward
from shardproof.torch.naming import is_dtensor
from shardproof.torch.packet import WORD
from shardproof.torch.reading import Read


@dataclass(frozen=True)
class Held:
    """One tensor of the plan: a weak reference, what was read of it, and what it looked like then."""

    ref: ReferenceType[Tensor]
    read: Read
    share: Share
    looks: tuple[Any, ...]
    weight: int
    bucket: int = 0
    reduces: bool = False

    @property
    def name(self) -> str:
        return self.read.listed.name


def looks(tensor: Tensor) -> tuple[Any, ...]:
    """What must not change while a plan holds: shape, dtype, requires_grad, placement."""
    spec = (tensor.device_mesh, tensor.placements) if is_dtensor(tensor) else None  # type: ignore[attr-defined]
    return (tensor.shape, tensor.dtype, tensor.requires_grad, spec)


def same(tensor: Tensor, looked: tuple[Any, ...]) -> bool:
    """Whether a tensor still looks as it did; placements are one object for as long as nobody lays it out anew."""
    shape, dtype, requires_grad, spec = looked
    if tensor.shape != shape or tensor.dtype != dtype or tensor.requires_grad != requires_grad:
        return False
    if spec is None:
        return not is_dtensor(tensor)
    if not is_dtensor(tensor):
        return False
    mesh, placements = tensor.device_mesh, tensor.placements  # type: ignore[attr-defined]
    return (mesh is spec[0] or mesh == spec[0]) and (placements is spec[1] or placements == spec[1])


def slice_weight(identity: Identity, share: Share) -> int:
    """A random 64-bit number for one slice: the same on all ranks that hold it."""
    return int.from_bytes(blake2b(f"{identity}\0{share.owner}".encode(), digest_size=8).digest(), "little")


@dataclass
class Local:
    """The gradients of this rank in this step, in the order of the plan; None where there is none.

    `counts`: whether an entry stands for its slice on this rank, as one of several tied names does.
    """

    values: list[Tensor | None] = field(default_factory=list)
    counts: list[bool] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stale: bool = False


def collect(held: Sequence[Held], gradient_of: Callable[[Tensor], Any], *, reduced: bool = False) -> Local:
    """Find every gradient; a vanished or changed tensor makes the plan stale, an unusable one is a problem.

    `reduced` says that partial gradients have been made whole in this call.
    """
    local = Local()
    counting: set[int] = set()
    for each in held:
        tensor = each.ref()
        if tensor is None or not same(tensor, each.looks):
            local.stale = True
            return local
        gradient = gradient_of(tensor)
        if is_dtensor(gradient) and not _expected(each, gradient, reduced=reduced):
            local.stale = True
            return local
        stepper = stepped_in_backward(tensor)
        if stepper is not None:
            local.problems.append(
                f"{each.name} is stepped inside backward by {stepper}, before its gradient can be clipped; leave it "
                "out of the plan, or step it after the clip"
            )
        try:
            local.values.append(None if gradient is None else _values(each, tensor, gradient, reduced=reduced))
        except InvalidTypeError as error:
            local.values.append(None)
            local.problems.append(f"the gradient of {each.name} {error}")
        # A tied tensor may stand here under several names: the first that has a gradient stands for the slice.
        local.counts.append(local.values[-1] is not None and each.weight not in counting)
        if local.counts[-1]:
            counting.add(each.weight)
    local.problems += _overlaps(held, local)
    return local


def _overlaps(held: Sequence[Held], local: Local) -> list[str]:
    """Gradients that share memory and would be scaled twice: by parts, or as one object in two groups.

    Found where one begins inside another that fills its region; the very same memory in one group is scaled once.
    """
    spans = sorted((values.data_ptr(), values.nbytes) for values in local.values if values is not None)
    # Each start against the end before it: two integers for each tensor, and nothing more where nothing is shared.
    if all(start >= before + size for (before, size), (start, _) in pairwise(spans)):
        return []
    regions = sorted(
        (values.data_ptr(), not is_one_region(values), values.nbytes, index)
        for index, values in enumerate(local.values)
        if values is not None and values.numel() and values.device.type == "cpu"
    )
    said, reach, last = [], 0, -1
    for start, scattered, size, index in regions:
        values = local.values[index]
        assert values is not None
        if start < reach:
            same = _place(values) == _place(local.values[last])  # type: ignore[arg-type]
            if not same or held[index].read.group != held[last].read.group:
                said.append(
                    f"the gradients of {held[last].name} and {held[index].name} share memory, so one of them would "
                    "be scaled twice; give each its own, for example p.grad = p.grad.clone()"
                )
        elif not scattered:
            reach, last = start + size, index
    return said


def _expected(each: Held, gradient: Any, *, reduced: bool) -> bool:
    """Whether a DTensor gradient has just the partial dims that the plan will reduce, or has reduced."""
    if each.read.partial is None or not each.read.partial.dims:
        return not each.reduces or not any(kind.is_partial() for kind in gradient.placements)
    dims = tuple(dim for dim, kind in enumerate(gradient.placements) if kind.is_partial())
    return dims == (() if reduced else each.read.partial.dims)


def _values(each: Held, tensor: Tensor, gradient: Any, *, reduced: bool) -> Tensor:
    if is_dtensor(gradient) != is_dtensor(tensor):
        kinds = ["a DTensor" if is_dtensor(one) else "a plain tensor" for one in (gradient, tensor)]
        raise InvalidTypeError(f"is {kinds[0]} but its parameter is {kinds[1]}; make them alike")
    if is_dtensor(gradient) and (each.read.partial is None or reduced):
        _check_placement(tensor, gradient)
    values = local_values(gradient)
    if each.read.counted is not None and not values.is_contiguous():
        raise InvalidTypeError("is a flat range (owned=) but not contiguous in memory")
    return counted_values(values, each.read.counted)


def _check_placement(tensor: Any, gradient: Any) -> None:
    mesh = gradient.device_mesh
    if gradient.placements == tensor.placements and (mesh is tensor.device_mesh or mesh == tensor.device_mesh):
        return
    if any(each.is_partial() for each in gradient.placements):
        raise InvalidTypeError(
            f"is partial on its mesh ({gradient.placements}): its values are summands, and neither the norm nor "
            "the clipped value follows from summands one by one; pass reduce_partials=True, or reduce it first, "
            "for example p.grad = p.grad.redistribute(placements=p.placements)"
        )
    raise InvalidTypeError(
        f"lies as {gradient.placements} on {gradient.device_mesh}, its parameter as {tensor.placements} on "
        f"{tensor.device_mesh}; redistribute the gradient to its parameter's placements"
    )


def checksum(values: Tensor) -> int:
    """A 64-bit number of the bits of the values, in the order of their indices; -0.0 and 0.0 differ."""
    digest = blake2b(digest_size=8)
    for piece in pieces(values):
        digest.update(piece.cpu().contiguous().view(torch.uint8).numpy().data)
    return int.from_bytes(digest.digest(), "little")


def checksums(held: Sequence[Held], local: Local) -> dict[int, int]:
    """Index in the plan -> checksum, for slices of which there are copies, here under a tied name or elsewhere.

    0 where there is no gradient.
    """
    entries = Counter(each.weight for each in held)
    return {
        index: 0 if values is None else checksum(values)
        for index, (each, values) in enumerate(zip(held, local.values, strict=True))
        if len(each.share.copies) > 1 or entries[each.weight] > 1
    }


def copies_term(held: Sequence[Held], sums: dict[int, int]) -> int:
    """This rank's term of a sum that is zero when all copies of every slice have equal checksums.

    Between ranks a slice's first entry stands for it; further entries on one rank are held against that one.
    """
    first = {held[index].weight: each for index, each in sums.items() if held[index].share.first}
    term = 0
    for index, each in sums.items():
        share, weight = held[index].share, held[index].weight
        if share.first:
            term += each * (len(share.copies) - 1 if share.owned else -1)
        else:
            term += weight * (each - first[weight])
    return term % WORD


def presence(held: Sequence[Held], local: Local, rank: int) -> int:
    """This rank's term of a sum that is zero when every slice has a gradient on all its ranks or on none.

    The owner of a slice with c copies adds c - 1 times the slice's weight, every other rank subtracts it once.
    """
    return (
        sum(
            each.weight * (len(each.share.copies) - 1 if each.share.owner == rank else -1)
            for each, counts in zip(held, local.counts, strict=True)
            if counts and len(each.share.copies) > 1
        )
        % WORD
    )


def memory(tensors: Sequence[Tensor]) -> tuple[Memory, list[Tensor]]:
    """Split into what can be read in place and what has to be copied piece by piece."""
    direct, others = Memory(), []
    for tensor in tensors:
        if is_one_region(tensor):
            direct.add(format_of(tensor), tensor.data_ptr(), tensor.numel())
            direct.held.append(tensor)
        else:
            others.append(tensor)
    return direct, others


def _batches(tensors: Sequence[Tensor]) -> Iterator[Memory]:
    """All values as host memory: what lies so already at once, the rest copied in pieces of bounded size."""
    direct, others = memory(tensors)
    yield direct
    for tensor in others:
        for piece in pieces(tensor):
            copied, _ = memory([piece.cpu().contiguous()])
            yield copied


def add_up(kernel: Kernel, tensors: Sequence[Tensor], order: int) -> Tally:
    """The exact sum of |value|**order, order 1 or 2, and the non-finite counts."""
    found, threads = Tally(), torch.get_num_threads()
    for batch in _batches(tensors):
        for form, addresses in batch.addresses.items():
            found = found.merge(tally(kernel, form, addresses, batch.counts[form], 1 if order == 1 else 2, threads))
    return found


def add_up_powers(kernel: Kernel, tensors: Sequence[Tensor], p: float, exponent: int) -> Tally:
    """The exact sum of the float64 powers (|value| x 2**-exponent)**p."""
    found, threads = Tally(), torch.get_num_threads()
    for batch in _batches(tensors):
        for form, addresses in batch.addresses.items():
            found = found.merge(powers(kernel, form, addresses, batch.counts[form], p, exponent, threads))
    return found


def largest_magnitude(kernel: Kernel, tensors: Sequence[Tensor]) -> float:
    """The largest finite magnitude; 0.0 for no values."""
    found, threads = 0.0, torch.get_num_threads()
    for batch in _batches(tensors):
        for form, addresses in batch.addresses.items():
            found = max(found, largest(kernel, form, addresses, batch.counts[form], threads).magnitude)
    return found


def scale_all(kernel: Kernel, tensors: Sequence[Tensor], factor: float) -> None:
    """Multiply in place: element = float64(value) x factor, rounded once to its dtype; each memory once."""
    once = {_place(each): each for each in tensors if each.numel()}
    direct, others = memory(list(once.values()))
    threads = torch.get_num_threads()
    for form, addresses in direct.addresses.items():
        scale(kernel, form, addresses, direct.counts[form], factor, threads)
    for tensor in others:
        for piece in pieces(tensor):
            _scale_copy(kernel, piece, factor, threads)
    for tensor in once.values():
        torch.autograd.graph.increment_version(tensor)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    """What two tensors over the very same memory have in common."""
    if is_one_region(tensor):
        return (tensor.data_ptr(), tensor.numel(), tensor.dtype)
    return (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)


def _scale_copy(kernel: Kernel, piece: Tensor, factor: float, threads: int) -> None:
    copied = piece.to("cpu", copy=True, memory_format=torch.contiguous_format)
    scale(kernel, format_of(copied), [copied.data_ptr()], [copied.numel()], factor, threads)
    piece.copy_(copied)
