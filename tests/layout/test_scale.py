"""The proof of coverage for a run of 16,384 ranks, and the faults in one rank's list that it must find there."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.layout.transformer import HIDDEN, LAYER, mesh_of, transformer

from shardproof.layout import Identity, Listed, Placement, Slice, claims, holders_of, prove, share

SMALL = {"dp": 2, "pp": 4, "tp": 2, "ep": 2}
FULL = {"dp": 64, "pp": 16, "tp": 8, "ep": 2}


def at(lists, mesh, name, **position):
    """The rank at this position (0 where nothing is said) and the place of a tensor in its list."""
    rank = mesh.rank_at(tuple(position.get(axis, 0) for axis in mesh.axes))
    return rank, next(index for index, tensor in enumerate(lists[rank]) if tensor.name == name)


def changed(tensor, **fields):
    given = {"part": tensor.part, "shape": tensor.shape, "placements": tensor.placements, "tie": tensor.tie, **fields}
    return Listed(tensor.name, tensor.mesh, **given)


def moved(tensor, start, stop):
    """The same tensor with its rows moved: the first interval of dim 0 begins and ends elsewhere."""
    ((old_start, old_stop), *rest), *others = tensor.part.dims
    return changed(tensor, part=Slice((((old_start + start, old_stop + stop), *rest), *others)))


def plant(lists, mesh):
    """One fault of each kind, each in another tensor; returns the logical tensors that are not covered any more."""
    stage = mesh.sizes[mesh.axes.index("pp")] - 1

    # A gap: a shard that lacks its last row.
    rank, index = at(lists, mesh, "layers.0.attention.qkv", dp=1, pp=1, tp=1)
    lists[rank][index] = moved(lists[rank][index], 0, -1)
    # An overlap as large as a gap: a shard that lies one row too high; the count is right.
    rank, index = at(lists, mesh, "layers.1.attention.out", dp=1, pp=2)
    lists[rank][index] = moved(lists[rank][index], -1, -1)
    # A missing owner: nobody lists this slice of this expert.
    rank, index = at(lists, mesh, "layers.0.experts.1.up", dp=1, pp=1, tp=1, ep=1)
    del lists[rank][index]
    # A second owner: one rank takes its copy of a shard for a shard of its own.
    rank, index = at(lists, mesh, "layers.1.attention.qkv", pp=stage, ep=1)
    axes = zip(mesh.axes, lists[rank][index].placements, strict=True)
    own = tuple(Placement.SHARD if axis == "ep" else kind for axis, kind in axes)
    lists[rank][index] = changed(lists[rank][index], placements=own)
    # A forgotten tie: one rank takes its slice of the head for a tensor of its own, of which the rest is missing.
    rank, index = at(lists, mesh, "head", dp=1, pp=stage, tp=1)
    lists[rank][index] = changed(lists[rank][index], tie=())
    return {
        Identity("layers.0.attention.qkv", (("pp", 1),)),
        Identity("layers.1.attention.out", (("pp", 2),)),
        Identity("layers.0.experts.1.up", (("pp", 1), ("ep", 1))),
        Identity("layers.1.attention.qkv", (("pp", stage),)),
        Identity("head", (("pp", stage),)),
    }


@pytest.mark.parametrize("sizes", [SMALL, FULL], ids=["32 ranks", "16384 ranks"])
def test_every_rank_is_covered_and_planted_faults_are_found(sizes):
    """DP x PP x TP x EP; sharded over two axes, copied over three, distinct over two, and a tied embedding."""
    mesh = mesh_of(**sizes)
    lists = transformer(mesh)
    assert prove(lists) == []
    spoiled = plant(lists, mesh)
    assert {gap.identity for gap in prove(lists)} == spoiled


def test_a_lost_first_copy_is_counted_by_the_next_rank():
    """Copies over dp, tp and ep: when the first ranks do not list one, the next one does, and all stays covered."""
    mesh = mesh_of(**SMALL)
    lists = transformer(mesh)
    for rank in (0, 1):
        del lists[rank][next(i for i, tensor in enumerate(lists[rank]) if tensor.name == "layers.0.norm_1")]
    assert prove(lists) == []
    norm = next(tensor for tensor in lists[2] if tensor.name == "layers.0.norm_1")
    assert share(norm, 2, holders_of(lists)).owner == 2


@given(st.data())
@settings(deadline=None, max_examples=30)
def test_claims_follow_the_shares_whatever_ranks_do_not_list(data):
    """The proof takes a short way to the owner; it must be the owner that `share` names."""
    mesh = mesh_of(dp=2, pp=2, tp=2, ep=2)
    lists = transformer(mesh, layers=1)
    for rank in mesh.ranks:
        kept = data.draw(st.lists(st.booleans(), min_size=len(lists[rank]), max_size=len(lists[rank])))
        lists[rank] = [tensor for tensor, keep in zip(lists[rank], kept, strict=True) if keep]
    holders = holders_of(lists)
    for rank, tensors in lists.items():
        claimed = claims(tensors, rank, holders)
        for tensor in tensors:
            owned = share(tensor, rank, holders).owned
            assert (claimed[tensor.identity(rank)].count > 0) == owned


def test_every_element_of_the_run_is_counted():
    """The owned elements of all ranks add up to the model's: the shapes of its layers, written out."""
    mesh = mesh_of(**SMALL)
    lists = transformer(mesh)
    holders = holders_of(lists)
    counted = sum(
        tensor.part.numel for rank, tensors in lists.items() for tensor in tensors if share(tensor, rank, holders).owned
    )
    dense = sum(Slice.whole(shape).numel for name, (shape, _) in LAYER.items() if "experts" not in name)
    experts = sum(Slice.whole(shape).numel for name, (shape, _) in LAYER.items() if "experts" in name)
    stages, layers, per_axis = SMALL["pp"], 2, SMALL["ep"]
    assert counted == stages * layers * (dense + per_axis * experts) + 50257 * HIDDEN + HIDDEN
