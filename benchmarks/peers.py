"""Norms as others compute them, written with public torch operations."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def like_megatron(gradients: Sequence[Tensor]) -> Tensor:
    """Megatron-LM without apex: a norm for each tensor, then the norm of the norms."""
    return torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(each) for each in gradients]))


def like_deepspeed(gradients: Sequence[Tensor]) -> float:
    """DeepSpeed ZeRO: the norm of each tensor in float64, the squares added as Python floats."""
    return math.sqrt(sum(float(each.double().norm(2)) ** 2 for each in gradients))
