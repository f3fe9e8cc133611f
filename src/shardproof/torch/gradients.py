"""The gradients of this step: where their values lie in memory, and what forbids to clip them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from shardproof.errors import InvalidTypeError
from shardproof.layout import Interval
from shardproof.sums.kernels import Format
from shardproof.torch.naming import is_dtensor

FORMATS = {getattr(torch, form.value): form for form in Format if hasattr(torch, form.value)}
"""The kernels' format of each dtype."""

CHUNK = 1 << 16
"""Elements that are copied at a time where memory cannot be read in place: 512 KiB of float64."""


def local_values(gradient: Any) -> Tensor:
    """The plain tensor that holds this rank's values of a gradient, without autograd and without a copy.

    Raises InvalidTypeError for what has no values to clip in place: an uncoalesced sparse tensor, integers,
    unknown tensor subclasses, tensors without memory.
    """
    if is_dtensor(gradient):
        gradient = gradient._local_tensor
    if hasattr(gradient, "wait") and type(gradient) is not Tensor:
        gradient = gradient.wait()
    values = gradient.detach()
    if values.layout is not torch.strided:
        values = _sparse_values(values)
    if type(values) is not Tensor:
        raise InvalidTypeError(
            f"is a {type(values).__name__}, whose values shardproof cannot scale in place; pass its plain tensor"
        )
    if values.device.type == "meta":
        raise InvalidTypeError("lies on the meta device and has no values")
    # A lazy conjugate or negative shows the same memory; its bit changes neither magnitudes nor how to scale.
    if values.is_conj():
        values = values.conj()
    if values.is_neg():
        values = torch._neg_view(values)
    if values.is_complex():
        values = torch.view_as_real(values)
    if not values.is_contiguous() and values.numel() and overlaps_itself(values):
        raise InvalidTypeError(
            "is an expanded view: several elements share one place in memory and cannot be scaled in place; call "
            "p.grad = p.grad.clone() before clipping"
        )
    if values.dtype not in FORMATS:
        raise InvalidTypeError(f"has dtype {values.dtype}; expected a floating-point or complex dtype")
    return values


def _sparse_values(values: Tensor) -> Tensor:
    if values.layout is torch.sparse_coo and not values.is_coalesced():
        raise InvalidTypeError(
            "is an uncoalesced sparse tensor: one element may be listed several times, so no value can be counted "
            "once; call p.grad = p.grad.coalesce() before clipping"
        )
    found: Tensor = values.values()
    return found.detach()


def counted_values(values: Tensor, counted: Interval | None, *, pairs: bool) -> Tensor:
    """The part of the local values that counts: all of them, or elements start..stop (the rest is padding).

    `pairs`: each element is two values, the parts of a complex number.
    """
    if counted is None:
        return values
    return values.view(-1, *(2,) * pairs)[counted[0] : counted[1]]


def is_one_region(values: Tensor) -> bool:
    """Whether the values fill one region of host memory, each place once, in whatever order."""
    if values.device.type != "cpu":
        return False
    if values.is_contiguous():
        return True
    filled = 1
    for stride, size in sorted(zip(values.stride(), values.shape, strict=True)):
        if size != 1:
            if stride != filled:
                return False
            filled *= size
    return True


def place(values: Tensor) -> tuple[Any, ...]:
    """What two tensors over the very same memory have in common."""
    if is_one_region(values):
        return (values.data_ptr(), values.numel(), values.dtype)
    return (values.device, values.data_ptr(), values.shape, values.stride(), values.dtype)


def overlaps_itself(values: Tensor) -> bool:
    """Whether elements share a place in memory, as in an expanded tensor; it cannot be scaled in place then."""
    extent = 1
    for stride, size in sorted(zip(values.stride(), values.shape, strict=True)):
        if size > 1:
            if stride < extent:
                return True
            extent += stride * (size - 1)
    return False


def format_of_dtype(dtype: torch.dtype) -> Format | None:
    """The kernels' format of a dtype, of its real parts for a complex one; None where there is none."""
    return FORMATS.get(dtype.to_real() if dtype.is_complex else dtype)


def format_of(values: Tensor) -> Format:
    """The kernels' format of a tensor's dtype."""
    return FORMATS[values.dtype]


def pieces(values: Tensor) -> Iterator[Tensor]:
    """Views of at most CHUNK elements that together are `values`; for memory that is not read in place."""
    if values.numel() <= CHUNK:
        yield values
        return
    dim = max(range(values.dim()), key=lambda each: values.shape[each])
    half = values.shape[dim] // 2
    yield from pieces(values.narrow(dim, 0, half))
    yield from pieces(values.narrow(dim, half, values.shape[dim] - half))
