"""Drop-in functions with torch's names: they build a plan on the first call and keep it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from shardproof.torch.naming import Parameters, Placements
from shardproof.torch.plan import ClipPlan
from shardproof.torch.reading import Said
from shardproof.torch.world import MeshLike

KEPT = 16
"""How many plans are kept for lists of tensors; plans of modules live as long as their module."""

_of_modules: WeakKeyDictionary[nn.Module, OrderedDict[Any, ClipPlan]] = WeakKeyDictionary()
_of_lists: OrderedDict[Any, ClipPlan] = OrderedDict()


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: float | None,
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
    eps: float = 0.0,
) -> Tensor:
    """Clip gradients in place to a *global* norm of at most `max_norm`; return the norm before clipping.

    norm = (sum over logical elements of |g|**p)**(1/p), each element of the model counted once, however it is
    sharded or copied; clipped = float64(g) x min(1, max_norm / norm), rounded once to the gradient's dtype. Under
    the limit nothing is written. A collective call: every rank of the group calls, also one without parameters.
    The first call builds a plan (`ClipPlan`) that later calls reuse; one all-reduce for each call.

    Args:
        parameters: a module, (name, tensor) pairs, an iterable of tensors, or one tensor; of each its `.grad`,
            any float or complex dtype, plain or DTensor on any mesh.
        max_norm: the limit, >= 0; inf or None measures only; 0 gives zero gradients.
        norm_type: 2, 1, inf, or any p in (0, 512]. 1 and 2 are exact and correctly rounded, inf is exact, other p
            are within a few units in the last place of float64.
        error_if_nonfinite: raise on every rank when some gradient value is NaN or infinite.
        foreach: accepted because torch has it; has no effect here.
        mesh: a DeviceMesh, or a mapping axis name -> ProcessGroup; covers every rank that takes part.
        group: the ranks that take part; default the mesh's ranks, else the default group.
        placements: patterns (or tensors) -> axis -> "shard" | "replicate" | "partial" | "distinct"; one word means
            every axis. Needed for what no DTensor, DDP or FSDP module says itself.
        tied: tuples of names that are one tensor with several copies, also on different ranks.
        owned: name -> (start, stop, numel) for the part of a flat buffer with padding that a rank owns.
        shape: name -> global shape of a hand-made shard.
        eps: added to the norm before dividing; 1e-6 gives torch's factor.

    Returns:
        A plain 0-dim float64 tensor, equal on every rank. NaN or inf when some value is not finite; the gradients
        are untouched then.

    Raises:
        PlacementError: how a tensor lies on the ranks is unknown or contradictory; the text shows what to pass.
        InvalidValueError, InvalidTypeError: an argument or a gradient cannot be used; gradients untouched.
        DisagreementError: ranks called with different limits, options or plans; gradients untouched.
        NonFiniteGradientError: with error_if_nonfinite; names ranks and parameters.
        ParticipationError: a rank did not take part within the group's timeout.

    >>> import torch
    >>> weight = torch.nn.Parameter(torch.zeros(2))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> float(clip_grad_norm_([weight], 1.0)), weight.grad
    (5.0, tensor([0.6000, 0.8000]))
    """
    del foreach
    parameters = parameters if isinstance(parameters, (nn.Module, Tensor)) else _listed(parameters)
    said = Said(placements, tied, owned or {}, shape or {})
    plan = _plan(parameters, mesh, group, said)
    return plan.clip_(max_norm, norm_type, error_if_nonfinite, eps=eps)


def _listed(parameters: Any) -> Any:
    """A generator is used up by the first look at it; keep what it gives."""
    return (
        parameters
        if isinstance(parameters, (str, bytes, Mapping)) or not hasattr(parameters, "__iter__")
        else list(parameters)
    )


def _plan(parameters: Parameters, mesh: MeshLike | None, group: Any | None, said: Said) -> ClipPlan:
    """The plan of an equal earlier call, or a new one that its first use builds together with the other ranks."""
    if isinstance(parameters, nn.Module):
        plans = _of_modules.setdefault(parameters, OrderedDict())
        key: Any = _key(mesh, group, said)
    else:
        plans = _of_lists
        key = (_tensors(parameters), _key(mesh, group, said))
    plan = plans.pop(key, None)
    if plan is None or not plan.belongs():
        plan = ClipPlan.unbuilt(parameters, mesh, group, said)
    plans[key] = plan
    while len(plans) > KEPT:
        plans.popitem(last=False)
    return plan


def _tensors(parameters: Any) -> tuple[Any, ...]:
    """What tells lists of tensors apart: ids, and names where there are some."""
    if isinstance(parameters, list):
        return tuple(
            (each[0], id(each[1])) if isinstance(each, tuple) and len(each) == 2 else id(each) for each in parameters
        )
    return (id(parameters),)


def _key(mesh: MeshLike | None, group: Any | None, said: Said) -> Any:
    """What tells calls on the same parameters apart, as text and ids so that anything can be compared."""
    return (
        _mesh_key(mesh),
        id(group),
        repr(_ids(said.placements)),
        repr(said.tied),
        repr(said.owned),
        repr(said.shape),
    )


def _mesh_key(mesh: MeshLike | None) -> Any:
    return tuple((axis, id(group)) for axis, group in mesh.items()) if isinstance(mesh, Mapping) else id(mesh)


def _ids(placements: Any) -> Any:
    if not isinstance(placements, Mapping):
        return placements
    return [(id(key) if isinstance(key, Tensor) else key, says) for key, says in placements.items()]
