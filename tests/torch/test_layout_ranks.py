"""Every parallel layout on real ranks, each judged by the exact rule on the whole model.

The layouts are those of the audit's registry, as torch builds them; what it lacks (a real backward, `groups`, partial
gradients, wrong ranges) has layouts of its own below.
"""

import math
import warnings
from pathlib import Path

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import global_norm
from shardproof.audit.fixtures import fixtures
from shardproof.audit.layouts import LAYOUTS, Cut, shares, told
from shardproof.audit.ranks import on_every_rank

pytestmark = pytest.mark.processes

HERE = Path(__file__)
LIMIT = 1.0
"""No power of two below any norm here, so that factor and products round."""


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def options_of(ctx):
    """How the caller says what the tensors do not know."""
    placements = dict(zip(ctx.params, ctx.placements, strict=True))
    return {"mesh": ctx.mesh, "placements": placements, "tied": ctx.tied, "owned": ctx.owned}


def gradients_of(ctx):
    return [None if each.grad is None else local(each.grad).flatten().tolist() for each in ctx.params]


def everything_said(ctx, limit):
    """Norm only, then a clip by a plan; hexadecimal norms, gradients in between and after, and the coverage."""
    from shardproof.torch import ClipPlan, clip_grad_norm_

    listed = list(zip(ctx.names, ctx.params, strict=True))
    norm = clip_grad_norm_(listed, None, **options_of(ctx))
    between = gradients_of(ctx)
    plan = ClipPlan(listed, **options_of(ctx))
    again = plan.clip_(limit)
    coverage = {row.name: row.coverage for row in plan.describe().rows}
    return [float(norm).hex(), float(again).hex(), between, gradients_of(ctx), coverage]


def by_the_module(ctx, limit):
    """The module says everything."""
    from shardproof.torch import ClipPlan, clip_grad_norm_

    coverage = {row.coverage for row in ClipPlan(ctx.model).describe().rows}
    return [float(clip_grad_norm_(ctx.model, limit)).hex(), gradients_of(ctx), sorted(coverage)]


def by_megatrons_marks(ctx, limit):
    """The attributes say everything."""
    from shardproof.torch import clip_grad_norm_
    from shardproof.torch.megatron import from_megatron

    options = from_megatron(ctx.model, ctx.mesh)
    return [float(clip_grad_norm_(ctx.model, limit, **options)).hex(), gradients_of(ctx)]


def fixture_of(layout, name="over"):
    return next(each for each in fixtures(layout) if each.name == name)


def exact_norm(fixture):
    """By integers alone: the fixtures' norms are integers."""
    total = sum(int(value) ** 2 for row in fixture.gradients.values() for value in row)
    assert math.isqrt(total) ** 2 == total
    return float(math.isqrt(total)).hex()


def expected_gradients(layout, rank, fixture, factor):
    """float64 times float64, rounded once to the gradient's dtype; padding stays."""
    expected = []
    for share in shares(layout, rank):
        if rank in fixture.absent.get(share.tensor.name, ()):
            expected.append(None)
            continue
        whole = torch.tensor([fixture.gradients[share.tensor.name][index] for index in share.indices])
        clipped = (whole.double() * factor).to(getattr(torch, share.tensor.dtype)).tolist()
        expected.append([*clipped, *[share.tensor.stale] * share.padding])
    return expected


def expected_coverage(layout, rank):
    """Declared only where a plain tensor is cut by hand and nobody says which elements a rank has."""
    return {
        share.entry: "declared, not proved"
        if any(isinstance(lie, Cut) for axis, lie in share.tensor.on.items() if axis not in told(layout, share.tensor))
        and share.owned is None
        else "proved"
        for share in shares(layout, rank)
    }


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_plan_clips_every_layout_of_the_registry_to_the_bit(name):
    """Norm, every element on every rank, padding left alone, nothing written by a norm, and what is proved."""
    layout = LAYOUTS[name]
    fixture = fixture_of(layout)
    norm = exact_norm(fixture)
    answers = on_every_rank(layout, f"{HERE}:everything_said", LIMIT, fixture="over")
    for rank, (measured, again, between, after, coverage) in enumerate(answers):
        assert (measured, again) == (norm, norm)
        assert between == expected_gradients(layout, rank, fixture, 1.0)
        assert after == expected_gradients(layout, rank, fixture, LIMIT / float.fromhex(norm))
        assert coverage == expected_coverage(layout, rank)


