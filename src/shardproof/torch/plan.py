"""The plan: who counts what is agreed once, collectively; then every clip costs one all-reduce."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from operator import attrgetter
from typing import Any, Literal
from weakref import ref

import torch
from torch import Tensor

from shardproof.errors import DisagreementError, InvalidValueError, ShardproofError
from shardproof.layout import Mesh, Placement
from shardproof.sums.kernels import Kernel, best_kernel, power_exponent, prepare
from shardproof.torch import deferred, in_backward, native, optimizers, passes, refusals
from shardproof.torch.buckets import Buckets, buckets
from shardproof.torch.catalog import Catalog, catalog, unreadable
from shardproof.torch.collecting import Local, collect
from shardproof.torch.copies import checksums, copies_term
from shardproof.torch.description import Description, describe
from shardproof.torch.device import on
from shardproof.torch.naming import Groups, Parameters, Placements
from shardproof.torch.norms import Found, not_finite, of_largest, of_powers, of_sums
from shardproof.torch.packet import Packet, decode, encode, next_plan, widen, width
from shardproof.torch.partials import reduce_together
from shardproof.torch.passes import Chosen, chosen
from shardproof.torch.reading import Place, Read, Said, check_named, read
from shardproof.torch.request import Request, checked_order, request
from shardproof.torch.roster import Held, Roster, looks, present, slice_weight
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
        groups: name -> patterns or tensors; each group is clipped by its own global norm. Every tensor must be
            in one; the first that names it wins.
        per_parameter_norms: return each parameter's global norm too.
        check_copies: compare slices that should be equal on several ranks, bit by bit, before anything is scaled.
        reduce_partials: sum partial gradients over their axes first, all in one collective for each group of
            ranks and dtype; without it they are refused.
        accumulate: "exact", or "native": orders 1 and 2 by torch's own reductions in float32, for GPUs on which
            float64 is slow. The last bits of the norm then depend on the layout, squares can overflow to inf and
            underflow to 0, and a second all-reduce sums float64. Ranks must agree on it.

    On a GPU, `clip_` of order 1 or 2 does not wait: the verdict is reached on the device, and what only the host can
    tell is raised by the next call or by `check`. float64 gradients, check_copies, reduce_partials,
    error_if_nonfinite and other orders make it wait and read one small vector.

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
        groups: Groups | None = None,
        per_parameter_norms: bool = False,
        check_copies: bool = False,
        reduce_partials: bool = False,
        accumulate: Literal["exact", "native"] = "exact",
    ) -> None:
        flags = (per_parameter_norms, check_copies, reduce_partials, checked_accumulate(accumulate))
        said = Said(placements, tied, owned or {}, shape or {}, groups, *flags)
        self._prepare(parameters, mesh, group, said)
        self._waits = check_copies or reduce_partials
        self._kept = False
        self._exchange(self._packet(None, stale=1))
        self._build()

    @classmethod
    def unbuilt(
        cls,
        parameters: Parameters,
        mesh: MeshLike | None,
        group: Any | None,
        said: Said,
        *,
        of_gradients: bool = False,
    ) -> ClipPlan:
        """A plan that is built by its first call, together with the other ranks; what `clip_grad_norm_` caches.

        `of_gradients`: the tensors are the gradients themselves.
        """
        plan = cls.__new__(cls)
        plan._prepare(parameters, mesh, group, said)
        if of_gradients:
            plan._gradient_of = _itself
        return plan

    def _prepare(self, parameters: Parameters, mesh: MeshLike | None, group: Any | None, said: Said) -> None:
        in_backward.watch()
        self._source = Source(parameters)
        self._mesh, self._said = mesh, self._source.without_tensors(said)
        self._gradient_of: Callable[[Any], Any] = _GRADIENT
        self._here: World = world(mesh, group)
        self._default = default_group()
        self._kernel: Kernel = best_kernel()
        self._catalog: Catalog | None = None
        self._digest = ""
        self._kept = True
        self._buckets = Buckets({}, {}, 0)
        self._reduces = False
        self._rebuilds = False
        self._waits = True
        self._device: torch.device | None = None
        self._pending: deferred.Pending | None = None
        self._native: Tensor | None = None
        self._roster = Roster((), 0, 0)
        for form in self._source.formats():
            prepare(self._kernel, form)

    def belongs(self) -> bool:
        """Whether the plan's tensors live and its process groups are those of the present run."""
        return self._source.alive() and self._default is default_group()

    def clip_(
        self,
        max_norm: float | Mapping[str, float] | None,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        *,
        eps: float = 0.0,
    ) -> Any:
        """Clip the gradients in place to a global norm of at most `max_norm`; return the norm before clipping.

        factor = max_norm / norm above the limit, else one: then nothing is written. The 2-norm is the float64
        nearest to the root of the exact sum of squares: the same bits under every sharding. A collective call.

        Args:
            max_norm: the limit, >= 0; inf or None measures only; 0 gives zero gradients. A mapping gives each
                of the plan's groups its own.
            norm_type: 2, 1, inf, or any p in (0, 512]. 1 and 2 are exact, correctly rounded; inf is exact; other
                p are within 8 units in the last place of float64 for the sum, divided by p for the norm.
            error_if_nonfinite: raise on every rank when some gradient value is NaN or infinite.
            eps: added to the norm before dividing; 1e-6 gives torch's factor.

        Returns:
            A plain 0-dim float64 tensor, equal on every rank; with groups a dict group -> such a tensor. With
            per_parameter_norms a pair of that and a dict parameter -> norm. NaN or inf, all of them, when some
            value is not finite; the gradients are untouched then.

        Raises:
            InvalidValueError, InvalidTypeError: max_norm, norm_type or eps is unusable; gradients untouched.
            DisagreementError: ranks called with different limits, options or plans; gradients untouched.
            NonFiniteGradientError: with error_if_nonfinite; names ranks and parameters.
            UnequalCopiesError: with check_copies; names tensor and ranks; gradients untouched.
            ParticipationError: a rank did not take part within the group's timeout.
        """
        self.check()
        asked, wrong = _asked(max_norm, norm_type, eps, error_if_nonfinite, self._said.groups)
        if self._rebuilds:
            self._build()
        if self._device is not None and not error_if_nonfinite and _is_plain(norm_type):
            with on(self._device):
                return self._clip_there(asked, wrong, self._device)
        found, local = self._measure(asked, wrong)
        self._scale(found, local)
        return self._answer(found, local)

    def clip_in_step_(
        self,
        optimizer: torch.optim.Optimizer | None,
        max_norm: float | None,
        scaler: torch.amp.GradScaler | None = None,
        *,
        norm_type: float = 2.0,
        error_if_nonfinite: bool = False,
        eps: float = 0.0,
    ) -> Any:
        """Clip and step in one pass: a fused optimizer divides by norm / max_norm as it reads the gradients.

        Equal to `clip_` and then `optimizer.step()` within the roundings of one division, not bit by bit: the
        kernel divides by norm / max_norm rounded to float32, and computes with gradients that are not rounded to
        their dtype before. When some value of some rank is not finite, no rank steps: parameters, state and
        gradients stay. Afterwards `.grad` holds the clipped gradients, and the optimizer's own attributes
        grad_scale and found_inf are what they were. A collective call.

        Args:
            optimizer: torch's Adam, AdamW, SGD or Adagrad with fused=True, with just the plan's parameters; None
                on a rank without parameters.
            max_norm: the limit, >= 0, of the norm without loss scale; inf or None only steps; 0 steps with zeros.
            scaler: a GradScaler or ShardedGradScaler; before or after `scaler.unscale_(optimizer)`. Before, the
                loss scale is divided out in the same pass. `scaler.update()` remains to be called.
            norm_type: as in `clip_`.
            error_if_nonfinite: raise on every rank instead of skipping the step.
            eps: as in `clip_`.

        Returns:
            The norm before clipping, without loss scale; as `clip_` does. NaN or inf when the step was skipped.

        Raises:
            InvalidValueError, InvalidTypeError: the optimizer or scaler cannot carry a clip; the text says why. On
                ranks whose own can, DisagreementError. Nothing was touched on any rank.
            And all that `clip_` raises, before anything is stepped.

        >>> import torch
        >>> weight = torch.nn.Parameter(torch.zeros(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> plan = ClipPlan([("weight", weight)])
        >>> float(plan.clip_in_step_(torch.optim.SGD([weight], lr=1.0, fused=True), 2.5)), weight.tolist()
        (5.0, [-1.5, -2.0])
        """
        self.check()
        asked, wrong = _asked(max_norm, norm_type, eps, error_if_nonfinite, self._said.groups)
        step, unfit = optimizers.attempt(optimizer, scaler, lambda: self._source.tensors().tensors, self._said.groups)
        asked = None if asked is None or step is None else optimizers.asked_of(step, asked)
        found, local = self._measure(asked, wrong or unfit)
        assert step is not None
        factor = next(iter(found.groups.values())).factor
        if not optimizers.fits(step, factor):
            self._scale(found, local)
            factor = 1.0
        optimizers.take(step, factor, finite=found.finite)
        return self._answer(optimizers.without_scale(step, found), local)

    def _scale(self, found: Found, local: Local) -> None:
        for group, norm in found.groups.items():
            if norm.factor != 1.0:
                passes.scale_all(self._kernel, self._values_of(local, group), norm.factor)

    def _values_of(self, local: Local, group: str) -> Chosen:
        numbers = set(self._buckets.groups[group])
        pairs = enumerate(zip(self._held, local.values, strict=True))
        return chosen(local, [at for at, (each, values) in pairs if values is not None and each.bucket in numbers])

    def _answer(self, found: Found, local: Local) -> Any:
        device = next((each.device for each in local.values if each is not None), None)

        def scalar(value: float) -> Tensor:
            return torch.tensor(value, dtype=torch.float64, device=device)

        norms = {group: scalar(each.norm) for group, each in found.groups.items()}
        whole: Any = norms if self._said.groups is not None else next(iter(norms.values()))
        if not self._said.per_parameter_norms:
            return whole
        return whole, {each.name: scalar(found.sums[each.bucket]) for each in self._held}

    def measure(self, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
        """Return the global norm and touch nothing; as `clip_` with no limit. A collective call."""
        return self.clip_(None, norm_type, error_if_nonfinite)

    def check(self) -> None:
        """Raise what the last `clip_` on a GPU could not: it was void, because ranks disagreed or the plan was stale.

        Waits for that call to end on the device; does nothing where calls are decided on the host. No collective,
        but call it on every rank or on none: a rank that has heard of a void call goes on differently.

        Raises:
            DisagreementError: the call clipped nothing and its norm is NaN; says why.

        >>> import torch
        >>> ClipPlan([("weight", torch.nn.Parameter(torch.zeros(2)))]).check()
        """
        pending, self._pending = self._pending, None
        if pending is None:
            return
        summed = pending.read()
        why = pending.void(summed)
        if why is None:
            return
        self._rebuilds = bool(summed.stale)
        if why == deferred.COPIES_DIFFER:
            self._device, self._waits = None, True
        deferred.raise_void(self._here, why)

    def describe(self) -> Description:
        """Who counts what: tensor, global shape, placement per axis, owner, copies, proved or declared."""
        if self._catalog is None:
            raise InvalidValueError("This plan is not built yet; call clip_ first, on every rank.")
        return describe(self._catalog, self._said.accumulate, self._unmatched)

    # ---- one call

    def _clip_there(self, asked: Request | None, wrong: ShardproofError | None, device: torch.device) -> Any:
        """Decide on the device; a rank with bad arguments or gradients takes part, so that the others are not left."""
        local = self._collect(reduced=False)
        problems = deferred.refused_here(local)
        packet, values = self._packet(asked), deferred.Values(tuple([] for _ in range(self._buckets.count)))
        if local.stale or problems or asked is None:
            packet = replace(packet, stale=int(local.stale), refused=int(not local.stale))
        else:
            chosen = self._roster.select(local.values)
            packet = replace(packet, presence=chosen.presence)
            values = deferred.values_of(local, chosen)
        request = asked or Request((("", math.inf),), 2.0, 0.0, False)
        exact = self._said.accumulate == "exact"
        decided = deferred.decide(self._here, device, packet, values, self._buckets, request, exact=exact)
        said = f"{asked}, plan {self._digest[:8]} with {self._said.options}"
        self._pending = deferred.Pending.sent(decided.header, self._here, said, [str(wrong)] if wrong else problems)
        if wrong is not None:
            raise wrong
        if problems:
            raise InvalidValueError(f"Cannot clip, and no gradient was touched: {'; '.join(problems)}.")
        deferred.scale(deferred.grouped(local, self._held, self._buckets), decided.factors)
        return self._answer_of(list(decided.norms))

    def _answer_of(self, norms: Sequence[Tensor]) -> Any:
        groups = dict(zip(self._buckets.groups, norms, strict=False))
        whole: Any = groups if self._said.groups is not None else norms[0]
        if not self._said.per_parameter_norms:
            return whole
        sums = norms[len(groups) :]
        return whole, {each.name: sums[each.bucket] for each in self._held}

    def _measure(self, asked: Request | None, wrong: ShardproofError | None) -> tuple[Found, Local]:
        """One packet, or more where the plan is stale, copies lack gradients or summands have to be reduced.

        Which path is taken follows from the summed packet, which is the same on every rank.
        """
        owners: list[bool] = []
        reduced = False
        for _ in range(REBUILDS + 3):
            local = self._collect(reduced=reduced)
            reducing = not reduced and self._reduces
            summed = self._exchange(self._contribute(local, asked, owners, only_flags=reducing))
            if summed.stale:
                self._build()
                owners = []
            elif summed.refused:
                refusals.refuse(self._here, wrong, local.problems)
            elif asked is None or not summed.agreed(self._here.size):
                asks = str(asked) if asked is None else f"{asked}, {self._said.options}"
                refusals.disagree(self._here, asks, self._digest[:8], kept=self._kept)
                self._build()
                owners = []
            elif reducing:
                self._reduce()
                reduced = True
            elif summed.copies:
                refusals.unequal_copies(self._here, self._held, checksums(self._held, local.values))
            elif summed.presence:
                owners = self._reassign(local)
            else:
                return self._conclude(asked, summed, local, owners), local
        raise DisagreementError(
            f"The plan was rebuilt {REBUILDS} times and still does not fit: parameters keep changing between the "
            "parts of one call. Do not add, remove or replace parameters while clipping."
        )

    @property
    def _held(self) -> tuple[Held, ...]:
        return self._roster.held

    def _collect(self, *, reduced: bool) -> Local:
        tensors = self._roster.tensors()
        if self._catalog is None or not self._source.lists(tensors):
            return Local(stale=True)
        return collect(self._roster, tensors, self._gradient_of, reduced=reduced)

    def _reduce(self) -> None:
        # Packs are summed word by word: every rank fills them in one order, whatever order it lists its tensors in.
        held = sorted((each for each in self._held if each.read.partial), key=_by_name)
        members = [(each.ref(), each.read.partial) for each in held]
        pairs = [(tensor, partial) for tensor, partial in members if tensor is not None and partial is not None]
        reduce_together(
            self._here, [tensor for tensor, _ in pairs], [partial for _, partial in pairs], self._gradient_of
        )

    def _chosen(self, local: Local, owners: Sequence[bool], order: float) -> tuple[list[Chosen], Chosen]:
        """The values that this rank counts, by bucket, and those that another one counts: here only looked at."""
        if order != 2 and self._roster.complexes:
            # The square of a modulus is the sum of the squares of its parts; no other power is.
            local = passes.as_complex(local, self._roster.complexes)
        selection = self._roster.select(local.values)
        owned, copies = selection.owned, selection.copies
        if owners:
            owned, copies = self._roster.split(present(local.values), owners)
        return [chosen(local, each) for each in owned], chosen(local, copies)

    def _contribute(self, local: Local, asked: Request | None, owners: Sequence[bool], *, only_flags: bool) -> Packet:
        if local.stale:
            return self._packet(asked, stale=1)
        if asked is None or local.problems:
            return self._packet(asked, refused=1)
        if only_flags:
            return self._packet(asked)
        nans, infs, totals = self._summed(local, owners, asked)
        copies = 0
        if self._said.check_copies:
            copies = copies_term(self._held, checksums(self._held, local.values))
        return replace(
            self._packet(asked),
            presence=0 if owners else self._roster.select(local.values).presence,
            copies=copies,
            nans=nans,
            infs=infs,
            bad_ranks=(self._here.place,) if nans or infs else (),
            sums=totals,
        )

    def _summed(self, local: Local, owners: Sequence[bool], asked: Request) -> tuple[int, int, tuple[int, ...]]:
        """Counts of NaN and of infinities over all values, and the exact sums of what this rank counts."""
        order = 1 if asked.order == 1 else 2
        owned, others = self._chosen(local, owners, asked.order)
        if self._adds_natively(asked):
            self._native = native.sums_of([each.tensors for each in owned], order, self._here.device)
            looked_at = native.sums_of([others.tensors], order, self._here.device)
            nans, infs = native.counts_of(torch.cat([self._native, looked_at])).tolist()
            return nans, infs, ()
        tallies = [passes.add_up(self._kernel, values, order) for values in owned]
        looked = passes.add_up(self._kernel, others, order)
        nans = looked.nans + sum(tally.nans for tally in tallies)
        infs = looked.infs + sum(tally.infs for tally in tallies)
        return nans, infs, tuple(tally.total for tally in tallies)

    def _adds_natively(self, asked: Request) -> bool:
        return self._said.accumulate == "native" and asked.order in (1, 2)

    def _packet(self, asked: Request | None, *, stale: int = 0, refused: int = 0) -> Packet:
        mark = blake2b(f"{asked}\0{self._digest}\0{self._said.options}".encode(), digest_size=8).digest()
        return Packet(int.from_bytes(mark, "little"), stale, refused, sums=())

    def _exchange(self, packet: Packet) -> Packet:
        summed = decode(add_up(self._here, encode(packet, self._here.size, width(self._here.group))), self._here.size)
        return replace(summed, sums=summed.sums[: self._buckets.count])

    def _conclude(self, asked: Request, summed: Packet, local: Local, owners: Sequence[bool]) -> Found:
        if summed.nans or summed.infs:
            if asked.error_if_nonfinite:
                refusals.raise_nonfinite(self._here, asked, summed, self._held, local)
            return not_finite(self._buckets, math.nan if summed.nans else math.inf)
        if self._adds_natively(asked):
            assert self._native is not None
            return native.found_of(add_up(self._here, self._native).tolist(), self._buckets, asked)
        if asked.order in (1, 2):
            return of_sums(summed.sums, self._buckets, asked)
        owned, _ = self._chosen(local, owners, asked.order)
        tops = largest(self._here, [passes.largest_magnitude(self._kernel, values) for values in owned])
        if asked.order == math.inf:
            return of_largest(tops, self._buckets, asked)
        exponent = power_exponent(asked.order, max(tops, default=0.0))
        totals = [passes.add_up_powers(self._kernel, values, asked.order, exponent).total for values in owned]
        summed = self._exchange(replace(self._packet(asked), sums=tuple(totals)))
        return of_powers(summed.sums, exponent, self._buckets, asked)

    # ---- agreeing, together with all ranks

    def _build(self) -> None:
        listed: list[tuple[str, Tensor]] = []

        def reads(root: Mesh | None) -> list[Read]:
            found = self._source.tensors()
            listed[:] = found.tensors
            return read(found, self._source.module, self._said, Place(self._here, root, self._mesh))

        self._catalog = None
        said, rank, number = self._said, self._here.rank, next_plan(self._here.group)
        refusals.agree_on_options(self._here, said.options)
        unmatched: list[str] = []
        found = catalog(self._here, self._mesh, reads, lambda names: unmatched.extend(check_named(said, names)))
        self._unmatched = tuple(unmatched)
        self._buckets = buckets(found.lines.values(), said.groups or (), per_parameter=said.per_parameter_norms)
        widen(self._here.group, self._buckets.count)
        held = tuple(
            Held(
                ref(tensor),
                each,
                part,
                looks(tensor),
                slice_weight(each.listed.identity(rank), part),
                self._buckets.of[each.listed.identity(rank)],
                said.reduce_partials,
            )
            for (_, tensor), each, part in zip(listed, found.reads, found.shares, strict=True)
        )
        self._roster = Roster(held, rank, self._buckets.count)
        # Summands on some rank: then all take the turn that reduces them, also one that holds none.
        kinds = {kind for line in found.lines.values() for _, _, kind in line.axes}
        self._reduces = Placement.PARTIAL.value in kinds
        self._rebuilds = False
        self._device = None
        if not self._waits and not self._reduces:
            self._device = deferred.agreed_device(self._here, [tensor for _, tensor in listed])
        self._catalog = found
        # Two models of one architecture have equal catalogs and are different plans all the same.
        self._digest = blake2b(f"{found.digest}, number {number}".encode(), digest_size=16).hexdigest()

    def _reassign(self, local: Local) -> list[bool]:
        """Some copies of a slice have a gradient and others none: the first rank that has one counts it."""
        counts = self._roster.select(local.values).counts
        present = {each.weight for each, count in zip(self._held, counts, strict=True) if count}
        absent = {each.weight for each in self._held} - present
        told = dict(zip(self._here.ranks, gather(self._here, absent), strict=True))
        owners = []
        for each, count in zip(self._held, counts, strict=True):
            having = [rank for rank in each.share.copies if each.weight not in told[rank]]
            owners.append(count and having[:1] == [self._here.rank])
        return owners


_GRADIENT = attrgetter("grad")


def checked_accumulate(accumulate: object) -> str:
    """Return "exact" or "native"; refuse anything else."""
    if accumulate not in ("exact", "native"):
        raise InvalidValueError(f'Expected accumulate to be "exact" or "native", got accumulate={accumulate!r}.')
    return str(accumulate)


def _is_plain(norm_type: object) -> bool:
    """Whether a norm is decided on the device; what is no norm at all is refused there too."""
    try:
        return checked_order(norm_type) in (1, 2)
    except ShardproofError:
        return True


def _by_name(held: Held) -> tuple[str, int]:
    """The name of the logical tensor, and which of its tied names this is."""
    tie = held.read.listed.tie
    return (tie[0], tie.index(held.name)) if tie else (held.name, 0)


def _itself(tensor: Tensor) -> Any:
    return tensor


def _asked(
    max_norm: object, norm_type: object, eps: object, error_if_nonfinite: object, groups: Groups | None
) -> tuple[Request | None, ShardproofError | None]:
    """The request, or the error of a caller's argument: the other ranks have to hear of it first."""
    try:
        return request(max_norm, norm_type, eps, error_if_nonfinite, groups), None
    except ShardproofError as error:
        return None, error
    except Exception as error:  # whatever a caller's object raises while it is read must reach the other ranks
        return None, unreadable(error)
