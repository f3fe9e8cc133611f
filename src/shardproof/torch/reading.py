"""What this rank knows of how each of its tensors lies on the ranks; what is unknown is an error, never a guess."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from torch import Tensor

from shardproof.errors import InvalidTypeError, PlacementError
from shardproof.layout import Interval, Listed, Mesh, Placement, Slice, chunk, crossed, line
from shardproof.torch.modules import Own, of_modules
from shardproof.torch.naming import Groups, Named, Placements, Rules, group_of, is_dtensor, matches, rules
from shardproof.torch.partials import Partial, partial_of
from shardproof.torch.world import LINE, MeshLike, World, axis_group, of_device_mesh

Facts = dict[str, Placement]


@dataclass(frozen=True)
class Said:
    """What the caller says beside the tensors: how they lie, and what is wanted of every call."""

    placements: Placements | None = None
    tied: Sequence[Sequence[str]] = ()
    owned: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    shape: Mapping[str, Sequence[int]] = field(default_factory=dict)
    groups: Groups | None = None
    per_parameter_norms: bool = False
    check_copies: bool = False
    reduce_partials: bool = False
    accumulate: str = "exact"

    @property
    def options(self) -> str:
        """What every rank has to want of a plan alike; how tensors lie may be said in other words on each."""
        # Also of what is no mapping: it has to reach the other ranks before it is refused.
        groups = sorted(map(str, self.groups)) if isinstance(self.groups, Mapping) else self.groups or []
        return (
            f"groups={groups}, per_parameter_norms={self.per_parameter_norms}, "
            f"check_copies={self.check_copies}, reduce_partials={self.reduce_partials}, accumulate={self.accumulate}"
        )


@dataclass(frozen=True)
class Read:
    """One tensor as this rank lists it.

    `counted`: the local elements that count, None for all. `group`: the caller's group of it. `partial`: how
    its gradient is made whole first.
    """

    listed: Listed
    counted: Interval | None = None
    group: str = ""
    partial: Partial | None = None


@dataclass(frozen=True)
class Place:
    """Where a rank reads: the ranks, their axes (None when the caller passed no mesh), the caller's mesh itself."""

    here: World
    root: Mesh | None
    mesh: MeshLike | None


def read(listed: Named, module: object, said: Said, place: Place) -> list[Read]:
    """Return how every tensor lies on the ranks.

    Args:
        listed: this rank's tensors.
        module: the caller's module, if any; DDP and FSDP modules in it say how their parameters lie.
        said: what the caller says.
        place: where this rank stands.

    Raises PlacementError when an axis of a tensor is unknown or what is said contradicts what the tensor says.
    """
    by_module = of_modules(module)
    told = rules(said.placements, listed, _axis_names(listed, by_module, place.root))
    _check_names(listed, said)
    return [
        replace(
            _read_one(name, tensor, told, said, by_module.get(id(tensor)), place),
            group=group_of(name, said.groups),
        )
        for name, tensor in listed.tensors
    ]


def _axis_names(listed: Named, by_module: Mapping[int, Own], root: Mesh | None) -> frozenset[str]:
    names = set(root.axes) if root else {LINE}
    for _, tensor in listed.tensors:
        mesh = mesh_of(tensor)
        names |= set(of_device_mesh(mesh).axes) if mesh is not None else set()
    return frozenset(names.union(*(own.mesh.axes for own in by_module.values())))


def _check_names(listed: Named, said: Said) -> None:
    names = {name for name, _ in listed.tensors}
    for tie in said.tied:
        if isinstance(tie, str) or not all(isinstance(name, str) for name in tie):
            raise InvalidTypeError(f'Expected tied to hold tuples of names such as ("embed", "head"), got {tie!r}.')
    for option, given in (("owned", said.owned), ("shape", said.shape)):
        for name in given:
            if name not in names and names:
                raise PlacementError(f"{option} names {name!r}, which is not among this rank's tensors.")


def check_named(said: Said, names: Collection[str]) -> list[str]:
    """Return what placements and groups name that means no tensor of any rank; refuse a tie that means none.

    A slip in a pattern falls through to the next one, and a slip in a tie counts a tensor twice. A pattern may be
    meant for another model that is called alike, so it is not refused; `describe()` says it.
    """
    for tie in said.tied:
        if not any(name in names for name in tie):
            raise PlacementError(
                f"tied names {', '.join(map(repr, tie))}, and no rank has a tensor of any of these names; they "
                f"have to be the full names that describe() prints, such as {min(names, default='none')!r}."
            )
    return [f"{option} {key!r}" for option, key in _keys(said) if not any(matches(name, key) for name in names)]


