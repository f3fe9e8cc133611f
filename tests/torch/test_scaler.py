"""Loss scaling: gradients unscaled, clipped and stepped as without it, and bad steps skipped by all ranks or none."""

import math

import pytest
import torch
from tests.ranks import on_ranks
from torch.optim import SGD, Adam

from shardproof import DisagreementError, InvalidTypeError, InvalidValueError, NonFiniteGradientError
from shardproof.torch import ClipPlan, clip_grad_norm_, share_bad_step

SCALE = 1024.0
GRADIENT = [2.0, -2.0, 2.0, 2.0, -2.0, 2.0, -2.0, -2.0, 2.0, 2.0, -2.0, 2.0, 2.0, -2.0, 2.0, 2.0]
VALUES = [float(index) for index in range(16)]
OPTIMIZERS = {
    "SGD": lambda each: SGD(each, lr=0.5, momentum=0.5),
    "Adam foreach": lambda each: Adam(each, lr=0.5, foreach=True),
    "Adam fused": lambda each: Adam(each, lr=0.5, fused=True),
    "SGD fused": lambda each: SGD(each, lr=0.5, momentum=0.5, fused=True),
}
IN_STEP = ["Adam fused", "SGD fused"]


def scaler_of(kind, scale=SCALE, **options):
    from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

    cls = {"plain": torch.amp.GradScaler, "sharded": ShardedGradScaler}[kind]
    return cls(device="cpu", init_scale=scale, growth_interval=2, **options)


def parameter(values):
    return torch.nn.Parameter(torch.tensor(values))


def backward(scaler, weight, gradient):
    """A backward pass of a scaled loss whose gradient is known."""
    weight.grad = None
    scaler.scale((weight * torch.tensor(gradient)).sum()).backward()


def reference(name, clips=(2.0, 2.0, 2.0)):
    """The parameters after each step without scaling: the norm is 8, limit / 8 is a power of two."""
    weight = parameter(VALUES)
    optimizer, after = OPTIMIZERS[name]([weight]), []
    for limit in clips:
        weight.grad = torch.tensor(GRADIENT) * (limit / 8.0)
        optimizer.step()
        after.append(weight.detach().clone())
    return after


PARTS = [slice(0, 5), slice(5, 16)]


# ---- unscale, clip, step


def training(rank, kind, name, bad, shares):
    """Four steps on two ranks, of which the second has NaN on the ranks `bad`: (parameters, scale) after each."""
    part = PARTS[rank]
    weight = parameter(VALUES[part])
    optimizer, scaler = OPTIMIZERS[name]([weight]), scaler_of(kind)
    plan, after = ClipPlan([(f"w{rank}", weight)], placements="distinct"), []
    for step in range(4):
        gradient = list(GRADIENT[part])
        if step == 1 and rank in bad:
            gradient[2] = math.nan
        backward(scaler, weight, gradient)
        scaler.unscale_(optimizer)
        norm = plan.clip_(2.0)
        if shares:
            share_bad_step(scaler, optimizer, norm)
        scaler.step(optimizer)
        scaler.update()
        after.append((float(norm), weight.tolist(), scaler.get_scale()))
    return after


@pytest.mark.processes
@pytest.mark.parametrize(
    ("kind", "name", "bad"),
    [
        ("plain", "SGD", (1,)),
        ("plain", "Adam foreach", (0, 1)),
        ("plain", "Adam fused", (0,)),
        ("sharded", "SGD", (0, 1)),
        ("sharded", "Adam fused", (0, 1)),
        ("sharded", "SGD fused", (0, 1)),
    ],
)
def test_a_bad_step_is_skipped_by_all_and_all_back_off(kind, name, bad):
    """As one process would: the second step is skipped, the scale halves, and doubles after two good steps."""
    first, second = on_ranks(2, training, kind, name, bad, True)
    assert [norm for norm, _, _ in first] == pytest.approx([8.0, math.nan, 8.0, 8.0], nan_ok=True, rel=0)
    assert [scale for _, _, scale in first] == [scale for _, _, scale in second] == [1024.0, 512.0, 512.0, 1024.0]
    one, two, three = reference(name)
    for (_, left, _), (_, right, _), expected in zip(first, second, (one, one, two, three), strict=True):
        assert left + right == expected.tolist()


