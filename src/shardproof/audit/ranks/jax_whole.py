"""Whole arrays with a NamedSharding, for a jax subject inside jax.jit; only what jax can cut evenly."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from shardproof.audit.layouts import Copy, Cut, Layout, Share, Tensor
from shardproof.records.audit import FixturePlan

if TYPE_CHECKING:
    from shardproof.audit.ranks.jax_worker import Devices

Rows = list[dict[str, list[float]]]


def whole_specs(layout: Layout) -> tuple[dict[str, tuple[tuple[str, ...], ...]], str | None]:
    """For each tensor the axes that cut each of its dims; or why jax has no such array.

    >>> from shardproof.audit.layouts import LAYOUTS
    >>> whole_specs(LAYOUTS["pipeline"])[1]
    'jax.jit has whole arrays in equal slices: stage0.layer.weight does not lie so'
    """
    specs = {}
    for tensor in layout.tensors:
        if tensor.frozen:
            continue
        spec = _spec(layout, tensor)
        if spec is None:
            return {}, f"jax.jit has whole arrays in equal slices: {tensor.name} does not lie so"
        specs[tensor.name] = spec
    return specs, None


def _spec(layout: Layout, tensor: Tensor) -> tuple[tuple[str, ...], ...] | None:
    if tensor.padded or tensor.twins or any(not isinstance(lie, (Cut, Copy)) for lie in tensor.on.values()):
        return None
    axes: list[list[str]] = [[] for _ in tensor.shape]
    for axis, lie in tensor.on.items():
        if isinstance(lie, Cut):
            axes[lie.dim].append(axis)
            parts = 1
            for each in axes[lie.dim]:
                parts *= layout.axes[each]
            if len(set(lie.sizes)) > 1 or tensor.shape[lie.dim] % parts:
                return None
    return tuple(tuple(each) for each in axes)


def laid_whole(
    devices: Devices, clip: Any, fixture: FixturePlan, context: Callable[[Devices, float, float], Any]
) -> tuple[Rows, Rows, list[float]]:
    """The call inside jit on whole arrays; rows before and after by device, and the norm as each device has it."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    specs, _ = whole_specs(devices.layout)
    tensors = {tensor.name: tensor for tensor in devices.layout.tensors if tensor.name in specs}
    given = {
        name: jax.device_put(
            jnp.asarray(fixture.gradients[name], dtype=tensor.dtype).reshape(tensor.shape),
            NamedSharding(devices.mesh, PartitionSpec(*(each or None for each in specs[name]))),
        )
        for name, tensor in tensors.items()
    }
    told = context(devices, fixture.limit, fixture.norm_type)
    after, norm = jax.jit(lambda grads: clip(grads, fixture.limit, told))(given)
    norms = _by_device(devices, jnp.reshape(norm, ()))
    return _rows(devices, given), _rows(devices, after), [each[0] for each in norms]


def _rows(devices: Devices, arrays: dict[str, Any]) -> Rows:
    by_tensor = {name: _by_device(devices, array) for name, array in arrays.items()}
    return [
        {entry: by_tensor[share.tensor.name][rank] for entry, share in held.items() if _fits(share, by_tensor, rank)}
        for rank, held in enumerate(devices.held)
    ]


def _fits(share: Share, by_tensor: dict[str, list[list[float]]], rank: int) -> bool:
    return share.tensor.name in by_tensor and len(by_tensor[share.tensor.name][rank]) == len(share.indices)


def _by_device(devices: Devices, array: Any) -> list[list[float]]:
    import numpy as np

    wide = "float64" if str(array.dtype) == "float64" else "float32"
    held = {shard.device: np.asarray(shard.data.astype(wide)).ravel() for shard in array.addressable_shards}
    # Where the compiler left a result on one device, every device would read that.
    only = next(iter(held.values()))
    return [[float(value) for value in held.get(device, only)] for device in devices.mesh.devices.ravel()]
