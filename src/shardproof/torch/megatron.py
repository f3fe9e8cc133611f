"""What Megatron's marks on parameters say: sharded or copied, tied copy of the embedding, expert or dense.

Attributes only, Megatron is not imported; they were read in Megatron-LM at d98e8a6 (August 2026).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch.distributed as dist
from torch import Tensor

from shardproof.errors import InvalidTypeError, PlacementError, ShardproofError
from shardproof.layout import Placement
from shardproof.torch.clip import Layout
from shardproof.torch.naming import Exactly, Named, Parameters, is_dtensor, named
from shardproof.torch.world import MeshLike, World, gather, of_device_mesh, world

Axes: TypeAlias = str | Sequence[str]

FIRST, COPY, MAYBE_FIRST = "first copy", "copy", "embedding or output"

MEANING = {
    "tensor_model_parallel": "a copy on the tensor axes",
    "allreduce": "a dense parameter, a copy on the expert axes",
}
"""What an absent attribute means in Megatron."""

MAIN = "main"
"""The group of parameters without a `grad_norm_group`, where others have one."""

SHOWN = 5


@dataclass(frozen=True)
class _Roles:
    """The size of every axis of the mesh, and the axes in each role."""

    sizes: Mapping[str, int]
    tensor: tuple[str, ...]
    pipeline: tuple[str, ...]
    expert: tuple[str, ...]
    expert_tensor: tuple[str, ...]

    def several(self, axes: tuple[str, ...]) -> bool:
        """Whether there is more than one rank along these axes."""
        return any(self.sizes.get(axis, 1) > 1 for axis in axes)


@dataclass(frozen=True)
class _Marks:
    """What one parameter says; `absent` are attributes that it lacks and that matter on this mesh."""

    sharded: bool
    expert: bool
    embedding: str
    absent: tuple[str, ...]
    group: str


class MegatronLayout(Layout, total=False):
    """What `from_megatron` returns: keyword arguments of `clip_grad_norm_`."""

    groups: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class _Holder:
    """One rank's copy of an embedding: `kind` is FIRST, COPY or MAYBE_FIRST."""

    name: str
    shape: tuple[int, ...]
    kind: str


def from_megatron(
    parameters: Parameters,
    mesh: MeshLike,
    *,
    group: Any | None = None,
    tensor: Axes = "tp",
    pipeline: Axes = "pp",
    expert: Axes = "ep",
    expert_tensor: Axes | None = None,
    data: Axes = ("dp", "cp", "edp"),
    tied: Sequence[Sequence[str]] = (),
    strict: bool = False,
) -> MegatronLayout:
    """Return the keyword arguments of `clip_grad_norm_` and `ClipPlan` that Megatron's marks on parameters stand for.

    | attribute | True | False | absent |
    |---|---|---|---|
    | `tensor_model_parallel` | shard on the tensor axes | copy on them | as False |
    | `allreduce` | dense: copy on the expert axes | expert: distinct on them, its copies on the rest | as True |
    | `shared` | second copy of the embedding, on another pipeline stage: tied to the first | its own | as False |

    Every parameter is distinct on the pipeline axes and a copy on the data axes, so gradients must have been reduced
    over these, as they are when Megatron clips. What Megatron takes an absent attribute to mean is taken here too,
    with a warning where more than one rank depends on it; `strict` refuses it. Megatron's start-up code sets
    `tensor_model_parallel` on every parameter; norms and biases often have no `allreduce`.

    A collective call of all ranks: the copy of an embedding has another name than its first copy, which is marked
    `shared_embedding` (before that mark existed, `is_embedding_or_output_parameter`) on another rank. Megatron does not
    put these marks on its fp32 main parameters: name the pair in `tied` when clipping those. Parameters with a
    `grad_norm_group` are clipped by the norm of their group alone, all others by that of the group "main"; where no
    rank has such a mark there are no groups.

    Args:
        parameters: this rank's parameters, as they are passed to `clip_grad_norm_`, with Megatron's attributes.
        mesh: a DeviceMesh, or a mapping axis name -> ProcessGroup; every axis in at least one of the roles below.
        group: the ranks that take part; default the mesh's ranks.
        tensor: axes over which dense parameters are sharded.
        pipeline: axes whose ranks hold different stages.
        expert: axes whose ranks hold different experts; may have tensor axes among them.
        expert_tensor: axes over which one expert is sharded; default those of `tensor`.
        data: axes whose ranks hold copies of everything; names that the mesh lacks are ignored, in every role.
        tied: tuples of names that are one tensor, where the marks do not tell.
        strict: refuse parameters that lack `tensor_model_parallel` or `allreduce` where it matters.

    Returns:
        A dict with mesh, group, placements, tied, shape and, where there are any, groups; pass it as
        `clip_grad_norm_(parameters, limit, **layout)`, with one limit or one for each group.

    Raises:
        PlacementError: an axis without a role, a shared copy whose first copy cannot be found, a parameter whose
            placement these attributes do not say; with strict an absent attribute. On every rank.
        InvalidTypeError: an attribute is no bool, or `grad_norm_group` is no text.
    """
    here = world(mesh, group)
    said = _attempt(parameters, mesh, (tensor, pipeline, expert, expert_tensor, data), strict=strict)
    read, told = _together(here, said)
    _warn(read.marks)
    groups = _groups(read, {name for each in told for name in each.groups})
    layout: MegatronLayout = {
        "mesh": mesh,
        "group": group,
        "placements": {Exactly(name): _words(marks, read.roles) for name, marks in read.marks.items()},
        "tied": [*tied, *_tie([each.holders for each in told], {name for names in tied for name in names})],
        "shape": _shapes(read),
    }
    if groups:
        layout["groups"] = groups
    return layout