def by_torch_alone(ctx, limit):
    return [float(torch.nn.utils.clip_grad_norm_(ctx.params, limit)).hex(), gradients_of(ctx)]


def test_the_expected_bits_are_not_those_of_a_local_norm():
    """The judge above rejects a wrong clip, in the norm and in the gradients."""
    layout, fixture = LAYOUTS["hand-sharded"], fixture_of(LAYOUTS["hand-sharded"])
    norm = exact_norm(fixture)
    for rank, (measured, after) in enumerate(on_every_rank(layout, f"{HERE}:by_torch_alone", LIMIT, fixture="over")):
        assert measured != norm
        assert after != expected_gradients(layout, rank, fixture, LIMIT / float.fromhex(norm))


SAYS_ITSELF = [
    layout.name
    for layout in LAYOUTS.values()
    if layout.kind in ("ddp", "fsdp1") or all(set(told(layout, each)) == set(layout.axes) for each in layout.tensors)
]


@pytest.mark.parametrize("name", [name for name in SAYS_ITSELF if name != "one-rank"])
def test_a_module_that_covers_the_run_needs_no_arguments(name):
    """DDP, FSDP1 in every strategy, FSDP2, HSDP and tensor parallel: coverage proved, the same bits."""
    layout = LAYOUTS[name]
    fixture = fixture_of(layout)
    norm = exact_norm(fixture)
    for rank, (measured, after, coverage) in enumerate(
        on_every_rank(layout, f"{HERE}:by_the_module", LIMIT, fixture="over")
    ):
        assert measured == norm
        assert after == expected_gradients(layout, rank, fixture, LIMIT / float.fromhex(norm))
        assert coverage == ["proved"]


@pytest.mark.parametrize("name", ["megatron", "megatron-moe"])
def test_megatrons_marks_say_everything(name):
    """A tied embedding, cut and copied weights, experts: read from the attributes."""
    layout = LAYOUTS[name]
    fixture = fixture_of(layout)
    norm = exact_norm(fixture)
    with_marks = on_every_rank(layout, f"{HERE}:by_megatrons_marks", LIMIT, fixture="over")
    for rank, (measured, after) in enumerate(with_marks):
        assert measured == norm
        assert after == expected_gradients(layout, rank, fixture, LIMIT / float.fromhex(norm))


def parameter(values, dtype=torch.float32):
    values = torch.tensor(values, dtype=dtype)
    made = torch.nn.Parameter(torch.zeros_like(values))
    made.grad = values
    return made


def numbered(*shapes):
    """A module whose parameters hold 1, 2, 3, ...; the gradient of sum(p * p) / 2 is p itself."""
    model = torch.nn.Module()
    start = 1
    for index, shape in enumerate(shapes):
        size = torch.Size(shape).numel()
        values = torch.arange(start, start + size, dtype=torch.float32).reshape(shape)
        model.register_parameter(f"p{index}", torch.nn.Parameter(values))
        start += size
    model.forward = lambda: sum((each * each).sum() / 2 for each in model.parameters())
    return model


def wholes(*shapes):
    total = sum(torch.Size(shape).numel() for shape in shapes)
    return [list(map(float, range(1, total + 1)))]


SHAPES = [(5, 3), (1,), (7,), (2, 2)]


def fsdp1(rank, strategy, use_orig_params, limit):
    from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

    from shardproof.torch import ClipPlan, clip_grad_norm_

    warnings.simplefilter("ignore")  # torch warns that FSDP1 is deprecated
    model = FullyShardedDataParallel(
        numbered(*SHAPES),
        sharding_strategy=ShardingStrategy[strategy],
        use_orig_params=use_orig_params,
        device_id=torch.device("cpu"),
        process_group=hybrid_groups(rank) if strategy == "HYBRID_SHARD" else None,
    )
    model().backward()
    before = {name: each.grad.clone() for name, each in model.named_parameters() if each.grad is not None}
    description = ClipPlan(model).describe()
    norm = float(clip_grad_norm_(model, limit))
    factor = min(1.0, limit / norm)
    for name, each in model.named_parameters():
        if each.grad is not None and "flat" not in name:
            assert torch.equal(each.grad, (before[name].double() * factor).float())
    again = float(clip_grad_norm_(model, None))
    return norm, again, {row.coverage for row in description.rows}


