"""Clips of jax that the tests audit: one that is right under every layout, and wrong ones."""

import math

import jax
import jax.numpy as jnp


def _squares(grads, ctx, *, count_copies=False):
    """The sum of squares of what this device is to count: padding and later tied names left out, copies shared out."""
    rank = 0
    for axis, size in ctx.axes.items():
        rank = rank * size + jax.lax.axis_index(axis)
    later = {name for names in ctx.tied for name in names[1:]}
    total = jnp.zeros((), jnp.float32)
    for name, grad in grads.items():
        if name in later:
            continue
        values = grad.astype(jnp.float32)
        if name in ctx.owned:
            lengths = jnp.asarray([stop - start for start, stop, _ in ctx.owned[name]])
            values = jnp.where(jnp.arange(values.size) < lengths[rank], values, 0.0)
        kinds = ctx.placements[name]
        copies = 1 if count_copies else math.prod(ctx.axes[axis] for axis in ctx.axes if kinds[axis] == "replicate")
        total += jnp.sum(values * values) / copies
    return total


def right(grads, max_norm, ctx):
    norm = jnp.sqrt(jax.lax.psum(_squares(grads, ctx), tuple(ctx.axes)))
    return _scaled(grads, norm, max_norm), norm


def counts_copies(grads, max_norm, ctx):
    norm = jnp.sqrt(jax.lax.psum(_squares(grads, ctx, count_copies=True), tuple(ctx.axes)))
    return _scaled(grads, norm, max_norm), norm


def changes_dtype(grads, max_norm, ctx):
    clipped, norm = right(grads, max_norm, ctx)
    return {name: grad.astype(jnp.float16) for name, grad in clipped.items()}, norm


def raises(grads, max_norm, ctx):
    raise RuntimeError("cannot clip")


def _scaled(grads, norm, max_norm):
    factor = jnp.minimum(1.0, max_norm / jnp.maximum(norm, 1e-30))
    return {name: (grad * factor).astype(grad.dtype) for name, grad in grads.items()}
