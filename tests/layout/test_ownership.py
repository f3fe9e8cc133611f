"""Who counts what, and the proof of coverage, judged by counting every element by hand."""

from collections import Counter
from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof import PlacementError
from shardproof.layout import (
    Listed,
    Mesh,
    Placement,
    Slice,
    chunk,
    crossed,
    holders_of,
    line,
    placement,
    prove,
    share,
)

KINDS = (Placement.SHARD, Placement.REPLICATE, Placement.DISTINCT)


@st.composite
def runs(draw):
    """A mesh, and for each of a few tensors what every rank lists."""
    sizes = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    mesh = Mesh(tuple("abc"[: len(sizes)]), sizes, tuple(draw(st.permutations(range(prod(sizes))))))
    lists = {rank: [] for rank in mesh.ranks}
    for name in draw(st.lists(st.sampled_from("uvwxyz"), unique=True, max_size=4)):
        shape = tuple(draw(st.lists(st.integers(0, 5), max_size=2)))
        kinds = tuple(draw(st.sampled_from(KINDS)) for _ in sizes)
        dims = [draw(st.integers(0, len(shape) - 1)) if shape else None for _ in sizes]
        if not shape:
            kinds = tuple(Placement.REPLICATE if kind is Placement.SHARD else kind for kind in kinds)
        for rank in mesh.ranks:
            part = cut(mesh, rank, kinds, dims, shape)
            lists[rank].append(Listed(name, mesh, kinds, part, shape))
    return lists


def cut(mesh, rank, kinds, dims, shape):
    intervals = [((0, size),) if size else () for size in shape]
    for kind, dim, size, step in zip(kinds, dims, mesh.sizes, mesh.coordinates(rank), strict=True):
        if kind is Placement.SHARD:
            intervals[dim] = chunk(intervals[dim], size, step)
    return Slice(tuple(intervals))


def elements(part):
    return list(product(*([i for start, stop in dim for i in range(start, stop)] for dim in part.dims)))


def counted(lists):
    """How often each element of each logical tensor is counted."""
    holders, found = holders_of(lists), Counter()
    for rank, tensors in lists.items():
        for tensor in tensors:
            if share(tensor, rank, holders).owned:
                found.update((tensor.identity(rank), element) for element in elements(tensor.part))
    return found


@given(runs())
@settings(deadline=None, max_examples=200)
def test_every_element_is_counted_once_and_the_proof_agrees(lists):
    """Any mesh, any mixture of placements, uneven and empty slices."""
    everything = {
        (tensor.identity(rank), element)
        for rank, tensors in lists.items()
        for tensor in tensors
        for element in product(*map(range, tensor.shape))
    }
    found = counted(lists)
    assert set(found) == everything
    assert set(found.values()) <= {1}
    assert prove(lists) == []


@given(runs(), st.data())
@settings(deadline=None, max_examples=200)
def test_a_moved_slice_is_found(lists, data):
    """Shift or shorten one owned slice: the proof must name that tensor."""
    holders = holders_of(lists)
    owned = [
        (rank, index)
        for rank, tensors in lists.items()
        for index, tensor in enumerate(tensors)
        if tensor.part.numel and share(tensor, rank, holders).owned
    ]
    if not owned:
        return
    rank, index = data.draw(st.sampled_from(owned))
    tensor = lists[rank][index]
    if not tensor.part.dims:
        return
    dim = data.draw(st.integers(0, len(tensor.part.dims) - 1))
    (start, stop), *rest = tensor.part.dims[dim]
    moved = data.draw(st.sampled_from([(start + 1, stop + 1), (start, stop - 1), (start, stop + 1)]))
    dims = (*tensor.part.dims[:dim], (moved, *rest), *tensor.part.dims[dim + 1 :])
    lists[rank][index] = Listed(tensor.name, tensor.mesh, tensor.placements, Slice(dims), tensor.shape)
    assert [gap.identity for gap in prove(lists)] == [tensor.identity(rank)]


def test_an_overlap_cannot_cancel_a_gap():
    """Counts add up, elements do not: 0..2 and 1..3 of four elements leave 3 out and count 1 twice."""
    mesh = line([0, 1])
    lists = {
        rank: [Listed("w", mesh, (Placement.SHARD,), Slice.flat(start, start + 2), (4,))]
        for rank, start in ((0, 0), (1, 1))
    }
    assert [str(gap) for gap in prove(lists)] == ["w: 4 elements are owned, but not each exactly once"]


