"""The plan: who counts what is agreed once, collectively; then every clip costs one all-reduce."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any
from weakref import ref

import torch
from torch import Tensor

from shardproof.errors import DisagreementError, InvalidValueError, ShardproofError
from shardproof.layout import Mesh
from shardproof.sums.kernels import Kernel, best_kernel, power_exponent
from shardproof.torch import collecting, refusals
from shardproof.torch.catalog import Catalog, catalog
from shardproof.torch.collecting import Held, Local, collect, looks, slice_weight
from shardproof.torch.description import Description, describe
from shardproof.torch.naming import Parameters, Placements
from shardproof.torch.norms import Norm, of_powers, of_sum, of_value
from shardproof.torch.packet import Packet, decode, encode
from shardproof.torch.reading import Read, Said, read
from shardproof.torch.request import Request, request
from shardproof.torch.source import Source
from shardproof.torch.world import MeshLike, World, add_up, default_group, gather, largest, world

REBUILDS = 3
"""How often a call rebuilds a stale plan before it gives up."""


class ClipPlan:
    """Who counts what, agreed by all ranks once; then `clip_` needs one all-reduce each step.

    norm = (sum over logical elements of |g|**p)**(1/p), each logical element counted by exactly one rank;
    clipped = float64(g) x min(1, max_norm / norm), rounded once to the gradient's dtype.

    Building a plan is a collective call of all ranks of the group. The plan keeps only weak references to the
    parameters; one that changed is noticed on the next call, and all ranks rebuild the plan together.

    Args:
        parameters: a module, (name, tensor) pairs, an iterable of tensors, or one tensor; of each its `.grad`.
        mesh: a DeviceMesh, or a mapping axis name -> ProcessGroup; covers every rank that takes part.
        group: the ranks that take part; default the mesh's ranks, else the default group.
        placements: patterns (or tensors) -> axis -> "shard" | "replicate" | "partial" | "distinct", or one word
            for every axis. Per axis the first matching pattern wins. What a DTensor or a DDP module says
            itself need not be said; what contradicts it is an error.
        tied: tuples of names that are one tensor with several copies, also on different ranks.
        owned: name -> (start, stop, numel): the tensor begins with elements start..stop of a flat buffer of numel
            elements; the rest of it is padding.
        shape: name -> global shape of a hand-made shard.

    Raises:
        PlacementError: how a tensor lies is unknown, contradictory, or does not cover each element once.
        ParticipationError: a rank did not take part.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> plan = ClipPlan([("weight", weight)])
    >>> float(plan.clip_(1.0)), weight.grad
    (5.0, tensor([0.6000, 0.8000]))
    """

    def __init__(
        self,
        parameters: Parameters,
        *,
        mesh: MeshLike | None = None,
        group: Any | None = None,
        placements: Placements | None = None,
        tied: Sequence[Sequence[str]] = (),
        owned: Mapping[str, tuple[int, int, int]] | None = None,
        shape: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._prepare(parameters, mesh, group, Said(placements, tied, owned or {}, shape or {}))
        self._exchange(self._packet(None, stale=1))
        self._build()

    @classmethod
    def unbuilt(cls, parameters: Parameters, mesh: MeshLike | None, group: Any | None, said: Said) -> ClipPlan:
        """A plan that is built by its first call, together with the other ranks; what `clip_grad_norm_` caches."""
        plan = cls.__new__(cls)
        plan._prepare(parameters, mesh, group, said)
        return plan

    def _prepare(self, parameters: Parameters, mesh: MeshLike | None, group: Any | None, said: Said) -> None:
        self._source = Source(parameters)
        self._mesh, self._group, self._said = mesh, group, said
        self._gradient_of: Callable[[Tensor], Any] = lambda tensor: tensor.grad
        self._here: World = world(mesh, group)
        self._default = default_group()
        self._kernel: Kernel = best_kernel()
        self._catalog: Catalog | None = None
        self._held: tuple[Held, ...] = ()

    def belongs(self) -> bool:
        """Whether the plan's tensors live and its process groups are those of the present run."""
        return self._source.alive() and self._default is default_group()

    def clip_(
        self,
        max_norm: float | None,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        *,
        eps: float = 0.0,
    ) -> Tensor:
        """Clip the gradients in place to a global norm of at most `max_norm`; return the norm before clipping.

        factor = max_norm / norm above the limit, else one: then nothing is written. The 2-norm is the float64
        nearest to the root of the exact sum of squares: the same bits under every sharding. A collective call.

        Args:
            max_norm: the limit, >= 0; inf or None measures only; 0 gives zero gradients.
            norm_type: 2, 1, inf, or any p in (0, 512]. 1 and 2 are exact, correctly rounded; inf is exact; other
                p are within 8 units in the last place of float64 for the sum, divided by p for the norm.
            error_if_nonfinite: raise on every rank when some gradient value is NaN or infinite.
            eps: added to the norm before dividing; 1e-6 gives torch's factor.

        Returns:
            A plain 0-dim float64 tensor, equal on every rank. NaN or inf when some value is not finite; the
            gradients are untouched then.

        Raises:
            InvalidValueError, InvalidTypeError: max_norm, norm_type or eps is unusable; gradients untouched.
            DisagreementError: ranks called with different limits, options or plans; gradients untouched.
            NonFiniteGradientError: with error_if_nonfinite; names ranks and parameters.
            ParticipationError: a rank did not take part within the group's timeout.
        """
        found, local = self._measure(max_norm, norm_type, eps, error_if_nonfinite)
        present = [values for values in local.values if values is not None]
        if found.factor != 1.0:
            collecting.scale_all(self._kernel, present, found.factor)
        device = present[0].device if present else torch.device("cpu")
        return torch.tensor(found.norm, dtype=torch.float64, device=device)

    def measure(self, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Tensor:
        """Return the global norm and touch nothing; as `clip_` with no limit. A collective call."""
        return self.clip_(None, norm_type, error_if_nonfinite)

    def describe(self) -> Description:
        """Who counts what: tensor, global shape, placement per axis, owner, copies, proved or declared."""
        if self._catalog is None:
            raise InvalidValueError("This plan is not built yet; call clip_ first, on every rank.")
        return describe(self._catalog)

    # ---- one call

    def _measure(self, *arguments: object) -> tuple[Norm, Local]:
        """One packet, or more where the plan is stale or copies lack gradients; the same on every rank."""
        asked, wrong = _asked(*arguments)
        owners: dict[int, bool] = {}
        for _ in range(REBUILDS + 2):
            local = self._collect()
            summed = self._exchange(self._contribute(local, asked, owners))
            if summed.stale:
                self._build()
                owners = {}
            elif summed.refused:
                refusals.refuse(self._here, wrong, local.problems)
            elif asked is None or not summed.agreed(self._here.size):
                refusals.disagree(self._here, asked, self._digest)
            elif summed.presence:
                owners = self._reassign(local)
            else:
                return self._conclude(asked, summed, local, owners), local
        raise DisagreementError(
            f"The plan was rebuilt {REBUILDS} times and still does not fit: parameters keep changing between the "
            "parts of one call. Do not add, remove or replace parameters while clipping."
        )

    @property
    def _digest(self) -> str:
        return self._catalog.digest if self._catalog else ""

    def _collect(self) -> Local:
        if self._catalog is None or not self._source.lists([each.ref() for each in self._held]):
            return Local(stale=True)
        return collect(self._held, self._gradient_of)

    def _split(self, local: Local, owners: Mapping[int, bool]) -> tuple[list[Tensor], list[Tensor]]:
        """The values that this rank counts, and the copies that it only looks at."""
        owned: list[Tensor] = []
        others: list[Tensor] = []
        for index, (each, values) in enumerate(zip(self._held, local.values, strict=True)):
            if values is not None:
                (owned if owners.get(index, each.share.owned) else others).append(values)
        return owned, others

    def _contribute(self, local: Local, asked: Request | None, owners: Mapping[int, bool]) -> Packet:
        if local.stale:
            return self._packet(asked, stale=1)
        if asked is None or local.problems:
            return self._packet(asked, refused=1)
        owned, others = self._split(local, owners)
        order = 1 if asked.order == 1 else 2
        tally = collecting.add_up(self._kernel, owned, order)
        both = tally.merge(collecting.add_up(self._kernel, others, order))
        return replace(
            self._packet(asked),
            presence=0 if owners else collecting.presence(self._held, local),
            nans=both.nans,
            infs=both.infs,
            bad_ranks=(self._here.place,) if both.nans or both.infs else (),
            sums=(tally.total,),
        )

    def _packet(self, asked: Request | None, *, stale: int = 0, refused: int = 0) -> Packet:
        mark = blake2b(f"{asked}\0{self._digest}".encode(), digest_size=8).digest()
        return Packet(int.from_bytes(mark, "little"), stale, refused)

    def _exchange(self, packet: Packet) -> Packet:
        return decode(add_up(self._here, encode(packet, self._here.size)), self._here.size)

    def _conclude(self, asked: Request, summed: Packet, local: Local, owners: Mapping[int, bool]) -> Norm:
        if summed.nans or summed.infs:
            if asked.error_if_nonfinite:
                refusals.raise_nonfinite(self._here, asked, summed, self._held, local)
            return Norm(math.nan if summed.nans else math.inf, 1.0)
        if asked.order in (1, 2):
            return of_sum(summed.sums[0], asked.order, asked.limit, asked.eps)
        owned, _ = self._split(local, owners)
        top = largest(self._here, collecting.largest_magnitude(self._kernel, owned))
        if asked.order == math.inf:
            return of_value(top, asked.limit, asked.eps)
        exponent = power_exponent(asked.order, top)
        mine = collecting.add_up_powers(self._kernel, owned, asked.order, exponent)
        total = self._exchange(replace(self._packet(asked), sums=(mine.total,))).sums[0]
        return of_powers(total, asked.order, exponent, asked.limit, asked.eps)

    # ---- agreeing, together with all ranks

    def _build(self) -> None:
        listed: list[tuple[str, Tensor]] = []

        def reads(root: Mesh | None) -> list[Read]:
            found = self._source.tensors()
            listed[:] = found.tensors
            return read(found, self._source.module, self._said, self._here, root)

        self._catalog = None
        found = catalog(self._here, self._mesh, reads)
        self._held = tuple(
            Held(
                ref(tensor),
                each,
                part,
                looks(tensor),
                slice_weight(each.listed.identity(self._here.rank), part),
            )
            for (_, tensor), each, part in zip(listed, found.reads, found.shares, strict=True)
        )
        self._catalog = found

    def _reassign(self, local: Local) -> dict[int, bool]:
        """Some copies of a slice have a gradient and others none: the first rank that has one counts it."""
        absent = {
            each.weight
            for each, values in zip(self._held, local.values, strict=True)
            if values is None and each.share.first
        }
        told = dict(zip(self._here.ranks, gather(self._here, absent), strict=True))
        owners = {}
        for index, each in enumerate(self._held):
            having = [rank for rank in each.share.copies if each.weight not in told[rank]]
            owners[index] = each.share.first and having[:1] == [self._here.rank]
        return owners


def _asked(*arguments: object) -> tuple[Request | None, ShardproofError | None]:
    """The request, or the error of a caller's argument: the other ranks have to hear of it first."""
    try:
        return request(*arguments), None
    except ShardproofError as error:
        return None, error
