"""The built-in subjects of jax: optax's clip as its users call it. Loaded in the process of the devices only."""

from __future__ import annotations

from typing import Any

from shardproof.audit.jax_context import JaxContext


class OptaxJit:
    """optax.clip_by_global_norm inside jax.jit, on whole arrays that are sharded by their NamedSharding."""

    whole = True

    def clip(self, grads: dict[str, Any], limit: float, ctx: JaxContext) -> tuple[dict[str, Any], Any]:
        """Clip the whole gradient; XLA adds the collectives."""
        return _optax(grads, limit)


def optax_shard_map(grads: dict[str, Any], limit: float, ctx: JaxContext) -> tuple[dict[str, Any], Any]:
    """optax.clip_by_global_norm inside shard_map, on each device's own slices; nothing is summed over devices."""
    return _optax(grads, limit)


def _optax(grads: dict[str, Any], limit: float) -> tuple[dict[str, Any], Any]:
    import optax

    clipped, _ = optax.clip_by_global_norm(limit).update(grads, optax.EmptyState())
    return clipped, optax.global_norm(grads)
