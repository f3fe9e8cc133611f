"""lightning_fabric.Fabric.clip_gradients; under FSDP1 its strategy's method directly, as Fabric refuses that strategy on
a CPU under float32 and bfloat16 gradients cut over 2 ranks, and a float32 copy: copies.equal, norm.global, norm.same-
on-ranks, scale.one-factor.

    python fabric_mixed_dtypes.py    # needs torch and lightning_fabric only; written with torch 2.13.0+cpu

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
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD, LIMIT, NORM = 2, 7.0, 14.0  # NORM: of the whole gradient, each element once
NORM_TOLERANCE, TOLERANCE = 0.03515725, 0.05078232142857143  # relative: of the norm, of elements
# For each rank and parameter: name, shape, what else there is to say, gradient, and what that should be after the call.
RANKS = [
    [
        ('up.weight', (2, 4), {}, [1.0, -2.0, 3.0, 1.0, -2.0, 3.0, 1.0, -2.0], [0.5, -1.0, 1.5, 0.5, -1.0, 1.5, 0.5, -1.0]),
        ('down.weight', (1, 3), {'dtype': torch.bfloat16}, [-1.0, 2.0, 3.0], [-0.5, 1.0, 1.5]),
        ('norm.weight', (3,), {}, [-1.0, 2.0, 3.0], [-0.5, 1.0, 1.5]),
    ],
    [
        ('up.weight', (2, 4), {}, [4.0, 2.0, -3.0, 4.0, 2.0, 2.0, 3.0, 3.0], [2.0, 1.0, -1.5, 2.0, 1.0, 1.0, 1.5, 1.5]),
        ('down.weight', (3, 3), {'dtype': torch.bfloat16}, [-1.0, 2.0, 3.0, -1.0, 2.0, 4.0, -2.0, 3.0, 4.0], [-0.5, 1.0, 1.5, -0.5, 1.0, 2.0, -1.0, 1.5, 2.0]),
        ('norm.weight', (3,), {}, [-1.0, 2.0, 3.0], [-0.5, 1.0, 1.5]),
    ],
]


class clip:
    """Fabric.clip_gradients.

    Under FSDP1 it is the method of FSDPStrategy that Fabric hands its arguments to, for Fabric itself refuses that
    strategy without a GPU; elsewhere the strategies have one clip in common.
    """

    def build(self, ctx):
        """Make the Fabric; no processes are launched, these are the processes."""
        from lightning_fabric import Fabric as RealFabric
        from lightning_fabric.strategies import FSDPStrategy
        self.fabric = RealFabric(accelerator='cpu', devices=1)
        self.fsdp = FSDPStrategy() if _fsdp_version(ctx) == 1 else None
        self.optimizer = torch.optim.SGD([{'params': list(ctx.params)}], lr=0.0)

    def clip(self, params, limit, ctx):
        """Clip as a training loop does."""
        if self.fsdp is not None:
            return self.fsdp.clip_gradients_norm(ctx.model, self.optimizer, max_norm=limit)
        return self.fabric.clip_gradients(ctx.model, self.optimizer, max_norm=limit)


def _fsdp_version(ctx):
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    model = ctx.model
    return 1 if isinstance(model, FullyShardedDataParallel) else 2 if isinstance(model, FSDPModule) else None


def work(rank, folder, answers):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's own name need not resolve
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    model = nn.Module()
    for name, shape, more, *_ in RANKS[rank]:
        parameter = nn.Parameter(torch.zeros(shape, dtype=more.get("dtype")))
        owner, (*path, leaf) = model, name.split(".")
        for step in path:
            owner = owner._modules.setdefault(step, nn.Module())
        owner.register_parameter(leaf, parameter)
    named = {name.removeprefix(""): each for name, each in model.named_parameters()}
    params = [named[name] for name, *_ in RANKS[rank]]
    for parameter, (*_, gradient, _) in zip(params, RANKS[rank]):
        parameter.grad = torch.tensor(gradient, dtype=parameter.dtype).reshape(parameter.shape)
    ctx = SimpleNamespace(model=model, params=tuple(params))
    engine = clip()
    engine.build(ctx)
    answers.put((rank,))  # what happens from here on is the clip's doing
    norm, error = None, ""
    try:
        norm = float(engine.clip(params, LIMIT, ctx=ctx))
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
    grads = [each.grad for each in params]
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