def _keys(said: Said) -> Iterator[tuple[str, str]]:
    """Every pattern and name of placements and groups; "*" may stand for none."""
    if isinstance(said.placements, Mapping):
        yield from (("placements", key) for key in said.placements if isinstance(key, str) and key != "*")
    if isinstance(said.groups, Mapping):
        for group, members in said.groups.items():
            listed = [members] if isinstance(members, str) else members
            yield from ((f"groups[{group!r}]", key) for key in listed if isinstance(key, str) and key != "*")


def _read_one(name: str, tensor: Tensor, told: Rules, said: Said, by_module: Own | None, place: Place) -> Read:
    own = _of_dtensor(tensor) or by_module
    mesh, facts = _frame(name, own, place.here, place.root)
    says = told.of(name, mesh.axes)
    for axis, kind in says.items():
        if facts.setdefault(axis, kind) != kind:
            raise PlacementError(
                f"{name}: placements say {kind.value!r} on axis {axis!r}, the tensor itself says "
                f"{facts[axis].value!r}. Use a pattern that matches only the tensors it is meant for, or correct it."
            )
    _check_hidden(name, told, mesh, own, place.root)
    partial = _partial(name, tensor, mesh, facts, said, place)
    kinds = _complete(name, tensor, mesh, facts, place.root)
    tie = next((tuple(names) for names in said.tied if name in names), ())
    if name in said.owned:
        return replace(_flat_range(name, tensor, mesh, kinds, tie, said.owned[name]), partial=partial)
    if own is not None and own.part is not None:
        return Read(Listed(name, mesh, kinds, own.part, own.shape, tie), own.counted, partial=partial)
    part, shape = _part(name, tensor, mesh, kinds, said, place.here.rank)
    count = local_numel(tensor) if part is None else None
    return Read(Listed(name, mesh, kinds, part, shape, tie, count), partial=partial)


def _check_hidden(name: str, told: Rules, mesh: Mesh, own: Own | None, root: Mesh | None) -> None:
    """An axis that lies inside the tensor's own mesh, under another name, must not be said otherwise."""
    if own is None or root is None:
        return
    for axis, kind in told.of(name, [axis for axis in root.axes if axis not in mesh.axes]).items():
        if root.sizes[root.axes.index(axis)] > 1 and set(own.kinds) != {kind}:
            raise PlacementError(
                f"{name}: placements say {kind.value!r} on axis {axis!r}, which lies inside the tensor's own mesh "
                f"{dict(zip(own.mesh.axes, (each.value for each in own.kinds), strict=True))}. Use a pattern that "
                "matches only the tensors it is meant for, or correct it."
            )


def _partial(name: str, tensor: Tensor, mesh: Mesh, facts: Facts, said: Said, place: Place) -> Partial | None:
    """How a gradient of summands is made whole; marks the axes of a partial DTensor gradient in `facts`."""
    if said.reduce_partials:
        found = partial_of(name, tensor)
        if found is not None:
            names = of_device_mesh(mesh_of(tensor)).axes
            facts.update({names[dim]: Placement.PARTIAL for dim in found.dims})
            return found
    axes = [axis for axis, kind in facts.items() if kind is Placement.PARTIAL and mesh.sizes[mesh.axes.index(axis)] > 1]
    if not axes:
        return None
    if not said.reduce_partials or is_dtensor(tensor):
        raise PlacementError(
            f"{name}: partial on {_axes(axes)}: its values are summands, and neither the norm nor the clipped value "
            "follows from summands one by one. Reduce the gradient first, or pass reduce_partials=True."
        )
    groups = tuple(axis_group(place.mesh, place.here, axis) for axis in axes)
    return Partial(groups, (False,) * len(groups), tensor.dtype)


def _complete(name: str, tensor: Tensor, mesh: Mesh, facts: Facts, root: Mesh | None) -> tuple[Placement, ...]:
    unknown = [axis for axis, size in zip(mesh.axes, mesh.sizes, strict=True) if size > 1 and axis not in facts]
    if unknown:
        raise PlacementError(_unknown(name, tensor, mesh, unknown, root))
    return tuple(facts.get(axis, Placement.REPLICATE) for axis in mesh.axes)


