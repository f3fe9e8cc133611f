"""One plan over many steps whose gradients come in other forms each time: what was remembered is never believed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof import InvalidValueError, clip_factor, global_norm
from shardproof.torch import ClipPlan

SHAPE = (3, 4)


def values(seed):
    return torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed))


def neg_view(seed):
    return torch.complex(torch.zeros(SHAPE), -values(seed)).conj().imag


def inside_another(seed):
    """Rows of a larger buffer: contiguous, and the memory around is nobody's gradient."""
    buffer = torch.full((5, 4), 1e30)
    buffer[1:4] = values(seed)
    return buffer[1:4]


def taking_part_in_autograd(seed):
    return values(seed).requires_grad_() * 1.0


GOOD = {
    "none": lambda seed: None,
    "plain": values,
    "permuted": lambda seed: values(seed).t().contiguous().t(),
    "strided": lambda seed: values(seed).repeat_interleave(2, 1)[:, ::2],
    "sparse": lambda seed: values(seed).to_sparse().coalesce(),
    "neg view": neg_view,
    "inside another": inside_another,
    "in a graph": taking_part_in_autograd,
}
BAD = {
    "expanded": lambda seed: values(seed)[:1].expand(SHAPE),
    "uncoalesced": lambda seed: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], SHAPE, check_invariants=True),
}


def numbers(gradient):
    if gradient is None:
        return []
    dense = gradient.to_dense() if gradient.layout is not torch.strided else gradient
    return dense.detach().resolve_neg().double().flatten().tolist()


def scaled(before, factor):
    return [float(torch.tensor(value * factor, dtype=torch.float64).float()) for value in before]


KINDS = st.lists(st.sampled_from([*GOOD, *BAD]), min_size=4, max_size=4)


@settings(max_examples=60, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=5), st.booleans())
def test_every_step_is_judged_by_its_own_gradients(steps, keep):
    """`keep`: the gradient of a kind that comes again is the same object, scaled by the steps before."""
    weights = [torch.nn.Parameter(torch.zeros(SHAPE)) for _ in range(4)]
    plan, kept = ClipPlan(weights), {}
    for step, kinds in enumerate(steps):
        for index, (weight, kind) in enumerate(zip(weights, kinds, strict=True)):
            seed = 100 * step + index
            fresh = (GOOD | BAD)[kind](seed)
            weight.grad = kept.setdefault((index, kind), fresh) if keep else fresh
        before = [numbers(weight.grad) for weight in weights]
        if set(kinds) & set(BAD):
            with pytest.raises(InvalidValueError, match=r"expanded view|uncoalesced"):
                plan.clip_(1.5)
            assert [numbers(weight.grad) for weight in weights] == before
            continue
        norm = plan.clip_(1.5)
        assert float(norm) == global_norm(before)
        factor = clip_factor(float(norm), 1.5)
        after = [each if factor == 1 else scaled(each, factor) for each in before]
        assert [numbers(weight.grad) for weight in weights] == after


def test_gradients_that_begin_to_share_memory_are_noticed():
    """Apart in the first step, one inside the other in the second, apart again in the third."""
    one, other = (torch.nn.Parameter(torch.zeros(4)) for _ in range(2))
    plan, buffer = ClipPlan([one, other]), torch.ones(6)
    one.grad, other.grad = torch.ones(4), torch.ones(4)
    assert float(plan.clip_(None)) == 8**0.5
    one.grad, other.grad = buffer[:4], buffer[2:]
    for _ in range(2):
        with pytest.raises(InvalidValueError, match="share memory"):
            plan.clip_(1.0)
    assert buffer.tolist() == [1.0] * 6
    one.grad, other.grad = torch.ones(4), torch.ones(4)
    assert float(plan.clip_(None)) == 8**0.5


@pytest.mark.parametrize(
    "change",
    [
        lambda weight: weight.requires_grad_(False),
        lambda weight: setattr(weight, "data", torch.zeros(4, 3)),
        lambda weight: setattr(weight, "data", torch.zeros(3, 4, dtype=torch.float64)),
    ],
    ids=["requires_grad", "shape", "dtype"],
)
def test_a_parameter_that_changes_in_place_rebuilds_the_plan(change):
    weight = torch.nn.Parameter(torch.zeros(SHAPE))
    weight.grad = torch.ones(SHAPE)
    plan = ClipPlan([weight])
    built = plan._catalog
    plan.clip_(None)
    assert plan._catalog is built
    weight.grad = None
    change(weight)
    weight.grad = torch.full_like(weight, 2.0).detach()
    assert float(plan.clip_(None)) == 48**0.5
    assert plan._catalog is not built
    assert plan.describe().rows[0].shape == tuple(weight.shape)
