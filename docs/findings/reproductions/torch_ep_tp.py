"""torch.nn.utils.clip_grad_norm_ under part of ep-tp: expert x tensor parallel, 2 x 2: each expert's weight is a DTensor
on tp, different over ep: calls.return.

    python torch_ep_tp.py    # needs torch only; written with torch 2.13.0+cpu

Starts 2 CPU processes (gloo) and prints what each rank should have and what it has. Exits 1 where a rank is
wrong, 0 where none is, 3 where the call was not reached.
"""

import contextlib
import math
import os
import queue
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

WORLD, LIMIT, NORM = 2, 1.0, 1.0  # NORM: of the whole gradient, each element once
NORM_TOLERANCE, TOLERANCE = 1.476837158203125e-06, 2.7152557373046874e-06  # relative: of the norm, of elements
# For each rank and parameter: name, shape, what else there is to say, gradient, and what that should be after the call.
RANKS = [
    [
        ('attention.weight', (1, 1), {'dtensor': (('tp',), [Shard(1)])}, [0.0], [0.0]),
        ('router.weight', (1, 2), {}, [0.0, 1.0], [0.0, 1.0]),
    ],
    [
        ('attention.weight', (1, 1), {'dtensor': (('tp',), [Shard(1)])}, [], []),
        ('router.weight', (1, 2), {}, [0.0, 1.0], [0.0, 1.0]),
    ],
]


def clip(params, limit):
    """torch's clip on all of this rank's parameters."""
    return torch.nn.utils.clip_grad_norm_(params, limit)


def work(rank, folder, answers):
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's own name need not resolve
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=('tp',))
    params = []
    for name, shape, more, *_ in RANKS[rank]:
        part = torch.zeros(shape, dtype=more.get("dtype"))
        if "dtensor" in more:
            part = distribute_tensor(part, mesh[more["dtensor"][0]], more["dtensor"][1])
        parameter = nn.Parameter(part)
        params.append(parameter)
    for parameter, (*_, gradient, _) in zip(params, RANKS[rank]):
        sharded = hasattr(parameter, "to_local")
        shape = (parameter.to_local() if sharded else parameter).shape
        grad = torch.tensor(gradient, dtype=parameter.dtype).reshape(shape)
        if sharded:
            whole = {"shape": parameter.shape, "stride": parameter.stride()}
            grad = DTensor.from_local(grad, parameter.device_mesh, parameter.placements, run_check=False, **whole)
        parameter.grad = grad
    answers.put((rank,))  # what happens from here on is the clip's doing
    norm, error = None, ""
    try:
        norm = clip(params, LIMIT)
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
    grads = [each.grad.to_local() if hasattr(each.grad, "to_local") else each.grad for each in params]
    answers.put((rank, norm, [None if each is None else each.flatten().tolist() for each in grads], error))
    time.sleep(120)  # until the parent ends all ranks: one that left early would disturb the others


def wrong(rank, norm, grads, error):
    if error:
        return [error]
    found = [] if math.isclose(norm, NORM, rel_tol=NORM_TOLERANCE) else ["norm"]
    for (name, *_, right), seen in zip(RANKS[rank], grads):
        seen = [0.0] * len(right or ()) if seen is None else seen
        if not all(math.isclose(*pair, rel_tol=TOLERANCE) for pair in zip(seen, right or ())):
            found.append(name)
    return found


def main():
    context = mp.get_context("fork" if sys.platform == "linux" else "spawn")  # forked ranks need no import of torch
    answers, reached, seen = context.Queue(), set(), {}
    with tempfile.TemporaryDirectory() as folder:
        ranks = [context.Process(target=work, args=(rank, folder, answers), daemon=True) for rank in range(WORLD)]
        for each in ranks:
            each.start()
        deadline = time.monotonic() + 60
        while len(seen) < WORLD and time.monotonic() < deadline and any(each.is_alive() for each in ranks):
            with contextlib.suppress(queue.Empty):
                rank, *ended = answers.get(timeout=1)
                reached.add(rank)
                if ended:
                    seen[rank], deadline = ended, time.monotonic() + 10
        for each in ranks:
            each.kill()
            each.join()
    if len(reached) < WORLD:
        print("Not every rank came as far as the call, so that this says nothing.", file=sys.stderr)
        sys.exit(3)
    problems = [wrong(rank, *seen[rank]) if rank in seen else ["it does not come back"] for rank in range(WORLD)]
    for rank, rows in enumerate(RANKS):
        norm, grads, _ = seen.get(rank, (None, None, None))
        print(f"rank {rank}: limit {LIMIT}, gradients {[gradient for *_, gradient, _ in rows]}")
        print(f"  expected norm {NORM}, gradients {[right for *_, right in rows]}")
        print(f"  observed norm {norm}, gradients {grads}", *(f"  WRONG: {each}" for each in problems[rank]), sep="\n")
    sys.exit(1 if any(problems) else 0)


if __name__ == "__main__":
    main()
