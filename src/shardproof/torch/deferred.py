"""A call that never waits for a GPU: sums, verdict, norm and factor stay on the device, the host hears of it later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch import Tensor

from shardproof.errors import DisagreementError
from shardproof.sums import LIMBS
from shardproof.torch import native
from shardproof.torch.buckets import Buckets
from shardproof.torch.collecting import Local
from shardproof.torch.device import KINDS, kernels, takes
from shardproof.torch.gradients import FORMATS, place
from shardproof.torch.packet import HEADER, Packet, bit_place, decode, encode, head_size, width
from shardproof.torch.request import Request
from shardproof.torch.roster import Held, Selection
from shardproof.torch.world import World, add_up_there, gather


def agreed_device(here: World, tensors: Sequence[Tensor]) -> torch.device | None:
    """The device on which this rank's calls can be decided, or None where they are decided on the host.

    All ranks must have their tensors on one kind of device that the kernels know, none in float64: a norm beyond
    float64 takes its factor from the exact sum, on the host. Moduli of complex numbers are taken there too. A
    collective call of all ranks.
    """
    mine = {each.device for each in tensors}
    fits = (
        len(mine) <= 1 and kernels() is not None and not any(_is_double(each) or each.is_complex() for each in tensors)
    )
    if fits:
        for each in {(tensor.device, tensor.dtype) for tensor in tensors if tensor.is_cuda and tensor.dtype in FORMATS}:
            kernels().prepare(*each)
    told = gather(here, (fits, sorted({each.type for each in mine})))
    kinds = {kind for _, each in told for kind in each}
    if not all(each for each, _ in told) or len(kinds) != 1 or not kinds <= KINDS or not _connects(here, *kinds):
        return None
    kind = kinds.pop()
    if mine:
        return mine.pop()
    return torch.device(kind, torch.cuda.current_device()) if kind == "cuda" else torch.device(kind)


def _is_double(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.float64, torch.complex128)


def _connects(here: World, kind: str) -> bool:
    return here.group is None or kind in {device.type for device in here.group._device_types}


@dataclass(frozen=True)
class Values:
    """What a rank puts into a deferred call: the tensors that it counts, by bucket, and those it only looks at."""

    owned: Sequence[Sequence[Tensor]] = ()
    copies: Sequence[Tensor] = ()


def values_of(local: Local, chosen: Selection) -> Values:
    """The tensors behind a selection of entries."""
    values: list[Any] = local.values
    return Values([[values[at] for at in each] for each in chosen.owned], [values[at] for at in chosen.copies])


def grouped(local: Local, held: Sequence[Held], made: Buckets) -> list[tuple[Tensor, int]]:
    """Each tensor that has values, with the place of its group; none of a call that is void on this rank already."""
    group_of = {number: at for at, numbers in enumerate(made.groups.values()) for number in numbers}
    pairs = zip(held, local.values, strict=not local.stale)
    return [(values, group_of[each.bucket]) for each, values in pairs if values is not None]


@dataclass(frozen=True)
class Decided:
    """Results on the device: norms of the groups, in the order of the buckets' groups, then of each sum by itself.

    `factors`: of the groups. `header`: the head of the summed packet.
    """

    norms: Tensor
    factors: Tensor
    header: Tensor


def decide(
    here: World, device: torch.device, packet: Packet, values: Values, made: Buckets, asked: Request, *, exact: bool
) -> Decided:
    """One all-reduce of the packet (with native sums two), and what follows from it; no host synchronisation.

    `packet` holds what the host knows: fingerprint, stale, refused, presence. All values lie on `device`.
    """
    order = 1 if asked.order == 1 else 2
    words = _sent(packet, here, made, device)
    if exact:
        parts = [(dense(each), number) for number, tensors in enumerate(values.owned) for each in tensors]
        sums, counts = kernels().tallies(parts, made.count, order, device)
        limbs = words[head_size(here.size) :][: made.count * LIMBS].view(made.count, LIMBS)
        limbs += sums
        counts = counts + kernels().largest([(dense(each), 0) for each in values.copies], 1, device)[1]
    else:
        sums = native.sums_of(values.owned, order, device)
        counts = native.counts_of(torch.cat([sums, native.sums_of([values.copies], order, device)]))
    _put_counts(words, counts, here)
    words = add_up_there(here, words, device)
    if exact:
        sums = words[head_size(here.size) :][: made.count * LIMBS].view(made.count, LIMBS)
        finish = kernels().norms_and_factors
    else:
        sums = add_up_there(here, sums, device)
        finish = native.norms_and_factors
    rows = torch.cat([_of_groups(sums, made, device), sums])
    limits = _limits(made, asked, device)
    norms, factors = finish(rows, words[:HEADER], here.size, limits, asked.eps, order)
    return Decided(norms, factors[: len(made.groups)], words[: head_size(here.size)])


def _sent(packet: Packet, here: World, made: Buckets, device: torch.device) -> Tensor:
    """The packet on the device, with zeros in place of the sums."""
    head = encode(packet, here.size)
    sums = max(width(here.group), made.count)
    words = torch.zeros(head.numel() + sums * LIMBS, dtype=torch.int64, device=device)
    words[: head.numel()] = kernels().uploaded(head, device)
    return words


def _put_counts(words: Tensor, counts: Tensor, here: World) -> None:
    words[6:HEADER] += counts
    word, bit = bit_place(here.place)
    words[word] += (counts.sum() > 0) * (1 << bit)


def _of_groups(sums: Tensor, made: Buckets, device: torch.device) -> Tensor:
    """The sum of each group's sums. Digits of up to 2**31 ranks times parameters fit; they are carried later."""
    group_of = [0] * made.count
    for at, numbers in enumerate(made.groups.values()):
        for number in numbers:
            group_of[number] = at
    places = kernels().uploaded(torch.tensor(group_of, dtype=torch.int64), device)
    return sums.new_zeros((len(made.groups), *sums.shape[1:])).index_add_(0, places, sums)


