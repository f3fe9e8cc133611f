"""Layouts: the pure description, and what torch really makes of it."""

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.audit.fixtures import base_gradients, fixtures, local_norms
from shardproof.audit.layouts import LAYOUTS, Copy, Cut, Layout, Only, Tensor, coordinates, named, shares
from shardproof.clip import global_norm
from shardproof.errors import InvalidValueError

LAID = list(LAYOUTS.values())
ids = [layout.name for layout in LAID]


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_every_element_lies_on_as_many_ranks_as_its_copies(layout):
    for tensor in layout.tensors:
        copies = math.prod(layout.axes[axis] for axis, lie in tensor.on.items() if isinstance(lie, Copy))
        found = Counter(
            index
            for rank in range(layout.world_size)
            for share in shares(layout, rank)
            if share.tensor is tensor
            for index in share.indices
        )
        assert found == dict.fromkeys(range(math.prod(tensor.shape)), copies)


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_every_tensor_says_how_it_lies_on_every_axis(layout):
    assert all(set(tensor.on) == set(layout.axes) for tensor in layout.tensors)
    assert set(layout.fsdp) <= set(layout.axes)


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_gradients_are_small_nonzero_integers_with_an_integer_norm(layout):
    gradients = base_gradients(layout)
    values = [value for row in gradients.values() for value in row]

    assert all(value == int(value) != 0 for value in values)
    assert sum(value * value for value in values) < 2**24
    assert global_norm([values]).is_integer()


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_limits_tell_local_from_global(layout):
    gradients = base_gradients(layout)
    norm, local = global_norm(list(gradients.values())), local_norms(layout, gradients)
    limits = {fixture.name: fixture.limit for fixture in fixtures(layout)}

    assert limits["over"] < norm == limits["at"] < limits["under"]
    if max(local) < norm:
        assert max(local) < limits["between"] < norm
        assert len(set(local)) > 1, "equal slices would let a local norm look like a scaled global one"
    else:
        assert "between" not in limits


@given(
    shape=st.tuples(st.integers(0, 7), st.integers(0, 5)),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 3)),
    cuts=st.tuples(st.sampled_from([Cut(0), Cut(1), Copy()]), st.sampled_from([Cut(0), Cut(1), Copy()])),
)
@settings(deadline=None, max_examples=60)
def test_any_two_cuts_cover_a_matrix_evenly(shape, sizes, cuts):
    tensor = Tensor("t", shape, dict(zip("ab", cuts, strict=True)))
    layout = Layout("x", "", "plain", dict(zip("ab", sizes, strict=True)), (tensor,))
    copies = math.prod(size for size, cut in zip(sizes, cuts, strict=True) if isinstance(cut, Copy))
    found = Counter(
        index for rank in range(layout.world_size) for share in shares(layout, rank) for index in share.indices
    )

    assert found == dict.fromkeys(range(math.prod(shape)), copies)


def test_torchs_chunk_rule_leaves_late_ranks_empty():
    layout = Layout("x", "", "plain", {"dp": 4}, (Tensor("t", (5,), {"dp": Cut(0)}),))

    assert [share.indices for rank in range(4) for share in shares(layout, rank)] == [(0, 1), (2, 3), (4,), ()]


def test_a_tensor_on_one_stage_is_held_there_only():
    layout = Layout("x", "", "plain", {"pp": 2, "tp": 2}, (Tensor("t", (2,), {"pp": Only(1), "tp": Cut(0)}),))

    assert [len(shares(layout, rank)) for rank in range(4)] == [0, 0, 1, 1]
    assert shares(layout, 3)[0].placements == {"pp": "distinct", "tp": "shard"}
    assert coordinates(layout, 2) == {"pp": 1, "tp": 0}


def test_wrong_slice_lengths_are_refused():
    layout = Layout("x", "", "plain", {"tp": 2}, (Tensor("t", (5,), {"tp": Cut(0, sizes=(2, 2))}),))

    with pytest.raises(InvalidValueError, match="add up to 5"):
        shares(layout, 0)


def test_unknown_layouts_are_refused_by_name():
    assert [layout.name for layout in named(["pipeline", "ddp"])] == ["ddp", "pipeline"]
    with pytest.raises(InvalidValueError, match="nothing-such"):
        named(["nothing-such"])


def held(ctx):
    """On a rank: the names, what torch's own objects hold, and what the context says of them."""
    from shardproof.audit.layouts.build import local

    return {
        "names": list(ctx.names),
        "indices": [[int(value) for value in local(each).flatten().tolist()] for each in ctx.params],
        "kinds": [type(each.grad).__name__ for each in ctx.params],
        "placements": [dict(each) for each in ctx.placements],
        "told": [str(getattr(each, "placements", "")) for each in ctx.params],
        "axes": dict(ctx.axes),
        "mesh": None if ctx.mesh is None else [list(ctx.mesh.mesh_dim_names), ctx.mesh.mesh.tolist()],
        "groups": {axis: ctx.group(axis).size() for axis in ctx.axes},
        "model": type(ctx.model).__name__,
    }


@pytest.mark.processes
@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_torch_lays_the_tensors_as_described(layout):
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    seen = on_every_rank(layout, f"{Path(__file__)}:held")

    for rank, facts in enumerate(seen):
        described = shares(layout, rank)
        assert facts["names"] == [share.tensor.local_name for share in described]
        assert facts["indices"] == [list(share.indices) for share in described]
        assert facts["placements"] == [dict(share.placements) for share in described]
        assert facts["groups"] == dict(layout.axes) == facts["axes"]
        assert set(facts["kinds"]) == {"DTensor" if layout.kind == "fsdp2" else "Tensor"}


@pytest.mark.processes
def test_the_layouts_are_made_of_torchs_own_objects():
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    assert on_every_rank("one-rank", held)[0]["mesh"] is None
    assert on_every_rank("ddp", held)[0]["model"] == "DistributedDataParallel"
    assert on_every_rank("fsdp2", held)[0]["model"].startswith("FSDP")
    hsdp, tp = on_every_rank("hsdp", held)[0], on_every_rank("fsdp2-tp", held)[0]
    assert "Replicate" in hsdp["told"][0]
    assert "Shard(dim=0)" in hsdp["told"][0]
    assert tp["mesh"] == [["dp", "tp"], [[0, 1], [2, 3]]]
    assert "StridedShard" in tp["told"][0], "both axes cut dim 0"
    assert tp["told"][3] == "(Shard(dim=0),)", "the LayerNorm lies on the dp mesh only"
