"""Calls that are decided on the device, on CPU tensors in Triton's interpreter: the bits of the path on the host.

Nothing here runs on a GPU: `benchmarks/gpu.py` does, where there is one.
"""

import math
from importlib.util import find_spec

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import DisagreementError, InvalidValueError, NonFiniteGradientError
from shardproof.torch import ClipPlan, deferred, device

if find_spec("triton") is None:
    pytest.skip("Triton is not installed: it has no release for this system", allow_module_level=True)

SHAPES = {"a": (40, 70), "b": (7,), "c": (3, 5, 2), "empty": (0,), "scalar": ()}
DTYPES = {"a": torch.float32, "b": torch.bfloat16, "c": torch.float16, "empty": torch.float32, "scalar": torch.float32}


@pytest.fixture
def on_device(monkeypatch):
    """CPU tensors are taken for those of a GPU."""
    monkeypatch.setattr(device, "KINDS", {"cpu"})
    monkeypatch.setattr(deferred, "KINDS", {"cpu"})


def parameters(seed=0):
    generator = torch.Generator().manual_seed(seed)
    found = []
    for name, shape in SHAPES.items():
        spread = torch.randn(shape, generator=generator) * 2.0 ** torch.randint(-12, 3, shape, generator=generator)
        weight = torch.nn.Parameter(torch.zeros(shape, dtype=DTYPES[name]))
        weight.grad = spread.to(DTYPES[name])
        found.append((name, weight))
    # Not contiguous: a transposed one fills its memory, one with gaps does not.
    found.append(("transposed", torch.nn.Parameter(torch.zeros(6, 4))))
    found[-1][1].grad = torch.randn(4, 6, generator=generator).t()
    found.append(("gaps", torch.nn.Parameter(torch.zeros(6, 4))))
    found[-1][1].grad = torch.randn(6, 8, generator=generator)[:, :4]
    return found


def grads(named):
    return {name: weight.grad.double().tolist() for name, weight in named}


def both(monkeypatch, arguments, options, seed=0):
    """What the host gives, and what the device gives, for the same call."""
    answers = []
    for kinds in (set(), {"cpu"}):
        monkeypatch.setattr(device, "KINDS", kinds)
        monkeypatch.setattr(deferred, "KINDS", kinds)
        named = parameters(seed)
        plan = ClipPlan(named, **options)
        assert (plan._device is not None) == bool(kinds)
        norm = plan.clip_(*arguments)
        plan.check()
        answers.append((norm, grads(named)))
    return answers


CALLS = [
    ((1.0,), {}),
    ((1e9,), {}),
    ((0.0,), {}),
    ((None,), {}),
    ((0.5, 1), {}),
    ((1.0,), {"per_parameter_norms": True}),
    (({"one": 0.25, "two": 1e9},), {"groups": {"one": ["a", "b"], "two": ["*"]}}),
    (({"one": 0.25, "two": 0.5},), {"groups": {"one": ["a", "b"], "two": ["*"]}, "per_parameter_norms": True}),
]


@pytest.mark.parametrize(("arguments", "options"), CALLS)
def test_the_device_gives_the_bits_of_the_host(monkeypatch, arguments, options):
    """Norms of every kind and each clipped element, several dtypes in one call, dense or not."""
    host, there = both(monkeypatch, arguments, options)
    assert host == there


@pytest.mark.parametrize("order", [1, 2, 3.5, math.inf])
def test_calls_that_wait_use_the_kernels_too(monkeypatch, order):
    """error_if_nonfinite=True and other norm orders are decided on the host, from what the kernels found."""
    monkeypatch.setattr(device, "split", counting(device.split))
    host, there = both(monkeypatch, (1.0, order, True), {})
    assert host == there
    assert device.split.taken > 0


def counting(split):
    def counted(tensors):
        found = split(tensors)
        counted.taken += len(found[0])
        return found

    counted.taken = 0
    return counted


def test_a_tensor_listed_twice_is_scaled_once(on_device):
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    plan = ClipPlan([("x", weight), ("y", weight)])
    assert float(plan.clip_(2.5)) == 5.0
    assert weight.grad.tolist() == [1.5, 2.0]


@pytest.mark.parametrize(("value", "norm"), [(math.nan, math.nan), (math.inf, math.inf)])
def test_a_value_that_is_not_finite_leaves_gradients_alone(on_device, value, norm):
    """No error, as on the host; with error_if_nonfinite the call waits and raises."""
    named = parameters()
    dict(named)["b"].grad[2] = value
    before = repr(grads(named))
    plan = ClipPlan(named)
    assert repr(float(plan.clip_(1.0))) == repr(norm)
    plan.check()
    with pytest.raises(NonFiniteGradientError, match="b"):
        plan.clip_(1.0, error_if_nonfinite=True)
    assert repr(grads(named)) == before


