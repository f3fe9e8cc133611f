"""The clip inside a fused optimizer's step, judged by clip-then-step of the whole model in one process."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ranks import on_ranks
from torch.optim import SGD, Adagrad, Adam, AdamW, RMSprop

from shardproof import DisagreementError, InvalidTypeError, InvalidValueError, NonFiniteGradientError
from shardproof.torch import ClipPlan, clip_grad_norm_

FUSED = {
    "Adam": (Adam, {"lr": 0.5}),
    "AdamW": (AdamW, {"lr": 0.5, "weight_decay": 0.5}),
    "SGD": (SGD, {"lr": 0.5}),
    "SGD with momentum": (SGD, {"lr": 0.5, "momentum": 0.5, "dampening": 0.25}),
    "Adagrad": (Adagrad, {"lr": 0.5}),
}

TAKES_A_SCALE = hasattr(Adagrad([torch.nn.Parameter(torch.zeros(1))], fused=True), "_step_supports_amp_scaling")
NO_SCALE = pytest.mark.skipif(
    not TAKES_A_SCALE, reason="the fused Adagrad of this release of torch takes no loss scale"
)
NAMES = [pytest.param(name, marks=NO_SCALE) if name == "Adagrad" else name for name in FUSED]
ON_DTENSORS = ["Adam", "AdamW"]

# Sixteen gradient elements of magnitude 2: the norm is 8. With powers of two every quotient is exact, so the step
# has to equal clip-then-step bit by bit.
GRADIENT = [2.0, -2.0, 2.0, 2.0, -2.0, 2.0, -2.0, -2.0, 2.0, 2.0, -2.0, 2.0, 2.0, -2.0, 2.0, 2.0]
VALUES = [float(index) for index in range(16)]
ROUNDS = [(1.0, 2.0), (0.25, 2.0), (4.0, 1.0), (1.0, None), (1.0, 0.0), (2.0, 16.0)]
"""(what the gradient is multiplied by, limit) of one step after the other: clipped, under it, at it, none, zero."""


def parameter(values, gradient=None, dtype=torch.float32):
    made = torch.nn.Parameter(torch.tensor(values, dtype=dtype))
    made.grad = None if gradient is None else torch.tensor(gradient, dtype=dtype)
    return made


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def fused(name, parameters, **more):
    cls, options = FUSED[name]
    return cls(parameters, fused=True, **options, **more)


def reference(name, dtype=torch.float32, rounds=ROUNDS):
    """Parameters after each step of the whole model in one process, clipped by hand before each step."""
    weight = parameter(VALUES, dtype=dtype)
    optimizer, after = fused(name, [weight]), []
    for times, limit in rounds:
        norm = 8.0 * times
        factor = min(1.0, math.inf if limit is None else limit / norm)
        weight.grad = torch.tensor(GRADIENT, dtype=dtype) * times * factor
        optimizer.step()
        after.append(weight.detach().clone())
    return after


# ---- one process


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_the_step_is_clip_then_step(name, dtype):
    """Above, under and at the limit, without one and with zero; the norm is that before clipping."""
    weight = parameter(VALUES, dtype=dtype)
    plan, optimizer = ClipPlan([("weight", weight)]), fused(name, [weight])
    for (times, limit), expected in zip(ROUNDS, reference(name, dtype), strict=True):
        weight.grad = torch.tensor(GRADIENT, dtype=dtype) * times
        norm = plan.clip_in_step_(optimizer, limit)
        assert (float(norm), norm.dtype) == (8.0 * times, torch.float64)
        assert torch.equal(weight, expected)
        assert not {"grad_scale", "found_inf"} & set(vars(optimizer))


numbers = st.floats(-(2.0**100), 2.0**100, width=32).filter(lambda each: each == 0 or abs(each) > 1e-20)


@settings(deadline=None, max_examples=150)
@given(st.lists(numbers, min_size=1, max_size=40), st.floats(2.0**-60, 2.0**60))
def test_gradients_differ_from_an_exact_clip_by_the_roundings_of_a_division(gradient, limit):
    """The divisor and the quotient are rounded to float32, and so is the clip it is compared with: 3 x 2**-24."""
    clipped, stepped = parameter(gradient, gradient), parameter(gradient, gradient)
    norm = clip_grad_norm_([clipped], limit)
    assert torch.equal(ClipPlan([stepped]).clip_in_step_(fused("SGD", [stepped]), limit), norm)
    bound = 3 * 2.0**-24 * clipped.grad.abs().double() + torch.finfo(torch.float32).smallest_normal
    assert bool(((clipped.grad.double() - stepped.grad.double()).abs() <= bound).all())


def test_the_bound_rejects_a_factor_with_an_epsilon():
    """The judge above must not pass torch's factor, which is off by 1e-6 / norm."""
    ours, other = parameter([0.0, 0.0], [3.0, 4.0]), parameter([0.0, 0.0], [3.0, 4.0])
    clip_grad_norm_([ours], 1.0)
    torch.nn.utils.clip_grad_norm_([other], 1.0)
    assert bool(((ours.grad - other.grad).abs() > 3 * 2.0**-24 * ours.grad.abs()).any())


