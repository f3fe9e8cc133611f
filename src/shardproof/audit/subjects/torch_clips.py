"""The built-in subjects of torch: each calls the real library as its users do. Loaded on ranks only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch as pytorch

from shardproof.audit.context import Context

Params = list[pytorch.Tensor]


def torch(params: Params, limit: float, ctx: Context) -> object:
    """torch's clip on all of this rank's parameters."""
    return pytorch.nn.utils.clip_grad_norm_(params, limit, norm_type=ctx.norm_type)


def torch_total_norm(params: Params, limit: float, ctx: Context) -> object:
    """torch's two steps, as loops use them that sum norms over pipeline stages in between; here nothing is summed."""
    from torch.nn.utils import clip_grads_with_norm_, get_total_norm

    norm = get_total_norm([each.grad for each in params if each.grad is not None], norm_type=ctx.norm_type)
    clip_grads_with_norm_(params, limit, norm)
    return norm


def fsdp1(params: Params, limit: float, ctx: Context) -> object:
    """FSDP1's own method, on the root module."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    assert isinstance(ctx.model, FullyShardedDataParallel), "capabilities name the layouts of FSDP1 only"
    return ctx.model.clip_grad_norm_(limit, norm_type=ctx.norm_type)


class Accelerate:
    """Accelerator.clip_grad_norm_, with the FSDP plugin that belongs to the model."""

    def build(self, ctx: Context) -> None:
        """Make the Accelerator and show it the model, which is wrapped already."""
        from accelerate import Accelerator, FullyShardedDataParallelPlugin

        version = _fsdp_version(ctx)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=version) if version else None
        self.accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
        # evaluation_mode: the model is noted, and not wrapped a second time.
        self.accelerator.prepare_model(ctx.model, device_placement=False, evaluation_mode=True)

    def clip(self, params: Params, limit: float, ctx: Context) -> object:
        """Clip as a training loop does, with all parameters of the model."""
        trained = list(ctx.model.parameters()) if _fsdp_version(ctx) == 1 else params
        return self.accelerator.clip_grad_norm_(trained, limit, norm_type=ctx.norm_type)


class Fabric:
    """Fabric.clip_gradients, with the strategy that belongs to the model where it runs on CPUs."""

    def build(self, ctx: Context) -> None:
        """Make the Fabric; no processes are launched, these are the processes."""
        from lightning_fabric import Fabric as RealFabric

        self.fabric = RealFabric(accelerator="cpu", devices=1)
        # A group of no parameters is allowed, an empty list is not: a rank may have none.
        self.optimizer = pytorch.optim.SGD([{"params": list(ctx.params)}], lr=0.0)

    def clip(self, params: Params, limit: float, ctx: Context) -> object:
        """Clip as a training loop does."""
        return self.fabric.clip_gradients(ctx.model, self.optimizer, max_norm=limit, norm_type=ctx.norm_type)


def deepspeed(params: Params, limit: float, ctx: Context) -> object:
    """DeepSpeed's clip of plain parameters, without a model-parallel unit."""
    from deepspeed.runtime.utils import clip_grad_norm_

    return clip_grad_norm_(params, limit, norm_type=ctx.norm_type)


def shardproof(params: Params, limit: float, ctx: Context) -> object:
    """shardproof's clip, told all that the context says."""
    from shardproof.torch import clip_grad_norm_

    placements: dict[str | pytorch.Tensor, Mapping[str, str]] = dict(zip(params, ctx.placements, strict=True))
    return clip_grad_norm_(
        list(zip(ctx.names, params, strict=True)),
        limit,
        norm_type=ctx.norm_type,
        mesh=ctx.mesh,
        placements=placements,
        tied=ctx.tied,
        owned=ctx.owned,
    )


def _fsdp_version(ctx: Context) -> int | None:
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    model: Any = ctx.model
    return 1 if isinstance(model, FullyShardedDataParallel) else 2 if isinstance(model, FSDPModule) else None
