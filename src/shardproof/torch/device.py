"""Passes over tensors on a GPU by the Triton kernels, for calls that decide on the host; each reads a small vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from shardproof.sums.grid import from_limbs
from shardproof.sums.kernels import Largest, Tally
from shardproof.torch.gradients import FORMATS

KINDS = {"cuda"}
"""Kinds of devices whose tensors the Triton kernels take. Tests add "cpu", for Triton's interpreter."""


@cache
def kernels() -> Any:
    """The module of Triton kernels, or None where Triton is not installed: tensors are copied to the host then."""
    if find_spec("triton") is None:
        return None
    from shardproof.sums.kernels import triton_kernel

    return triton_kernel


def takes(values: Tensor) -> bool:
    """Whether the Triton kernels read and write these values in place."""
    if values.device.type not in KINDS or values.dtype not in FORMATS or kernels() is None:
        return False
    # Dense in whatever order of its dims: the values fill one region, each place once.
    return values.is_contiguous() or bool(torch.ops.aten.is_non_overlapping_and_dense(values))


def split(tensors: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Those that the kernels take, and the others."""
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for each in tensors:
        found[not takes(each)].append(each)
    return found


def add_up(tensors: Sequence[Tensor], order: int) -> Tally:
    """The exact sum of |value|**order, order 1 or 2, and the non-finite counts."""
    found = Tally()
    for device, members in _by_device(tensors):
        digits, counts = kernels().tallies([(each, 0) for each in members], 1, order, device)
        *limbs, nans, infs = torch.cat([digits[0], counts]).tolist()
        found = found.merge(Tally(from_limbs(limbs), nans, infs))
    return found


def largest(tensors: Sequence[Tensor]) -> Largest:
    """The largest finite magnitude, and the non-finite counts."""
    found = Largest()
    for device, members in _by_device(tensors):
        tops, counts = kernels().largest([(each, 0) for each in members], 1, device)
        nans, infs = counts.tolist()
        found = found.merge(Largest(tops.item(), nans, infs))
    return found


def scale(tensors: Sequence[Tensor], factor: float) -> None:
    """Multiply in place: element = float64(value) x factor, rounded once to its dtype; each memory once."""
    for device, members in _by_device(tensors):
        factors = torch.full((1,), factor, dtype=torch.float64, device=device)
        kernels().scale([(each, 0) for each in members], factors)


def _by_device(tensors: Sequence[Tensor]) -> Iterator[tuple[torch.device, list[Tensor]]]:
    for device in dict.fromkeys(each.device for each in tensors):
        members = [each for each in tensors if each.device == device]
        with on(device):
            yield device, members


def on(device: torch.device) -> Any:
    """A context in which `device` is the current one: Triton launches there, on its current stream."""
    return torch.cuda.device(device if device.type == "cuda" else -1)