def test_float64_gradients_are_divided_by_a_float32():
    """What the documentation says: torch's kernels read a float32, so float64 gradients are off by up to 2**-24."""
    clipped, stepped = (parameter([0.0, 0.0], [1.0, 1.0], torch.float64) for _ in range(2))
    ClipPlan([clipped]).clip_(1.0)
    ClipPlan([stepped]).clip_in_step_(fused("SGD", [stepped]), 1.0)
    off = float(((stepped.grad - clipped.grad) / clipped.grad).abs().max())
    assert 0 < off <= 2.0**-24


@pytest.mark.parametrize("name", NAMES)
def test_a_divisor_beyond_float32_is_no_zero(name):
    """norm / limit is 2**141: the kernel would read inf and make every gradient zero; they are clipped before."""
    gradient = [2.0**120, -(2.0**120), 2.0**120, 2.0**120]
    weight, plain = parameter([1.0] * 4, gradient), parameter([1.0] * 4, [each * 2.0**-141 for each in gradient])
    assert float(ClipPlan([weight]).clip_in_step_(fused(name, [weight]), 2.0**-20)) == 2.0**121
    fused(name, [plain]).step()
    assert torch.equal(weight.grad, plain.grad)
    assert torch.equal(weight, plain)


def test_a_norm_beyond_float64_is_clipped_all_the_same():
    """The norm is reported as inf, the gradients are finite and the factor comes from the exact sum."""
    weight = parameter([0.0] * 4, [2.0**1023] * 4, torch.float64)
    assert float(ClipPlan([weight]).clip_in_step_(fused("SGD", [weight]), 2.0)) == math.inf
    assert weight.tolist() == [-0.5] * 4


def seen_in(optimizer):
    """What the kernel gets in each step."""
    seen = []
    optimizer.register_step_pre_hook(
        lambda each, *_: seen.append([getattr(each, name, None) for name in ("grad_scale", "found_inf")])
    )
    return seen


def test_under_the_limit_nothing_is_passed():
    """Only a clip costs a division, only a bad step a flag."""
    weight = parameter(VALUES, GRADIENT)
    plan, optimizer = ClipPlan([weight]), fused("Adam", [weight])
    seen = seen_in(optimizer)
    for limit, gradient in ((8.0, GRADIENT), (2.0, GRADIENT), (2.0, [math.nan] * 16)):
        weight.grad = torch.tensor(gradient)
        plan.clip_in_step_(optimizer, limit)
    assert seen == [[None, None], [torch.tensor(4.0), None], [None, torch.tensor(1.0)]]


def test_no_second_pass_over_the_gradients():
    """Beside the kernel itself, torch runs no operation on anything as large as the gradients."""
    from torch.utils._python_dispatch import TorchDispatchMode

    large, size = [], 256 * 16

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            flat = [each for one in arguments for each in (one if isinstance(one, list) else [one])]
            if any(isinstance(each, torch.Tensor) and each.numel() >= size for each in flat):
                large.append(str(function))
            return function(*arguments, **(options or {}))

    weight = parameter(VALUES * 256, GRADIENT * 256)
    plan, optimizer = ClipPlan([weight]), fused("Adam", [weight])
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    scaler.scale(torch.zeros(()))
    plan.clip_in_step_(optimizer, 2.0)
    with Watch():
        plan.clip_in_step_(optimizer, 1.0)
        plan.clip_in_step_(optimizer, 0.25, scaler)
    assert [name for name in large if "detach" not in name] == ["aten._fused_adam_.default"] * 2