@pytest.mark.processes
def test_without_sharing_ranks_part_ways():
    """The judge above rejects the loop that leaves share_bad_step out: rank 0 steps by a NaN-free clip of its own."""
    first, second = on_ranks(2, training, "plain", "SGD", (1,), False)
    assert first[1][1] != first[0][1]
    assert second[1][1] == second[0][1]
    assert [first[1][2], second[1][2]] == [1024.0 * 2, 512.0]


@pytest.mark.processes
@pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"docs/optimizers.md states what torch 2.13 does, this is {torch.__version__}",
)
def test_what_torch_alone_makes_of_sharded_scaling_and_fused_kernels():
    """ShardedGradScaler adds flags over ranks: 2 is not skipped; and its flag of shape (1,) does not fit Adam's step.

    share_bad_step leaves one flag of shape () that is at most 1, which the tests above rely on.
    """
    first, _ = on_ranks(2, training, "sharded", "SGD fused", (0, 1), False)
    assert any(math.isnan(value) for value in first[1][1])
    with pytest.raises(AssertionError, match=r"doesn't match the broadcast shape \[1\]"):
        on_ranks(2, training, "sharded", "Adam fused", (), False)
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["SGD fused"]([weight]), scaler_of("plain")
    backward(scaler, weight, [math.inf, *GRADIENT[1:]])
    scaler.step(optimizer)
    assert "momentum_buffer" in optimizer.state[weight]  # allocated, and skipped before anything was written to it


def flags_on_two_axes(rank):
    """An infinity on rank 3 of a dp x tp mesh, in a DTensor that lies on dp: (the scaler's flags, the shared ones)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weight = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh["dp"], [Shard(0)]))
    optimizer, scaler = OPTIMIZERS["Adam fused"]([weight]), scaler_of("plain")
    scaler.scale(torch.zeros(()))
    weight.grad = torch.zeros_like(weight)
    weight.grad.to_local().fill_(math.inf if rank == 3 else 1.0)
    scaler.unscale_(optimizer)
    state = scaler._per_optimizer_states[id(optimizer)]
    alone = [float(flag) for flag in state["found_inf_per_device"].values()]
    norm = clip_grad_norm_([("weight", weight)], 1.0, mesh=mesh, placements={"weight": {"tp": "distinct"}})
    share_bad_step(scaler, optimizer, norm)
    shared = [float(flag) for flag in state["found_inf_per_device"].values()]
    scaler.step(optimizer)
    return alone, shared, weight.to_local().tolist()


@pytest.mark.processes
def test_a_flag_reaches_the_ranks_beyond_a_tensors_own_mesh():
    """torch shares it over dp, ranks 1 and 3; the other tp rank's tensors are stepped."""
    answers = on_ranks(4, flags_on_two_axes)
    assert [alone for alone, _, _ in answers] == [[0.0], [1.0], [0.0], [1.0]]
    assert all(answer[1:] == ([1.0], [1.0, 1.0]) for answer in answers)


def without_gradients(rank, shares):
    weight = parameter(VALUES[PARTS[rank]])
    optimizer, scaler = OPTIMIZERS["SGD"]([weight]), scaler_of("plain")
    backward(scaler, weight, GRADIENT[PARTS[rank]])
    if rank == 1:
        weight.grad = None
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_([(f"w{rank}", weight)], 1.0, placements="distinct")
    if shares:
        share_bad_step(scaler, optimizer, norm)
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale()


