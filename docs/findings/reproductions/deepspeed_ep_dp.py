"""deepspeed.runtime.utils.clip_grad_norm_ on plain parameters, without a model-parallel unit under expert x data
parallel, 2 x 2, two local experts on each ep rank, copies over dp: norm.global, scale.one-factor.

    python deepspeed_ep_dp.py    # needs torch and deepspeed only; written with torch 2.13.0+cpu

Starts 4 CPU processes (gloo) and prints what each rank should have and what it has. Exits 1 where a rank is
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

WORLD, LIMIT, NORM = 4, 7.5, 15.0  # NORM: of the whole gradient, each element once
NORM_TOLERANCE, TOLERANCE = 1.774860382080078e-06, 2.0799456278483075e-06  # relative: of the norm, of elements
# For each rank and parameter: name, shape, gradient, and what that should be after the call.
RANKS = [
    [
        ('experts.0.weight', (2, 2), [1.0, -2.0, 3.0, 1.0], [0.5, -1.0, 1.5, 0.5]),
        ('experts.1.weight', (2, 3), [-1.0, 2.0, 3.0, -1.0, 2.0, 3.0], [-0.5, 1.0, 1.5, -0.5, 1.0, 1.5]),
        ('router.weight', (4, 2), [-1.0, 2.0, 3.0, -1.0, 2.0, 3.0, -1.0, 2.0], [-0.5, 1.0, 1.5, -0.5, 1.0, 1.5, -0.5, 1.0]),
    ],
    [
        ('experts.0.weight', (2, 4), [-3.0, 4.0, 1.0, -3.0, 4.0, 1.0, -3.0, 4.0], [-1.5, 2.0, 0.5, -1.5, 2.0, 0.5, -1.5, 2.0]),
        ('experts.1.weight', (2, 5), [3.0, -4.0, 1.0, 3.0, -4.0, 1.0, 1.0, 1.0, 3.0, 3.0], [1.5, -2.0, 0.5, 1.5, -2.0, 0.5, 0.5, 0.5, 1.5, 1.5]),
        ('router.weight', (4, 2), [-1.0, 2.0, 3.0, -1.0, 2.0, 3.0, -1.0, 2.0], [-0.5, 1.0, 1.5, -0.5, 1.0, 1.5, -0.5, 1.0]),
    ],
]
RANKS = [RANKS[same] for same in [0, 1, 0, 1]]  # copies


class clip:
    """DeepSpeed's clip of plain parameters, without a model-parallel unit."""

    def build(self):
        """Let DeepSpeed take up the process group that stands."""
        import deepspeed.comm
        import deepspeed.ops
        _address_of_nobody()
        deepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False
        deepspeed.comm.init_distributed('gloo', auto_mpi_discovery=False, verbose=False)

    def clip(self, params, limit):
        """Clip all parameters of this rank."""
        from deepspeed.runtime.utils import clip_grad_norm_
        return clip_grad_norm_(params, limit)


def _address_of_nobody():
    os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
    os.environ.setdefault('MASTER_PORT', '29500')


def work(rank, folder, answers):
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # the host's own name need not resolve
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD)
    params = [nn.Parameter(torch.zeros(shape)) for _, shape, *_ in RANKS[rank]]
    for parameter, (*_, gradient, _) in zip(params, RANKS[rank]):
        parameter.grad = torch.tensor(gradient, dtype=parameter.dtype).reshape(parameter.shape)
    engine = clip()
    engine.build()
    answers.put((rank,))  # what happens from here on is the clip's doing
    norm, error = None, ""
    try:
        norm = float(engine.clip(params, LIMIT))
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