def test_attributes_are_restored_when_the_step_raises():
    """Also one that was there before, as None."""
    weight = parameter(VALUES, GRADIENT)
    plan, optimizer = ClipPlan([weight]), fused("Adam", [weight])
    optimizer.grad_scale = None
    handle = optimizer.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plan.clip_in_step_(optimizer, 2.0)
    assert optimizer.grad_scale is None
    assert "found_inf" not in vars(optimizer)
    handle.remove()
    plan.clip_in_step_(optimizer, 2.0)
    assert torch.equal(weight, reference("Adam")[0])


@pytest.mark.parametrize("name", NAMES)
def test_a_bad_first_step_leaves_nothing_behind(name):
    """fused SGD leaves an unwritten momentum buffer in torch; here the next step is a first step."""
    weight = parameter(VALUES, [math.nan, *GRADIENT[1:]])
    plan, optimizer = ClipPlan([weight]), fused(name, [weight])
    assert math.isnan(plan.clip_in_step_(optimizer, 2.0))
    assert weight.tolist() == VALUES
    assert weight.grad.tolist()[1:] == GRADIENT[1:]
    for state in optimizer.state.values():
        assert {key: float(value.abs().sum()) for key, value in state.items() if float(value.abs().sum())} == {}
    weight.grad = torch.tensor(GRADIENT)
    plan.clip_in_step_(optimizer, 2.0)
    assert torch.equal(weight, reference(name)[0])


def test_a_bad_step_can_raise_instead():
    weight = parameter(VALUES, [math.inf, *GRADIENT[1:]])
    optimizer = fused("Adam", [weight])
    with pytest.raises(NonFiniteGradientError, match=r"\[0\]"):
        ClipPlan([weight]).clip_in_step_(optimizer, 2.0, error_if_nonfinite=True)
    assert (weight.tolist(), len(optimizer.state)) == (VALUES, 0)


def test_norm_order_epsilon_and_single_norms_are_those_of_a_clip():
    weight, bias = parameter([0.0] * 2, [3.0, -1.0]), parameter([0.0], [4.0])
    plan = ClipPlan([("weight", weight), ("bias", bias)], per_parameter_norms=True)
    optimizer = fused("SGD", [weight, bias])
    norm, each = plan.clip_in_step_(optimizer, 2.0, norm_type=1, eps=8.0)
    assert (float(norm), {name: float(one) for name, one in each.items()}) == (8.0, {"weight": 4.0, "bias": 4.0})
    assert weight.grad.tolist() == [0.375, -0.125]


# ---- what is refused


def refused(optimizer, weight, text, error=InvalidValueError, **options):
    before = weight.detach().clone(), weight.grad.clone()
    with pytest.raises(error, match=text):
        ClipPlan([("weight", weight)], **options).clip_in_step_(optimizer, 1.0)
    assert torch.equal(weight, before[0])
    assert torch.equal(weight.grad.to_dense(), before[1].to_dense())


def test_optimizers_that_cannot_carry_a_clip_are_refused():
    """Each with its reason; nothing is touched."""

    def make():
        return parameter([1.0, 1.0], [3.0, 4.0])

    weight = make()
    refused(RMSprop([weight], lr=1.0), weight, "RMSprop.*none of torch's fused optimizers")
    refused(Adam([weight]), weight, r"Adam.*param_groups \[0\] are not fused.*fused=True")
    refused(Adam([weight], foreach=True), weight, "not fused")
    refused("Adam", weight, "got str", InvalidTypeError)
    other = make()
    mixed = Adam([{"params": [weight]}, {"params": [other], "fused": False}], fused=True)
    refused(mixed, weight, r"param_groups \[1\] are not fused")
    single = Adam([{"params": [weight], "fused": True}])
    refused(single, weight, "was not built with fused=True")
    taken = fused("Adam", [weight])
    taken.grad_scale = torch.tensor(2.0)
    refused(taken, weight, "grad_scale is set already")
    complex_weight = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64))
    complex_weight.grad = torch.ones(2, dtype=torch.complex64)
    holder = fused("SGD", [make()])
    holder.param_groups[0]["params"][0] = complex_weight
    refused(holder, complex_weight, "complex64")
    sparse = make()
    sparse.grad = sparse.grad.to_sparse().coalesce()
    refused(fused("Adam", [sparse]), sparse, "layout torch.sparse_coo")
    refused(fused("Adam", [weight]), weight, "groups.*'all'", groups={"all": ["*"]})