def _limits(made: Buckets, asked: Request, device: torch.device) -> Tensor:
    limits = [asked.limit(group) for group in made.groups] + [torch.inf] * made.count
    sent: Tensor = kernels().uploaded(torch.tensor(limits, dtype=torch.float64), device)
    return sent


def scale(tensors: Sequence[tuple[Tensor, int]], factors: Tensor) -> None:
    """Scale each tensor by the factor of its group, each memory once; nothing is read or written where it is one.

    What has gaps in memory is scaled in a copy and written back, with the bits it had where the factor is one.
    """
    once = {place(each): (each, group) for each, group in tensors if each.numel()}
    parts = [(dense(each), each, group) for each, group in once.values()]
    kernels().scale([(filled, group) for filled, _, group in parts], factors)
    for filled, each, _ in parts:
        if filled is not each:
            each.copy_(filled)
    torch.autograd.graph.increment_version([each for _, each, _ in parts])


def dense(values: Tensor) -> Tensor:
    """The values, or a copy of them that fills one region."""
    return values if takes(values) else values.contiguous()


# ---- what the host hears later

COPIES_DIFFER = "some copies of a slice had a gradient and others none; from now on this plan decides on the host"
"""Who counts such a slice is found with a second exchange, which a call that does not wait cannot have."""


@dataclass(frozen=True)
class Pending:
    """The head of the packet of a call, on its way to the host, and what this rank asked then."""

    header: Tensor
    event: Any
    here: World
    said: str
    problems: tuple[str, ...]

    @classmethod
    def sent(cls, header: Tensor, here: World, said: str, problems: Sequence[str]) -> Pending:
        """Start copying; on a GPU nothing waits for it."""
        if header.device.type != "cuda":
            return cls(header.clone(), None, here, said, tuple(problems))
        target = torch.empty(header.shape, dtype=header.dtype, pin_memory=True)
        target.copy_(header, non_blocking=True)
        event: Any = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record()
        return cls(target, event, here, said, tuple(problems))

    def read(self) -> Packet:
        """What came out for all ranks; waits for the copy, which ended long ago when this is the next step."""
        if self.event is not None:
            self.event.synchronize()
        return replace(decode(self.header, self.here.size), sums=())

    def void(self, summed: Packet) -> str | None:
        """Why nothing was clipped, None when something was; the same on every rank."""
        if summed.stale:
            return f"on {summed.stale} ranks parameters had changed since the plan was built; the next call rebuilds it"
        if summed.refused:
            return f"{summed.refused} ranks could not clip; here: {'; '.join(self.problems) or 'nothing was wrong'}"
        if not summed.agreed(self.here.size):
            return f"ranks called differently; this one with {self.said}"
        if summed.presence:
            return COPIES_DIFFER
        return None


def refused_here(local: Local) -> list[str]:
    """What forbids to clip these gradients; float64 ones too, which only a plan that knows of them can clip."""
    doubles = [each for each in local.values if each is not None and _is_double(each)]
    return local.problems + (["a gradient is float64 and its parameter is not"] if doubles else [])


def raise_void(here: World, why: str) -> NoReturn:
    """The call before was void; raised by every rank at the same place, so no rank has to be asked."""
    raise DisagreementError(
        f"Rank {here.rank}: the previous clip was void, no gradient was clipped and its norm is NaN: {why}. The step "
        "after it used gradients that were not clipped. clip_grad_norm_ and error_if_nonfinite=True wait for the "
        "verdict and raise in the call itself."
    )