def hybrid_groups(rank):
    import torch.distributed as dist

    shards = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    replicas = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])]
    return shards[rank // 2], replicas[rank % 2]


@pytest.mark.parametrize(
    ("strategy", "ranks", "orig"),
    [
        ("FULL_SHARD", 4, True),
        ("SHARD_GRAD_OP", 2, False),
        ("NO_SHARD", 2, False),
        ("HYBRID_SHARD", 4, False),
    ],
)
def test_fsdp1_counts_each_element_once_and_no_padding(strategy, ranks, orig):
    """A real FullyShardedDataParallel with a real backward, original or flat parameters."""
    expected = global_norm(wholes(*SHAPES))
    for norm, again, coverage in on_ranks(ranks, fsdp1, strategy, orig, 2.0):
        assert norm == expected
        assert again == pytest.approx(2.0, rel=1e-6)
        assert coverage == {"proved"}


def fsdp2(rank, sizes, names, limit):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    from shardproof.torch import ClipPlan, clip_grad_norm_

    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=names)
    model = numbered(*SHAPES)
    fully_shard(
        model, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    )
    for each in model.parameters():
        each.grad = each.detach().clone()
    assert {row.coverage for row in ClipPlan(model).describe().rows} == {"proved"}
    norm = float(clip_grad_norm_(model, limit))
    for each in model.parameters():
        wanted = (each.detach().to_local().double() * min(1.0, limit / norm)).float()
        assert torch.equal(each.grad.to_local(), wanted)
    return norm


@pytest.mark.parametrize(("sizes", "names"), [((3,), ("dp",)), ((2, 2), ("r", "s"))])
def test_fsdp2_and_hsdp_with_mixed_precision(sizes, names):
    """bfloat16 parameters, float32 gradients."""
    ranks = torch.Size(sizes).numel()
    assert on_ranks(ranks, fsdp2, sizes, names, 3.0) == [global_norm(wholes(*SHAPES))] * ranks


def ddp(rank):
    from torch.nn.parallel import DistributedDataParallel

    from shardproof.torch import clip_grad_norm_

    model = DistributedDataParallel(numbered(*SHAPES), find_unused_parameters=False)
    with model.no_sync():
        model().backward()
    model().backward()
    return float(clip_grad_norm_(model, 1.0))


def test_ddp_with_accumulation_counts_one_copy():
    """Two backwards, the first without synchronisation: the accumulated gradient is twice the values."""
    expected = global_norm([[2 * value for value in wholes(*SHAPES)[0]]])
    assert on_ranks(2, ddp) == [expected, expected]