def test_the_optimizer_has_just_the_parameters_of_the_plan():
    """Both ways, by name; what is frozen takes no part."""
    one, two, frozen = parameter([1.0], [3.0]), parameter([1.0], [4.0]), parameter([1.0]).requires_grad_(False)
    plan = ClipPlan([("one", one), ("two", two), ("frozen", frozen)])
    with pytest.raises(InvalidValueError, match="two of the plan is not in the optimizer"):
        plan.clip_in_step_(fused("Adam", [one]), 1.0)
    extra = parameter([1.0] * 3)
    with pytest.raises(InvalidValueError, match=r"\['params'\]\[2\] of the optimizer, of shape \(3,\)"):
        plan.clip_in_step_(fused("Adam", [one, two, extra]), 1.0)
    with pytest.raises(InvalidValueError, match="one of the plan is not in the optimizer"):
        plan.clip_in_step_(None, 1.0)
    assert (one.item(), one.grad.item(), two.grad.item()) == (1.0, 3.0, 4.0)
    assert float(plan.clip_in_step_(fused("SGD", [one, two]), 1.0)) == 5.0


def test_a_gradient_of_another_dtype_is_refused_before_anything_happens():
    weight = parameter([1.0, 1.0])
    if not hasattr(weight, "grad_dtype"):
        pytest.skip(f"torch {torch.__version__} has no gradients of another dtype than their parameter's")
    weight.grad_dtype = torch.bfloat16
    weight.grad = torch.tensor([3.0, 4.0], dtype=torch.bfloat16)
    refused(fused("Adam", [weight]), weight, "float32, its gradient torch.bfloat16")


# ---- several ranks


def sharded(rank, name, rounds):
    """Five elements on rank 0, eleven on rank 1; two tensors there."""
    parts = [(0, 5)] if rank == 0 else [(5, 6), (6, 16)]
    weights = [parameter(VALUES[start:stop]) for start, stop in parts]
    plan = ClipPlan([(f"w{rank}{index}", each) for index, each in enumerate(weights)], placements="distinct")
    optimizer, after = fused(name, weights), []
    for times, limit in rounds:
        for each, (start, stop) in zip(weights, parts, strict=True):
            each.grad = torch.tensor(GRADIENT[start:stop]) * times
        norm = float(plan.clip_in_step_(optimizer, limit))
        after.append((norm, [value for each in weights for value in each.tolist()]))
    return after


@pytest.mark.processes
@pytest.mark.parametrize("name", NAMES)
def test_plain_shards_step_as_the_whole_model_does(name):
    first, second = on_ranks(2, sharded, name, ROUNDS)
    for (times, _), one, two, expected in zip(ROUNDS, first, second, reference(name), strict=True):
        assert one[0] == two[0] == 8.0 * times
        assert one[1] + two[1] == expected.tolist()


def by_local_norm(rank):
    """The wrong clip: each rank by its own norm."""
    part = slice(0, 5) if rank == 0 else slice(5, 16)
    weight = parameter(VALUES[part], GRADIENT[part])
    torch.nn.utils.clip_grad_norm_([weight], 2.0)
    fused("SGD", [weight]).step()
    return weight.tolist()


@pytest.mark.processes
def test_the_reference_rejects_a_clip_by_local_norms():
    first, second = on_ranks(2, by_local_norm)
    assert first + second != reference("SGD")[0].tolist()


def fully_sharded(rank, name, rounds):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = torch.nn.Module()
    model.weight = parameter([VALUES[start : start + 3] for start in range(0, 15, 3)])
    model.bias = parameter(VALUES[15:])
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    plan, optimizer, after = ClipPlan(model), fused(name, model.parameters()), []
    wholes = torch.tensor(GRADIENT[:15]).reshape(5, 3), torch.tensor(GRADIENT[15:])
    for times, limit in rounds:
        for each, whole in zip(model.parameters(), wholes, strict=True):
            each.grad = torch.zeros_like(each)
            each.grad.to_local().copy_(whole.chunk(2)[rank] * times if rank < len(whole.chunk(2)) else whole[:0])
        norm = float(plan.clip_in_step_(optimizer, limit))
        after.append((norm, [value for each in model.parameters() for value in each.full_tensor().flatten().tolist()]))
    return after


