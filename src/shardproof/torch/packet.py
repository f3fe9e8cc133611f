"""The one vector that every clip sums over its ranks: a header of fixed size and the limbs of exact sums.

Word by word, all int64, added modulo 2**64:

    0       h           fingerprint of limit, options and plan
    1       h * h       all h agree when W * sum(h * h) - sum(h)**2 = 0
    2       stale       ranks without a plan that fits their parameters
    3       refused     ranks that cannot clip what they hold, or that were called with bad arguments
    4       presence    zero when copies of a slice have a gradient on all of their ranks or on none
    5       copies      zero when copies are equal (only with check_copies)
    6, 7    nans, infs  counts over *all* local values, copies too
    8 ...   ranks       one bit for each rank that holds a non-finite value, 62 to a word
    ...     limbs       LIMBS words for each exact sum

The size depends only on the number of ranks and on the longest plan that they have ever built together: every packet
of a group is as long as that plan needs, whichever plan it is for. So packets are equally long also where ranks call
with different plans by mistake. Unequal ones would end the process under gloo, or add up wrong words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from shardproof.sums import LIMBS
from shardproof.sums.grid import from_limbs, to_limbs

WORD = 1 << 64
BITS_PER_WORD = 62
HEADER = 8
"""Words before the bits of the ranks."""


@dataclass(frozen=True)
class Packet:
    """What one rank puts in, or what came out for all of them."""

    fingerprint: int
    stale: int = 0
    refused: int = 0
    presence: int = 0
    copies: int = 0
    nans: int = 0
    infs: int = 0
    bad_ranks: tuple[int, ...] = ()
    sums: tuple[int, ...] = (0,)
    squared_fingerprint: int | None = None
    """The sum of squares that came out; a rank that puts in its packet leaves it to `encode`."""

    def agreed(self, ranks: int) -> bool:
        """Whether all fingerprints are equal; wrong with a probability of about 2**-32 for random ones."""
        squared = self.fingerprint**2 if self.squared_fingerprint is None else self.squared_fingerprint
        return (ranks * squared - self.fingerprint**2) % WORD == 0


_widths: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def width(group: Any) -> int:
    """How many exact sums each packet of a process group carries; None stands for a single process."""
    return 0 if group is None else _widths.get(group, 1)


def widen(group: Any, sums: int) -> None:
    """Let packets of a group carry at least so many sums; called by all its ranks when they have built a plan."""
    if group is not None:
        _widths[group] = max(width(group), sums)


_built: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def next_plan(group: Any) -> int:
    """The number of the plan that all ranks of a group are about to build; the same on all of them."""
    if group is None:
        return 0
    _built[group] = _built.get(group, 0) + 1
    return _built[group]


def encode(packet: Packet, ranks: int, sums: int = 0) -> torch.Tensor:
    """Lay out one rank's packet as int64 words, with zeros up to `sums` exact sums."""
    words = [
        packet.fingerprint,
        packet.fingerprint**2,
        packet.stale,
        packet.refused,
        packet.presence,
        packet.copies,
        packet.nans,
        packet.infs,
    ]
    bits = [0] * _bit_words(ranks)
    for rank in packet.bad_ranks:
        word, bit = bit_place(rank)
        bits[word - HEADER] |= 1 << bit
    words += bits
    for total in packet.sums:
        words += to_limbs(total)
    words += [0] * (LIMBS * (sums - len(packet.sums)))
    # On the host whatever torch's default device is: the caller moves it to where the group wants it.
    return torch.tensor([_signed(word) for word in words], dtype=torch.int64, device="cpu")


def decode(words: torch.Tensor, ranks: int) -> Packet:
    """Read the sum of all ranks' packets."""
    values: list[int] = words.tolist()
    head, rest = values[:HEADER], values[HEADER:]
    bits, limbs = rest[: _bit_words(ranks)], rest[_bit_words(ranks) :]
    sums = tuple(from_limbs(limbs[start : start + LIMBS]) for start in range(0, len(limbs), LIMBS))
    h, squared, stale, refused, presence, copies, nans, infs = head
    return Packet(
        h % WORD,
        stale,
        refused,
        presence % WORD,
        copies % WORD,
        nans,
        infs,
        _ranks_of(bits),
        sums,
        squared % WORD,
    )


def head_size(ranks: int) -> int:
    """Words before the limbs."""
    return HEADER + _bit_words(ranks)


def bit_place(rank: int) -> tuple[int, int]:
    """The word of the packet, and its bit, that say whether a rank (by its place in the group) is not finite."""
    return HEADER + rank // BITS_PER_WORD, rank % BITS_PER_WORD


def _ranks_of(bits: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        index * BITS_PER_WORD + bit
        for index, word in enumerate(bits)
        for bit in range(BITS_PER_WORD)
        if word >> bit & 1
    )


def _bit_words(ranks: int) -> int:
    return -(-ranks // BITS_PER_WORD)


def _signed(word: int) -> int:
    word %= WORD
    return word - WORD if word >= WORD >> 1 else word