def mixed(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    other = init_device_mesh("cpu", (4,), mesh_dim_names=("ep",))

    def made(values, on, placements, dtype=torch.float32):
        tensor = torch.nn.Parameter(distribute_tensor(torch.zeros(len(values), dtype=dtype), on, placements))
        tensor.grad = distribute_tensor(torch.tensor(values, dtype=dtype), on, placements)
        return tensor

    tensors = {
        "both": made([1.0, 2.0, 3.0, 4.0], mesh, [Shard(0), Shard(0)]),
        "copies": made([5.0], mesh, [Replicate(), Replicate()]),
        "rows": made([2.0, 2.0, 2.0], mesh["dp"], [Shard(0)], torch.bfloat16),
        "expert": made([1.0, 1.0, 1.0, 1.0, 3.0], other, [Shard(0)], torch.float64),
        "plain": parameter([6.0], torch.float16),
        "own": parameter([rank + 1.0]),
    }
    placements = {"rows": {"tp": "replicate"}, "plain": "replicate", "own": {"dp": "distinct", "tp": "distinct"}}
    return float(clip_grad_norm_(list(tensors.items()), 0.5, mesh=mesh, placements=placements))


def test_plain_and_dtensors_on_several_meshes_in_one_call():
    """Two meshes that cover the run, one that covers half of it, plain tensors, four dtypes: one all-reduce."""
    expected = global_norm([[1, 2, 3, 4], [5], [2, 2, 2], [1, 1, 1, 1, 3], [6], [1, 2, 3, 4]])
    assert on_ranks(4, mixed) == [expected] * 4


def flat_buffers(rank):
    from shardproof import PlacementError
    from shardproof.torch import clip_grad_norm_

    # A buffer of 5 elements over 2 ranks, padded to 6: the last place of rank 1 holds stale data.
    buffer = parameter([[1.0, 2.0, 3.0], [4.0, 5.0, float("nan")]][rank])
    owned = {"buffer": [(0, 3, 5), (3, 5, 5)][rank]}
    norm = float(clip_grad_norm_([("buffer", buffer)], 1.0, placements="shard", owned=owned))
    wrong = {"buffer": [(0, 3, 5), (2, 4, 5)][rank]}
    with pytest.raises(PlacementError, match=r"not each exactly once.*rank 1 holds") as caught:
        clip_grad_norm_([("buffer", buffer)], 1.0, placements="shard", owned=wrong)
    assert "buffer" in str(caught.value)
    return norm, str(buffer.grad.tolist())


def test_a_flat_buffer_with_nan_in_its_padding():
    """Padding is neither counted nor looked at nor scaled; an overlap of the ranges is found."""
    norm = global_norm([[1, 2, 3, 4, 5]])
    first, second = on_ranks(2, flat_buffers)
    assert (first[0], second[0]) == (norm, norm)
    assert second[1].endswith("nan]")


def partials(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate

    from shardproof import PlacementError
    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))

    def fresh():
        made = []
        for summands in ([[1.0, 3.0], [2.0, 1.0]], [[4.0], [8.0]]):
            zeros = DTensor.from_local(torch.zeros(len(summands[0])), mesh, [Replicate()])
            each = torch.nn.Parameter(zeros)
            each.grad = DTensor.from_local(torch.tensor(summands[rank]), mesh, [Partial()])
            made.append(each)
        return made

    weights = fresh()
    with pytest.raises(ValueError, match="partial"):
        clip_grad_norm_(weights, 1.0)
    norms = []
    for _ in range(2):
        norms.append(float(clip_grad_norm_(weights, 6.5, reduce_partials=True)))
        clipped = [each.grad.to_local().tolist() for each in weights]
        for each, new in zip(weights, fresh(), strict=True):
            each.grad = new.grad
    plain = parameter([[1.0, 3.0], [2.0, 1.0]][rank])
    with pytest.raises(PlacementError, match="partial"):
        clip_grad_norm_([plain], 1.0, placements="partial")
    norms.append(float(clip_grad_norm_([plain], 2.5, placements="partial", reduce_partials=True)))
    return norms, clipped, plain.grad.tolist()


def test_partial_gradients_are_refused_or_reduced_first():
    """Summands [1,3] + [2,1] and 4 + 8: norm 13; never the norm of summands."""
    for norms, clipped, plain in on_ranks(2, partials):
        assert norms == [13.0, 13.0, 5.0]
        assert clipped == [[1.5, 2.0], [6.0]]
        assert plain == [1.5, 2.0]


def copies(rank):
    from shardproof import UnequalCopiesError
    from shardproof.torch import clip_grad_norm_

    same, other = parameter([3.0, 4.0]), parameter([1.0])
    options = {"placements": {"*": "replicate"}, "check_copies": True}
    listed = [("same", same), ("other", other)]
    norm = float(clip_grad_norm_(listed, None, **options))
    other.grad = torch.tensor([1.0 + (rank == 2)])
    with pytest.raises(UnequalCopiesError, match=r"other is one thing on ranks 0, 1 and another on ranks 2"):
        clip_grad_norm_(listed, 1.0, **options)
    assert same.grad.tolist() == [3.0, 4.0]
    other.grad = None if rank == 0 else torch.tensor([1.0])
    with pytest.raises(UnequalCopiesError, match="other"):
        clip_grad_norm_(listed, 1.0, **options)
    return norm


def test_unequal_copies_are_found_and_named():
    """A copy that differs, and a copy that has no gradient."""
    assert on_ranks(3, copies) == [global_norm([[3, 4, 1]])] * 3


