"""Which ranks take part, on which axes they stand, and how they reach each other."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist

from shardproof.errors import InvalidTypeError, ParticipationError, PlacementError
from shardproof.layout import Mesh, line
from shardproof.sums import MAX_RANKS
from shardproof.torch import roll_call

MeshLike: TypeAlias = Any
"""A DeviceMesh, or a mapping from axis name to ProcessGroup."""

LINE = "ranks"
"""The name of the one axis when no mesh was passed."""


@dataclass(frozen=True)
class World:
    """The ranks of one call: global rank numbers in group order, and the group that connects them.

    `group` is None for a single process. `device` is where the group's collectives take their tensors.
    """

    ranks: tuple[int, ...]
    rank: int
    group: Any
    device: torch.device

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def place(self) -> int:
        """This rank's number within the group."""
        return self.ranks.index(self.rank)


def world(mesh: MeshLike | None, group: Any | None) -> World:
    """Return the ranks that take part: those of `group`, else those of `mesh`, else the default group."""
    if not (dist.is_available() and dist.is_initialized()):
        if mesh is not None or group is not None:
            raise PlacementError(
                "A mesh or group was passed but torch.distributed is not initialised; call init_process_group."
            )
        return World((0,), 0, None, torch.device("cpu"))
    chosen = group if group is not None else _group_of(mesh)
    ranks = tuple(dist.get_process_group_ranks(chosen))
    if dist.get_rank() not in ranks:
        raise PlacementError(f"Rank {dist.get_rank()} is not in the group it was called with, of ranks {ranks}.")
    if len(ranks) > MAX_RANKS:
        raise PlacementError(f"Expected at most {MAX_RANKS} ranks, got {len(ranks)}.")
    return World(ranks, dist.get_rank(), chosen, _device_of(chosen))


def default_group() -> Any:
    """The default process group, None for a single process."""
    return dist.group.WORLD if dist.is_available() and dist.is_initialized() else None


def _group_of(mesh: MeshLike | None) -> Any:
    """The group that spans `mesh`; a mapping of groups is taken to span the default group."""
    if mesh is None or isinstance(mesh, Mapping):
        return dist.group.WORLD
    _checked_mesh(mesh)
    ranks = tuple(mesh.mesh.flatten().tolist())
    if sorted(ranks) == sorted(dist.get_process_group_ranks(dist.group.WORLD)):
        return dist.group.WORLD
    return mesh.get_group() if mesh.ndim == 1 else _spanning_group(ranks)


_spanning: dict[tuple[int, tuple[int, ...]], tuple[Any, Any]] = {}


def _spanning_group(ranks: tuple[int, ...]) -> Any:
    """A group over a part of the run, made once; only its members have to call."""
    # The default group is kept beside the new one so that its id cannot be given to a later default group.
    default = dist.group.WORLD
    key = (id(default), ranks)
    if key not in _spanning:
        made = dist.new_group(list(ranks), use_local_synchronization=True)
        _spanning[key] = (default, made)
    return _spanning[key][1]


def _device_of(group: Any) -> torch.device:
    """Where this group's collectives run: the host where it can, else the device of its only back end."""
    types = {device.type for device in group._device_types}
    return torch.device("cpu") if "cpu" in types or not types else torch.device(sorted(types)[0])


def grid(mesh: MeshLike | None, here: World, told: Sequence[object]) -> Mesh | None:
    """The axes on which the ranks of the call stand; None when no mesh was passed and there are several.

    `told` holds what each rank of the group said of itself (`coordinates`), in group order.
    """
    if here.size == 1:
        return line(here.ranks, LINE) if mesh is None else _of_device_mesh_or_groups(mesh, here, told)
    if mesh is None:
        return None
    found = _of_device_mesh_or_groups(mesh, here, told)
    if set(found.ranks) != set(here.ranks):
        raise PlacementError(
            f"Expected a mesh over the ranks of the group, {list(here.ranks)}, got axes {found.axes} over "
            f"{sorted(found.ranks)}. Pass the whole mesh, or group= with exactly its ranks."
        )
    return found


