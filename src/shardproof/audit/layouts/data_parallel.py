"""Layouts of data parallelism: copies (DDP), shards (FSDP2), both (HSDP), and FSDP1's flat buffers."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Tensor

_COPY = Copy(told=False)

ONE_RANK = Layout(
    name="one-rank",
    title="one rank, no mesh",
    kind="plain",
    axes={},
    tensors=(Tensor("up.weight", (4, 3)), Tensor("up.bias", (4,)), Tensor("down.weight", (2, 4))),
)

DDP = Layout(
    name="ddp",
    title="DistributedDataParallel, 2 ranks: every gradient is a copy",
    kind="ddp",
    axes={"dp": 2},
    tensors=(
        Tensor("up.weight", (4, 3), {"dp": _COPY}),
        Tensor("up.bias", (4,), {"dp": _COPY}),
        Tensor("down.weight", (2, 4), {"dp": _COPY}),
    ),
)

DDP_4 = Layout(
    name="ddp-4",
    title="DistributedDataParallel, 4 ranks, with a frozen parameter and one parameter under two names",
    kind="ddp",
    axes={"dp": 4},
    tensors=(
        Tensor("embed.weight", (5, 2), {"dp": _COPY}, aliases=("head.weight",)),
        Tensor("pos.weight", (3, 2), {"dp": _COPY}, frozen=True),
        Tensor("layer.weight", (3, 3), {"dp": _COPY}),
    ),
)

FSDP2 = Layout(
    name="fsdp2",
    title="fully_shard on 2 ranks, 5 rows, and a parameter smaller than the mesh",
    kind="fsdp2",
    axes={"dp": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("up.weight", (5, 3), {"dp": Cut(0)}),
        Tensor("up.bias", (5,), {"dp": Cut(0)}),
        Tensor("scale", (1,), {"dp": Cut(0)}),
    ),
)

FSDP2_UNEVEN = Layout(
    name="fsdp2-uneven",
    title="fully_shard on 3 ranks, 7 and 4 rows: slices of 3, 3, 1 and 2, 2, 0",
    kind="fsdp2",
    axes={"dp": 3},
    fsdp=("dp",),
    tensors=(
        Tensor("up.weight", (7, 2), {"dp": Cut(0)}),
        Tensor("up.bias", (7,), {"dp": Cut(0)}),
        Tensor("down.weight", (4, 3), {"dp": Cut(0)}),
    ),
)

FSDP2_SMALL = Layout(
    name="fsdp2-small",
    title="fully_shard on 4 ranks of parameters with fewer rows than ranks: the last rank holds almost nothing",
    kind="fsdp2",
    axes={"dp": 4},
    fsdp=("dp",),
    tensors=(
        Tensor("up.weight", (3, 4), {"dp": Cut(0)}),
        Tensor("scale", (1,), {"dp": Cut(0)}),
        Tensor("shift", (2,), {"dp": Cut(0)}),
        Tensor("down.weight", (5, 2), {"dp": Cut(0)}),
    ),
)

FSDP2_FROZEN = Layout(
    name="fsdp2-frozen",
    title="fully_shard on 2 ranks, the large base weight frozen, two adapters trained",
    kind="fsdp2",
    axes={"dp": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("base.weight", (6, 4), {"dp": Cut(0)}, frozen=True),
        Tensor("adapter.a", (3, 4), {"dp": Cut(0)}),
        Tensor("adapter.b", (6, 2), {"dp": Cut(0)}),
    ),
)

HSDP = Layout(
    name="hsdp",
    title="fully_shard on a 2 x 2 mesh: cut over dp_shard, copied over dp_replicate",
    kind="fsdp2",
    axes={"dp_replicate": 2, "dp_shard": 2},
    fsdp=("dp_replicate", "dp_shard"),
    tensors=(
        Tensor("up.weight", (5, 3), {"dp_replicate": Copy(), "dp_shard": Cut(0)}),
        Tensor("up.bias", (5,), {"dp_replicate": Copy(), "dp_shard": Cut(0)}),
        Tensor("scale", (1,), {"dp_replicate": Copy(), "dp_shard": Cut(0)}),
    ),
)

# The sizes of FSDP1's slices: the parameters lie one behind the other in a flat buffer of 32 that is cut in equal
# parts. Lengths are multiples of 4, so that no version of torch aligns them by padding in between.
FSDP1 = Layout(
    name="fsdp1",
    title="FullyShardedDataParallel on 2 ranks, original parameters: the cut goes through one, others are empty",
    kind="fsdp1",
    axes={"dp": 2},
    strategy="FULL_SHARD",
    tensors=(
        Tensor("up.weight", (20,), {"dp": Cut(0, sizes=(16, 4))}),
        Tensor("up.bias", (4,), {"dp": Cut(0, sizes=(0, 4))}),
        Tensor("down.weight", (8,), {"dp": Cut(0, sizes=(0, 8))}),
    ),
)

FSDP1_FLAT = Layout(
    name="fsdp1-flat",
    title="FullyShardedDataParallel on 3 ranks, one flat parameter of 20 elements in parts of 7, padded at the end",
    kind="fsdp1",
    axes={"dp": 3},
    strategy="FULL_SHARD",
    original=((3, 4), (3,), (5,)),
    tensors=(Tensor("_flat_param", (20,), {"dp": Cut(0)}, padded=7),),
)

FSDP1_NO_SHARD = Layout(
    name="fsdp1-no-shard",
    title="FullyShardedDataParallel on 2 ranks with NO_SHARD: every gradient is a copy",
    kind="fsdp1",
    axes={"dp": 2},
    strategy="NO_SHARD",
    tensors=(Tensor("up.weight", (12,), {"dp": _COPY}), Tensor("up.bias", (4,), {"dp": _COPY})),
)

FSDP1_HYBRID = Layout(
    name="fsdp1-hybrid",
    title="FullyShardedDataParallel on 2 x 2 ranks with HYBRID_SHARD: cut over dp_shard, copied over dp_replicate",
    kind="fsdp1",
    axes={"dp_replicate": 2, "dp_shard": 2},
    strategy="HYBRID_SHARD",
    tensors=(
        Tensor("up.weight", (12,), {"dp_replicate": _COPY, "dp_shard": Cut(0, sizes=(8, 4))}),
        Tensor("up.bias", (4,), {"dp_replicate": _COPY, "dp_shard": Cut(0, sizes=(0, 4))}),
    ),
)

COPIED = (ONE_RANK, DDP, DDP_4)
SHARDED = (FSDP2, FSDP2_UNEVEN, FSDP2_SMALL, FSDP2_FROZEN, HSDP)
FLATTENED = (FSDP1, FSDP1_FLAT, FSDP1_NO_SHARD, FSDP1_HYBRID)