@pytest.mark.processes
def test_a_rank_without_gradients_has_a_flag_too():
    assert on_ranks(2, without_gradients, True) == [SCALE, SCALE]
    with pytest.raises(AssertionError, match=r"rank 1 raised:(.|\n)*No inf checks were recorded"):
        on_ranks(2, without_gradients, False)


def test_the_order_of_calls_is_checked():
    """Before unscale_, and after step, the scaler cannot be told."""
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["SGD"]([weight]), scaler_of("plain")
    backward(scaler, weight, GRADIENT)
    with pytest.raises(InvalidValueError, match="stage=READY"):
        share_bad_step(scaler, optimizer, 1.0)
    scaler.unscale_(optimizer)
    norm = clip_grad_norm_([weight], 2.0)
    for wrong in ("nan", True, (norm, {})):
        with pytest.raises(InvalidTypeError, match="Expected norm"):
            share_bad_step(scaler, optimizer, wrong)
    with pytest.raises(InvalidTypeError, match="GradScaler"):
        share_bad_step(optimizer, scaler, norm)
    share_bad_step(scaler, optimizer, {"a": norm, "b": norm})
    scaler.step(optimizer)
    with pytest.raises(InvalidValueError, match="stage=STEPPED"):
        share_bad_step(scaler, optimizer, norm)
    assert torch.equal(weight, reference("SGD")[0])


def test_one_bad_group_is_a_bad_step():
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["SGD"]([weight]), scaler_of("plain")
    backward(scaler, weight, GRADIENT)
    scaler.unscale_(optimizer)
    share_bad_step(scaler, optimizer, {"a": torch.tensor(1.0), "b": torch.tensor(math.inf)})
    scaler.step(optimizer)
    scaler.update()
    assert (weight.tolist(), scaler.get_scale()) == (VALUES, SCALE / 2)


def test_a_flag_of_the_scaler_stays_raised():
    """It saw a gradient that is not in the plan."""
    weight, other = parameter(VALUES), parameter([1.0])
    optimizer, scaler = OPTIMIZERS["SGD"]([weight, other]), scaler_of("plain")
    backward(scaler, weight, GRADIENT)
    other.grad = torch.tensor([math.inf])
    scaler.unscale_(optimizer)
    share_bad_step(scaler, optimizer, clip_grad_norm_([weight], 2.0))
    scaler.step(optimizer)
    assert weight.tolist() == VALUES


def test_a_disabled_scaler_changes_nothing():
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["Adam fused"]([weight]), scaler_of("plain", enabled=False)
    backward(scaler, weight, GRADIENT)
    scaler.unscale_(optimizer)
    share_bad_step(scaler, optimizer, math.nan)
    assert float(ClipPlan([weight]).clip_in_step_(optimizer, 2.0, scaler)) == 8.0
    assert torch.equal(weight, reference("Adam fused")[0])


# ---- in the step


def in_step(rank, kind, name, bad, unscales):
    """As `training`, with the clip in the step; before or after unscale_."""
    part = PARTS[rank]
    weight = parameter(VALUES[part])
    optimizer, scaler = OPTIMIZERS[name]([weight]), scaler_of(kind)
    plan, after = ClipPlan([(f"w{rank}", weight)], placements="distinct"), []
    for step in range(4):
        gradient = list(GRADIENT[part])
        if step == 1 and rank in bad:
            gradient[2] = math.nan
        backward(scaler, weight, gradient)
        if unscales:
            scaler.unscale_(optimizer)
        norm = plan.clip_in_step_(optimizer, 2.0, scaler)
        scaler.update()
        assert not {"grad_scale", "found_inf"} & set(vars(optimizer))
        after.append((float(norm), weight.tolist(), scaler.get_scale()))
    return after


