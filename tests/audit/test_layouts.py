"""Layouts and fixtures: the pure description, and what torch really makes of it."""

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof.audit.fixtures import FAR, SHARED, base_gradients, fixtures, local_norms, partial_norms
from shardproof.audit.layouts import (
    DEMO,
    LAYOUTS,
    QUICK,
    Copy,
    Cut,
    Layout,
    Only,
    Tensor,
    Tied,
    coordinates,
    named,
    shares,
    tied,
    told,
)
from shardproof.clip import global_norm
from shardproof.errors import InvalidValueError

LAID = list(LAYOUTS.values())
ids = [layout.name for layout in LAID]


def copies_of(layout, tensor):
    """How many parameters hold each element."""
    on_axes = [
        layout.axes[axis] if isinstance(lie, Copy) else len(lie.names) if isinstance(lie, Tied) else 1
        for axis, lie in tensor.on.items()
    ]
    return math.prod(on_axes) * (1 + len(tensor.twins))


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_every_element_lies_on_as_many_ranks_as_its_copies(layout):
    for tensor in layout.tensors:
        found = Counter(
            index
            for rank in range(layout.world_size)
            for share in shares(layout, rank)
            if share.tensor is tensor
            for index in share.indices
        )
        copies = 0 if tensor.frozen else copies_of(layout, tensor)
        assert found == Counter(dict.fromkeys(range(math.prod(tensor.shape)), copies))


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_every_tensor_says_how_it_lies_on_every_axis(layout):
    assert all(set(tensor.on) == set(layout.axes) for tensor in layout.tensors)
    assert set(layout.fsdp) <= set(layout.axes)


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_no_rank_holds_two_parameters_of_one_name(layout):
    for rank in range(layout.world_size):
        names = [share.entry for share in shares(layout, rank)]
        assert len(set(names)) == len(names)
    held = {share.entry for rank in range(layout.world_size) for share in shares(layout, rank)}
    assert all(set(names) <= held for names in tied(layout))


def test_there_are_layouts_of_every_kind_and_size():
    assert len(LAYOUTS) >= 28
    assert {1, 2, 3, 4, 8} <= {layout.world_size for layout in LAID}
    assert {layout.kind for layout in LAID} == {"plain", "ddp", "dtensor", "fsdp2", "fsdp1"}
    assert set(DEMO) < set(QUICK) < set(LAYOUTS)
    assert all(layout.title for layout in LAID)


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_gradients_are_small_integers_with_an_integer_norm(layout):
    for everywhere in (False, True):
        gradients = base_gradients(layout, everywhere=everywhere)
        values = [value for row in gradients.values() for value in row]

        assert all(value == int(value) and abs(value) <= 2**8 for value in values), "exact in bfloat16"
        assert global_norm([values]).is_integer()
        assert sum(value * value for value in values) < 2**24
        idle = any(tensor.idle for tensor in layout.tensors)
        assert all(values) == (everywhere or not idle)


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_limits_tell_a_norm_of_some_ranks_from_the_global_one(layout):
    gradients = base_gradients(layout)
    norm, local = global_norm(list(gradients.values())), local_norms(layout, gradients)
    limits = {fixture.name: fixture.limit for fixture in fixtures(layout)}

    assert limits["over"] < norm == limits["at"] < limits["under"]
    if max(local) < norm:
        assert max(local) < limits["between"] < norm
        assert len(set(local)) > 1, "equal slices would let a local norm look like a scaled global one"
    else:
        assert "between" not in limits
    partial = [each for each in partial_norms(layout, gradients) if each < norm]
    assert ("between-axes" in limits) == (len(layout.axes) > 1 and bool(partial))
    if "between-axes" in limits:
        assert max(local) <= max(partial) < limits["between-axes"] < norm


@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_fixtures_of_the_strict_profile_come_last_and_hold_what_their_names_say(layout):
    calls = fixtures(layout)
    by_name = {call.name: call for call in calls}

    assert [call.profile for call in calls] == sorted(call.profile for call in calls)
    assert {call.name for call in calls if call.profile == "core"} <= {
        "over",
        "far-over",
        "between",
        "between-axes",
        "under",
        "at",
        "zero-gradient",
    }
    for name, size in (("huge", 1e25), ("tiny", 1e-25)):
        values = [abs(value) for row in by_name[name].gradients.values() for value in row if value]
        assert all(size / 2 < value < size * 300 for value in values)
        norm = global_norm([values])
        assert by_name[name].limit == norm / 2
    for name, found in (("nan-one-rank", math.isnan), ("inf-one-rank", math.isinf)):
        holders = [
            {rank for rank in range(layout.world_size) for share in shares(layout, rank) if share.tensor.name == tensor}
            for tensor, row in by_name[name].gradients.items()
            if any(map(found, row))
        ]
        assert len(holders) == 1