@pytest.mark.processes
@pytest.mark.parametrize("name", ON_DTENSORS)
def test_fsdp2_steps_as_the_whole_model_does(name):
    """Uneven rows, and a bias of one element that only rank 0 holds."""
    first, second = on_ranks(2, fully_sharded, name, ROUNDS)
    assert first == second
    for (times, _), (norm, values), expected in zip(ROUNDS, first, reference(name), strict=True):
        assert norm == 8.0 * times
        assert values == expected.tolist()


def without_kernel(rank, name):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    weight = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
    weight.grad = distribute_tensor(torch.full((4,), 4.0), mesh, [Shard(0)])
    optimizer = fused(name, [weight])
    with pytest.raises(InvalidValueError, match="cannot run its fused kernel on DTensors"):
        ClipPlan([("weight", weight)]).clip_in_step_(optimizer, 1.0)
    plain = parameter([1.0], [1.0])
    both = ClipPlan([("weight", weight), ("plain", plain)], mesh=mesh, placements={"plain": "replicate"})
    with pytest.raises(InvalidValueError, match="mixes DTensors and plain tensors"):
        both.clip_in_step_(fused("Adam", [weight, plain]), 1.0)
    assert local(weight).tolist() == [1.0, 1.0]
    assert local(weight.grad).tolist() == [4.0, 4.0]
    try:
        optimizer.step()
    except (RuntimeError, AssertionError) as error:
        alone = str(error)
    else:
        alone = "stepped"
    apart = Adam([{"params": [weight]}, {"params": [plain]}], fused=True)
    return alone, float(both.clip_in_step_(apart, 1.0))


@pytest.mark.processes
@pytest.mark.parametrize("name", ["SGD", pytest.param("Adagrad", marks=NO_SCALE)])
def test_what_torch_cannot_run_on_dtensors_is_refused(name):
    """Once torch can, the second assertion fails and FUSED_ON_DTENSORS has to grow."""
    for alone, norm in on_ranks(2, without_kernel, name):
        # The latter up to torch 2.9.
        assert "sharding strategy" in alone or "found no DeviceMesh" in alone
        assert norm == math.sqrt(4 * 16 + 1)


def bad_on_one(rank, name):
    part = slice(0, 5) if rank == 0 else slice(5, 16)
    weight = parameter(VALUES[part], GRADIENT[part])
    plan, optimizer = ClipPlan([(f"w{rank}", weight)], placements="distinct"), fused(name, [weight])
    if rank == 1:
        weight.grad[3] = math.nan
    norms = [float(plan.clip_in_step_(optimizer, 2.0))]
    skipped = weight.tolist() == VALUES[part]
    steps = [float(state["step"]) for state in optimizer.state.values() if "step" in state]
    weight.grad = torch.tensor(GRADIENT[part])
    norms.append(float(plan.clip_in_step_(optimizer, 2.0)))
    return norms, skipped, steps, weight.tolist()


@pytest.mark.processes
@pytest.mark.parametrize("name", NAMES)
def test_a_nan_on_one_rank_skips_the_step_on_all(name):
    """Parameters and step counters stay; the next step is the first."""
    answers = on_ranks(2, bad_on_one, name)
    for norms, skipped, steps, _ in answers:
        assert math.isnan(norms[0])
        assert norms[1] == 8.0
        assert skipped
        assert set(steps) <= {0.0}
    assert answers[0][3] + answers[1][3] == reference(name)[0].tolist()


def unfit_on_one(rank):
    part = slice(0, 5) if rank == 0 else slice(5, 16)
    weight = parameter(VALUES[part], GRADIENT[part])
    plan = ClipPlan([(f"w{rank}", weight)], placements="distinct")
    optimizer = Adam([weight], fused=rank == 0)
    texts = []
    with pytest.raises(InvalidValueError if rank else DisagreementError) as caught:
        plan.clip_in_step_(optimizer, 2.0)
    texts.append(str(caught.value))
    optimizer = fused("SGD", [weight])
    with pytest.raises(DisagreementError) as caught:
        plan.clip_(2.0) if rank else plan.clip_in_step_(optimizer, 2.0)
    texts.append(str(caught.value))
    with pytest.raises(DisagreementError):
        plan.clip_in_step_(optimizer, 2.0 + rank)
    assert (weight.tolist(), weight.grad.tolist()) == (VALUES[part], GRADIENT[part])
    plan.clip_in_step_(optimizer, 2.0)
    return texts, weight.tolist()