@pytest.mark.processes
@pytest.mark.parametrize(
    ("kind", "name", "bad", "unscales"),
    [
        ("plain", "Adam fused", (1,), False),
        ("plain", "SGD fused", (0,), True),
        ("sharded", "Adam fused", (0, 1), True),
        ("sharded", "SGD fused", (0, 1), False),
    ],
)
def test_the_step_unscales_clips_and_skips(kind, name, bad, unscales):
    """The norm is that without the loss scale; parameters and scales are those of one process."""
    first, second = on_ranks(2, in_step, kind, name, bad, unscales)
    assert [norm for norm, _, _ in first] == pytest.approx([8.0, math.nan, 8.0, 8.0], nan_ok=True, rel=0)
    assert [scale for _, _, scale in first] == [scale for _, _, scale in second] == [1024.0, 512.0, 512.0, 1024.0]
    one, two, three = reference(name)
    for (_, left, _), (_, right, _), expected in zip(first, second, (one, one, two, three), strict=True):
        assert left + right == expected.tolist()


@pytest.mark.parametrize("name", IN_STEP)
@pytest.mark.parametrize("limit", [2.0, 8.0, 64.0, None, 0.0])
def test_every_limit_holds_for_unscaled_gradients(name, limit):
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS[name]([weight]), scaler_of("plain")
    backward(scaler, weight, GRADIENT)
    norm, single = ClipPlan([("weight", weight)], per_parameter_norms=True).clip_in_step_(optimizer, limit, scaler)
    assert (float(norm), float(single["weight"])) == (8.0, 8.0)
    assert torch.equal(weight, reference(name, [8.0 if limit is None else min(8.0, limit)])[0])


def test_a_bad_first_step_of_fused_sgd_leaves_no_momentum():
    """With the scaler alone torch leaves a momentum buffer that nobody wrote to."""
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["SGD fused"]([weight]), scaler_of("plain")
    plan = ClipPlan([weight])
    backward(scaler, weight, [math.inf, *GRADIENT[1:]])
    assert not math.isfinite(plan.clip_in_step_(optimizer, 2.0, scaler))
    scaler.update()
    assert all("momentum_buffer" not in state for state in optimizer.state.values())
    backward(scaler, weight, GRADIENT)
    plan.clip_in_step_(optimizer, 2.0, scaler)
    assert torch.equal(weight, reference("SGD fused")[0])


def test_a_step_that_raises_can_be_tried_again():
    """The scaler still knows that the gradients are scaled."""
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["Adam fused"]([weight]), scaler_of("plain")
    plan = ClipPlan([weight])
    backward(scaler, weight, GRADIENT)
    handle = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plan.clip_in_step_(optimizer, 2.0, scaler)
    handle.remove()
    assert float(plan.clip_in_step_(optimizer, 2.0, scaler)) == 8.0
    assert torch.equal(weight, reference("Adam fused")[0])
    with pytest.raises(InvalidValueError, match=r"scaler\.update"):
        plan.clip_in_step_(optimizer, 2.0, scaler)
    assert torch.equal(weight, reference("Adam fused")[0])


def test_an_error_for_a_bad_step_leaves_the_scaler_alone():
    weight = parameter(VALUES)
    optimizer, scaler = OPTIMIZERS["Adam fused"]([weight]), scaler_of("plain")
    backward(scaler, weight, [math.inf, *GRADIENT[1:]])
    plan = ClipPlan([weight])
    with pytest.raises(NonFiniteGradientError):
        plan.clip_in_step_(optimizer, 2.0, scaler, error_if_nonfinite=True)
    assert math.isinf(plan.clip_in_step_(optimizer, 2.0, scaler))
    scaler.update()
    assert (weight.tolist(), scaler.get_scale()) == (VALUES, SCALE / 2)


def test_scalers_that_cannot_be_used_are_refused():
    weight = parameter(VALUES)
    optimizer = OPTIMIZERS["Adam fused"]([weight])
    weight.grad = torch.tensor(GRADIENT)
    with pytest.raises(InvalidValueError, match="has scaled a loss"):
        ClipPlan([weight]).clip_in_step_(optimizer, 2.0, scaler_of("plain"))
    with pytest.raises(InvalidTypeError, match="got float"):
        ClipPlan([weight]).clip_in_step_(optimizer, 2.0, 2.0)
    assert (weight.tolist(), weight.grad.tolist()) == (VALUES, GRADIENT)


