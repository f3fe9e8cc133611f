"""The clip on real ranks: plain tensors, DTensors on any mesh, and mixtures, judged by the rule on plain lists."""

import math

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import clip_shards, global_norm

pytestmark = pytest.mark.processes


def outcome(norm, grads):
    return float(norm), [None if g is None else local(g).tolist() for g in grads]


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def parameter(values, dtype=torch.float32):
    values = torch.tensor(values, dtype=dtype)
    made = torch.nn.Parameter(torch.zeros_like(values))
    made.grad = values
    return made


def hand_sharded(rank):
    from shardproof.torch import clip_grad_norm_

    shard = parameter([[3.0, 0.0], [0.0, 4.0, 0.0]][rank])
    copy = parameter([12.0])
    norm = clip_grad_norm_([("shard", shard), ("copy", copy)], 6.5, placements={"shard": "shard", "copy": "replicate"})
    assert type(norm) is torch.Tensor
    assert (norm.dtype, norm.dim()) == (torch.float64, 0)
    return outcome(norm, [shard.grad, copy.grad])


def test_plain_tensors_are_counted_once_each():
    """Uneven shards and a copy: norm 13, and every rank scales by the same factor."""
    assert on_ranks(2, hand_sharded) == [(13.0, [[1.5, 0.0], [6.0]]), (13.0, [[0.0, 2.0, 0.0], [6.0]])]


