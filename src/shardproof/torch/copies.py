"""Copies that should be equal: compared by checksums of their bits, in the packet of the clip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

import torch
from torch import Tensor

from shardproof.torch.gradients import pieces
from shardproof.torch.packet import WORD
from shardproof.torch.roster import Held


def checksum(values: Tensor) -> int:
    """A 64-bit number of the bits of the values, in the order of their indices; -0.0 and 0.0 differ."""
    values = values.detach()
    # Two lazy negatives negate once more: the bits as they lie in memory.
    bits = torch._neg_view(values) if values.is_neg() else values
    digest = blake2b(digest_size=8)
    for piece in pieces(bits):
        digest.update(piece.cpu().contiguous().view(torch.uint8).numpy().data)
    return int.from_bytes(digest.digest(), "little")


def checksums(held: Sequence[Held], values: Sequence[Tensor | None]) -> dict[int, int]:
    """Index in the plan -> checksum, for slices of which there are copies, here under a tied name or elsewhere.

    0 where there is no gradient.
    """
    entries = Counter(each.weight for each in held)
    return {
        index: 0 if one is None else checksum(one)
        for index, (each, one) in enumerate(zip(held, values, strict=True))
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