def coordinates(mesh: MeshLike | None) -> tuple[tuple[str, int, int], ...] | None:
    """What this rank says of itself when `mesh` is a mapping: (axis, size, position); None otherwise."""
    if not isinstance(mesh, Mapping):
        return None
    said = []
    for axis, group in mesh.items():
        if not isinstance(axis, str) or not isinstance(group, dist.ProcessGroup):
            raise InvalidTypeError(
                f"Expected mesh to map axis names to process groups, got {axis!r}: {type(group).__name__}."
            )
        said.append((axis, dist.get_world_size(group), dist.get_rank(group)))
    return tuple(said)


def _of_device_mesh_or_groups(mesh: MeshLike, here: World, told: Sequence[object]) -> Mesh:
    if not isinstance(mesh, Mapping):
        return of_device_mesh(mesh)
    axes = [(axis, size) for axis, size, _ in coordinates(mesh) or ()]
    places: dict[tuple[int, ...], int] = {}
    for rank, said in zip(here.ranks, told, strict=True):
        if not isinstance(said, tuple) or [(axis, size) for axis, size, _ in said] != axes:
            raise PlacementError(
                f"Expected every rank to pass a mesh with the axes {axes}, rank {rank} passed {said!r}."
            )
        places[tuple(position for _, _, position in said)] = rank
    if len(places) != here.size:
        raise PlacementError(
            f"The axes {axes} give {len(places)} different positions to {here.size} ranks, so some axis is "
            "missing from mesh. Name every axis of the group, each with its process group."
        )
    return Mesh(
        tuple(axis for axis, _ in axes),
        tuple(size for _, size in axes),
        tuple(places[position] for position in sorted(places)),
    )


_meshes: WeakKeyDictionary[Any, Mesh] = WeakKeyDictionary()


def of_device_mesh(mesh: MeshLike) -> Mesh:
    """The grid of a DeviceMesh; unnamed dims are called dim0, dim1, ..."""
    # Asked for every DTensor of a model, and torch computes `mesh.mesh` anew at each look, in 0.4 ms.
    _checked_mesh(mesh)
    found = _meshes.get(mesh)
    if found is None:
        names = mesh.mesh_dim_names or tuple(f"dim{index}" for index in range(mesh.ndim))
        grid = mesh.mesh
        found = _meshes[mesh] = Mesh(tuple(names), tuple(grid.shape), tuple(grid.flatten().tolist()))
    return found


def _checked_mesh(mesh: object) -> None:
    from torch.distributed.device_mesh import DeviceMesh

    if not isinstance(mesh, DeviceMesh):
        raise InvalidTypeError(
            f"Expected mesh to be a DeviceMesh or to map axis names to process groups, got {type(mesh).__name__}."
        )


def gather(here: World, said: object) -> list[Any]:
    """What every rank says, in group order; a collective call of all ranks."""
    if here.size == 1:
        return [said]
    mine = _bytes(said, here)
    counts = [_count(mine) for _ in here.ranks]
    _run(here, "gather of sizes", lambda: dist.all_gather(counts, _count(mine), here.group, async_op=True))
    sizes = [int(each) for each in counts]
    # Every rank sends as much as the longest, since the back ends gather equal sizes only.
    padded = torch.zeros(max(sizes), dtype=torch.uint8, device=here.device)
    padded[: mine.numel()] = mine
    found = [torch.empty_like(padded) for _ in sizes]
    _run(here, f"gather of {max(sizes)} bytes", lambda: dist.all_gather(found, padded, here.group, async_op=True))
    return [_object(each[:size]) for each, size in zip(found, sizes, strict=True)]


def broadcast(here: World, said: object, place: int, *, known: bool = False) -> Any:
    """What the rank at `place` of the group says; a collective call of all ranks.

    `known`: it is what this rank says too, which then only takes part.
    """
    if here.size == 1:
        return said
    mine = _bytes(said if place == here.place else None, here)
    count, source = _count(mine), here.ranks[place]
    _run(here, "broadcast of a size", lambda: dist.broadcast(count, source, here.group, async_op=True))
    sent = mine if place == here.place else torch.empty(int(count), dtype=torch.uint8, device=here.device)
    _run(here, f"broadcast of {int(count)} bytes", lambda: dist.broadcast(sent, source, here.group, async_op=True))
    return said if known or place == here.place else _object(sent)


def _bytes(said: object, here: World) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(said)), dtype=torch.uint8).to(here.device)


def _object(sent: torch.Tensor) -> Any:
    # The other end is a rank of the same program, which could run code here in simpler ways.
    return pickle.loads(sent.cpu().numpy().tobytes())


