"""lightning_fabric.Fabric.clip_gradients; under FSDP1 its strategy's method directly, as Fabric refuses that strategy on a CPU under 2 pipeline stages of uneven size whose parameters have the same local names: norm.global, norm.same-on-ranks, scale.one-factor.

    python fabric_pipeline.py                  # needs torch and lightning_fabric only; written with torch 2.13.0+cpu
    python fabric_pipeline.py other.py:clip    # another clip(params, max_norm) or clip(params, max_norm, ctx) instead

Starts 2 CPU processes (gloo) and prints what each rank should have and what it has. Exits 1 if a rank is
wrong, 0 if none is, 3 if the call was not reached.
"""

import inspect
import math
import operator
import os
import queue
import runpy
import sys
import tempfile
import time
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

AXES, WORLD = {'pp': 2}, 2
LIMIT, NORM_TYPE, NORM = 6.5, 2.0, 13.0  # NORM is what is expected
NORM_TOLERANCE, ELEMENT_TOLERANCE = 1.5960464477539062e-06, 1.911388103778546e-06  # relative
# For each rank: parameter, its shape, and what else there is to say.
PARAMETERS = [
    [
        ('layer.weight', (3, 3), {}),
        ('layer.bias', (3,), {}),
    ],
    [
        ('layer.weight', (2, 3), {}),
        ('head.weight', (5,), {}),
    ],
]
# For each rank: parameter, how it lies on each axis, its gradient here, and what that should be after the call.
GRADIENTS = [
    [
        ('layer.weight', {'pp': 'distinct'}, [1.0, -2.0, 3.0, 1.0, -2.0, 1.0, 3.0, 4.0, 4.0], [0.5, -1.0, 1.5, 0.5, -1.0, 0.5, 1.5, 2.0, 2.0]),
        ('layer.bias', {'pp': 'distinct'}, [2.0, -3.0, 4.0], [1.0, -1.5, 2.0]),
    ],
    [
        ('layer.weight', {'pp': 'distinct'}, [1.0, -2.0, 3.0, 1.0, -2.0, 3.0], [0.5, -1.0, 1.5, 0.5, -1.0, 1.5]),
        ('head.weight', {'pp': 'distinct'}, [3.0, -4.0, 1.0, 3.0, -4.0], [1.5, -2.0, 0.5, 1.5, -2.0]),
    ],
]
TIED, OWNED = (), []  # names of one tensor; by rank: start, stop and length of flat buffers


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
            return self.fsdp.clip_gradients_norm(ctx.model, self.optimizer, max_norm=limit, norm_type=ctx.norm_type)
        return self.fabric.clip_gradients(ctx.model, self.optimizer, max_norm=limit, norm_type=ctx.norm_type)


def _fsdp_version(ctx):
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    model = ctx.model
    return 1 if isinstance(model, FullyShardedDataParallel) else 2 if isinstance(model, FSDPModule) else None


def build(rank, mesh):
    root = nn.Module()
    for name, shape, more in PARAMETERS[rank]:
        part = torch.zeros(shape, dtype=more.get("dtype"))
        parameter = nn.Parameter(part)
        for each in (name,):
            *path, leaf = each.split(".")
            owner = root
            for step in path:
                owner = owner._modules.setdefault(step, nn.Module())
            owner.register_parameter(leaf, parameter)
    return root


def give(parameter, values):
    parameter.grad = torch.tensor(values, dtype=parameter.dtype).reshape(parameter.shape)


def subject(ctx):
    spec = sys.argv[1] if len(sys.argv) > 1 else None
    found = imported(spec) if spec else clip
    found = found() if inspect.isclass(found) else found
    if hasattr(found, "build"):
        found.build(ctx)
    call = getattr(found, "clip", found)
    takes = inspect.signature(call).parameters
    if "ctx" in takes:
        return lambda params, limit: call(params, limit, ctx=ctx)
    required = [each for each in takes.values() if each.default is each.empty]
    return call if len(required) == 2 else lambda params, limit: call(params, limit, ctx)