@dataclass(frozen=True)
class _Told:
    """What one rank tells the others: its embeddings, and the gradient-norm groups that it has."""

    holders: tuple[_Holder, ...]
    groups: frozenset[str]


@dataclass(frozen=True)
class _Read:
    listed: Named
    roles: _Roles
    marks: Mapping[str, _Marks]


def _attempt(
    parameters: Parameters, mesh: MeshLike, axes: tuple[Any, Any, Any, Any, Any], *, strict: bool
) -> _Read | ShardproofError:
    """What this rank reads, or the error that the other ranks have to hear of first."""
    try:
        roles = _roles(mesh, *axes)
        listed = named(parameters)
        marks = {name: _marks(name, each, roles) for name, each in listed.tensors}
        if strict:
            _refuse_absent(marks)
        return _Read(listed, roles, marks)
    except ShardproofError as error:
        return error


def _together(here: World, said: _Read | ShardproofError) -> tuple[_Read, list[_Told]]:
    """This rank's reading and what every rank tells; raises on all ranks what was raised on any."""
    told = gather(here, said if isinstance(said, ShardproofError) else _telling(said))
    errors = {rank: each for rank, each in zip(here.ranks, told, strict=True) if isinstance(each, ShardproofError)}
    if isinstance(said, ShardproofError):
        raise said
    for rank, error in errors.items():
        raise type(error)(f"Rank {rank}: {error}")
    return said, told


# ---- axes


def _roles(
    mesh: MeshLike, tensor: Axes, pipeline: Axes, expert: Axes, expert_tensor: Axes | None, data: Axes
) -> _Roles:
    sizes = _sizes(mesh)
    tensor, pipeline, expert, data = map(_names, (tensor, pipeline, expert, data))
    expert_tensor = tensor if expert_tensor is None else _names(expert_tensor)
    without = [axis for axis in sizes if axis not in {*tensor, *pipeline, *expert, *expert_tensor, *data}]
    if without:
        raise PlacementError(
            f"The mesh has the axis {without[0]!r} ({sizes[without[0]]} ranks), which has no role. Name it in tensor=, "
            "pipeline=, expert=, expert_tensor= or data=."
        )
    for one, other in ((pipeline, {*tensor, *expert, *expert_tensor, *data}), (expert, {*expert_tensor})):
        both = [axis for axis in one if axis in other and axis in sizes]
        if both:
            raise PlacementError(
                f"The axis {both[0]!r} has two roles that exclude each other. An axis of pipeline has no other role; "
                "where experts are not sharded over the tensor axes but spread over them, pass expert_tensor=()."
            )
    return _Roles(sizes, tensor, pipeline, expert, expert_tensor)


def _names(axes: Axes) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _sizes(mesh: MeshLike) -> dict[str, int]:
    if isinstance(mesh, Mapping):
        return {axis: dist.get_world_size(group) for axis, group in mesh.items()}
    found = of_device_mesh(mesh)
    return dict(zip(found.axes, found.sizes, strict=True))


# ---- one parameter


def _marks(name: str, parameter: Tensor, roles: _Roles) -> _Marks:
    _refuse_unreadable(name, parameter)
    expert = not _flag(name, parameter, "allreduce", default=True)
    across = roles.expert_tensor if expert else roles.tensor
    needed = {"tensor_model_parallel": roles.several(across), "allreduce": roles.several(roles.expert)}
    shared = _flag(name, parameter, "shared")
    return _Marks(
        sharded=_flag(name, parameter, "tensor_model_parallel"),
        expert=expert,
        embedding=_embedding(name, parameter, shared=shared),
        absent=tuple(each for each, matters in needed.items() if matters and not hasattr(parameter, each)),
        group=_group(name, parameter),
    )


def _refuse_unreadable(name: str, parameter: Tensor) -> None:
    if is_dtensor(parameter):
        raise PlacementError(
            f"{name} is a DTensor, which says its placement itself; from_megatron reads plain tensors. Pass mesh= and "
            "placements= for the axes outside its own mesh to clip_grad_norm_ instead."
        )
    if _flag(name, parameter, "is_gtp_weight_remat"):
        raise PlacementError(
            f"{name} is marked is_gtp_weight_remat: it is sharded over one more axis, of which these attributes do not "
            "tell. Name its placement on every axis in placements= of clip_grad_norm_ instead."
        )


