"""Gradients of every dtype and memory form on one rank, judged by the rule on plain lists."""

import gc
import math
from fractions import Fraction
from weakref import ref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from shardproof import InvalidTypeError, InvalidValueError, NonFiniteGradientError, clip_factor, global_norm
from shardproof.torch import ClipPlan, clip_grad_norm_

torch.sparse.check_sparse_tensor_invariants.enable()
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]


def holding(gradient):
    made = torch.nn.Parameter(torch.zeros(gradient.shape, dtype=gradient.dtype), requires_grad=False)
    made.grad = gradient
    return made


def reals(tensor):
    tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor
    tensor = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    return tensor.resolve_neg().to(torch.float64).flatten().tolist()


def nearest(value, dtype):
    """The value of `dtype` nearest to a float64, ties to even, found by exact comparison with all neighbours."""
    guess = torch.tensor(value, dtype=torch.float64).to(dtype)
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[guess.element_size()]
    pattern = int(guess.view(bits))
    limits = torch.iinfo(bits)
    around = [
        torch.tensor(each, dtype=bits).view(dtype)
        for each in range(max(pattern - 1, limits.min), min(pattern + 1, limits.max) + 1)
    ]
    finite = [each for each in around if math.isfinite(float(each)) and float(each) * value >= 0]
    return min(finite, key=lambda each: (abs(Fraction(float(each)) - Fraction(value)), int(each.view(bits)) & 1))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("limit", [0.0, 0.37, 1e300])
def test_every_float_dtype_is_clipped_with_one_rounding(dtype, limit):
    """element = float64(g) x factor, rounded once: no double rounding by way of float32."""
    torch.manual_seed(0)
    gradient = (torch.randn(257, dtype=torch.float64) * 3).to(dtype)
    values = reals(gradient)
    factor = clip_factor(global_norm([values]), limit)
    weight = holding(gradient)
    norm = clip_grad_norm_([weight], limit)
    assert float(norm) == global_norm([values])
    wanted = values if factor == 1 else [float(nearest(value * factor, dtype)) for value in values]
    assert reals(weight.grad) == wanted


def forms():
    torch.manual_seed(1)
    base = torch.randn(6, 8)
    yield "transposed", base.clone().t()
    yield "every second column", base.clone()[:, ::2]
    yield "channels last", torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    yield "scalar", torch.tensor(3.0)
    yield "empty", torch.zeros(0, 3)
    yield "complex64", torch.randn(5, dtype=torch.complex64)
    yield "complex128 transposed", torch.randn(3, 4, dtype=torch.complex128).t()
    yield "lazily conjugated", torch.randn(5, dtype=torch.complex64).conj()
    yield "lazily negated", torch.randn(5, dtype=torch.complex64).conj().imag
    yield "coalesced sparse", torch.sparse_coo_tensor(torch.tensor([[0, 2]]), torch.randn(2, 4), (3, 4)).coalesce()
    yield "wide, in pieces", torch.randn(300, 700)[:, ::2]


@pytest.mark.parametrize(("name", "gradient"), list(forms()), ids=[name for name, _ in forms()])
def test_every_memory_form_is_counted_and_scaled(name, gradient):
    """Dense in another order, strided, complex, sparse: the same rule for all."""
    weight, values = holding(gradient), reals(gradient)
    norm = global_norm([values])
    assert float(clip_grad_norm_([weight], 0.5)) == norm
    factor = clip_factor(norm, 0.5)
    real = torch.float64 if gradient.dtype in (torch.float64, torch.complex128) else torch.float32
    assert reals(weight.grad) == [float(torch.tensor(value * factor, dtype=torch.float64).to(real)) for value in values]


def test_what_is_listed_or_stored_twice_is_counted_and_scaled_once():
    """A parameter listed twice counts once; one gradient object of two parameters counts for both, scales once."""
    weight = holding(torch.tensor([3.0, 4.0]))
    assert float(clip_grad_norm_([weight, weight], 1.0)) == 5.0
    assert weight.grad.tolist() == torch.tensor([0.6, 0.8]).tolist()
    shared = torch.tensor([3.0, 4.0])
    assert float(clip_grad_norm_([holding(shared), holding(shared)], 1.0)) == global_norm([[3, 4, 3, 4]])
    factor = 1.0 / global_norm([[3, 4, 3, 4]])
    assert shared.tolist() == torch.tensor([3 * factor, 4 * factor]).tolist()


def test_views_of_one_buffer_are_each_scaled_once():
    """Gradients that lie side by side in a flat buffer, as data-parallel buckets keep them."""
    buffer = torch.tensor([3.0, 4.0, 7.0])
    weights = [holding(buffer[:1]), holding(buffer[1:2])]
    assert float(clip_grad_norm_(weights, 2.5)) == 5.0
    assert buffer.tolist() == [1.5, 2.0, 7.0]


@pytest.mark.parametrize(
    ("gradient", "text"),
    [
        (torch.ones(1).expand(3), "expanded"),
        (torch.sparse_coo_tensor(torch.tensor([[0, 0]]), torch.ones(2), (3,)), "coalesce"),
        (torch.ones(2, device="meta"), "meta"),
    ],
)
def test_a_gradient_that_cannot_be_scaled_in_place_is_refused(gradient, text):
    """The error names the parameter and what to do; the others are untouched."""
    weight, other = torch.nn.Parameter(torch.zeros(gradient.shape)), holding(torch.tensor([3.0]))
    # A meta gradient cannot be assigned to a host parameter; its own kind can.
    weight = torch.nn.Parameter(torch.zeros_like(gradient)) if gradient.is_meta else weight
    weight.grad = gradient
    with pytest.raises(InvalidValueError, match=text) as caught:
        clip_grad_norm_([("odd", weight), ("other", other)], 1.0)
    assert "odd" in str(caught.value)
    assert other.grad.tolist() == [3.0]


