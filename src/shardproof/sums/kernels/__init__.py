"""Exact sums over raw memory: one protocol, several kernels that give the same bits.

A piece is `counts[i]` contiguous values at `addresses[i]`; one call takes any number of pieces. The caller
keeps the memory alive and unchanged during the call. A complex tensor is a piece of twice as many reals.
"""

from __future__ import annotations

from shardproof.sums.kernels.calls import best_kernel, largest, load_kernel, powers, prepare, scale, tally
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.powers import LARGEST_POWER, norm_of_powers, power_exponent
from shardproof.sums.kernels.protocol import Kernel, Largest, Order, Tally

__all__ = [
    "LARGEST_POWER",
    "Format",
    "Kernel",
    "Largest",
    "Order",
    "Tally",
    "best_kernel",
    "largest",
    "load_kernel",
    "norm_of_powers",
    "power_exponent",
    "powers",
    "prepare",
    "scale",
    "tally",
]
