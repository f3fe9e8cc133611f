"""The same gradients on 1, 2, 3, 4 and 8 real ranks, cut in every way: the same bits of norm and clipped elements."""

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import global_norm

pytestmark = pytest.mark.processes

# At most 256 elements each: a parameter's value is the flat index of its element, which bfloat16 still holds exactly,
# so what torch put onto a rank is read from the shard and need not be believed.
SHAPES = {"a": (16, 16), "b": (7, 5), "c": (3,), "d": (1,), "e": (12, 20), "f": (2, 3, 40)}
DTYPES = {"float32": torch.int32, "bfloat16": torch.int16}
LIMIT = 0.5


def gradient(name, dtype):
    """Flat values with scales that differ from block to block, zeros, and a few tiny ones."""
    generator = torch.Generator().manual_seed(sum(map(ord, name)))
    count = torch.Size(SHAPES[name]).numel()
    scales = torch.exp2(torch.randint(-14, 0, (-(-count // 9),), generator=generator)).repeat_interleave(9)[:count]
    values = torch.randn(count, generator=generator) * scales
    values[::17] = 0.0
    values[5::29] *= 2.0**-40
    return values.to(getattr(torch, dtype))


def module(dtype, names=SHAPES):
    made = torch.nn.Module()
    for name in names:
        shape = torch.Size(SHAPES[name])
        values = torch.arange(shape.numel(), dtype=getattr(torch, dtype)).reshape(shape)
        made.register_parameter(name, torch.nn.Parameter(values))
    return made


def local(tensor):
    plain = tensor.detach()
    return plain.to_local() if hasattr(plain, "to_local") else plain


def set_gradients(named, dtype):
    from torch.distributed.tensor import DTensor

    for name, each in named:
        part = gradient(name, dtype)[local(each).flatten().long()].reshape(local(each).shape)
        if isinstance(each, DTensor):
            part = DTensor.from_local(
                part, each.device_mesh, each.placements, run_check=False, shape=each.shape, stride=each.stride()
            )
        each.grad = part


# ---- layouts: each gives what is passed as parameters, the (name, parameter) pairs, and the layout's words


def alone(dtype):
    made = module(dtype)
    return made, list(made.named_parameters()), {}


def copies(dtype):
    from torch.nn.parallel import DistributedDataParallel

    made = DistributedDataParallel(module(dtype))
    return made, list(made.module.named_parameters()), {}


def fsdp2(dtype, *sizes):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    made = module(dtype)
    fully_shard(made, mesh=init_device_mesh("cpu", sizes, mesh_dim_names=("replicas", "shards")[-len(sizes) :]))
    return made, list(made.named_parameters()), {}


def tensor_parallel(dtype, *sizes):
    """Rows, columns, inner dims and copies by turns; with two sizes the first axis has copies of it all."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp")[-len(sizes) :])
    pairs = []
    for index, (name, each) in enumerate(module(dtype).named_parameters()):
        kind = Replicate() if index == 1 else Shard(each.dim() - 1 - index % 2 if each.dim() > 1 else 0)
        placements = [Replicate()] * (len(sizes) - 1) + [kind]
        pairs.append((name, torch.nn.Parameter(distribute_tensor(each.detach(), mesh, placements))))
    return pairs, pairs, {}


def tensor_parallel_fsdp2(dtype, *sizes):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh, made = init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp")), module(dtype)
    for index, (name, each) in enumerate(list(made.named_parameters())):
        kind = Replicate() if index == 2 else Shard(index % each.dim())
        made.register_parameter(name, torch.nn.Parameter(distribute_tensor(each.detach(), mesh["tp"], [kind])))
    fully_shard(made, mesh=mesh["dp"])
    return made, list(made.named_parameters()), {"mesh": mesh}


def stages(dtype):
    """Pipeline stages: every tensor on one rank; with more ranks than tensors some have none."""
    import torch.distributed as dist

    names = list(SHAPES)[dist.get_rank() :: dist.get_world_size()]
    made = module(dtype, names)
    return made, list(made.named_parameters()), {"placements": {"*": "distinct"}}


def flat_ranges(dtype):
    """Uneven pieces of every flattened tensor, as a distributed optimizer holds them."""
    import torch.distributed as dist

    rank, ranks, pairs, owned = dist.get_rank(), dist.get_world_size(), [], {}
    for name, each in module(dtype).named_parameters():
        count = each.numel()
        start, stop = (count * place * place // ranks**2 for place in (rank, rank + 1))
        pairs.append((name, torch.nn.Parameter(each.detach().flatten()[start:stop].clone())))
        owned[name] = (start, stop, count)
    return pairs, pairs, {"owned": owned, "placements": {"*": "shard"}}


LAYOUTS = {
    1: [(alone, ())],
    2: [(copies, ()), (fsdp2, (2,)), (tensor_parallel, (2,)), (stages, ()), (flat_ranges, ())],
    3: [(fsdp2, (3,)), (tensor_parallel, (3,)), (stages, ()), (flat_ranges, ())],
    4: [
        (fsdp2, (4,)),
        (fsdp2, (2, 2)),
        (tensor_parallel, (4,)),
        (tensor_parallel, (2, 2)),
        (tensor_parallel_fsdp2, (2, 2)),
        (stages, ()),
        (flat_ranges, ()),
    ],
    8: [
        (fsdp2, (8,)),
        (fsdp2, (2, 4)),
        (fsdp2, (4, 2)),
        (tensor_parallel, (8,)),
        (tensor_parallel, (2, 4)),
        (tensor_parallel_fsdp2, (4, 2)),
        (tensor_parallel_fsdp2, (2, 4)),
        (stages, ()),
        (flat_ranges, ()),
    ],
}


def clipped(rank, world):
    """For each layout and dtype: the norm's bits, the bits of every local element by index, a naive sum of squares."""
    from shardproof.torch import clip_grad_norm_

    found = []
    for make, sizes in LAYOUTS[world]:
        for number, dtype in enumerate(DTYPES):
            parameters, pairs, said = make(dtype, *sizes)
            set_gradients(pairs, dtype)
            naive = sum(float(local(each.grad).square().sum()) for _, each in pairs)
            torch.set_num_threads(1 + (rank + number) % 3)
            norm = clip_grad_norm_(parameters, LIMIT, **said)
            bits = {
                name: (local(each).flatten().tolist(), local(each.grad).flatten().view(DTYPES[dtype]).tolist())
                for name, each in pairs
            }
            found.append((f"{make.__name__}{sizes} {dtype}", dtype, float(norm).hex(), bits, naive))
    return found


def oracle(dtype):
    """The norm by exact fractions, and for each element float64(g) x factor rounded once, as bit patterns."""
    values = {name: gradient(name, dtype) for name in SHAPES}
    norm = global_norm([each.tolist() for each in values.values()])
    assert norm > LIMIT
    return norm.hex(), {
        name: [nearest(value, dtype) for value in (each.double() * (LIMIT / norm)).tolist()]
        for name, each in values.items()
    }


def nearest(value, dtype):
    """The pattern of the nearest number of a dtype, ties to even; conversion by torch may round twice, one off."""
    pattern = int(torch.tensor(value, dtype=getattr(torch, dtype)).view(DTYPES[dtype]))
    if value == 0.0:
        return pattern
    near = [pattern - 1, pattern, pattern + 1]
    values = torch.tensor(near, dtype=DTYPES[dtype]).view(getattr(torch, dtype)).double().tolist()
    return min(zip(near, values, strict=True), key=lambda pair: (abs(pair[1] - value), pair[0] & 1))[0]


@pytest.fixture(scope="module")
def expected():
    return {dtype: oracle(dtype) for dtype in DTYPES}


@pytest.mark.parametrize("world", LAYOUTS)
def test_every_layout_gives_the_same_bits(world, expected):
    """FSDP2, HSDP, TP, both, PP, copies and flat ranges; every element of the model is met, each with its bits."""
    ranks = on_ranks(world, clipped, world)
    naive = set()
    for told in zip(*ranks, strict=True):
        (label,), (dtype,) = {each[0] for each in told}, {each[1] for each in told}
        norm, patterns = expected[dtype]
        met = {name: set() for name in SHAPES}
        for _, _, found, bits, _ in told:
            assert found == norm, label
            for name, (indices, elements) in bits.items():
                assert elements == [patterns[name][int(index)] for index in indices], (label, name)
                met[name].update(map(int, indices))
        assert {name: len(each) for name, each in met.items()} == {
            name: torch.Size(shape).numel() for name, shape in SHAPES.items()
        }, label
        if "fsdp2(" in label or "stages" in label or "flat" in label:
            naive.add((dtype, sum(each[4] for each in told)))
    if world == 4:
        # The comparison has teeth: sums of float32 squares depend on the cut.
        assert len(naive) > 2 * len(DTYPES)