def unlike(rank):
    """Another scale on one rank; unscaled on one rank only; a rank without parameters."""
    weight = parameter(VALUES[PARTS[rank]])
    optimizer = OPTIMIZERS["Adam fused"]([weight])
    plan, texts = ClipPlan([(f"w{rank}", weight)], placements="distinct"), []
    for scale, unscales in ((SCALE * (1 + rank), False), (SCALE, rank == 1)):
        scaler = scaler_of("plain", scale)
        backward(scaler, weight, GRADIENT[PARTS[rank]])
        if unscales:
            scaler.unscale_(optimizer)
        with pytest.raises(DisagreementError) as caught:
            plan.clip_in_step_(optimizer, 2.0, scaler)
        texts.append(str(caught.value))
    assert weight.tolist() == VALUES[PARTS[rank]]
    return texts


@pytest.mark.processes
def test_ranks_that_scale_differently_are_told():
    """The text names the scales, and who had unscaled already."""
    first, second = on_ranks(2, unlike)
    assert first == second
    assert "ranks 0: max_norm=2048.0" in first[0]
    assert "times the loss scale 1024.0" in first[0]
    assert "times the loss scale 2048.0" in first[0]
    assert "ranks 1: max_norm=2.0" in first[1]


def empty(rank):
    weight = parameter(VALUES)
    scaler, optimizer = scaler_of("plain"), None if rank else OPTIMIZERS["Adam fused"]([weight])
    plan, scales = ClipPlan([] if rank else [("weight", weight)], placements="distinct"), []
    for gradient in (GRADIENT, [math.nan, *GRADIENT[1:]], GRADIENT):
        backward(scaler, weight, gradient)
        plan.clip_in_step_(optimizer, 2.0, scaler)
        scaler.update()
        scales.append(scaler.get_scale())
    return weight.tolist(), scales


@pytest.mark.processes
def test_the_scale_of_a_rank_without_parameters_follows_the_others():
    first, second = on_ranks(2, empty)
    assert first == (reference("Adam fused")[1].tolist(), [1024.0, 512.0, 512.0])
    assert second == (VALUES, [1024.0, 512.0, 512.0])


def fully_sharded(rank, shares):
    """A plain GradScaler on FSDP2: torch shares its flag over the mesh of the first DTensor only."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Linear(4, 4, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(VALUES).reshape(4, 4))
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    optimizer, scaler, plan = Adam(model.parameters(), lr=0.5, fused=True), scaler_of("plain"), ClipPlan(model)
    norms = []
    for step in range(3):
        model.weight.grad = torch.zeros_like(model.weight)
        scale = float(scaler.scale(torch.ones(())))
        model.weight.grad.to_local().copy_(torch.tensor(GRADIENT).reshape(4, 4).chunk(2)[rank] * scale)
        if step == 1 and rank == 1:
            model.weight.grad.to_local()[0, 0] = math.inf
        if shares:
            scaler.unscale_(optimizer)
            norm = plan.clip_(2.0)
            share_bad_step(scaler, optimizer, norm)
            scaler.step(optimizer)
        else:
            norm = plan.clip_in_step_(optimizer, 2.0, scaler)
        norms.append(float(norm))
        scaler.update()
    return norms, model.weight.full_tensor().flatten().tolist()


@pytest.mark.processes
@pytest.mark.parametrize("shares", [True, False], ids=["clip, share, step", "clip in step"])
def test_fsdp2(shares):
    first, second = on_ranks(2, fully_sharded, shares)
    assert first == second
    assert first == ([8.0, math.inf, 8.0], reference("Adam fused")[1].tolist())