def test_the_shared_fixture_is_the_same_numbers_everywhere():
    for layout in LAYOUTS.values():
        call = next(call for call in fixtures(layout) if call.name == "shared")
        assert sorted(value for row in call.gradients.values() for value in row if value) == sorted(SHARED)


def test_the_far_limit_lies_below_the_root_mean_square():
    for layout in LAYOUTS.values():
        call = next(call for call in fixtures(layout) if call.name == "far-over")
        values = [value for row in call.gradients.values() for value in row]
        norm = global_norm([values])
        assert call.limit == norm / FAR
        assert call.limit < norm / len(values) ** 0.5


def test_a_value_that_is_not_finite_lies_on_as_few_ranks_as_can_be():
    for name, fewest in (("pipeline", 1), ("fsdp2-tp", 1), ("hsdp", 2), ("ddp", 2), ("zero-flat-replicas", 2)):
        layout = LAYOUTS[name]
        call = next(call for call in fixtures(layout) if call.name == "nan-one-rank")
        holders = [
            rank
            for rank in range(layout.world_size)
            for share in shares(layout, rank)
            if any(math.isnan(call.gradients[share.tensor.name][index]) for index in share.indices)
        ]
        assert len(holders) == fewest
        assert layout.world_size - 1 in holders


def test_idle_ranks_have_a_gradient_in_one_call_only():
    for name in ("ep-idle", "pipeline-no-gradients", "shards-no-gradients"):
        layout = LAYOUTS[name]
        idle = {tensor.name: tensor.idle for tensor in layout.tensors if tensor.idle}
        assert idle
        assert {call.name: call.absent for call in fixtures(layout)} == {
            call.name: {} if call.name == "under" else idle for call in fixtures(layout)
        }
        for call in fixtures(layout):
            for rank in range(layout.world_size):
                for share in shares(layout, rank):
                    if rank in call.absent.get(share.tensor.name, ()):
                        assert not any(call.gradients[share.tensor.name][index] for index in share.indices)


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


def test_padding_follows_what_a_rank_owns():
    tensor = Tensor("flat", (5,), {"dp": Cut(0, sizes=(3, 2, 0))}, padded=3)
    layout = Layout("x", "", "plain", {"dp": 3}, (tensor,))

    held = [shares(layout, rank)[0] for rank in range(3)]
    assert [(share.indices, share.padding, share.owned) for share in held] == [
        ((0, 1, 2), 0, (0, 3, 5)),
        ((3, 4), 1, (3, 5, 5)),
        ((), 3, (5, 5, 5)),
    ]


def test_a_tied_tensor_has_a_name_on_each_stage():
    layout = Layout(
        "x",
        "",
        "plain",
        {"pp": 3},
        (Tensor("e", (2,), {"pp": Tied({0: "embed", 2: "head"})}), Tensor("t", (1,), {"pp": Only(0)}, twins=("u",))),
    )

    assert [[share.entry for share in shares(layout, rank)] for rank in range(3)] == [["embed", "t", "u"], [], ["head"]]
    assert tied(layout) == (("embed", "head"), ("t", "u"))


def test_a_frozen_tensor_is_given_to_nobody():
    layout = Layout("x", "", "plain", {"dp": 1}, (Tensor("t", (2,), {"dp": Copy()}, frozen=True),))

    assert shares(layout, 0) == ()
    assert base_gradients(layout) == {}


def test_unknown_layouts_are_refused_by_name():
    assert [layout.name for layout in named(["pipeline", "ddp"])] == ["ddp", "pipeline"]
    with pytest.raises(InvalidValueError, match="nothing-such"):
        named(["nothing-such"])


@pytest.mark.parametrize("name", ["hsdp", "sp", "fsdp2-tp-meshes", "ddp"])
def test_what_torchs_own_object_knows(name):
    assert [told(LAYOUTS[name], tensor) for tensor in LAYOUTS[name].tensors] == {
        "hsdp": [("dp_replicate", "dp_shard")] * 3,
        "sp": [(), (), ("tp",), ("tp",)],
        "fsdp2-tp-meshes": [("dp", "tp"), ("dp",), ("tp",), ()],
        "ddp": [()] * 3,
    }[name]