@pytest.mark.processes
def test_what_one_rank_cannot_do_no_rank_does():
    """An unfused optimizer, a plain clip, another limit on one rank: nobody steps, and all can go on afterwards."""
    (first, one), (second, two) = on_ranks(2, unfit_on_one)
    assert "rank 1: Cannot clip inside the step of Adam" in first[0]
    assert "not fused" in second[0]
    assert "in an optimizer's step" in first[1]
    assert one + two == reference("SGD")[0].tolist()


def empty_rank(rank):
    weight = parameter(VALUES, GRADIENT)
    plan = ClipPlan([] if rank else [("weight", weight)], placements="distinct")
    norm = plan.clip_in_step_(None if rank else fused("Adam", [weight]), 2.0)
    return float(norm), weight.tolist()


@pytest.mark.processes
def test_a_rank_without_parameters_takes_part_without_an_optimizer():
    first, second = on_ranks(2, empty_rank)
    assert first == (8.0, reference("Adam")[0].tolist())
    assert second == (8.0, VALUES)


# ---- optimizers that step inside backward


def applied_in_backward(weight):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch's own module compiles a script as it is imported
        from torch.distributed.optim import _apply_optimizer_in_backward

    _apply_optimizer_in_backward(SGD, [weight], {"lr": 1.0})


def test_optimizers_applied_in_backward_are_refused_at_once():
    """By the mark that torch leaves on the parameters."""
    weight = parameter([1.0, 1.0])
    applied_in_backward(weight)
    weight.sum().backward()
    for call in (lambda: clip_grad_norm_([("weight", weight)], 1.0), lambda: ClipPlan([weight]).measure()):
        with pytest.raises(InvalidValueError, match="stepped inside backward by SGD"):
            call()


def test_a_step_in_a_hook_is_seen_when_it_runs():
    """The published recipe: an optimizer for each parameter, stepped in a post-accumulate hook."""
    weight, other = parameter([1.0, 1.0]), parameter([1.0])
    optimizers = {each: Adam([each], lr=1.0) for each in (weight,)}

    def hook(each):
        optimizers[each].step()
        optimizers[each].zero_grad()

    plan = ClipPlan([("weight", weight), ("other", other)])
    handle = weight.register_post_accumulate_grad_hook(hook)
    (weight.sum() + other.sum()).backward()
    with pytest.raises(InvalidValueError, match="weight is stepped inside backward by Adam"):
        plan.clip_(1.0)
    assert other.grad.tolist() == [1.0]
    assert float(clip_grad_norm_([other], 0.5)) == 1.0
    handle.remove()
    weight.sum().backward()
    optimizers[weight].step()
    assert float(plan.clip_(None)) == math.sqrt(2 + 0.25)


def test_other_hooks_and_steps_outside_backward_are_no_sign():
    """A hook that only looks, and an optimizer that steps after backward."""
    weight, norms = parameter([1.0, 1.0]), []
    weight.register_post_accumulate_grad_hook(lambda each: norms.append(float(each.grad.norm())))
    plan, optimizer = ClipPlan([weight]), SGD([weight], lr=1.0)
    for _ in range(2):
        weight.sum().backward()
        plan.clip_(1.0)
        optimizer.step()
        optimizer.zero_grad()
    assert len(norms) == 2


def in_backward_on_one(rank):
    weight = parameter([1.0, 1.0])
    if rank == 1:
        applied_in_backward(weight)
    weight.sum().backward()
    with pytest.raises(InvalidValueError if rank else DisagreementError, match=r"rank 1.*stepped inside backward"):
        clip_grad_norm_([(f"w{rank}", weight)], 1.0, placements="distinct")
    return None if weight.grad is None else weight.grad.tolist()


@pytest.mark.processes
def test_a_step_inside_backward_on_one_rank_is_an_error_on_all():
    assert on_ranks(2, in_backward_on_one) == [[1.0, 1.0], None]