def grouped(rank):
    from shardproof import PlacementError
    from shardproof.torch import clip_grad_norm_

    listed = [("expert.a", parameter([3.0 + rank])), ("dense.b", parameter([6.0])), ("dense.c", parameter([8.0]))]
    placements = {"expert.*": "shard", "*": "replicate"}
    groups = {"experts": ["expert.*"], "dense": ["*"]}
    norms, each = clip_grad_norm_(
        listed,
        {"experts": 2.5, "dense": 100.0},
        placements=placements,
        groups=groups,
        per_parameter_norms=True,
    )
    with pytest.raises(PlacementError, match="in none of the groups"):
        clip_grad_norm_(listed, 1.0, placements=placements, groups={"experts": ["expert.*"]})
    return (
        {name: float(norm) for name, norm in norms.items()},
        {name: float(norm) for name, norm in each.items()},
        [tensor.grad.tolist() for _, tensor in listed],
    )


def test_groups_are_clipped_by_their_own_norms():
    """Experts [3],[4] to 2.5, dense [6],[8] below its limit; each parameter's norm beside them."""
    for rank, (norms, each, values) in enumerate(on_ranks(2, grouped)):
        assert norms == {"experts": 5.0, "dense": 10.0}
        assert each == {"expert.a": 5.0, "dense.b": 6.0, "dense.c": 8.0}
        assert values == [[[1.5], [2.0]][rank], [6.0], [8.0]]


def halves(rank):
    from shardproof.torch import clip_with_norm_, get_total_norm

    weight = parameter([[3.0], [4.0]][rank])
    norm = get_total_norm([weight.grad], placements="shard")
    clip_with_norm_([weight], 2.5, norm)
    return float(norm), weight.grad.tolist()


def test_the_two_halves_of_a_clip():
    """Measure, then scale: as clip_grad_norm_ does both."""
    assert on_ranks(2, halves) == [(5.0, [1.5]), (5.0, [2.0])]


def part_of_the_run(rank):
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh

    from shardproof.torch import clip_grad_norm_

    groups = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])]
    weight = parameter([[3.0], [4.0]][rank % 2])
    norms = [float(clip_grad_norm_([weight], None, group=groups[rank // 2], placements="shard"))]
    mesh = DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("model", "tp"))
    norms.append(float(clip_grad_norm_([weight], None, mesh=mesh["tp"], placements={"*": {"tp": "shard"}})))
    axes = {"model": mesh.get_group("model"), "tp": mesh.get_group("tp")}
    placements = {"*": {"tp": "shard", "model": "distinct"}}
    norms.append(float(clip_grad_norm_([weight], None, mesh=axes, placements=placements)))
    return norms


def test_a_group_a_part_of_a_mesh_and_groups_by_axis():
    """Two models side by side, each with its own norm; and both as one."""
    assert on_ranks(4, part_of_the_run) == [[5.0, 5.0, global_norm([[3, 4, 3, 4]])]] * 4


def hand_made(rank):
    from shardproof import PlacementError
    from shardproof.torch import ClipPlan

    rows = parameter([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]][rank])
    odd = parameter([[1.0], [2.0, 3.0]][rank])
    call = {"placements": "shard", "shape": {"rows": (3, 2), "odd": (3,)}}
    plan = ClipPlan([("rows", rows), ("odd", odd)], **call)
    coverage = {row.name: row.coverage for row in plan.describe().rows}
    norm = float(plan.clip_(None))
    for shape in ((3,), (1, 2), (2.5, 2)):
        with pytest.raises(PlacementError, match=r"Expected shape\['rows'\]"):
            ClipPlan([("rows", rows)], placements="shard", shape={"rows": shape})
    # Both ranks hold the whole tensor and call it a shard: which elements they own is unknown, their number is not.
    for shape, word in (((2,), "counted twice"), ((5,), "left out")):
        with pytest.raises(PlacementError, match=rf"w: 4 of {shape[0]} elements are owned, some are {word}"):
            ClipPlan([("w", parameter([3.0, 4.0]))], placements="shard", shape={"w": shape})
    return norm, coverage


def test_hand_made_shards_are_proved_where_their_global_shape_is_given():
    """Cut as torch.chunk cuts: proved. Cut in another way: declared, and counted all the same."""
    for norm, coverage in on_ranks(2, hand_made):
        assert norm == global_norm([[1, 2, 3, 4, 5, 6], [1, 2, 3]])
        assert coverage == {"rows": "proved", "odd": "declared, not proved"}
