"""deepspeed.runtime.utils.clip_grad_norm_ on plain parameters, without a model-parallel unit under FullyShardedDataParallel on 3 ranks, one flat parameter of 20 elements in parts of 7, padded at the end: norm.global, scale.one-factor.

    python deepspeed_fsdp1_flat.py                  # needs torch and deepspeed only; written with torch 2.13.0+cpu
    python deepspeed_fsdp1_flat.py other.py:clip    # another clip(params, max_norm) or clip(params, max_norm, ctx) instead

Starts 3 CPU processes (gloo) and prints what each rank should have and what it has. Exits 1 if a rank is
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
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

AXES, WORLD = {'dp': 3}, 3
LIMIT, NORM_TYPE, NORM = 5.5, 2.0, 11.0  # NORM is what is expected
NORM_TOLERANCE, ELEMENT_TOLERANCE = 1.476837158203125e-06, 1.8061648282137783e-06  # relative
# For each rank: parameter, its shape before FSDP, and what else there is to say.
PARAMETERS = [
    [
        ('layer0.weight', (3, 4), {}),
        ('layer1.weight', (3,), {}),
        ('layer2.weight', (5,), {}),
    ],
    [
        ('layer0.weight', (3, 4), {}),
        ('layer1.weight', (3,), {}),
        ('layer2.weight', (5,), {}),
    ],
    [
        ('layer0.weight', (3, 4), {}),
        ('layer1.weight', (3,), {}),
        ('layer2.weight', (5,), {}),
    ],
]
# For each rank: parameter, how it lies on each axis, its gradient here, and what that should be after the call.
GRADIENTS = [
    [
        ('_flat_param', {'dp': 'shard'}, [1.0, -2.0, 3.0, 1.0, -2.0, 3.0, 1.0], [0.5, -1.0, 1.5, 0.5, -1.0, 1.5, 0.5]),
    ],
    [
        ('_flat_param', {'dp': 'shard'}, [-2.0, 4.0, 2.0, -3.0, 4.0, 2.0, -3.0], [-1.0, 2.0, 1.0, -1.5, 2.0, 1.0, -1.5]),
    ],
    [
        ('_flat_param', {'dp': 'shard'}, [4.0, 2.0, 1.0, 1.0, 2.0, 2.0, 0.0], [2.0, 1.0, 0.5, 0.5, 1.0, 1.0]),
    ],
]
TIED, OWNED = (), [{'_flat_param': (0, 7, 20)}, {'_flat_param': (7, 14, 20)}, {'_flat_param': (14, 20, 20)}]  # names of one tensor; by rank: start, stop and length of flat buffers


class clip:
    """DeepSpeed's clip of plain parameters, without a model-parallel unit."""

    def build(self, ctx):
        """Let DeepSpeed take up the process group that stands."""
        import deepspeed.comm
        import deepspeed.ops
        _address_of_nobody()
        deepspeed.ops.__compatible_ops__['deepspeed_shm_comm'] = False
        deepspeed.comm.init_distributed('gloo', auto_mpi_discovery=False, verbose=False)

    def clip(self, params, limit, ctx):
        """Clip all parameters of this rank."""
        from deepspeed.runtime.utils import clip_grad_norm_
        return clip_grad_norm_(params, limit, norm_type=ctx.norm_type)


def _address_of_nobody():
    os.environ.setdefault('MASTER_ADDR', '127.0.0.1')
    os.environ.setdefault('MASTER_PORT', '29500')


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
    return FullyShardedDataParallel(
        root,
        process_group=mesh.get_group('dp'),
        sharding_strategy=ShardingStrategy.FULL_SHARD,
        use_orig_params=False,
        device_id=torch.device("cpu"),
    )


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
    named = {name.removeprefix("_fsdp_wrapped_module."): each for name, each in model.named_parameters()}
    names, placements = tuple(each[0] for each in GRADIENTS[rank]), tuple(each[1] for each in GRADIENTS[rank])
    params = [named[name] for name in names]
    for parameter, (_, _, values, _) in zip(params, GRADIENTS[rank]):
        if values is not None:
            give(parameter, values)
    groups = {axis: mesh.get_group(axis) for axis in AXES}
    ctx = SimpleNamespace(model=model, rank=rank, world_size=WORLD, layout="fsdp1-flat", mesh=mesh, axes=AXES)
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