def held(ctx):
    """On a rank: the names, what torch's own objects hold, and what the context says of them."""
    from shardproof.audit.layouts.build import local

    return {
        "names": list(ctx.names),
        "indices": [[int(value) - 1 for value in local(each).flatten().tolist()] for each in ctx.params],
        "kinds": [type(each.grad).__name__ for each in ctx.params],
        "placements": [dict(each) for each in ctx.placements],
        "told": [list(each.device_mesh.mesh_dim_names) if hasattr(each, "device_mesh") else [] for each in ctx.params],
        "says": [str(getattr(each, "placements", "")) for each in ctx.params],
        "axes": dict(ctx.axes),
        "mesh": None if ctx.mesh is None else [list(ctx.mesh.mesh_dim_names), ctx.mesh.mesh.tolist()],
        "groups": {axis: ctx.group(axis).size() for axis in ctx.axes},
        "model": type(ctx.model).__name__,
        "owned": {name: list(owned) for name, owned in ctx.owned.items()},
        "tied": [list(names) for names in ctx.tied],
        "trained": sum(each.requires_grad for each in ctx.model.parameters()),
        "dtypes": [str(each.dtype).removeprefix("torch.") for each in ctx.params],
        "grads": [None if each.grad is None else local(each.grad).flatten().tolist() for each in ctx.params],
        "marks": [dict(vars(each)) for each in ctx.params] if ctx.layout.startswith("megatron") else [],
    }


@pytest.mark.processes
@pytest.mark.parametrize("layout", LAID, ids=ids)
def test_torch_lays_the_tensors_as_described(layout):
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    seen = on_every_rank(layout, f"{Path(__file__)}:held")
    over = next(call for call in fixtures(layout) if call.name == "over")

    for rank, facts in enumerate(seen):
        described = shares(layout, rank)
        assert facts["names"] == [share.entry for share in described]
        assert facts["indices"] == [[*share.indices, *[-1] * share.padding] for share in described]
        assert facts["placements"] == [dict(share.placements) for share in described]
        assert facts["told"] == [list(told(layout, share.tensor)) for share in described]
        assert facts["groups"] == dict(layout.axes) == facts["axes"]
        assert facts["owned"] == {share.entry: list(share.owned) for share in described if share.owned}
        assert facts["tied"] == [list(names) for names in tied(layout)]
        assert facts["trained"] == len(described)
        assert facts["dtypes"] == [share.tensor.dtype for share in described]
        for share, grad in zip(described, facts["grads"], strict=True):
            if rank in share.tensor.idle:
                assert grad is None
            else:
                whole = over.gradients[share.tensor.name]
                assert grad == [whole[index] for index in share.indices] + [share.tensor.stale] * share.padding


@pytest.mark.processes
def test_the_layouts_are_made_of_torchs_own_objects():
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    assert on_every_rank("one-rank", held)[0]["mesh"] is None
    assert on_every_rank("ddp", held)[0]["model"] == "DistributedDataParallel"
    assert on_every_rank("fsdp1", held)[0]["model"] == "FullyShardedDataParallel"
    assert on_every_rank("fsdp2", held)[0]["model"].startswith("FSDP")
    hsdp, tp = on_every_rank("hsdp", held)[0], on_every_rank("fsdp2-tp", held)[0]
    assert "Replicate" in hsdp["says"][0]
    assert "Shard(dim=0)" in hsdp["says"][0]
    assert tp["mesh"] == [["dp", "tp"], [[0, 1], [2, 3]]]
    assert "StridedShard" in tp["says"][0], "both axes cut dim 0"
    assert tp["says"][3] == "(Shard(dim=0),)", "the LayerNorm lies on the dp mesh only"


@pytest.mark.processes
def test_megatrons_marks_are_those_of_megatron():
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    first, *_, last = on_every_rank("megatron", held)
    cut = {"tensor_model_parallel": True, "partition_dim": 0}
    assert first["marks"][:2] == [cut | {"shared_embedding": True}, cut]
    assert last["marks"][0] == cut | {"shared_embedding": True, "shared": True}
    assert on_every_rank("megatron-moe", held)[1]["marks"] == [{"allreduce": False}, {"allreduce": True}]


def same_object(ctx):
    model = ctx.model.module
    return [model.embed.weight is model.head.weight, model.pos.weight.requires_grad, len(ctx.params)]


@pytest.mark.processes
def test_a_shared_parameter_is_one_object_and_a_frozen_one_is_in_the_model_only():
    pytest.importorskip("torch", reason="ranks need torch")
    from shardproof.audit.ranks import on_every_rank

    assert on_every_rank("ddp-4", same_object) == [[True, False, 2]] * 4


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_the_largest_magnitude_lies_on_some_ranks_only_where_ranks_hold_different_elements(layout):
    """Else a program that looks at its own rank alone would return the right maximum."""
    held = {
        frozenset((share.tensor.name, index) for share in shares(layout, rank) for index in share.indices)
        for rank in range(layout.world_size)
    }
    gradients = base_gradients(layout, order=math.inf)
    norms = local_norms(layout, gradients, math.inf)

    assert (len(set(norms)) > 1) == (len(held) > 1)
    calls = {call.name: call for call in fixtures(layout, math.inf)}
    assert all(abs(value) <= 256 for row in calls["over"].gradients.values() for value in row)
