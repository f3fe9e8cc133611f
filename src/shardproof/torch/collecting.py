"""This rank's gradients of one step: found, and looked at all together; one by one only where one is out of the way."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter, is_, not_
from typing import Any

import numpy as np
import torch
from torch import Tensor

from shardproof.errors import InvalidTypeError
from shardproof.torch.gradients import FORMATS, counted_values, is_one_region, local_values, place
from shardproof.torch.in_backward import any_stepped, stepped_in_backward
from shardproof.torch.naming import is_dtensor
from shardproof.torch.partials import summands
from shardproof.torch.roster import SPEC, Held, Roster

_LOCAL, _DTYPE, _IS_CPU = attrgetter("_local_tensor"), attrgetter("dtype"), attrgetter("is_cpu")
_PLAIN = {Tensor, torch.nn.Parameter}


@dataclass
class Columns:
    """Where the values of each entry lie: first byte, how many, their dtype, whether the host reads them in place.

    Zeros, None and False where there is no gradient.
    """

    addresses: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    dtypes: list[torch.dtype | None] = field(default_factory=list)
    direct: list[bool] = field(default_factory=list)

    def put(self, index: int, values: Tensor | None) -> None:
        """Write the row of one entry."""
        self.addresses[index] = 0 if values is None else values.data_ptr()
        self.counts[index] = 0 if values is None else values.numel()
        self.dtypes[index] = None if values is None else values.dtype
        self.direct[index] = values is not None and is_one_region(values)


@dataclass
class Local:
    """The gradients of this rank in this step, in the order of the plan; None where there is none."""

    values: list[Tensor | None] = field(default_factory=list)
    columns: Columns = field(default_factory=Columns)
    problems: list[str] = field(default_factory=list)
    stale: bool = False


def collect(
    roster: Roster, tensors: Sequence[Tensor | None], gradient_of: Callable[[Any], Any], *, reduced: bool = False
) -> Local:
    """Find every gradient; a vanished or changed tensor makes the plan stale, an unusable one is a problem.

    Args:
        roster: the plan's tensors.
        tensors: the same, as `roster.tensors()` gives them.
        gradient_of: from a tensor to its gradient or None.
        reduced: whether partial gradients have been made whole in this call.
    """
    if not roster.fits(tensors):
        return Local(stale=True)
    gradients = list(map(gradient_of, tensors))
    if roster.reduces and not _as_expected(roster.held, gradients, reduced=reduced):
        return Local(stale=True)
    numbers = range(len(gradients))
    local, odd = (None if roster.reduces else _at_once(roster, gradients)) or (_nothing(len(numbers)), numbers)
    for index in sorted(odd):
        _look_at(index, roster, tensors[index], gradients[index], local, reduced=reduced)
    if any_stepped(tensors):
        local.problems += _stepped(roster.held, tensors)
    where = (local.columns.addresses, local.columns.counts, local.columns.dtypes)
    if where != roster.apart:
        overlapping = _overlaps(roster.held, local)
        local.problems += overlapping
        roster.apart = None if overlapping else where
    return local


def _nothing(count: int) -> Local:
    return Local([None] * count, Columns([0] * count, [0] * count, [None] * count, [False] * count))


# ---- all together


def _at_once(roster: Roster, gradients: list[Any]) -> tuple[Local, Collection[int]] | None:
    """All values, and the entries that need a look of their own; None where all of them do."""
    present, some, dtensors = None, gradients, roster.dtensors
    if type(None) in set(map(type, gradients)):
        present = [each is not None for each in gradients]
        some, dtensors = list(compress(gradients, present)), list(compress(dtensors, present))
    found = _seen(some, None if roster.plain else dtensors)
    if found is None:
        return None
    local, contiguous = found
    if present is not None:
        columns = local.columns
        local = Local(
            _spread(local.values, present, None),
            Columns(
                _spread(columns.addresses, present, 0),
                _spread(columns.counts, present, 0),
                _spread(columns.dtypes, present, None),
                _spread(columns.direct, present, False),
            ),
        )
        contiguous = _spread(contiguous, present, True)
    return local, _odd(roster, gradients, local.columns, contiguous)


def _seen(gradients: list[Any], dtensors: Sequence[bool] | None) -> tuple[Local, list[bool]] | None:
    """Values and columns as of ordinary tensors, and which are contiguous; None where one cannot be asked that."""
    values: list[Any] = gradients
    try:
        if dtensors is not None:
            values = [_LOCAL(each) if lies else each for each, lies in zip(gradients, dtensors, strict=True)]
        if not set(map(type, values)) <= _PLAIN:
            return None
        addresses = list(map(Tensor.data_ptr, values))
    except (AttributeError, RuntimeError):
        # A plain gradient of a DTensor parameter, or a sparse tensor: these have no local tensor, or no address.
        return None
    contiguous = direct = list(map(Tensor.is_contiguous, values))
    if not all(map(_IS_CPU, values)):
        if any(each.is_meta for each in values):
            return None
        values = [each.detach() for each in values]
        direct = [each.is_cpu and filled for each, filled in zip(values, contiguous, strict=True)]
    counts, dtypes = list(map(Tensor.numel, values)), list(map(_DTYPE, values))
    return Local(list(values), Columns(addresses, counts, dtypes, direct)), contiguous


def _spread(column: Iterable[Any], present: Iterable[bool], without: Any) -> list[Any]:
    following = iter(column)
    return [next(following) if here else without for here in present]


def _odd(roster: Roster, gradients: Sequence[Any], columns: Columns, contiguous: Sequence[bool]) -> Collection[int]:
    odd, numbers = set(roster.ranges), range(len(gradients))
    if not all(contiguous):
        odd.update(compress(numbers, map(not_, contiguous)))
    if not set(columns.dtypes) <= FORMATS.keys():
        odd.update(index for index in numbers if columns.dtypes[index] not in FORMATS)
    if not roster.plain:
        odd.update(_laid_out_anew(roster, gradients))
    return odd


def _laid_out_anew(roster: Roster, gradients: Sequence[Any]) -> Iterator[int]:
    """DTensor gradients whose layout is not the very object that was last found to be their parameter's."""
    pairs = zip(gradients, roster.dtensors, strict=True)
    lying = [getattr(each, "_spec", each) if lies else None for each, lies in pairs]
    if all(map(is_, lying, roster.placed)):
        return iter(())
    return (index for index, each in enumerate(lying) if each is not None and each is not roster.placed[index])


