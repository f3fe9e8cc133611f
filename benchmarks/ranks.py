"""Clipping 2,000 DTensors on two real ranks: the first call, later calls, and the collectives of each call."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from shardproof.torch import clip_grad_norm_

RANKS, TENSORS, ROWS, LATER = 2, 2000, 64, 15


def measure() -> dict[str, dict[str, float]]:
    """Contestant -> first call and median of later calls in seconds, and collectives per call; on new processes."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for name in ("torch", "shardproof"):
            target = Path(folder) / f"{name}.json"
            multiprocessing.spawn(_rank, (name, str(Path(folder) / f"{name}.store"), str(target)), RANKS)  # type: ignore[no-untyped-call]
            found[name] = json.loads(target.read_text(encoding="utf-8"))
        return found


def _rank(rank: int, name: str, store: str, target: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
    torch.manual_seed(0)
    parameters = []
    for _ in range(TENSORS):
        parameter = nn.Parameter(distribute_tensor(torch.zeros(ROWS, 8), mesh, [Shard(0)]))
        parameter.grad = distribute_tensor(torch.randn(ROWS, 8), mesh, [Shard(0)])
        parameters.append(parameter)
    clip: Callable[..., Any] = clip_grad_norm_ if name == "shardproof" else torch.nn.utils.clip_grad_norm_

    def call() -> float:
        begin = time.perf_counter()
        float(_whole(clip(parameters, 1e9)))
        return time.perf_counter() - begin

    # What a process does once, compiling and importing, is not what is measured: one small clip before.
    clip([parameters[0]], 1e9)
    first, later = call(), [call() for _ in range(LATER)]
    with CommDebugMode() as counted:
        float(_whole(clip(parameters, 1e9)))
    if rank == 0:
        result = {"first": first, "later": median(later), "collectives": counted.get_total_counts()}
        Path(target).write_text(json.dumps(result), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


def _whole(norm: Any) -> Any:
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    json.dump(measure(), sys.stdout, indent=2)