def fsdp2_tp(rank, rows, limit):
    """The weights themselves are the gradient's values, so each rank's slice is what torch really gave it."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    from shardproof.torch import ClipPlan, clip_grad_norm_

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Sequential(torch.nn.Linear(5, rows, bias=False), torch.nn.LayerNorm(rows))
    with torch.no_grad():
        for index, each in enumerate(model.parameters()):
            each.copy_(torch.arange(each.numel()).reshape(each.shape) + index)
    wholes = [each.detach().flatten().tolist() for each in model.parameters()]
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    for each in model.parameters():
        each.grad = each.detach().clone()
    expected = global_norm(wholes)
    options = {"mesh": mesh, "placements": {"1.*": {"tp": "replicate"}}}
    coverage = {row.coverage for row in ClipPlan(model, **options).describe().rows}
    norm = clip_grad_norm_(model, limit, **options)
    assert float(norm) == expected
    factor = min(1.0, limit / expected)
    for name, each in model.named_parameters():
        wanted = (each.detach().to_local().double() * factor).float()
        assert torch.equal(each.grad.to_local(), wanted), name
    return float(norm), coverage


@pytest.mark.parametrize(("rows", "limit"), [(8, 1.0), (8, 1e9), (6, 1.0), (3, 1.0), (1, 1.0)])
def test_tensor_parallel_with_fsdp2_on_different_meshes(rows, limit):
    """Weights on dp x tp, a LayerNorm on dp only: torch raises on this mixture, here each element counts once."""
    answers = on_ranks(4, fsdp2_tp, rows, limit)
    assert {norm for norm, _ in answers} == {answers[0][0]}
    assert all(coverage == {"proved"} for _, coverage in answers)


def unknown(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    from shardproof import PlacementError
    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weight = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh["dp"], [Shard(0)]))
    weight.grad = distribute_tensor(torch.ones(4), mesh["dp"], [Shard(0)])
    texts = []
    for arguments in (
        ([("norm", weight)], {}),
        ([("norm", weight)], {"mesh": mesh}),
        ([("plain", parameter([1.0]))], {"mesh": mesh, "placements": {"*": {"dp": "shard"}}}),
        ([("plain", parameter([1.0]))], {}),
        ([("norm", weight)], {"mesh": mesh, "placements": {"*": {"dp": "replicate", "tp": "replicate"}}}),
    ):
        with pytest.raises(PlacementError) as caught:
            clip_grad_norm_(arguments[0], 1.0, **arguments[1])
        texts.append(str(caught.value))
    return texts


def test_unknown_and_contradictory_placements_are_refused_on_every_rank():
    """The error names tensor and axis and shows what to pass; the group is usable afterwards."""
    texts = on_ranks(4, unknown)[0]
    assert "norm" in texts[0]
    assert "mesh=" in texts[0]
    assert "'tp'" in texts[1]
    assert '"tp": "replicate"' in texts[1]
    assert "'tp'" in texts[2]
    assert '"plain": "replicate"' in texts[3]
    assert "tensor itself says 'shard'" in texts[4]


def policies(rank):
    from shardproof import DisagreementError, NonFiniteGradientError
    from shardproof.torch import clip_grad_norm_

    results = []
    shard = parameter([[3.0], [4.0]][rank])
    call = [("w", shard)]
    options = {"placements": "shard"}
    with pytest.raises(ValueError, match=r"limit=-1") if rank else pytest.raises(DisagreementError, match="rank 1"):
        clip_grad_norm_(call, -1 if rank else 1.0, **options)
    with pytest.raises(DisagreementError, match=r"max_norm=2.0"):
        clip_grad_norm_(call, 1.0 + rank, **options)
    with pytest.raises(DisagreementError):
        clip_grad_norm_(call, 1.0, norm_type=1 + rank, **options)
    assert shard.grad.tolist() == [[3.0], [4.0]][rank]
    results.append(float(clip_grad_norm_(call, None, **options)))
    results.append(float(clip_grad_norm_(call, 1.0, norm_type="inf", **options)))
    shard.grad = torch.tensor([[3.0], [4.0]][rank])
    results.append(float(clip_grad_norm_(call, math.inf, norm_type=3, **options)))
    results.append(float(clip_grad_norm_(call, math.inf, norm_type=1, **options)))
    shard.grad[0] = math.nan if rank else 3.0
    with pytest.raises(NonFiniteGradientError, match=r"rank 1: w"):
        clip_grad_norm_(call, 1.0, error_if_nonfinite=True, **options)
    results.append(str(float(clip_grad_norm_(call, 1.0, **options))))
    shard.grad = None if rank else torch.tensor([3.0])
    results.append(float(clip_grad_norm_(call, 1.5, **options)))
    return results, None if rank else shard.grad.tolist()


def test_policies_are_the_same_on_every_rank():
    """Bad and different limits, norm orders, NaN on one rank, and a rank without a gradient."""
    answers = on_ranks(2, policies)
    expected = [5.0, 4.0, pytest.approx(91 ** (1 / 3), rel=1e-15), 7.0, "nan", 3.0]
    assert [answer[0] for answer in answers] == [expected, expected]
    assert answers[0][1] == [1.5]


def presence(rank):
    from shardproof.torch import clip_grad_norm_

    results = []
    for absent in (0, 1, None):
        copy = parameter([3.0, 4.0])
        if rank == absent:
            copy.grad = None
        results.append(float(clip_grad_norm_([("copy", copy)], 1.0, placements="replicate")))
        results.append(None if copy.grad is None else copy.grad.tolist())
    return results


def test_a_copy_without_a_gradient_leaves_the_count_to_another_rank():
    """The first rank that has the gradient counts it: norm 5, whichever copy lacks it."""
    clipped = torch.tensor([0.6, 0.8]).tolist()
    first, second = on_ranks(2, presence)
    assert first == [5.0, None, 5.0, clipped, 5.0, clipped]
    assert second == [5.0, clipped, 5.0, None, 5.0, clipped]


def stale(rank):
    from shardproof.torch import clip_grad_norm_

    model = torch.nn.ParameterDict({"a": parameter([3.0])})
    norms = [float(clip_grad_norm_(model, None, placements="shard"))]
    if rank == 0:
        model["b"] = parameter([4.0])
    norms.append(float(clip_grad_norm_(model, None, placements="shard")))
    if rank == 1:
        model["a"] = parameter([6.0], torch.float64)
    norms.append(float(clip_grad_norm_(model, None, placements="shard")))
    return norms


def test_changed_parameters_are_noticed_on_one_rank_and_rebuilt_on_all():
    """A parameter that appears on rank 0, another that changes on rank 1."""
    expected = [global_norm([[3, 3]]), global_norm([[3, 3, 4]]), global_norm([[3, 6, 4]])]
    assert on_ranks(2, stale) == [expected, expected]


def test_one_process_needs_no_group():
    """Drop-in on one rank: a list, a generator, one tensor, a module."""
    from shardproof.torch import clip_grad_norm_

    for parameters in ([parameter([3.0, 4.0])], parameter([3.0, 4.0])):
        assert float(clip_grad_norm_(parameters, 1.0)) == 5.0
    weights = [parameter([3.0]), parameter([4.0])]
    assert float(clip_grad_norm_((each for each in weights), 1)) == 5.0
    flat = clip_shards([[3], [4]], 1)
    assert [each.grad.tolist() for each in weights] == [torch.tensor(each).tolist() for each in flat]