# ---- one by one


def _as_expected(held: Sequence[Held], gradients: Sequence[Any], *, reduced: bool) -> bool:
    """Whether the DTensor gradients have just the partial dims that the plan will reduce, or has reduced."""
    pairs = zip(held, gradients, strict=True)
    return all(_expected(each, gradient, reduced=reduced) for each, gradient in pairs if is_dtensor(gradient))


def _expected(each: Held, gradient: Any, *, reduced: bool) -> bool:
    if each.read.partial is None or not each.read.partial.dims:
        return not each.reduces or not any(kind.is_partial() for kind in gradient.placements)
    partial = each.read.partial
    operations = ("avg" if mean else "sum" for mean in partial.means)
    return summands(gradient) == (() if reduced else tuple(zip(partial.dims, operations, strict=True)))


def _look_at(index: int, roster: Roster, tensor: Any, gradient: Any, local: Local, *, reduced: bool) -> None:
    each = roster.held[index]
    values = None
    try:
        if gradient is not None:
            values = _values(each, tensor, gradient, reduced=reduced)
            if roster.dtensors[index]:
                roster.placed[index] = SPEC(gradient)
    except InvalidTypeError as error:
        local.problems.append(f"the gradient of {each.name} {error}")
    local.values[index] = values
    local.columns.put(index, values)


def _values(each: Held, tensor: Tensor, gradient: Any, *, reduced: bool) -> Tensor:
    if is_dtensor(gradient) != is_dtensor(tensor):
        kinds = ["a DTensor" if is_dtensor(one) else "a plain tensor" for one in (gradient, tensor)]
        raise InvalidTypeError(f"is {kinds[0]} but its parameter is {kinds[1]}; make them alike")
    if is_dtensor(gradient) and (each.read.partial is None or reduced):
        _check_placement(tensor, gradient)
    if each.read.partial is not None and gradient.layout is not torch.strided:
        raise InvalidTypeError("is sparse and a summand, which cannot be summed in a pack; call p.grad.to_dense()")
    values = local_values(gradient)
    if each.read.counted is not None and not values.is_contiguous():
        raise InvalidTypeError("is a flat range (owned=) but not contiguous in memory")
    return counted_values(values, each.read.counted, pairs=tensor.is_complex())


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


