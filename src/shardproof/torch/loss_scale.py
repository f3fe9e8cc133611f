"""GradScaler and ShardedGradScaler: one verdict on a step for all ranks, kept in the scaler's own state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler, OptState

from shardproof.errors import InvalidTypeError, InvalidValueError


def share_bad_step(
    scaler: GradScaler, optimizer: torch.optim.Optimizer, norm: Tensor | float | Mapping[str, Tensor]
) -> None:
    """Make a scaler skip this step and back off when the norm of all ranks is NaN or infinite; no collective.

    Call it between the clip and `scaler.step(optimizer)`, on every rank. The norm is the same on every rank, a
    scaler's own flag is not: a plain GradScaler sees only the gradients of its rank. A flag that the scaler has
    raised itself stays raised. No value is read back from a GPU.

    Args:
        scaler: after `scaler.unscale_(optimizer)`; nothing happens when it is disabled.
        optimizer: the optimizer that the scaler is about to step.
        norm: what the clip returned, before clipping; with groups the dict of norms.

    Raises:
        InvalidTypeError: scaler is no GradScaler, or norm is no number.
        InvalidValueError: the gradients were not unscaled, or this step was taken already.

    >>> import math, torch
    >>> weight = torch.nn.Parameter(torch.ones(2))
    >>> optimizer, scaler = torch.optim.SGD([weight], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0)
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.unscale_(optimizer)
    >>> share_bad_step(scaler, optimizer, math.nan)
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.tolist(), scaler.get_scale()
    ([1.0, 1.0], 2.0)
    """
    if not checked_scaler(scaler).is_enabled():
        return
    state = scaler._per_optimizer_states[id(optimizer)]
    if state["stage"] is not OptState.UNSCALED:
        raise InvalidValueError(
            f"Expected a scaler whose gradients are unscaled, got stage={state['stage'].name}. Call "
            "scaler.unscale_(optimizer), clip, share_bad_step(scaler, optimizer, norm), scaler.step(optimizer), "
            "scaler.update(), in this order."
        )
    device = _scale(scaler).device
    flags = [_is_bad(each, device) for each in (norm.values() if isinstance(norm, Mapping) else [norm])]
    flags += [each.to(device, non_blocking=True).reshape(()) for each in state["found_inf_per_device"].values()]
    # Fused kernels skip on exactly 1. The scaler adds its flags over devices, ShardedGradScaler over ranks too, and
    # a sum of 2 is not skipped.
    state["found_inf_per_device"] = {device: torch.stack(flags).amax().clamp(max=1.0)}


def _is_bad(norm: Tensor | float, device: torch.device) -> Tensor:
    if isinstance(norm, bool) or not isinstance(norm, (Tensor, int, float)):
        raise InvalidTypeError(f"Expected norm to be the norm that a clip returned, got {norm!r}.")
    value = torch.as_tensor(norm, dtype=torch.float64)
    return (~torch.isfinite(value)).to(device, torch.float32, non_blocking=True).reshape(())


def checked_scaler(scaler: object) -> GradScaler:
    """Return `scaler` if it is one of torch's; raises InvalidTypeError."""
    if not isinstance(scaler, GradScaler):
        raise InvalidTypeError(
            f"Expected scaler to be a torch.amp.GradScaler or ShardedGradScaler, got {type(scaler).__name__}."
        )
    return scaler


def carried_scale(scaler: GradScaler, optimizer: torch.optim.Optimizer | None) -> float:
    """The factor that the gradients still carry: the loss scale, or 1.0 after `scaler.unscale_(optimizer)`.

    Raises InvalidValueError when the scaler has scaled no loss yet or has taken this step already.
    """
    _scale(scaler)
    stage = scaler._per_optimizer_states[id(optimizer)]["stage"]
    if stage is OptState.STEPPED:
        raise InvalidValueError("Expected one step for each scaler.update(), got a second; call scaler.update() first.")
    return 1.0 if stage is OptState.UNSCALED else float(scaler.get_scale())


def _scale(scaler: GradScaler) -> Tensor:
    scale: Tensor | None = scaler._scale
    if scale is None:
        raise InvalidValueError(
            "Expected a scaler that has scaled a loss, got one without a scale. Call scaler.scale(loss).backward(); "
            "a rank without a loss calls scaler.scale(torch.zeros(()))."
        )
    return scale


@contextmanager
def verdict(scaler: GradScaler, optimizer: torch.optim.Optimizer | None, *, finite: bool) -> Iterator[None]:
    """Within, the scaler takes the gradients as unscaled and judged; a step that raises leaves its state as it was.

    `scaler.step` would look through all gradients of this rank again, and overwrite the optimizer's found_inf with
    what it finds in its own state.
    """
    state: dict[str, Any] = scaler._per_optimizer_states[id(optimizer)]
    before = dict(state)
    flag = torch.full((), 0.0 if finite else 1.0, dtype=torch.float32, device=_scale(scaler).device)
    state.update(stage=OptState.UNSCALED, found_inf_per_device={flag.device: flag})
    try:
        yield
    except BaseException:
        state.update(before)
        raise
    state["stage"] = OptState.STEPPED
