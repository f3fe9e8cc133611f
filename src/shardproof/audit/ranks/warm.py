"""Imported by the forkserver before the first rank starts, so that ranks need not; it only imports."""

import torch.distributed.device_mesh
import torch.distributed.fsdp
import torch.distributed.tensor
import torch.nn.parallel

import shardproof.audit.control
import shardproof.audit.layouts.build
import shardproof.audit.ranks.worker  # noqa: F401