def _stepped(held: Sequence[Held], tensors: Sequence[Any]) -> Iterator[str]:
    for each, tensor in zip(held, tensors, strict=True):
        stepper = stepped_in_backward(tensor)
        if stepper is not None:
            yield (
                f"{each.name} is stepped inside backward by {stepper}, before its gradient can be clipped; leave it "
                "out of the plan, or step it after the clip"
            )


def _overlaps(held: Sequence[Held], local: Local) -> list[str]:
    """Gradients that share memory and would be scaled twice: by parts, or as one object in two groups.

    The very same memory in one group is scaled once, and is no overlap.
    """
    if _lie_apart(local.columns):
        return []
    lying = sorted(
        (values.data_ptr(), index)
        for index, values in enumerate(local.values)
        if values is not None and values.numel() and values.device.type == "cpu"
    )
    said: list[str] = []
    for cluster in _clusters([index for _, index in lying], local.values):
        said += _shared(cluster, held, local.values)
    return said


def _clusters(order: Sequence[int], values: Sequence[Tensor | None]) -> Iterator[list[int]]:
    """Gradients, by address, that lie within each other's extent: only these can share memory."""
    cluster: list[int] = []
    reach = 0
    for index in order:
        each = values[index]
        assert each is not None
        if cluster and each.data_ptr() >= reach:
            yield cluster
            cluster = []
        cluster.append(index)
        reach = max(reach, each.data_ptr() + _extent(each))
    if cluster:
        yield cluster


def _extent(values: Tensor) -> int:
    """Bytes from the first element's first to the last element's last."""
    steps = sum((size - 1) * stride for size, stride in zip(values.shape, values.stride(), strict=True))
    return (steps + 1) * values.itemsize


def _shared(cluster: Sequence[int], held: Sequence[Held], values: Sequence[Tensor | None]) -> Iterator[str]:
    """What is wrong with a cluster; each place in memory is marked with the gradient that was seen there first."""
    tensors = {index: each for index in cluster if (each := values[index]) is not None}
    first = next(iter(tensors.values())).data_ptr()
    size = max(each.data_ptr() + _extent(each) for each in tensors.values()) - first
    # As a rule all addresses are multiples of the item size, and a mark for each item is enough.
    unit = math.gcd(
        *(each.itemsize for each in tensors.values()), *(each.data_ptr() - first for each in tensors.values())
    )
    owner = np.full(size // unit, -1, np.int32)
    seen: dict[tuple[object, ...], int] = {}
    for index, each in tensors.items():
        alike = seen.setdefault((*place(each), held[index].read.group), index)
        marks = _marks(owner, each, first, unit)
        found = marks[marks >= 0]
        if alike == index and found.size:
            yield (
                f"the gradients of {held[int(found[0])].name} and {held[index].name} share memory, so one of them "
                "would be scaled twice; give each its own, for example p.grad = p.grad.clone()"
            )
        marks[...] = alike


def _marks(owner: np.ndarray[Any, np.dtype[np.int32]], values: Tensor, first: int, unit: int) -> Any:
    """The marks of a tensor's elements, one row of `itemsize / unit` for each."""
    width = values.itemsize // unit
    start = (values.data_ptr() - first) // unit
    strides = [stride * width * owner.itemsize for stride in values.stride()]
    return np.lib.stride_tricks.as_strided(
        owner[start:], (*values.shape, width), (*strides, owner.itemsize), writeable=True
    )


def _lie_apart(columns: Columns) -> bool:
    """Whether each begins at or after the end of the one before it, by addresses; as a rule no more is asked.

    What does not fill its region reaches further than its count says, so that it has to be looked at.
    """
    if not all(direct or not count for direct, count in zip(columns.direct, columns.counts, strict=True)):
        return False
    dtypes = set(columns.dtypes)
    one = dtypes.pop() if len(dtypes) == 1 else None
    sizes = one.itemsize if one else np.array([each.itemsize if each else 0 for each in columns.dtypes], np.int64)
    starts = np.array(columns.addresses, np.int64)
    order = starts.argsort(kind="stable")
    ends = (starts + np.array(columns.counts, np.int64) * sizes)[order]
    return bool((starts[order][1:] >= ends[:-1]).all())