def _count(sent: torch.Tensor) -> torch.Tensor:
    return torch.tensor([sent.numel()], dtype=torch.int64, device=sent.device)


def add_up(here: World, words: torch.Tensor) -> torch.Tensor:
    """The sum over ranks of an int64 vector, modulo 2**64; one collective call of all ranks."""
    if here.size == 1:
        return words
    words = words.to(here.device)
    _run(
        here,
        f"sum of {words.numel()} words",
        lambda: dist.all_reduce(words, dist.ReduceOp.SUM, here.group, async_op=True),
    )
    return words.cpu()


def add_up_there(here: World, words: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The sum over ranks of a vector on `device`, in place; on a GPU the host does not wait for it."""
    if here.size > 1:
        there = replace(here, device=device)
        what = f"sum of {words.numel()} words on {device.type}"
        _run(there, what, lambda: dist.all_reduce(words, dist.ReduceOp.SUM, here.group, async_op=True))
    return words


def largest(here: World, values: Sequence[float]) -> list[float]:
    """The maxima over ranks of some float64; one collective call of all ranks."""
    if here.size == 1:
        return list(values)
    words = torch.tensor(values, dtype=torch.float64, device=here.device)
    _run(
        here, f"maximum of {len(values)}", lambda: dist.all_reduce(words, dist.ReduceOp.MAX, here.group, async_op=True)
    )
    return [float(word) for word in words.tolist()]


def reduce_over(here: World, values: torch.Tensor, group: Any) -> None:
    """Sum `values` in place over the ranks of `group`."""
    along = replace(here, ranks=tuple(dist.get_process_group_ranks(group)), group=group, device=values.device)
    _run(along, f"reduction of {values.numel()}", lambda: dist.all_reduce(values, group=group, async_op=True))


def axis_group(mesh: MeshLike | None, here: World, axis: str) -> Any:
    """The process group along one axis of what the caller passed as mesh."""
    if mesh is None:
        return here.group
    if isinstance(mesh, Mapping):
        return mesh[axis]
    return mesh.get_group(axis if mesh.mesh_dim_names else of_device_mesh(mesh).axes.index(axis))


def _run(here: World, what: str, start: Callable[[], Any]) -> None:
    """Run a collective to its end; where it fails, find out which ranks do not answer.

    Raises ParticipationError within the group's timeout and the seconds of asking.
    """
    _check_group(here)
    call = roll_call.begin(here.group, here.ranks, here.rank, what)
    try:
        _finish(start(), call, here.device)
    except RuntimeError as error:
        known = roll_call.described(call, roll_call.answers(call))
        raise ParticipationError(
            f"Rank {here.rank}: a collective over {here.size} ranks failed ({what}), and nothing was scaled; {known}. "
            "Every rank of the group has to make the same calls, also one without parameters or gradients. The group "
            "cannot be used again: start the run again from its last checkpoint. "
            f"The back end says: {str(error).splitlines()[0][:300]}"
        ) from error


def _finish(work: Any, call: roll_call.Call, device: torch.device) -> None:
    if device.type != "cpu":
        # There this orders the device's stream and returns at once; it is torch's watchdog that finds a lost rank.
        work.wait()
        return
    pause = roll_call.LOOK
    while True:
        try:
            work.wait(timedelta(seconds=pause))
            return
        except RuntimeError:
            if work.is_completed():
                # Ended in between, or failed; the second wait tells which.
                work.wait()
                return
        # Only the neighbours of a rank that ended are told so by the back end. Without a look at their notes the
        # others would wait for the whole timeout, and would be missed by those that have failed already.
        failed = roll_call.others_failed(call)
        if failed:
            raise RuntimeError("another rank of the group has failed in this call")
        if failed is None:
            # Each question that a store leaves open keeps a thread; so few are asked of one that is gone.
            pause *= 2


def _check_group(here: World) -> None:
    """Raise ParticipationError when the group was destroyed: torch would go on to use it, or a later one's ranks."""
    try:
        dist.get_rank(here.group)
    except ValueError as error:
        raise ParticipationError(
            f"Rank {here.rank}: the process group over ranks {list(here.ranks)[:16]} was destroyed. Build a new plan "
            "after init_process_group, on every rank."
        ) from error
