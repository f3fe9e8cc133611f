"""What callers pass: generators, names with brackets, numbers of every kind, and orders below one."""

import math
import warnings

import numpy as np
import pytest
import torch

from shardproof import clip_shards
from shardproof.torch import ClipPlan, clip_grad_norm_, get_total_norm


def parameter(*values, dtype=torch.float32):
    gradient = torch.tensor(values, dtype=dtype)
    made = torch.nn.Parameter(torch.zeros_like(gradient))
    made.grad = gradient
    return made


def test_generator_of_tensors_that_nobody_else_holds():
    """They were freed between the look at them and the measuring, and the norm was 0."""
    weights = [parameter(6.0), parameter(8.0)]

    assert float(get_total_norm(weight.grad / 2 for weight in weights)) == 5.0
    assert float(get_total_norm((str(at), weight.grad / 2) for at, weight in enumerate(weights))) == 5.0


def test_name_with_brackets_means_itself():
    first, second = parameter(3.0), parameter(4.0)
    named = [("layers[0].weight", first), ("layers[1].weight", second)]

    norms = clip_grad_norm_(named, None, groups={"zero": ["layers[0].weight"], "one": ["*1?.weight"]})

    assert {group: float(norm) for group, norm in norms.items()} == {"zero": 3.0, "one": 4.0}


@pytest.mark.parametrize("order", [np.float32(1), np.int64(1), 1, 1.0])
def test_order_of_any_real_type(order):
    assert float(clip_grad_norm_([parameter(3.0, 4.0)], 1.0, order)) == 7.0


def test_limit_of_minus_zero_gives_no_sign():
    weight = parameter(3.0, -4.0)

    clip_grad_norm_([weight], -0.0)

    assert torch.signbit(weight.grad).tolist() == [False, True]
    assert str(clip_shards([[3.0]], -0.0)) == "[[0.0]]"


def test_order_below_one_beyond_float64():
    """5 values of 1.7e308: the norm of order 1/2 is 25 x 1.7e308, which no float64 holds; the factor does."""
    weight = parameter(*[1.7e308] * 5, dtype=torch.float64)

    norm = clip_grad_norm_([weight], 1.7e308, 0.5)

    assert norm == math.inf
    assert weight.grad.tolist() == pytest.approx([1.7e308 / 25] * 5, rel=1e-14)


def test_default_device_of_torch_is_left_alone():
    weight = parameter(3.0, 4.0)

    with torch.device("meta"):
        ClipPlan([("weight", weight)]).clip_(1.0)

    assert weight.grad.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize("accumulate", ["exact", "native"])
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_complex_values_count_by_their_modulus(dtype, accumulate):
    """|3 + 4i| = 5 and |5 + 12i| = 13; the parts one by one gave 24 in order 1 and 12 in order inf."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="ComplexHalf")
        gradient = torch.tensor([3 + 4j, 5 + 12j]).to(dtype)
        norms = []
        for order in (1, 2, 3, 0.5, math.inf):
            weight = torch.nn.Parameter(torch.zeros_like(gradient))
            weight.grad = gradient.clone()
            norms.append(float(clip_grad_norm_([weight], 1.0, order, accumulate=accumulate)))
            assert torch.view_as_real(weight.grad).tolist()[0][0] == pytest.approx(3.0 / norms[-1], rel=1e-3)

    powers = [(5.0**p + 13.0**p) ** (1 / p) for p in (1, 2, 3, 0.5)]
    assert norms == pytest.approx([*powers, 13.0], rel=1e-7 if accumulate == "native" else 1e-15)


def test_padding_of_a_complex_flat_buffer():
    """Of four elements the first three count; the range was taken of their eight parts."""
    flat = torch.nn.Parameter(torch.zeros(4, dtype=torch.complex64))
    flat.grad = torch.tensor([1 + 1j, 1 + 1j, 1 + 1j, 7 + 7j])

    norm = clip_grad_norm_([("flat", flat)], 0.0, owned={"flat": (0, 3, 3)})

    assert float(norm) ** 2 == pytest.approx(6.0)
    assert flat.grad.tolist() == [0, 0, 0, 7 + 7j]