def _unknown(name: str, tensor: Tensor, mesh: Mesh, unknown: list[str], root: Mesh | None) -> str:
    kind = "DTensor" if is_dtensor(tensor) else "plain tensor"
    words = '"shard", "replicate" or "distinct"'
    if root is None and LINE in unknown and len(mesh.axes) > 1:
        inner = [rank for axis in mesh.axes if axis != LINE for rank in mesh.along(mesh.ranks[0], {axis})]
        return (
            f"{name} ({kind}, shape {tuple(tensor.shape)}): its own mesh holds {len(set(inner))} of the "
            f"{len(mesh.ranks)} ranks. Whether the other ranks hold copies of it or other tensors is unknown and "
            "both read alike. Pass mesh=<the whole mesh> and say it, for example "
            f'placements={{"{name}": {{"<axis>": "replicate"}}}} ({words}).'
        )
    if root is None:
        return (
            f"{name} ({kind}, shape {tuple(tensor.shape)}): how it lies on the {len(mesh.ranks)} ranks is unknown. "
            f'Pass placements={{"{name}": "replicate"}} (or another of {words}), with mesh= where the axes differ; '
            "for a DDP or FSDP model pass the module itself."
        )
    says = ", ".join(f'"{axis}": "replicate"' for axis in unknown)
    return (
        f"{name} ({kind}, shape {tuple(tensor.shape)}): how it lies on {_axes(unknown)} is unknown. "
        f'Pass for example placements={{"{name}": {{{says}}}}}; the words are {words}.'
    )


def _axes(names: list[str]) -> str:
    return f"axis {names[0]!r}" if len(names) == 1 else f"the axes {', '.join(map(repr, names))}"


def mesh_of(tensor: Tensor) -> Any | None:
    """The DeviceMesh of a DTensor, None for a plain tensor."""
    return tensor.device_mesh if is_dtensor(tensor) else None  # type: ignore[attr-defined]


def _of_dtensor(tensor: Tensor) -> Own | None:
    mesh = mesh_of(tensor)
    if mesh is None:
        return None
    if mesh.get_coordinate() is None:
        raise PlacementError("A DTensor lies on a mesh that does not contain this rank; pass only its own tensors.")
    return Own(of_device_mesh(mesh), tuple(_kind(each) for each in tensor.placements))  # type: ignore[attr-defined]


def _kind(each: Any) -> Placement:
    if each.is_replicate():
        return Placement.REPLICATE
    if each.is_partial():
        return Placement.PARTIAL
    return Placement.SHARD


def _frame(name: str, own: Own | None, here: World, root: Mesh | None) -> tuple[Mesh, Facts]:
    """The axes over which a tensor lies, covering every rank of `here`, and what it says on its own axes."""
    if own is None:
        return root or line(here.ranks, LINE), {}
    facts = dict(zip(own.mesh.axes, own.kinds, strict=True))
    if set(own.mesh.ranks) == set(here.ranks):
        return own.mesh, facts
    if not set(own.mesh.ranks) <= set(here.ranks):
        raise PlacementError(
            f"{name}: its mesh has ranks {sorted(set(own.mesh.ranks) - set(here.ranks))} outside the group of this "
            f"call, {list(here.ranks)}. Pass group= or mesh= over all of them."
        )
    if root is None:
        return _beyond(own.mesh, here), facts
    inner = root.spanned_by(here.rank, frozenset(own.mesh.ranks))
    if inner is None:
        raise PlacementError(
            f"{name}: its mesh, ranks {sorted(own.mesh.ranks)}, is no line or plane of the mesh that was passed "
            f"(axes {dict(zip(root.axes, root.sizes, strict=True))}). Pass the mesh from which it was made, or "
            "process groups by axis name."
        )
    return _crossed(own.mesh, root, frozenset(root.axes) - set(inner), here.rank), facts


@lru_cache(maxsize=256)
def _crossed(inner: Mesh, root: Mesh, axes: frozenset[str], rank: int) -> Mesh:
    return crossed(inner, root, axes, rank)