def _flag(name: str, parameter: Tensor, attribute: str, *, default: bool = False) -> bool:
    value = getattr(parameter, attribute, default)
    if not isinstance(value, bool):
        raise InvalidTypeError(f"Expected {attribute} of {name} to be a bool, got {value!r} ({type(value).__name__}).")
    return value


def _group(name: str, parameter: Tensor) -> str:
    """The gradient-norm group of a parameter, "" for none."""
    group = getattr(parameter, "grad_norm_group", None)
    if group is None:
        return ""
    if not isinstance(group, str) or group in ("", MAIN):
        raise InvalidTypeError(
            f"Expected grad_norm_group of {name} to be None or a name other than {MAIN!r}, got {group!r} "
            f"({type(group).__name__})."
        )
    return group


def _groups(read: _Read, names: set[str]) -> dict[str, list[str]]:
    """The argument `groups`, the same names on every rank; nothing where no rank has a marked parameter."""
    if not names:
        return {}
    members: dict[str, list[str]] = {each: [] for each in (*sorted(names), MAIN)}
    for name, marks in read.marks.items():
        members[marks.group or MAIN].append(Exactly(name))
    return members


def _embedding(name: str, parameter: Tensor, *, shared: bool) -> str:
    """Which copy of a shared embedding this may be; "" for any other parameter."""
    if shared:
        return COPY
    if _flag(name, parameter, "shared_embedding"):
        return FIRST
    return MAYBE_FIRST if _flag(name, parameter, "is_embedding_or_output_parameter") else ""


def _words(marks: _Marks, roles: _Roles) -> dict[str, str]:
    """The placement of a parameter on every axis of the mesh."""
    distinct = {*roles.pipeline, *(roles.expert if marks.expert else ())}
    shard = set((roles.expert_tensor if marks.expert else roles.tensor) if marks.sharded else ())
    return {
        axis: Placement.DISTINCT if axis in distinct else Placement.SHARD if axis in shard else Placement.REPLICATE
        for axis in roles.sizes
    }


def _shapes(read: _Read) -> dict[str, tuple[int, ...]]:
    """The global shapes of the sharded parameters that say along which dim they are cut."""
    found = {}
    for name, parameter in read.listed.tensors:
        marks, roles = read.marks[name], read.roles
        parts = math.prod(roles.sizes.get(axis, 1) for axis in (roles.expert_tensor if marks.expert else roles.tensor))
        dim = getattr(parameter, "partition_dim", -1)
        if marks.sharded and parts > 1 and 0 <= dim < parameter.dim():
            found[name] = (*parameter.shape[:dim], parameter.shape[dim] * parts, *parameter.shape[dim + 1 :])
    return found


# ---- absent attributes


def _absent(marks: Mapping[str, _Marks], attribute: str) -> str:
    """Which parameters lack the attribute, for people; "" for none."""
    names = [name for name, each in marks.items() if attribute in each.absent]
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _refuse_absent(marks: Mapping[str, _Marks]) -> None:
    for attribute, meaning in MEANING.items():
        if names := _absent(marks, attribute):
            raise PlacementError(
                f"strict: {names} lack {attribute}, which then means {meaning}. Set it on each of them."
            )


def _warn(marks: Mapping[str, _Marks]) -> None:
    for attribute, meaning in MEANING.items():
        if names := _absent(marks, attribute):
            text = f"{names} lack {attribute}: taken to mean {meaning}, as in Megatron. Set it, or pass strict=True."
            warnings.warn(text, stacklevel=3)


# ---- tied embeddings


def _telling(read: _Read) -> _Told:
    holders = (
        _Holder(name, tuple(each.shape), read.marks[name].embedding)
        for name, each in read.listed.tensors
        if read.marks[name].embedding
    )
    return _Told(tuple(holders), frozenset(each.group for each in read.marks.values() if each.group))


def _tie(told: Sequence[Sequence[_Holder]], named_already: Collection[str]) -> list[tuple[str, ...]]:
    """The first copy's name and those of its copies, from what all ranks hold; no tie where there is no copy."""
    holders = [each for rank in told for each in rank]
    copies = sorted({each.name for each in holders if each.kind == COPY} - set(named_already))
    if not copies:
        return []
    shapes = {each.shape for each in holders if each.kind == COPY and each.name in copies}
    by_kind = [
        {each.name for each in holders if each.kind == kind and each.shape in shapes} for kind in (FIRST, MAYBE_FIRST)
    ]
    first = next((names for names in by_kind if names), set())
    if len(first) != 1 or len(shapes) != 1:
        raise PlacementError(
            f"{copies} are marked shared: further copies of an embedding of shapes {sorted(shapes)}. Which tensor they "
            f"copy is not clear: expected exactly one of the same shape marked shared_embedding and not shared, found "
            f"{sorted(first)}. Pass tied=[(<first copy>, <name>)], or list the first copy on its rank."
        )
    (original,) = first
    return [(original, *(name for name in copies if name != original))]
