"""The clip inside a fused step: the factor becomes the kernel's `grad_scale`, a bad step its `found_inf`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch.amp.grad_scaler import GradScaler

from shardproof.errors import InvalidTypeError, InvalidValueError, ShardproofError
from shardproof.torch.loss_scale import carried_scale, checked_scaler, verdict
from shardproof.torch.naming import Groups, is_dtensor
from shardproof.torch.norms import Found, Norm
from shardproof.torch.request import Request

FUSED = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
"""The optimizers of torch whose fused kernels read grad_scale and found_inf."""

FUSED_ON_DTENSORS = (torch.optim.Adam, torch.optim.AdamW)
"""Those of them whose fused kernel takes DTensors; the others have no sharding strategy, up to torch 2.13."""

LARGEST_SCALE = torch.finfo(torch.float32).max
"""The kernels read grad_scale as a float32."""

SHOWN = 5


@dataclass(frozen=True)
class Step:
    """One step that was found fit to carry a clip.

    `optimizer` is None on a rank without parameters; `scaler` is None when there is none or it is disabled;
    `carried` is the loss scale that the gradients still carry, else 1.0.
    """

    optimizer: torch.optim.Optimizer | None
    scaler: GradScaler | None
    carried: float


Tensors = Callable[[], Sequence[tuple[str, Tensor]]]


def attempt(
    optimizer: Any, scaler: Any, tensors: Tensors, groups: Groups | None
) -> tuple[Step | None, ShardproofError | None]:
    """The step, or why it cannot carry a clip: the other ranks have to hear of it before anybody steps.

    Args:
        optimizer: the caller's optimizer, None on a rank without parameters.
        scaler: the caller's GradScaler or None.
        tensors: gives the plan's (name, parameter) pairs.
        groups: the plan's named groups.
    """
    try:
        return _checked(optimizer, scaler, tensors(), groups), None
    except ShardproofError as error:
        return None, error


def _checked(optimizer: Any, scaler: Any, tensors: Sequence[tuple[str, Tensor]], groups: Groups | None) -> Step:
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidTypeError(f"Expected optimizer to be a torch.optim.Optimizer, got {type(optimizer).__name__}.")
    faults = list(chain(_of_optimizer(optimizer), _of_parameters(optimizer, tensors), _of_groups(groups)))
    if faults:
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise InvalidValueError(
            f"Cannot clip inside the step of {type(optimizer).__name__}, and no gradient or parameter was touched: "
            f"{'; '.join(faults[:SHOWN])}{more}. Otherwise call clip_(max_norm) and then step."
        )
    if scaler is None or not checked_scaler(scaler).is_enabled():
        return Step(optimizer, None, 1.0)
    return Step(optimizer, scaler, carried_scale(scaler, optimizer))


def _of_groups(groups: Groups | None) -> Iterator[str]:
    if groups is not None:
        yield f"the plan clips the groups {list(groups)} by norms of their own, but a step has one grad_scale for all"


def _of_optimizer(optimizer: torch.optim.Optimizer | None) -> Iterator[str]:
    """What keeps this optimizer's kernels from reading grad_scale and found_inf."""
    if optimizer is None:
        return
    if not isinstance(optimizer, FUSED):
        yield f"it is none of torch's fused optimizers ({', '.join(each.__name__ for each in FUSED)})"
        return
    loose = [index for index, group in enumerate(optimizer.param_groups) if group.get("fused") is not True]
    if loose:
        yield f"its param_groups {loose} are not fused; build the optimizer with fused=True"
    elif not getattr(optimizer, "_step_supports_amp_scaling", False):
        yield (
            "it was not built with fused=True, or this release of torch has a fused kernel for it that takes no loss "
            f"scale (torch {torch.__version__}), so a GradScaler would not hand it grad_scale and found_inf"
        )
    for name in ("grad_scale", "found_inf"):
        if getattr(optimizer, name, None) is not None:
            yield f"its attribute {name} is set already; delete it"
    for index, group in enumerate(optimizer.param_groups):
        yield from _of_tensors(optimizer, index, group["params"])


def _of_tensors(optimizer: torch.optim.Optimizer, index: int, parameters: Sequence[Tensor]) -> Iterator[str]:
    """What the fused kernel refuses; torch says so in the middle of the step, when other ranks have stepped."""
    kinds: dict[Any, bool] = {}
    for number, parameter in enumerate(parameters):
        gradient = parameter.grad
        if gradient is None:
            continue
        where = f"parameter {number} of param_groups[{index}]"
        if not parameter.is_floating_point():
            yield f"{where} is {parameter.dtype}, which fused kernels do not take"
        elif gradient.dtype != parameter.dtype:
            yield f"{where} is {parameter.dtype}, its gradient {gradient.dtype}"
        if gradient.layout is not torch.strided:
            yield f"{where} has a gradient of layout {gradient.layout}"
        lies = is_dtensor(parameter)
        if lies and not isinstance(optimizer, FUSED_ON_DTENSORS):
            yield f"torch cannot run its fused kernel on DTensors such as {where}"
            return
        if kinds.setdefault((parameter.device, parameter.dtype), lies) != lies:
            yield f"param_groups[{index}] mixes DTensors and plain tensors; put them into param groups of their own"
            return


