"""Clips with one mistake each; the audit must fail each in the clause that the mistake breaks."""

import importlib.util
import math
from pathlib import Path

import torch
import torch.distributed as dist

_spec = importlib.util.spec_from_file_location("right_clips", Path(__file__).with_name("right.py"))
_right = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_right)
by_hand, local = _right.by_hand, _right.local


def local_norm(params, max_norm):
    return _right.two_arguments([each for each in params if each.grad is not None], max_norm)


def sum_of_norms(params, max_norm, ctx):
    norm = _squares(params).sqrt()
    dist.all_reduce(norm)
    return _scaled(params, max_norm, norm)


def copies_counted_each_time(params, max_norm, ctx):
    square = _squares(params)
    dist.all_reduce(square)
    return _scaled(params, max_norm, square.sqrt())


def largest_local_norm(params, max_norm, ctx):
    norm = _squares(params).sqrt()
    dist.all_reduce(norm, op=dist.ReduceOp.MAX)
    return _scaled(params, max_norm, norm)


def only_on_rank_0(params, max_norm, ctx):
    norm = by_hand(params, math.inf, ctx)
    return _scaled(params, max_norm, norm) if ctx.rank == 0 else norm


def norm_wrong_scaling_right(params, max_norm, ctx):
    return by_hand(params, max_norm, ctx) * 1.01


def norm_wrong_on_rank_1(params, max_norm, ctx):
    return by_hand(params, max_norm, ctx) * (1 + ctx.rank)


def scaling_skipped(params, max_norm, ctx):
    return by_hand(params, math.inf, ctx)


def always_scales(params, max_norm, ctx):
    norm = by_hand(params, math.inf, ctx)
    for parameter in params:
        local(parameter.grad).mul_(max_norm / max(float(norm), 1e-9))
    return norm


def divides_by_zero_norm(params, max_norm, ctx):
    norm = by_hand(params, math.inf, ctx)
    for parameter in params:
        local(parameter.grad).mul_(torch.clamp(max_norm / norm, max=1.0) if norm else norm / norm)
    return norm


def no_limit_at_zero(params, max_norm, ctx):
    return by_hand(params, max_norm or math.inf, ctx)


def copies_drift(params, max_norm, ctx):
    """Within every tolerance, and yet the copies are different numbers afterwards."""
    norm = by_hand(params, max_norm, ctx)
    if ctx.rank == 1:
        for parameter in params:
            local(parameter.grad).mul_(1 + 2.0**-23)
    return norm


def partial_norm(params, max_norm, ctx):
    """Scales rightly and returns a DTensor that still has to be summed."""
    from torch.distributed.tensor import DTensor, Partial

    norm = by_hand(params, max_norm, ctx)
    part = norm * (0.25 if ctx.rank == 0 else 0.75)
    return DTensor.from_local(part, ctx.mesh, [Partial()], run_check=False)


def returns_none(params, max_norm, ctx):
    by_hand(params, max_norm, ctx)


def returns_text(params, max_norm, ctx):
    return str(float(by_hand(params, max_norm, ctx)))


def returns_nan(params, max_norm, ctx):
    return by_hand(params, max_norm, ctx) * math.nan


def returns_huge_object(params, max_norm, ctx):
    by_hand(params, max_norm, ctx)
    return [b"x" * 2**20] * 200


class _FloatRaises:
    def __float__(self):
        raise RuntimeError("no number here")


class _FloatHangs:
    def __float__(self):
        while True:
            pass


def float_raises(params, max_norm, ctx):
    by_hand(params, max_norm, ctx)
    return _FloatRaises()


def float_hangs(params, max_norm, ctx):
    by_hand(params, max_norm, ctx)
    return _FloatHangs()


def drops_gradients(params, max_norm, ctx):
    norm = by_hand(params, max_norm, ctx)
    params[0].grad = None
    return norm


def other_shape(params, max_norm, ctx):
    norm = by_hand(params, max_norm, ctx)
    params[0].data = torch.zeros(1)
    params[0].grad = torch.zeros(1)
    return norm


def _squares(params):
    return sum((local(each.grad).double().square().sum() for each in params), torch.zeros((), dtype=torch.float64))


def _scaled(params, max_norm, norm):
    if norm > max_norm:
        for parameter in params:
            local(parameter.grad).mul_(max_norm / norm)
    return norm


def asks_the_control(params, max_norm, ctx):
    from shardproof.audit import control

    return control.clip(params, max_norm, ctx)
