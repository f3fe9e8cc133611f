"""The kernel in Triton: launches over tensors on one device, results that stay there, no host synchronisation.

Runs on CPU tensors in Triton's interpreter (TRITON_INTERPRET=1, set before Triton is imported).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from typing import Any, Final

import torch
import triton.language as tl
from torch import Tensor

from shardproof.sums.grid import LIMBS
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.triton_finish import finish, merge_stripes
from shardproof.sums.kernels.triton_scale import scale_tiles
from shardproof.sums.kernels.triton_tally import largest_tiles, tally_tiles

BLOCK: Final = 2048
"""Values that a program holds at a time; more would let a sum of digits overflow."""

BLOCKS: Final = 8
"""Blocks of one program."""

ROWS: Final = 64
"""Rows of limbs that programs spread over: 70 KB where there is one sum."""

_WORDS: Final = {1: tl.int8, 2: tl.int16, 4: tl.int32, 8: tl.int64}
_FORMATS: Final = {getattr(torch, form.value): form for form in Format if hasattr(torch, form.value)}

Part = tuple[Tensor, int]
"""A tensor that fills one region of memory, and the number of the sum (or of the factor) that it belongs to."""


def tallies(parts: Sequence[Part], slots: int, order: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The exact sums of |value|**order over the finite values of each slot, on the device.

    Args:
        parts: tensors on `device`; their memory is read as the launches run.
        slots: how many sums.
        order: 1 or 2.
        device: where everything lies.

    Returns:
        Digits, int64 [slots, LIMBS], each in [0, 2**32); and the counts of NaN and of infinities, int64 [2].
    """
    stripes = max(1, ROWS // max(slots, 1))
    limbs = torch.zeros((slots, stripes, LIMBS + 2), dtype=torch.int64, device=device)
    for constants, table, tiles in _tables(parts, device):
        tally_tiles[(tiles,)](table, table.shape[1], limbs, stripes, ORDER=order, **constants)
    digits = torch.empty((slots, LIMBS), dtype=torch.int64, device=device)
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    if slots:
        merge_stripes[(slots,)](limbs, stripes, digits, counts, enable_fp_fusion=True)
    return digits, counts


def largest(parts: Sequence[Part], slots: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The largest finite magnitude of each slot, float64 [slots], exact; and the counts, int64 [2]. As `tallies`."""
    tops = torch.zeros(slots, dtype=torch.int64, device=device)
    counts = torch.zeros(2, dtype=torch.int64, device=device)
    for constants, table, tiles in _tables(parts, device):
        largest_tiles[(tiles,)](table, table.shape[1], tops, counts, **constants)
    return tops.view(torch.float64), counts


def scale(parts: Sequence[Part], factors: Tensor) -> None:
    """Replace, in place, each value by float64(value) x factors[slot], rounded once; nothing where that is one.

    Args:
        parts: tensors on the device of `factors`; each memory once.
        factors: float64 [slots], each in [0, 1].
    """
    for constants, table, tiles in _tables(parts, factors.device):
        scale_tiles[(tiles,)](table, table.shape[1], factors, **constants)


def norms_and_factors(
    limbs: Tensor, header: Tensor, ranks: int, limits: Tensor, eps: float, order: int
) -> tuple[Tensor, Tensor]:
    """Norm and factor of each sum, decided on the device; float64 [n] both.

    Args:
        limbs: int64 [n, LIMBS], sums over ranks of digits below 2**32.
        header: the first words of the summed packet, int64 [8].
        ranks: how many put a packet in.
        limits: float64 [n]; inf where nothing is to be scaled.
        eps: added to the norm before dividing.
        order: 1 or 2.

    Returns:
        The norm: correctly rounded; NaN where the call is void or a value is NaN; inf where one is infinite. And the
        factor: 1 in those cases, and where the norm is within the limit or exceeds float64.
    """
    norms, factors = torch.empty_like(limits), torch.empty_like(limits)
    if limits.numel():
        added = torch.full((1,), eps, dtype=torch.float64, device=limits.device)
        finish[(limits.numel(),)](
            limbs, header, ranks, limits, added, norms, factors, ORDER=order, enable_fp_fusion=False
        )
    return norms, factors


@cache
def prepare(device: torch.device, dtype: torch.dtype) -> None:
    """Have the kernels of a clip compiled for a dtype: once in a process, and not while other ranks wait."""
    part = [(torch.zeros(1, device=device).to(dtype), 0)]
    digits, _ = tallies(part, 1, 2, device)
    one = torch.ones(1, dtype=torch.float64, device=device)
    _, factors = norms_and_factors(digits, torch.zeros(8, dtype=torch.int64, device=device), 1, one, 0.0, 2)
    scale(part, factors)


def _tables(parts: Sequence[Part], device: torch.device) -> list[tuple[dict[str, Any], Tensor, int]]:
    """For each launch its constants, the table of its pieces, on the device, and how many tiles they have."""
    found: dict[tuple[Format, bool], list[tuple[int, int, int]]] = {}
    for values, slot in parts:
        if values.numel():
            address = values.data_ptr()
            found.setdefault((_FORMATS[values.dtype], address % 16 == 0), []).append((address, values.numel(), slot))
    tables = []
    for (form, aligned), rows in found.items():
        addresses, counts, slots = zip(*rows, strict=True)
        ends = list(accumulate(-(-count // (BLOCK * BLOCKS)) for count in counts))
        table = uploaded(torch.tensor([addresses, counts, ends, slots]), device)
        tables.append((_constants(form, aligned=aligned), table, ends[-1]))
    return tables


def uploaded(table: Tensor, device: torch.device) -> Tensor:
    """A host tensor on its way to `device`."""
    # From pinned memory, which the allocator gives to nobody else before the copy has ended, the host does not wait.
    return table.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else table


def _constants(form: Format, *, aligned: bool) -> dict[str, Any]:
    bits = form.bits
    return {
        "WORD": _WORDS[bits.size],
        "ALIGNED": aligned,
        "MANTISSA": bits.mantissa,
        "BIAS": bits.bias,
        "MASK": bits.magnitude_mask,
        "SPECIAL": bits.first_special,
        "INFINITE": bits.specials == "ieee",
        "BLOCK": BLOCK,
        "BLOCKS": BLOCKS,
        # Fused or not, the bits are the same (triton_tally); fused is faster.
        "enable_fp_fusion": True,
    }
