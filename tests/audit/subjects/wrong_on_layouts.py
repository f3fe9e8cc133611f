"""Clips that are right on simple layouts, each with one mistake that some layout brings to light."""

import importlib.util
from pathlib import Path

import torch
import torch.distributed as dist

_spec = importlib.util.spec_from_file_location("right_clips", Path(__file__).with_name("right.py"))
_right = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_right)
local, scaled, without_padding = _right.local, _right.scaled, _right.without_padding


def padding_counted(params, max_norm, ctx):
    return _clip(params, max_norm, ctx, _first_of_ties, part=lambda name, grad: grad)


def tied_counted_each_time(params, max_norm, ctx):
    return _clip(params, max_norm, ctx, lambda name, placement: _first_copy(ctx, placement))


def equal_names_taken_for_copies(params, max_norm, ctx):
    """Counts what is "distinct" on the first rank of the axis only, as if it were a copy."""
    return _clip(
        params,
        max_norm,
        ctx,
        lambda name, placement: all(
            kind == "shard" or ctx.mesh.get_local_rank(axis) == 0 for axis, kind in placement.items()
        ),
    )


def sums_over_the_first_axis(params, max_norm, ctx):
    return _clip(params, max_norm, ctx, _first_of_ties, group=ctx.group(next(iter(ctx.axes))))


def sums_over_the_last_axis(params, max_norm, ctx):
    return _clip(params, max_norm, ctx, _first_of_ties, group=ctx.group(list(ctx.axes)[-1]))


def trusts_dtensors(params, max_norm, ctx):
    """Counts a DTensor on the first rank of its own mesh; what lies beyond that mesh is counted on each rank."""

    def counts(name, placement):
        told = getattr(params[ctx.names.index(name)], "device_mesh", None)
        axes = ctx.axes if told is None else told.mesh_dim_names
        return _first_copy(ctx, {axis: kind for axis, kind in placement.items() if axis in axes})

    return _clip(params, max_norm, ctx, counts)


def returns_early_without_gradients(params, max_norm, ctx):
    if all(each.grad is None for each in params):
        return torch.zeros(())
    return _right.by_hand(params, max_norm, ctx)


def needs_every_gradient(params, max_norm, ctx):
    assert all(each.grad.isfinite().all() for each in params)
    return _right.by_hand(params, max_norm, ctx)


def makes_gradients_up(params, max_norm, ctx):
    norm = _right.by_hand(params, max_norm, ctx)
    for each in params:
        if each.grad is None:
            each.grad = torch.ones_like(each)
    return norm


def scales_one_of_the_ties(params, max_norm, ctx):
    again = {name for names in ctx.tied for name in names[1:]}
    norm = _right.by_hand(params, float("inf"), ctx)
    if norm > max_norm:
        first = [each for name, each in zip(ctx.names, params, strict=True) if name not in again]
        scaled(first, max_norm / norm)
    return norm


def _first_copy(ctx, placement):
    return all(kind != "replicate" or ctx.mesh.get_local_rank(axis) == 0 for axis, kind in placement.items())


_first_of_ties = object()


def _clip(params, max_norm, ctx, counts, part=None, group=None):
    again = {name for names in ctx.tied for name in names[1:]}
    if counts is _first_of_ties:
        counts = lambda name, placement: name not in again and _first_copy(ctx, placement)  # noqa: E731
    part = part or (lambda name, grad: without_padding(ctx, name, grad))
    square = torch.zeros((), dtype=torch.float64)
    for name, parameter, placement in zip(ctx.names, params, ctx.placements, strict=True):
        if parameter.grad is not None and counts(name, placement):
            square += part(name, local(parameter.grad)).double().square().sum()
    dist.all_reduce(square, group=group)
    norm = square.sqrt()
    if norm > max_norm:
        scaled(params, max_norm / norm)
    return norm
