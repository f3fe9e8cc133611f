"""Drop-in functions with torch's names: they build a plan on the first call and keep it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums.kernels import best_kernel
from shardproof.torch.gradients import local_values
from shardproof.torch.naming import Groups, Parameters, Placements, named
from shardproof.torch.norms import of_value
from shardproof.torch.passes import chosen_of, scale_all
from shardproof.torch.plan import ClipPlan, checked_accumulate
from shardproof.torch.reading import Said
from shardproof.torch.request import EVERY, request
from shardproof.torch.world import MeshLike

KEPT = 16
"""How many plans are kept for lists of tensors; plans of modules live as long as their module."""


class Layout(TypedDict, total=False):
    """What a caller can say of how tensors lie and what is wanted; see `ClipPlan`."""

    mesh: MeshLike | None
    group: Any | None
    placements: Placements | None
    tied: Sequence[Sequence[str]]
    owned: Mapping[str, tuple[int, int, int]] | None
    shape: Mapping[str, Sequence[int]] | None
    check_copies: bool
    reduce_partials: bool
    accumulate: Literal["exact", "native"]


@overload
def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float | None,
    norm_type: float = ...,
    error_if_nonfinite: bool = ...,
    foreach: bool | None = ...,
    *,
    groups: None = ...,
    per_parameter_norms: Literal[False] = ...,
    eps: float = ...,
    **layout: Unpack[Layout],
) -> Tensor: ...


@overload
def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float | Mapping[str, float] | None,
    norm_type: float = ...,
    error_if_nonfinite: bool = ...,
    foreach: bool | None = ...,
    *,
    groups: Groups | None = ...,
    per_parameter_norms: bool = ...,
    eps: float = ...,
    **layout: Unpack[Layout],
) -> Any: ...


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float | Mapping[str, float] | None,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
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
    eps: float = 0.0,
) -> Any:
    """Clip gradients in place to a *global* norm of at most `max_norm`; return the norm before clipping.

    norm = (sum over logical elements of |g|**p)**(1/p), each element of the model counted once, however it is
    sharded or copied; clipped = float64(g) x min(1, max_norm / norm), rounded once to the gradient's dtype. Under
    the limit nothing is written. A collective call: every rank of the group calls, also one without parameters.
    The first call builds a plan (`ClipPlan`) that later calls reuse; one all-reduce for each call.

    Args:
        parameters: a module, (name, tensor) pairs, an iterable of tensors, or one tensor; of each its `.grad`,
            any float or complex dtype, plain or DTensor on any mesh.
        max_norm: the limit, >= 0; inf or None measures only; 0 gives zero gradients. A mapping gives each of
            `groups` its own.
        norm_type: 2, 1, inf, or any p in (0, 512]. 1 and 2 are exact and correctly rounded, inf is exact, other p
            are within a few units in the last place of float64. Complex values count by their modulus, which
            orders other than 2 take rounded to float64.
        error_if_nonfinite: raise on every rank when some gradient value is NaN or infinite.
        foreach: accepted because torch has it; has no effect here.
        mesh: a DeviceMesh, or a mapping axis name -> ProcessGroup; covers every rank that takes part.
        group: the ranks that take part; default the mesh's ranks, else the default group.
        placements: patterns (or tensors) -> axis -> "shard" | "replicate" | "partial" | "distinct"; one word means
            every axis. Needed for what no DTensor, DDP or FSDP module says itself.
        tied: tuples of names that are one tensor with several copies, also on different ranks.
        owned: name -> (start, stop, numel) for the part of a flat buffer with padding that a rank owns.
        shape: name -> global shape of a hand-made shard.
        groups: name -> patterns or tensors; each group is clipped by its own global norm.
        per_parameter_norms: return each parameter's global norm too.
        check_copies: compare slices that should be equal on several ranks, bit by bit, before anything is scaled.
        reduce_partials: sum partial gradients over their axes first; without it they are refused.
        accumulate: "exact", or "native" for torch's own reductions, as `ClipPlan` says.
        eps: added to the norm before dividing; 1e-6 gives torch's factor.

    Returns:
        A plain 0-dim float64 tensor, equal on every rank; with `groups` a dict group -> such a tensor; with
        `per_parameter_norms` a pair of that and a dict parameter -> norm. NaN or inf when some value is not
        finite; the gradients are untouched then.

    Raises:
        PlacementError: how a tensor lies on the ranks is unknown or contradictory; the text shows what to pass.
        InvalidValueError, InvalidTypeError: an argument or a gradient cannot be used; gradients untouched.
        DisagreementError: ranks called with different limits, options or plans; gradients untouched.
        NonFiniteGradientError: with error_if_nonfinite; names ranks and parameters.
        UnequalCopiesError: with check_copies; names tensor and ranks.
        ParticipationError: a rank did not take part within the group's timeout.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> float(clip_grad_norm_([weight], 1.0)), weight.grad
    (5.0, tensor([0.6000, 0.8000]))
    """
    del foreach
    flags = (per_parameter_norms, check_copies, reduce_partials, checked_accumulate(accumulate))
    said = Said(placements, tied, owned or {}, shape or {}, groups, *flags)
    kept = _kept(parameters)
    plan = _plan(kept, mesh, group, said)
    return plan.clip_(max_norm, norm_type, error_if_nonfinite, eps=eps)


def get_total_norm(
    tensors: Parameters,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
    *,
    mesh: MeshLike | None = None,
    group: Any | None = None,
    placements: Placements | None = None,
    tied: Sequence[Sequence[str]] = (),
    owned: Mapping[str, tuple[int, int, int]] | None = None,
    shape: Mapping[str, Sequence[int]] | None = None,
) -> Tensor:
    """Return the global norm of tensors, each logical element counted once; the measuring half of a clip.

    As `clip_grad_norm_`, but of the tensors themselves, as torch has it. A module stands for its gradients. A plan
    is kept for the same tensor objects; where gradients are new objects each step, `ClipPlan.measure` saves the
    rebuilding.

    Args:
        tensors: gradients: (name, tensor) pairs, an iterable of tensors, one tensor; or a module.
        norm_type: 2, 1, inf, or any p in (0, 512].
        error_if_nonfinite: raise on every rank when some value is NaN or infinite.
        foreach: accepted because torch has it; has no effect here.
        mesh: as in `clip_grad_norm_`.
        group: as in `clip_grad_norm_`.
        placements: as in `clip_grad_norm_`.
        tied: as in `clip_grad_norm_`.
        owned: as in `clip_grad_norm_`.
        shape: as in `clip_grad_norm_`.

    Returns:
        A plain 0-dim float64 tensor, equal on every rank.

    Raises:
        As `clip_grad_norm_`.

    >>> import torch
    >>> float(get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])]))
    5.0
    """
    del foreach
    said = Said(placements, tied, owned or {}, shape or {})
    # A plan holds its tensors weakly: what a generator has just made would be gone before it is measured.
    kept = _kept(tensors)
    plan = _plan(kept, mesh, group, said, of_gradients=not isinstance(tensors, nn.Module))
    norm: Tensor = plan.measure(norm_type, error_if_nonfinite)
    return norm


@torch.no_grad()
def clip_with_norm_(
    parameters: Parameters,
    max_norm: float | None,
    total_norm: Tensor | float,
    foreach: bool | None = None,
    *,
    eps: float = 0.0,
) -> None:
    """Scale gradients in place by min(1, max_norm / total_norm); the scaling half of a clip. No collective.

    Every rank must pass the same total_norm, as `get_total_norm` returns it. A total_norm that is NaN or infinite
    leaves the gradients untouched.

    Args:
        parameters: as in `clip_grad_norm_`; of each its `.grad`.
        max_norm: the limit, >= 0; inf or None scale nothing.
        total_norm: the global norm.
        foreach: accepted because torch has it; has no effect here.
        eps: added to the norm before dividing; 1e-6 gives torch's factor.

    Raises:
        InvalidValueError, InvalidTypeError: an argument or a gradient cannot be used; gradients untouched.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> clip_with_norm_([weight], 1.0, 5.0)
    >>> weight.grad
    tensor([0.6000, 0.8000])
    """
    del foreach
    asked = request(max_norm, 2.0, eps, False, None)
    norm = _number(total_norm)
    if not math.isfinite(norm):
        return
    gradients = [(name, tensor.grad) for name, tensor in named(parameters).tensors if tensor.grad is not None]
    factor = of_value(norm, asked.limit(EVERY), asked.eps).factor
    values = _all_values(gradients)
    if factor != 1.0:
        scale_all(best_kernel(), chosen_of(values), factor)


def _number(total_norm: object) -> float:
    if isinstance(total_norm, Tensor):
        total_norm = total_norm.item()
    if isinstance(total_norm, bool) or not isinstance(total_norm, (int, float)) or total_norm < 0:
        raise InvalidValueError(f"Expected total_norm to be a number >= 0, got total_norm={total_norm!r}.")
    return float(total_norm)


def _all_values(gradients: Iterable[tuple[str, Any]]) -> list[Tensor]:
    values = []
    for name, gradient in gradients:
        try:
            values.append(local_values(gradient))
        except InvalidTypeError as error:
            raise InvalidValueError(
                f"Cannot clip, and no gradient was touched: the gradient of {name} {error}."
            ) from None
    return values


def _kept(parameters: Any) -> Any:
    """A generator is used up by the first look at it; keep what it gives."""
    if isinstance(parameters, (nn.Module, Tensor, str, bytes, Mapping)) or not hasattr(parameters, "__iter__"):
        return parameters
    return list(parameters)


_of_modules: WeakKeyDictionary[nn.Module, OrderedDict[Any, ClipPlan]] = WeakKeyDictionary()
_of_lists: OrderedDict[Any, ClipPlan] = OrderedDict()


def _plan(
    parameters: Parameters, mesh: MeshLike | None, group: Any | None, said: Said, *, of_gradients: bool = False
) -> ClipPlan:
    """The plan of an equal earlier call, or a new one that its first use builds together with the other ranks."""
    options = (
        _mesh_key(mesh),
        id(group),
        of_gradients,
        repr(_ids(said.placements)),
        repr(_ids(said.groups)),
        _rest(said),
    )
    plans = _of_modules.setdefault(parameters, OrderedDict()) if isinstance(parameters, nn.Module) else _of_lists
    key = (_tensors(parameters), options)
    plan = plans.pop(key, None)
    if plan is None or not plan.belongs():
        plan = ClipPlan.unbuilt(parameters, mesh, group, said, of_gradients=of_gradients)
    plans[key] = plan
    while len(plans) > KEPT:
        plans.popitem(last=False)
    return plan


def _tensors(parameters: Any) -> tuple[Any, ...]:
    """What tells lists of tensors apart: ids, and names where there are some."""
    if not isinstance(parameters, list):
        return () if isinstance(parameters, nn.Module) else (id(parameters),)
    if tuple not in set(map(type, parameters)):
        return tuple(map(id, parameters))
    return tuple(
        (each[0], id(each[1])) if isinstance(each, tuple) and len(each) == 2 else id(each) for each in parameters
    )


def _mesh_key(mesh: MeshLike | None) -> Any:
    return tuple((axis, id(group)) for axis, group in mesh.items()) if isinstance(mesh, Mapping) else id(mesh)


def _ids(said: Any) -> Any:
    """Text and ids in place of tensors, so that what callers say can be compared."""
    if isinstance(said, Tensor):
        return id(said)
    if isinstance(said, Mapping):
        return [(_ids(key), _ids(value)) for key, value in said.items()]
    return [_ids(each) for each in said] if isinstance(said, (list, tuple)) else said


def _rest(said: Said) -> Any:
    flags = (said.per_parameter_norms, said.check_copies, said.reduce_partials, said.accumulate)
    return (repr(said.tied), repr(said.owned), repr(said.shape), flags)
