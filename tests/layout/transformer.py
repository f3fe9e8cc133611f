"""What every rank of a large transformer run lists: sharded, replicated, distinct and tied tensors; no framework."""

from functools import cache
from math import prod

from shardproof.layout import Listed, Mesh, Placement, Slice, chunk

HIDDEN, VOCABULARY, FEED_FORWARD, EXPERTS = 4096, 50257, 14336, 2
TIE = ("embedding", "head")

LAYER = {
    "norm_1": ((HIDDEN,), None),
    "attention.qkv": ((3 * HIDDEN, HIDDEN), 0),
    "attention.out": ((HIDDEN, HIDDEN), 1),
    "norm_2": ((HIDDEN,), None),
    "router": ((16, HIDDEN), None),
    **{f"experts.{index}.up": ((FEED_FORWARD, HIDDEN), 0) for index in range(EXPERTS)},
    **{f"experts.{index}.down": ((HIDDEN, FEED_FORWARD), 1) for index in range(EXPERTS)},
}
"""Name -> global shape and the dim that is cut over tp; None for copies."""


def mesh_of(**sizes):
    """Ranks 0, 1, ... on these axes, the last one fastest."""
    return Mesh(tuple(sizes), tuple(sizes.values()), tuple(range(prod(sizes.values()))))


def transformer(mesh, layers=2):
    """What each rank lists: `layers` transformer layers on each pipeline stage, over the axes dp, pp, tp and ep.

    Matrices are cut over tp, then over dp along dim 0 (unevenly where it does not divide), and copied over ep; norms
    and routers are copied over dp, tp and ep; experts differ over ep; stages over pp; the head is the embedding.
    """
    sizes = dict(zip(mesh.axes, mesh.sizes, strict=True))

    @cache
    def listed(name, shape, dim, dp, tp, tie):
        kinds = {
            "dp": Placement.REPLICATE if dim is None else Placement.SHARD,
            "pp": Placement.DISTINCT,
            "tp": Placement.REPLICATE if dim is None else Placement.SHARD,
            "ep": Placement.DISTINCT if "experts" in name else Placement.REPLICATE,
        }
        dims = [((0, size),) for size in shape]
        if dim is not None:
            dims[dim] = chunk(dims[dim], sizes["tp"], tp)
            dims[0] = chunk(dims[0], sizes["dp"], dp)
        return Listed(name, mesh, tuple(kinds[axis] for axis in mesh.axes), Slice(tuple(dims)), shape, tie)

    @cache
    def of_rank(dp, last, first, tp):
        tensors = [(f"layers.{index}.{name}", *says, ()) for index in range(layers) for name, says in LAYER.items()]
        tensors += [("embedding", (VOCABULARY, HIDDEN), 0, TIE)] * first
        tensors += [("final_norm", (HIDDEN,), None, ()), ("head", (VOCABULARY, HIDDEN), 0, TIE)] * last
        return tuple(
            listed(name, shape, dim, dp if dim is not None else 0, tp if dim is not None else 0, tie)
            for name, shape, dim, tie in tensors
        )

    def of(rank):
        place = dict(zip(mesh.axes, mesh.coordinates(rank), strict=True))
        return list(of_rank(place["dp"], place["pp"] == sizes["pp"] - 1, place["pp"] == 0, place["tp"]))

    return {rank: of(rank) for rank in mesh.ranks}