def imported(spec):
    where, _, name = spec.rpartition(":")
    sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
    names = runpy.run_path(where) if where.endswith(".py") else runpy.run_module(where)
    return operator.attrgetter(name)(SimpleNamespace(**names))


def work(rank, store, results, argv):
    sys.argv[:] = argv
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(WORLD))
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", tuple(AXES.values()), mesh_dim_names=tuple(AXES)) if AXES else None
    model = build(rank, mesh)
    named = {name.removeprefix(""): each for name, each in model.named_parameters()}
    names, placements = tuple(each[0] for each in GRADIENTS[rank]), tuple(each[1] for each in GRADIENTS[rank])
    params = [named[name] for name in names]
    for parameter, (_, _, values, _) in zip(params, GRADIENTS[rank]):
        if values is not None:
            give(parameter, values)
    groups = {axis: mesh.get_group(axis) for axis in AXES}
    ctx = SimpleNamespace(model=model, rank=rank, world_size=WORLD, layout="pipeline", mesh=mesh, axes=AXES)
    ctx.__dict__.update(names=names, placements=placements, limit=LIMIT, norm_type=NORM_TYPE, groups=groups)
    ctx.__dict__.update(params=tuple(params), tied=TIED, owned=OWNED[rank] if OWNED else {}, group=groups.get)
    call, norm, error = subject(ctx), None, None
    results.put((rank,))  # what happens from here on is the clip's doing
    try:
        norm = call(params, LIMIT)
        norm = float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}".partition("\n")[0]
    grads = [each.grad.to_local() if hasattr(each.grad, "to_local") else each.grad for each in params]
    results.put((rank, norm, [None if each is None else each.flatten().tolist() for each in grads], error))
    time.sleep(120)  # the parent ends all ranks together; one that left early would disturb the others


def near(seen, right, tolerance):
    return seen == right or (seen != seen and right != right) or abs(seen - right) <= tolerance * abs(right) < math.inf


def wrong_on(rank, norm, grads, error):
    if error:
        return [error]
    wrong = [] if near(norm, NORM, NORM_TOLERANCE) else ["norm"]
    for (name, _, _, right), seen in zip(GRADIENTS[rank], grads):
        seen = [0.0] * len(right or ()) if seen is None else seen
        if not all(near(one, other, ELEMENT_TOLERANCE) for one, other in zip(seen, right or ())):
            wrong.append(name)
    return wrong


def main():
    context = mp.get_context("fork" if sys.platform == "linux" else "spawn")  # torch is imported once
    results, reached, seen, deadline = context.Queue(), set(), {}, time.monotonic() + 120
    with tempfile.TemporaryDirectory() as folder:
        arguments = [(rank, f"{folder}/store", results, sys.argv) for rank in range(WORLD)]
        ranks = [context.Process(target=work, args=each, daemon=True) for each in arguments]
        for each in ranks:
            each.start()
        while len(seen) < WORLD and time.monotonic() < deadline:
            try:
                rank, *ended = results.get(timeout=0.2)
                reached.add(rank)
                seen |= {rank: ended} if ended else {}
            except queue.Empty:
                pass
            if seen or not all(each.is_alive() for each in ranks):
                # A rank that is still waiting some time after another one came to an end waits for ever.
                deadline = min(deadline, time.monotonic() + 10)
        for each in ranks:
            each.kill()
            each.join()
    if len(reached) < WORLD:
        print("Not every rank came as far as the call, so that this says nothing.", file=sys.stderr)
        sys.exit(3)
    wrong = [wrong_on(rank, *seen[rank]) if rank in seen else ["it does not come back"] for rank in range(WORLD)]
    for rank in range(WORLD):
        norm, grads, error = seen.get(rank, (None, None, None))
        print(f"rank {rank}: gradients {[given for _, _, given, _ in GRADIENTS[rank]]}, limit {LIMIT}")
        print(f"  expected {[right for _, _, _, right in GRADIENTS[rank]]}, norm {NORM}")
        print(f"  observed {grads}, norm {norm}", *(f"  WRONG: {each}" for each in wrong[rank]), sep="\n")
    sys.exit(1 if any(wrong) else 0)


if __name__ == "__main__":
    main()
