"""Gradient clipping for PyTorch by the true global norm, under every sharding."""

from shardproof.torch.clip import clip_grad_norm_, clip_with_norm_, get_total_norm
from shardproof.torch.description import Description
from shardproof.torch.loss_scale import share_bad_step
from shardproof.torch.megatron import from_megatron
from shardproof.torch.plan import ClipPlan

__all__ = [
    "ClipPlan",
    "Description",
    "clip_grad_norm_",
    "clip_with_norm_",
    "from_megatron",
    "get_total_norm",
    "share_bad_step",
]