@pytest.mark.parametrize("limit", [-1.0, math.nan, "1", True, [1.0], -math.inf])
def test_a_bad_limit_is_refused_and_nothing_is_touched(limit):
    """ValueError or TypeError."""
    weight = holding(torch.tensor([3.0]))
    with pytest.raises((ValueError, TypeError)):
        clip_grad_norm_([weight], limit)
    assert weight.grad.tolist() == [3.0]


@pytest.mark.parametrize("order", [0, -1, math.nan, "two", None, True, 600])
def test_a_bad_norm_order_is_refused(order):
    """Orders are positive numbers up to 512, or inf."""
    with pytest.raises((ValueError, TypeError)):
        clip_grad_norm_([holding(torch.tensor([3.0]))], 1.0, norm_type=order)


@pytest.mark.parametrize("parameters", ["weights", 3, {"a": torch.ones(1)}, [1.0], [("a", 1)], None])
def test_what_holds_no_tensors_is_refused(parameters):
    """The error says what is expected."""
    with pytest.raises(InvalidTypeError, match="Expected parameters"):
        clip_grad_norm_(parameters, 1.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_non_finite_gradients_are_left_alone(bad):
    """Never a silent zero or NaN update: nothing is written, the norm says it."""
    weight = holding(torch.tensor([3.0, bad]))
    before = weight.grad.clone()
    norm = float(clip_grad_norm_([weight], 1.0))
    assert math.isnan(norm) if math.isnan(bad) else norm == math.inf
    assert torch.equal(weight.grad.nan_to_num(7), before.nan_to_num(7))
    with pytest.raises(NonFiniteGradientError, match="bad"):
        clip_grad_norm_([("bad", weight)], 1.0, error_if_nonfinite=True)


def test_squares_beyond_the_range_of_their_dtype():
    """Neither overflow nor underflow of squares; a norm beyond float64 is inf and still clips."""
    for scale in (1e25, 1e-30, 1e200, 1e-200):
        dtype = torch.float32 if 1e-40 < scale < 1e38 else torch.float64
        gradient = torch.tensor([3.0, 4.0], dtype=dtype) * scale
        assert float(clip_grad_norm_([holding(gradient)], None)) == global_norm([reals(gradient)])
    weight = holding(torch.full((4,), 1.7e308, dtype=torch.float64))
    assert float(clip_grad_norm_([weight], 1.0)) == math.inf
    # The factor is a subnormal float64 here and carries its few bits into the result.
    assert weight.grad.tolist() == pytest.approx([0.5] * 4, rel=1e-14)


def test_under_the_limit_nothing_is_written():
    """Same bits, same version counter: no pass over memory at norm == limit either."""
    weight = holding(torch.tensor([3.0, 4.0]))
    version = weight.grad._version
    for limit in (5.0, 6.0, math.inf, None):
        assert float(clip_grad_norm_([weight], limit)) == 5.0
    assert weight.grad._version == version
    clip_grad_norm_([weight], 1.0)
    assert weight.grad._version > version


def test_torch_epsilon_on_request():
    """eps=1e-6 gives torch's factor, which rescales at norm == limit."""
    ours, theirs = holding(torch.tensor([3.0, 4.0])), holding(torch.tensor([3.0, 4.0]))
    clip_grad_norm_([ours], 5.0, eps=1e-6)
    torch.nn.utils.clip_grad_norm_([theirs], 5.0)
    assert ours.grad.tolist() == pytest.approx(theirs.grad.tolist(), rel=1e-7)
    assert ours.grad.tolist() != [3.0, 4.0]


def test_nothing_to_clip_has_norm_zero():
    """No parameters, no gradients, an empty module, a zero gradient with a zero limit."""
    for parameters in ([], [torch.nn.Parameter(torch.ones(2))], torch.nn.Identity(), [holding(torch.zeros(2))]):
        assert float(clip_grad_norm_(parameters, 0.0)) == 0.0


def test_a_plan_keeps_no_model_alive():
    """The cache of plans and a plan itself hold weak references only."""
    model = torch.nn.Linear(2, 2)
    plan = ClipPlan(model)
    clip_grad_norm_(model, 1.0)
    clip_grad_norm_(list(model.parameters()), 1.0)
    gone = [ref(model), *(ref(each) for each in model.parameters())]
    del model
    gc.collect()
    assert [each() for each in gone] == [None] * 3
    assert float(plan.clip_(1.0)) == 0.0


@given(st.lists(st.floats(-1e300, 1e300), max_size=20), st.floats(0, 1e300), st.sampled_from([1, 2, math.inf, 3.0]))
@settings(deadline=None, max_examples=100)
def test_any_values_any_order(values, limit, order):
    """Norms against exact sums; the clipped norm exceeds the limit by no more than rounding."""
    weight = holding(torch.tensor(values, dtype=torch.float64))
    norm = float(clip_grad_norm_([weight], limit, norm_type=order))
    magnitudes = [abs(Fraction(value)) for value in values]
    wanted = {1: lambda: float(sum(magnitudes)), 2: lambda: global_norm([values])}.get(
        order, lambda: float(max(magnitudes, default=0))
    )()
    if order == 3.0:
        exact = sum(each**3 for each in magnitudes)
        assert abs(Fraction(norm) ** 3 - exact) <= exact * Fraction(1, 10**14) + Fraction(1, 10**320)
    else:
        assert norm == wanted
    after = float(clip_grad_norm_([weight], None, norm_type=order))
    assert after <= max(limit, 0) * (1 + 1e-14) + 1e-320 or after == norm <= limit
