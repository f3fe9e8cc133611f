"""Paths that end in an error: all ranks take them together, so that each can say what the others did.

Every function here is a collective call, entered by all ranks because all read the same packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

import torch

from shardproof.errors import (
    DisagreementError,
    InvalidValueError,
    NonFiniteGradientError,
    ShardproofError,
    UnequalCopiesError,
)
from shardproof.torch.collecting import Local
from shardproof.torch.packet import Packet
from shardproof.torch.request import Request
from shardproof.torch.roster import Held
from shardproof.torch.world import World, gather

SHOWN = 8


def refuse(here: World, wrong: ShardproofError | None, problems: Sequence[str]) -> NoReturn:
    """Some rank has bad arguments or gradients that cannot be clipped; each raises its own error or that one."""
    mine = str(wrong) if wrong is not None else "; ".join(problems)
    told = gather(here, mine)
    if wrong is not None:
        raise wrong
    text = "; ".join(_by_rank(here, told))
    if problems:
        raise InvalidValueError(f"Cannot clip, and no gradient was touched: {text}.")
    raise DisagreementError(f"Cannot clip, because another rank cannot; no gradient was touched: {text}.")


def disagree(here: World, asked: str, plan: str, *, kept: bool) -> None:
    """Ranks called with different limits, options or plans; names who called how.

    Returns when only the plans differ and every rank has looked its own up (`kept`): one rank's may be older than the
    others', as when it listed something else in between. They then have to be built together once more.
    """
    told = gather(here, (asked, plan, kept))
    if len({each for each, _, _ in told}) == 1 and all(each for _, _, each in told):
        return
    calls = _by_call(here, [f"{each}, plan {digest}" for each, digest, _ in told])
    raise DisagreementError(f"Ranks called differently, and no gradient was touched: {calls}.")


def agree_on_options(here: World, options: str) -> None:
    """Compare what ranks want of a plan before they build it: how many sums it has follows from that."""
    told = gather(here, options)
    if len(set(told)) > 1:
        raise DisagreementError(
            f"Ranks want different plans, and no gradient was touched: {_by_call(here, told)}. Pass the same options "
            "on every rank."
        )


def _by_call(here: World, told: Sequence[str]) -> str:
    calls: dict[str, list[int]] = {}
    for rank, said in zip(here.ranks, told, strict=True):
        calls.setdefault(said, []).append(rank)
    return "; ".join(f"ranks {_shown(ranks)}: {said}" for said, ranks in calls.items())


def raise_nonfinite(here: World, asked: Request, summed: Packet, held: Sequence[Held], local: Local) -> NoReturn:
    """Some value is NaN or infinite; names ranks and parameters, the same text on every rank."""
    names = [
        each.name
        for each, values in zip(held, local.values, strict=True)
        if values is not None and not bool(torch.isfinite(values).all())
    ]
    text = "; ".join(_by_rank(here, [_shown(each) for each in gather(here, names)]))
    raise NonFiniteGradientError(
        f"The total norm of order {asked.order:g} is non-finite, so no gradient was clipped or touched: "
        f"{summed.nans} NaN and {summed.infs} infinite values; {text}."
    )


def unequal_copies(here: World, held: Sequence[Held], sums: dict[int, int]) -> NoReturn:
    """Copies of a slice differ; names each tensor and which ranks hold what."""
    told = gather(here, [(held[index].weight, held[index].name, each) for index, each in sums.items()])
    found: dict[int, dict[int, list[int]]] = {}
    names: dict[int, str] = {}
    for rank, said in zip(here.ranks, told, strict=True):
        for weight, name, each in said:
            names.setdefault(weight, name)
            found.setdefault(weight, {}).setdefault(each, []).append(rank)
    unequal = [
        f"{names[weight]} is one thing on ranks {' and another on ranks '.join(_shown(each) for each in by.values())}"
        for weight, by in found.items()
        if len(by) > 1
    ]
    raise UnequalCopiesError(f"Copies that should be equal differ, and no gradient was touched: {_shown(unequal)}.")


def _by_rank(here: World, told: Sequence[str]) -> list[str]:
    return [f"rank {rank}: {said}" for rank, said in zip(here.ranks, told, strict=True) if said]


def _shown(items: Iterable[object]) -> str:
    listed = [str(each) for each in items]
    return ", ".join(listed[:SHOWN]) + (f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else "")