def test_a_stale_plan_is_told_of_and_built_again(on_device):
    """The call that met it is void: NaN, gradients untouched; check() or the next call says so, then all is well."""
    model = torch.nn.ParameterDict({"a": torch.nn.Parameter(torch.zeros(1))})
    model["a"].grad = torch.tensor([3.0])
    plan = ClipPlan(model)
    model["b"] = torch.nn.Parameter(torch.zeros(1))
    model["b"].grad = torch.tensor([4.0])
    assert math.isnan(plan.clip_(1.0))
    with pytest.raises(DisagreementError, match=r"previous clip was void.*rebuilds"):
        plan.check()
    plan.check()
    assert float(plan.clip_(2.5)) == 5.0
    assert model["a"].grad.tolist() == [1.5]
    model["a"] = torch.nn.Parameter(torch.zeros(1))
    assert math.isnan(plan.clip_(1.0))
    with pytest.raises(DisagreementError, match="previous clip was void"):
        plan.clip_(1.0)
    assert float(plan.clip_(None)) == 2.0


def test_bad_arguments_raise_at_once_and_are_told_of_again(on_device):
    named = parameters()
    before = grads(named)
    plan = ClipPlan(named)
    for bad in ({"max_norm": -1.0}, {"max_norm": math.nan}, {"max_norm": 1.0, "norm_type": 0}):
        with pytest.raises(InvalidValueError):
            plan.clip_(**bad)
        with pytest.raises(DisagreementError, match="1 ranks could not clip"):
            plan.check()
    assert grads(named) == before


def test_gradients_that_cannot_be_clipped_are_refused(on_device):
    weight = torch.nn.Parameter(torch.zeros(4))
    weight.grad = torch.ones(1).expand(4)
    plan = ClipPlan([("w", weight)])
    with pytest.raises(InvalidValueError, match="expanded view"):
        plan.clip_(1.0)
    with pytest.raises(DisagreementError, match="expanded view"):
        plan.clip_(1.0)


def test_a_clip_inside_a_step_waits_and_hears_of_a_void_call_first(on_device):
    """The factor goes to the fused optimizer from the host."""
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    plan = ClipPlan([("w", weight)])
    optimizer = torch.optim.SGD([weight], lr=1.0, fused=True)
    with pytest.raises(InvalidValueError):
        plan.clip_(-1.0)
    with pytest.raises(DisagreementError, match="previous clip was void"):
        plan.clip_in_step_(optimizer, 2.5)
    assert weight.tolist() == [0.0, 0.0]
    assert float(plan.clip_in_step_(optimizer, 2.5)) == 5.0
    assert weight.tolist() == [-1.5, -2.0]


def test_float64_is_decided_on_the_host(on_device):
    """A norm beyond float64 has its factor from the exact sum."""
    weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
    weight.grad = torch.tensor([1.5e308, 1.5e308], dtype=torch.float64)
    plan = ClipPlan([("w", weight)])
    assert float(plan.clip_(1.0)) == math.inf
    assert torch.linalg.vector_norm(weight.grad).item() == pytest.approx(1.0)


# ---- native sums


@pytest.mark.parametrize("kinds", [set(), {"cpu"}])
@pytest.mark.parametrize("order", [1, 2])
def test_native_sums_come_near_and_say_so(monkeypatch, kinds, order):
    """On the host and on the device; the plan's description names it."""
    monkeypatch.setattr(device, "KINDS", kinds)
    monkeypatch.setattr(deferred, "KINDS", kinds)
    named, exact = parameters(3), parameters(3)
    plan = ClipPlan(named, accumulate="native")
    norm, wanted = float(plan.clip_(0.5, order)), float(ClipPlan(exact).clip_(0.5, order))
    assert norm == pytest.approx(wanted, rel=1e-5)  # tensors are summed in float32
    for (_, ours), (_, theirs) in zip(named, exact, strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    assert "layout" in str(plan.describe())
    assert '"accumulate": "native"' in plan.describe().json()


@pytest.mark.parametrize("kinds", [set(), {"cpu"}])
def test_native_sums_overflow_as_torch_does(monkeypatch, kinds):
    """The documented price: squares beyond float32 are infinite, and such a gradient is not touched."""
    monkeypatch.setattr(device, "KINDS", kinds)
    monkeypatch.setattr(deferred, "KINDS", kinds)
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3e25, 4e25])
    assert float(ClipPlan([("w", weight)], accumulate="native").clip_(1.0)) == math.inf
    assert weight.grad.tolist() == torch.tensor([3e25, 4e25]).tolist()
    assert float(ClipPlan([("w", weight)]).clip_(1.0)) == pytest.approx(5e25)