def _of_parameters(optimizer: torch.optim.Optimizer | None, tensors: Sequence[tuple[str, Tensor]]) -> Iterator[str]:
    """Parameters that would be clipped and not stepped, or stepped by a factor that their gradient is not part of."""
    groups = optimizer.param_groups if optimizer is not None else []
    stepped = {
        id(parameter): (f"param_groups[{index}]['params'][{number}]", parameter)
        for index, group in enumerate(groups)
        for number, parameter in enumerate(group["params"])
    }
    planned = {id(parameter): (name, parameter) for name, parameter in tensors}
    for ours, others, text in (
        (planned, stepped, "{} of the plan is not in the optimizer"),
        (stepped, planned, "{} of the optimizer, of shape {}, is not in the plan"),
    ):
        for key, (name, parameter) in ours.items():
            if key not in others and (parameter.requires_grad or parameter.grad is not None):
                yield text.format(name, tuple(parameter.shape))


def asked_of(step: Step, asked: Request) -> Request:
    """What has to be asked of gradients that still carry the loss scale; ranks must agree on it, and on stepping."""
    scaled = f", of gradients times the loss scale {step.carried!r}" if step.carried != 1.0 else ""
    limits = tuple((group, limit * step.carried) for group, limit in asked.limits)
    return replace(asked, limits=limits, eps=asked.eps * step.carried, note=f", in an optimizer's step{scaled}")


def without_scale(step: Step, found: Found) -> Found:
    """The norms of the gradients without the loss scale that they carry; the factor is the same."""
    groups = {group: Norm(each.norm / step.carried, each.factor) for group, each in found.groups.items()}
    return replace(found, groups=groups, sums=[each / step.carried for each in found.sums])


def divisor(step: Step, factor: float) -> float:
    """What the kernel has to divide gradients by: the loss scale that they carry / factor; inf for a factor of zero."""
    return step.carried / factor if factor else math.inf


def fits(step: Step, factor: float) -> bool:
    """Whether the kernels' float32 can hold the divisor; inf is meant where the factor is zero: g / inf = 0."""
    return factor == 0.0 or divisor(step, factor) <= LARGEST_SCALE


def take(step: Step, factor: float, *, finite: bool) -> None:
    """Step with gradients divided by `divisor`, or not at all when some gradient of some rank is not finite.

    The kernel writes the divided gradients back. The optimizer's attributes are what they were afterwards.
    """
    told = nullcontext() if step.scaler is None else verdict(step.scaler, step.optimizer, finite=finite)
    with told:
        if step.optimizer is None:
            return
        scale = divisor(step, factor)
        values = {"grad_scale": scale} if finite and scale != 1.0 else {}
        if not finite:
            values["found_inf"] = 1.0
        with _attributes(step.optimizer, values), _first_momentum(step.optimizer, skipped=not finite):
            if step.scaler is None:
                step.optimizer.step()
            else:
                step.scaler.step(step.optimizer)


@contextmanager
def _attributes(optimizer: torch.optim.Optimizer, values: Mapping[str, float]) -> Iterator[None]:
    names = ("grad_scale", "found_inf")
    device = optimizer.param_groups[0]["params"][0].device
    before = {name: vars(optimizer)[name] for name in names if name in vars(optimizer)}
    vars(optimizer).update(
        {name: torch.tensor(value, dtype=torch.float32, device=device) for name, value in values.items()}
    )
    try:
        yield
    finally:
        for name in names:
            vars(optimizer).pop(name, None)
        vars(optimizer).update(before)


@contextmanager
def _first_momentum(optimizer: torch.optim.Optimizer, *, skipped: bool) -> Iterator[None]:
    """Undo what a skipped first step of fused SGD leaves: a momentum buffer that nothing was written to.

    torch allocates it empty and the kernel that would fill it returns at once; the next step reads it.
    """
    fresh: list[Tensor] = []
    if skipped and isinstance(optimizer, torch.optim.SGD):
        parameters = (each for group in optimizer.param_groups for each in group["params"])
        fresh = [each for each in parameters if optimizer.state.get(each, {}).get("momentum_buffer") is None]
    try:
        yield
    finally:
        for each in fresh:
            optimizer.state.get(each, {}).pop("momentum_buffer", None)