def _beyond(inner: Mesh, here: World) -> Mesh:
    """A stand-in for the unknown axes beyond a tensor's own mesh; it only serves to name what is unknown."""
    others = [rank for rank in here.ranks if rank not in inner]
    blocks = -(-len(here.ranks) // len(inner.ranks))
    if blocks * len(inner.ranks) != len(here.ranks):
        raise PlacementError(
            f"A tensor's mesh has {len(inner.ranks)} ranks, which do not divide the {len(here.ranks)} of the "
            "group. Pass group= or mesh= with the ranks that belong to this model."
        )
    # Row-major with the unknown axis outermost: own mesh first.
    return Mesh((LINE, *inner.axes), (blocks, *inner.sizes), (*inner.ranks, *others))


def _flat_range(
    name: str,
    tensor: Tensor,
    mesh: Mesh,
    kinds: tuple[Placement, ...],
    tie: tuple[str, ...],
    owned: tuple[int, int, int],
) -> Read:
    """`owned`: of a flat buffer of `numel` elements this rank's tensor begins with elements start..stop."""
    if len(owned) != 3 or any(isinstance(word, bool) or not isinstance(word, int) for word in owned):
        raise InvalidTypeError(f"Expected owned[{name!r}] = (start, stop, numel) as ints, got {owned!r}.")
    start, stop, numel = owned
    if not (0 <= start <= stop <= numel and stop - start <= local_numel(tensor)):
        raise PlacementError(
            f"Expected owned[{name!r}] = (start, stop, numel) with 0 <= start <= stop <= numel and at most the "
            f"{local_numel(tensor)} elements of the local tensor, got {owned!r}."
        )
    listed = Listed(name, mesh, kinds, Slice.flat(start, stop), (numel,), tie)
    return Read(listed, (0, stop - start))


def local_numel(tensor: Tensor) -> int:
    """How many elements this rank holds of a tensor."""
    return tensor._local_tensor.numel() if is_dtensor(tensor) else tensor.numel()  # type: ignore[attr-defined]


def _part(
    name: str, tensor: Tensor, mesh: Mesh, kinds: tuple[Placement, ...], said: Said, rank: int
) -> tuple[Slice | None, tuple[int, ...] | None]:
    if is_dtensor(tensor):
        part = dtensor_slice(tensor)
        return part, tuple(tensor.shape) if part is not None else None
    if Placement.SHARD not in kinds:
        return Slice.whole(tuple(tensor.shape)), tuple(tensor.shape)
    if name not in said.shape:
        return None, None
    whole = _checked_shape(name, tensor, said.shape[name])
    return hand_made_slice(tuple(tensor.shape), whole, mesh, kinds, rank), whole


def _checked_shape(name: str, tensor: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    whole = tuple(shape)
    sizes = all(isinstance(size, int) and not isinstance(size, bool) for size in whole)
    if not sizes or len(whole) != tensor.dim() or any(a > b for a, b in zip(tensor.shape, whole, strict=True)):
        raise PlacementError(
            f"Expected shape[{name!r}] to be a global shape of {tensor.dim()} dims that holds the local "
            f"{tuple(tensor.shape)}, got {shape!r}."
        )
    return whole


def hand_made_slice(
    local: tuple[int, ...], whole: tuple[int, ...], mesh: Mesh, kinds: tuple[Placement, ...], rank: int
) -> Slice | None:
    """The elements of a hand-made shard: one dim cut over the shard axes in mesh order, as torch.chunk cuts.

    None where the local shape says that it was cut in another way; nothing is assumed then.
    """
    cuts = [
        (size, step)
        for kind, size, step in zip(kinds, mesh.sizes, mesh.coordinates(rank), strict=True)
        if kind is Placement.SHARD
    ]
    for dim in range(len(whole)):
        dims: list[tuple[Interval, ...]] = [((0, size),) if size else () for size in whole]
        for size, step in cuts:
            dims[dim] = chunk(dims[dim], size, step)
        found = Slice(tuple(dims))
        if found.shape == local:
            return found
    return None


def dtensor_slice(tensor: Any) -> Slice | None:
    """The elements of a DTensor that this rank holds; None when they cannot be told from its placements.

    Plain shards cut from left to right. A strided shard says that an axis to its right was cut before it, so
    it cuts last; where that does not give the local shape, DTensor's own left-to-right reading is tried.
    """
    shape, local = tuple(tensor.shape), tuple(tensor._local_tensor.shape)
    position, sizes = tensor.device_mesh.get_coordinate(), of_device_mesh(tensor.device_mesh).sizes
    plain = [(axis, each, 1) for axis, each in enumerate(tensor.placements) if _strides(each) == 1]
    strided = [(axis, each, 1) for axis, each in enumerate(tensor.placements) if _strides(each) > 1]
    reading = [(axis, each, _strides(each)) for axis, each in enumerate(tensor.placements) if _strides(each)]
    for cuts in (plain + strided[::-1], reading):
        dims: list[tuple[Interval, ...]] = [((0, size),) if size else () for size in shape]
        for axis, each, stride in cuts:
            dims[each.dim] = chunk(dims[each.dim], sizes[axis], position[axis], stride=stride)
        found = Slice(tuple(dims))
        if found.shape == local or (found.numel == 0 and tensor._local_tensor.numel() == 0):
            return found
    return None


def _strides(each: Any) -> int:
    """0 for what is no shard, 1 for a plain shard, the split factor of a strided one."""
    if each.is_replicate() or each.is_partial():
        return 0
    return int(getattr(each, "split_factor", 1))