def test_the_function_takes_it_and_keeps_plans_apart():
    from shardproof.torch import clip_grad_norm_

    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3e25, 4e25])
    assert float(clip_grad_norm_([weight], None, accumulate="native")) == math.inf
    assert float(clip_grad_norm_([weight], None)) == pytest.approx(5e25)


def test_what_accumulate_takes():
    with pytest.raises(InvalidValueError, match="accumulate='fast'"):
        ClipPlan([], accumulate="fast")


# ---- real ranks


def shards(rank, world, dtype=torch.float32):
    generator = torch.Generator().manual_seed(5)
    whole = (torch.randn(999, generator=generator) * 2.0 ** torch.randint(-9, 4, (999,), generator=generator)).to(dtype)
    shard = torch.nn.Parameter(torch.zeros_like(whole.chunk(world)[rank]))
    shard.grad = whole.chunk(world)[rank].clone()
    copy = torch.nn.Parameter(torch.zeros(5))
    copy.grad = torch.arange(5.0)
    return [("shard", shard), ("copy", copy)]


PLACES = {"shard": "shard", "copy": "replicate"}


def clipped(rank, kinds, accumulate):
    device.KINDS = deferred.KINDS = kinds
    named = shards(rank, 2)
    plan = ClipPlan(named, placements=PLACES, accumulate=accumulate)
    norms = [float(plan.clip_(limit)) for limit in (1e9, 1.0, None)]
    plan.check()
    return norms, grads(named)


@pytest.mark.processes
def test_two_ranks_decide_on_their_devices():
    """The bits of the host's path, and of a single process."""
    host, there = on_ranks(2, clipped, set(), "exact"), on_ranks(2, clipped, {"cpu"}, "exact")
    assert host == there
    alone = shards(0, 1)
    assert float(ClipPlan(alone).clip_(1.0)) == there[0][0][0]
    assert there[0][1]["shard"] + there[1][1]["shard"] == grads(alone)["shard"]
    native = on_ranks(2, clipped, {"cpu"}, "native")
    assert native[0][0] == native[1][0]
    assert native[0][0][0] == pytest.approx(host[0][0][0], rel=1e-6)


def without_tensors(rank):
    device.KINDS = deferred.KINDS = {"cpu"}
    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    plan = ClipPlan([] if rank else [("w", weight)], placements={"*": "distinct"})
    assert plan._device == torch.device("cpu")
    norms = [float(plan.clip_(limit)) for limit in (2.5, None)]
    plan.check()
    return norms, weight.grad.tolist()


@pytest.mark.processes
def test_a_rank_without_tensors_takes_part():
    assert on_ranks(2, without_tensors) == [([5.0, 2.5], [1.5, 2.0]), ([5.0, 2.5], [3.0, 4.0])]


def void(rank):
    """Each kind of void call, one after another; every rank raises at the same places and goes on."""
    device.KINDS = deferred.KINDS = {"cpu"}
    named = shards(rank, 2)
    before = grads(named)
    plan = ClipPlan(named, placements=PLACES)
    texts = []

    def told():
        with pytest.raises(DisagreementError, match="previous clip was void") as caught:
            plan.clip_(None)
        texts.append(str(caught.value))
        assert grads(named) == before

    assert math.isnan(plan.clip_(1.0 + rank))
    told()
    if rank:
        with pytest.raises(InvalidValueError):
            plan.clip_(-1.0)
    else:
        assert math.isnan(plan.clip_(1.0))
    told()
    if rank:
        named[0][1].requires_grad_(False)
    assert math.isnan(plan.clip_(1.0))
    told()
    norm = float(plan.clip_(None))
    if rank:
        named[1][1].grad = None
        before = {**before, "copy": None}
    texts.append(math.isnan(plan.clip_(1.0)))
    with pytest.raises(DisagreementError, match="decides on the host"):
        plan.check()
    assert float(plan.clip_(None)) == norm
    named[0][1].grad[0] = math.nan if rank else 1.0
    assert math.isnan(plan.clip_(1.0))
    return texts


@pytest.mark.processes
def test_void_calls_touch_nothing_and_are_raised_later_on_every_rank():
    """Other limits, a bad limit on one rank, a stale plan on one rank, a copy without a gradient."""
    for rank, (limits, bad, stale, presence) in enumerate(on_ranks(2, void)):
        assert f"max_norm={1.0 + rank}" in limits
        assert "1 ranks could not clip" in bad
        assert "on 1 ranks parameters had changed" in stale
        assert presence is True


def natively_on_one(rank):
    named = shards(rank, 2)
    with pytest.raises(DisagreementError, match="accumulate=native"):
        ClipPlan(named, placements=PLACES, accumulate="native" if rank else "exact")
    return True


@pytest.mark.processes
def test_ranks_must_agree_on_how_sums_are_kept():
    assert on_ranks(2, natively_on_one) == [True, True]