def test_equal_names_on_a_distinct_axis_are_different_tensors():
    """Local experts: both ranks count their own, and each is proved."""
    mesh = line([0, 1], "ep")
    lists = {rank: [Listed("expert", mesh, (Placement.DISTINCT,), Slice.whole((3,)), (3,))] for rank in (0, 1)}
    holders = holders_of(lists)
    assert all(share(lists[rank][0], rank, holders).owned for rank in (0, 1))
    assert prove(lists) == []


@pytest.mark.parametrize("stages", [(0, 3), (1, 3), (0, 0), (2,)])
def test_a_tied_tensor_is_counted_once_wherever_its_copies_are(stages):
    """A tied embedding on two stages, on one stage under two names, and on one stage alone."""
    mesh, names = line([0, 1, 2, 3], "pp"), ("embed", "head")
    lists = {rank: [] for rank in mesh.ranks}
    for stage, name in zip(stages, names, strict=False):
        lists[stage].append(Listed(name, mesh, (Placement.DISTINCT,), Slice.whole((2,)), (2,), tie=names))
    holders = holders_of(lists)
    shares = [share(tensor, rank, holders) for rank, tensors in lists.items() for tensor in tensors]
    assert sum(part.owned for part in shares) == 1
    assert {part.owner for part in shares} == {min(stages)}
    assert prove(lists) == []


def test_the_first_rank_that_lists_a_copy_counts_it():
    """Rank 0 does not hold the tensor that the axis replicates."""
    mesh = line([0, 1, 2])
    copy = Listed("w", mesh, (Placement.REPLICATE,), Slice.whole((2,)), (2,))
    lists = {0: [], 1: [copy], 2: [copy]}
    holders = holders_of(lists)
    assert share(copy, 2, holders).copies == (1, 2)
    assert [share(copy, rank, holders).owned for rank in (1, 2)] == [True, False]
    assert prove(lists) == []


def test_a_tensor_without_a_known_slice_is_not_judged():
    """Declared, not proved: neither found covered nor found uncovered."""
    known = Listed("w", line([0, 1]), (Placement.SHARD,), Slice.flat(0, 1), (4,))
    assert prove({0: [known], 1: [Listed("w", line([0, 1]), (Placement.SHARD,))]}) == []
    assert prove({0: [known], 1: [known]}) != []


def test_chunks_follow_torch():
    """The same cuts as torch.chunk, and strided ones as _StridedShard."""
    assert [chunk(((0, 5),), 4, part) for part in range(4)] == [((0, 2),), ((2, 4),), ((4, 5),), ()]
    assert chunk(((0, 3), (6, 9)), 2, 0) == ((0, 3),)
    assert chunk(((0, 3), (6, 9)), 3, 1) == ((2, 3), (6, 7))


def test_a_part_of_a_mesh_is_found_and_spread_over_the_rest():
    """Lines and planes are recognised by their ranks, whatever their axes are called."""
    mesh = Mesh(("pp", "dp", "tp"), (2, 2, 2), tuple(range(8)))
    assert mesh.spanned_by(5, {1, 3, 5, 7}) == ("pp", "dp")
    assert mesh.spanned_by(5, {4, 5, 6}) is None
    assert mesh.spanned_by(5, {0, 1}) is None
    spread = crossed(Mesh(("shard",), (4,), (7, 5, 3, 1)), mesh, {"tp"}, 5)
    assert spread.axes == ("shard", "tp")
    assert spread.ranks == (6, 7, 4, 5, 2, 3, 0, 1)
    assert spread.coordinates(5) == (1, 1)


@pytest.mark.parametrize("word", ["Shard(0)", "", None, 1, True])
def test_a_word_that_is_no_placement_is_refused(word):
    """The error lists the words and says where it stood."""
    with pytest.raises(PlacementError, match="weight, axis dp"):
        placement(word, "weight, axis dp")


@pytest.mark.parametrize(
    ("axes", "sizes", "ranks"),
    [(("a",), (2,), (0, 0)), (("a",), (3,), (0, 1)), (("a", "a"), (1, 2), (0, 1)), (("a",), (1, 2), (0, 1))],
)
def test_a_mesh_that_is_no_grid_is_refused(axes, sizes, ranks):
    """Every rank once, one size for each axis."""
    with pytest.raises(PlacementError):
        Mesh(axes, sizes, ranks)
