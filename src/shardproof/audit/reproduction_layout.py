"""A layout as a reproduction makes it: parameters before anything is wrapped, what wraps them, and who holds copies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shardproof.audit.layouts import Cut, Layout, Tensor, Tied, coordinates, held, told
from shardproof.audit.layouts.describe import local_names, spans
from shardproof.records.audit import LayoutPlan


class Source(str):
    """Text that stands in the file as it is, where repr() would quote it."""

    def __repr__(self) -> str:
        return str(self)


def parameters(layout: Layout, rank: int) -> list[tuple[str, tuple[int, ...], dict[str, Any]]]:
    """What this rank makes before anything is wrapped: name, shape, and what else there is to say of it."""
    where = coordinates(layout, rank)
    if layout.original:
        return [(f"layer{number}.weight", shape, {}) for number, shape in enumerate(layout.original)]
    if layout.kind == "fsdp1":
        return [(tensor.name, tensor.shape, {}) for tensor in layout.tensors]
    return [
        (name, _shape(layout, tensor, where), _more(layout, tensor, where))
        for tensor in layout.tensors
        if held(tensor, where)
        for name in local_names(tensor, where)
    ]


def _shape(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> tuple[int, ...]:
    if tensor.padded:
        return (tensor.padded,)
    by_hand = tuple(axis for axis in layout.axes if axis not in told(layout, tensor))
    return tuple(len(span) for span in spans(layout, tensor, where, by_hand))


def _more(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if tensor.dtype != "float32":
        more["dtype"] = Source(f"torch.{tensor.dtype}")
    lies = {axis: tensor.on[axis] for axis in told(layout, tensor) if axis not in layout.fsdp}
    if lies:
        placements = [Source(f"Shard({lie.dim})" if isinstance(lie, Cut) else "Replicate()") for lie in lies.values()]
        more["dtensor"] = (tuple(lies), placements)
    if tensor.frozen:
        more["frozen"] = True
    if tensor.aliases:
        more["aliases"] = tensor.aliases
    if layout.kind == "fsdp2" and not set(layout.fsdp) <= set(told(layout, tensor)):
        more["ignored"] = True
    if tensor.marks:
        more["marks"] = dict(tensor.marks) | _tied_marks(tensor, where)
    return more


def _tied_marks(tensor: Tensor, where: Mapping[str, int]) -> dict[str, bool]:
    marks: dict[str, bool] = {}
    for axis, lie in tensor.on.items():
        if isinstance(lie, Tied):
            marks |= {"shared_embedding": True} | ({"shared": True} if where[axis] != next(iter(lie.names)) else {})
    return marks


def wrap(layout: Layout, *, ignored: bool) -> list[str]:
    """The lines that wrap the model."""
    if layout.kind == "ddp":
        return ["model = nn.parallel.DistributedDataParallel(model)"]
    if layout.kind == "fsdp2":
        over = f"mesh[{layout.fsdp!r}]"
        return [f"fully_shard(model, mesh={over}{', ignored_params=ignored' if ignored else ''})"]
    if layout.kind == "fsdp1":
        axes = tuple(reversed(tuple(layout.axes)))
        groups = ", ".join(f"mesh.get_group({axis!r})" for axis in axes)
        return [
            "model = FullyShardedDataParallel(",
            f"    model, process_group={f'({groups})' if len(axes) > 1 else groups},",
            f"    sharding_strategy=ShardingStrategy.{layout.strategy}, use_orig_params={not layout.original},",
            '    device_id=torch.device("cpu"),',
            ")",
        ]
    return []


def shapes(layout: Layout) -> dict[str, tuple[int, ...]]:
    """What every rank makes before FSDP1 flattens it."""
    return {name: shape for name, shape, _ in parameters(layout, 0)}


def frozen(layout: Layout) -> list[list[tuple[str, tuple[int, ...]]]]:
    """By rank, name and shape of what takes no gradient; [] where nothing is frozen."""
    frozen = [
        [(name, shape) for name, shape, more in parameters(layout, rank) if more.get("frozen")]
        for rank in range(layout.world_size)
    ]
    return frozen if any(frozen) else []


def owned(planned: LayoutPlan) -> list[dict[str, tuple[int, int, int]]]:
    """By rank, the ranges of flat buffers."""
    ranks = range(planned.world_size)
    return [
        {piece.entry: piece.owned for piece in planned.pieces if piece.rank == rank and piece.owned is not None}
        for rank in ranks
    ]


def copies(planned: LayoutPlan) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of whole slices that are copies of each other: the first one, and each other one."""
    first: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
    pairs = []
    for rank in range(planned.world_size):
        pieces = [piece for piece in planned.pieces if piece.rank == rank and piece.indices]
        for place, piece in enumerate([each for each in planned.pieces if each.rank == rank]):
            if piece in pieces and not piece.padding:
                here = (rank, place)
                one = first.setdefault((piece.tensor, piece.indices), here)
                if one != here:
                    pairs.append((one, here))
    return pairs
