"""Sums kept exactly: the same bits in any order, over any partition."""

from shardproof.sums.accumulator import ExactSum
from shardproof.sums.grid import GRID_EXPONENT, LIMB_BITS, LIMBS, MAX_RANKS
from shardproof.sums.root import rounded_ratio_to_root, rounded_root, scaled_float

__all__ = [
    "GRID_EXPONENT",
    "LIMBS",
    "LIMB_BITS",
    "MAX_RANKS",
    "ExactSum",
    "rounded_ratio_to_root",
    "rounded_root",
    "scaled_float",
]
