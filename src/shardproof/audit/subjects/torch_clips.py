"""The built-in subjects of torch: each calls the real library as its users do. Loaded on ranks only."""

from __future__ import annotations

import os
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
    """Accelerator.clip_grad_norm_, with the FSDP plugin that belongs to the model.

    Accelerate takes an FSDP plugin up on an accelerator device only; its state is set as it would be there, so that
    the branch for FSDP1 runs.
    """

    def build(self, ctx: Context) -> None:
        """Make the Accelerator and show it the model, which is wrapped already."""
        from accelerate import Accelerator, DistributedType, FullyShardedDataParallelPlugin

        # It refuses a WORLD_SIZE without them; the process group stands already, and nothing listens there.
        _address_of_nobody()
        version = _fsdp_version(ctx)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=version) if version else None
        self.accelerator = Accelerator(cpu=True, fsdp_plugin=plugin)
        if version:
            self.accelerator.state.distributed_type = DistributedType.FSDP
            self.accelerator.state.fsdp_plugin = plugin
        # evaluation_mode: the model is noted, and not wrapped a second time.
        self.accelerator.prepare_model(ctx.model, device_placement=False, evaluation_mode=True)

    def clip(self, params: Params, limit: float, ctx: Context) -> object:
        """Clip as a training loop does, with all parameters of the model."""
        return self.accelerator.clip_grad_norm_(list(ctx.model.parameters()), limit, norm_type=ctx.norm_type)


class Fabric:
    """Fabric.clip_gradients.

    Under FSDP1 it is the method of FSDPStrategy that Fabric hands its arguments to, for Fabric itself refuses that
    strategy without a GPU; elsewhere the strategies have one clip in common.
    """

    def build(self, ctx: Context) -> None:
        """Make the Fabric; no processes are launched, these are the processes."""
        from lightning_fabric import Fabric as RealFabric
        from lightning_fabric.strategies import FSDPStrategy

        self.fabric = RealFabric(accelerator="cpu", devices=1)
        self.fsdp = FSDPStrategy() if _fsdp_version(ctx) == 1 else None
        # A group of no parameters is allowed, an empty list is not: a rank may have none.
        self.optimizer = pytorch.optim.SGD([{"params": list(ctx.params)}], lr=0.0)

    def clip(self, params: Params, limit: float, ctx: Context) -> object:
        """Clip as a training loop does."""
        if self.fsdp is not None:
            return self.fsdp.clip_gradients_norm(ctx.model, self.optimizer, max_norm=limit, norm_type=ctx.norm_type)
        return self.fabric.clip_gradients(ctx.model, self.optimizer, max_norm=limit, norm_type=ctx.norm_type)


class DeepSpeed:
    """DeepSpeed's clip of plain parameters, without a model-parallel unit."""

    def build(self, ctx: Context) -> None:
        """Let DeepSpeed take up the process group that stands."""
        import deepspeed.comm
        import deepspeed.ops

        _address_of_nobody()
        # As where no compiler is found: it would build its shared-memory kernels now, for minutes; gloo does it all.
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
        deepspeed.comm.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)

    def clip(self, params: Params, limit: float, ctx: Context) -> object:
        """Clip all parameters of this rank."""
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


def _address_of_nobody() -> None:
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")


def _fsdp_version(ctx: Context) -> int | None:
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    model: Any = ctx.model
    return 1 if isinstance(model, FullyShardedDataParallel) else 2 if isinstance(model, FSDPModule) else None
