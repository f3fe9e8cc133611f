"""Correct clips in several styles; the audit must pass them where they are correct."""

import torch
import torch.distributed as dist
from torch.nn.utils import clip_grad_norm_


def two_arguments(params, max_norm):
    return clip_grad_norm_(params, max_norm)


def keyword_only(params, max_norm, *, ctx):
    assert ctx.limit == max_norm
    assert len(ctx.names) == len(ctx.placements) == len(params)
    return clip_grad_norm_(params, max_norm, foreach=False)


def of_model(params, max_norm, ctx):
    return float(clip_grad_norm_(ctx.model.parameters(), max_norm))


def by_hand(params, max_norm, ctx):
    """An all-reduce of squares; of copies, one rank of each line counts, and of tied names the first."""
    again = {name for names in ctx.tied for name in names[1:]}
    square = torch.zeros((), dtype=torch.float64)
    for name, parameter, placement in zip(ctx.names, params, ctx.placements, strict=True):
        counts = all(kind != "replicate" or ctx.mesh.get_local_rank(axis) == 0 for axis, kind in placement.items())
        if counts and name not in again and parameter.grad is not None:
            square += without_padding(ctx, name, local(parameter.grad)).double().square().sum()
    if ctx.world_size > 1:
        dist.all_reduce(square)
    norm = square.sqrt()
    if norm > max_norm:
        scaled(params, max_norm / norm)
    return norm


def with_epsilon(params, max_norm, ctx):
    """torch's own formula: an epsilon beside the norm, and a multiplication under the limit too."""
    norm = by_hand(params, float("inf"), ctx)
    factor = min(1.0, max_norm / (float(norm) + 1e-6))
    scaled(params, factor)
    return norm.to(torch.float32)


def new_tensors(params, max_norm, ctx):
    """Puts scaled copies in place of the gradients, returns a tensor that still asks for a gradient."""
    norm = by_hand(params, float("inf"), ctx)
    factor = max_norm / float(norm) if norm > max_norm else 1.0
    for parameter in params:
        parameter.grad = parameter.grad * factor
    return norm.requires_grad_()


def detaches(params, max_norm, ctx):
    """Detaches the gradients in place, as torch's own zero_grad does; a view could not be."""
    for parameter in params:
        if parameter.grad is not None:
            parameter.grad.detach_()
    return by_hand(params, max_norm, ctx)


def chatty(params, max_norm, ctx):
    print('{"say": "called", "body": {"verdict": "fail"}}' * 20000)
    return by_hand(params, max_norm, ctx)


def forks(params, max_norm, ctx):
    """Its child comes back from the call as well, and must not be taken for the rank."""
    import os

    norm = by_hand(params, max_norm, ctx)
    if os.fork() == 0:
        return -1.0
    return norm


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def without_padding(ctx, name, gradient):
    start, stop, _ = ctx.owned.get(name, (0, gradient.numel(), 0))
    return gradient.flatten()[: stop - start]


def scaled(params, factor):
    for parameter in params:
        if parameter.grad is not None:
            local(parameter.grad).mul_(factor)
