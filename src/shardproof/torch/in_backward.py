"""Optimizers that step inside backward: their gradients are spent before anything can be clipped."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import repeat
from operator import attrgetter, contains
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

_stepped: Any = WeakTensorKeyDictionary()
"""Parameters whose last step was taken inside a backward pass -> the name of the optimizer that took it."""

MARK = "_in_backward_optimizers"
"""The attribute that `torch.distributed.optim._apply_optimizer_in_backward` gives to a parameter."""

_ATTRIBUTES = attrgetter("__dict__")

OUTSIDE = -1
"""What autograd answers when it is asked for the number of the running backward pass and there is none."""


@cache
def watch() -> None:
    """Have every torch optimizer note, from now on, which parameters it steps inside a backward pass."""
    register_optimizer_step_pre_hook(_note)


def _note(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
    del args, kwargs
    # A compiled step never runs inside backward, and the question below would break its graph.
    if torch.compiler.is_compiling():
        return
    inside = torch._C._current_graph_task_id() != OUTSIDE
    if not inside and not _stepped:
        return
    for parameter in (each for group in optimizer.param_groups for each in group["params"]):
        if parameter.grad is None:
            continue
        if inside:
            _stepped[parameter] = type(optimizer).__name__
        else:
            _stepped.pop(parameter, None)


def any_stepped(tensors: Iterable[Tensor | None]) -> bool:
    """Whether `stepped_in_backward` has to be asked of each of them; most runs have no such optimizer at all."""
    return bool(_stepped) or any(map(contains, map(_ATTRIBUTES, tensors), repeat(MARK)))


def stepped_in_backward(tensor: Tensor) -> str | None:
    """The name of the optimizer that steps this parameter inside backward; None when nothing says so.

    Certain signs only: the mark that `torch.distributed.optim._apply_optimizer_in_backward` leaves, or a step
    that was seen to run inside a backward pass since the first plan of this process was made.
    """
    inside = tensor.__dict__.get(MARK)
    if inside:
        return type(inside[-1]).__name__
    return _stepped.get(tensor) if _stepped else None
