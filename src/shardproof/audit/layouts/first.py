"""The first layouts: each a few lines; what they catch is in their titles."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Only, Tensor

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
        Tensor("up.weight", (4, 3), {"dp": Copy(told=False)}),
        Tensor("up.bias", (4,), {"dp": Copy(told=False)}),
        Tensor("down.weight", (2, 4), {"dp": Copy(told=False)}),
    ),
)

HAND_SHARDED = Layout(
    name="hand-sharded",
    title="plain tensors cut by hand over 2 ranks, unevenly, and one copied tensor",
    kind="plain",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (5, 3), {"tp": Cut(0, sizes=(4, 1))}),
        Tensor("down.weight", (2, 6), {"tp": Cut(1, sizes=(2, 4))}),
        Tensor("norm.weight", (3,), {"tp": Copy(told=False)}),
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

FSDP2_TP = Layout(
    name="fsdp2-tp",
    title="fully_shard over tensor parallel, 2 x 2; the LayerNorm lies on the dp mesh only and is a copy over tp",
    kind="fsdp2",
    axes={"dp": 2, "tp": 2},
    fsdp=("dp",),
    tensors=(
        # tp cuts first, then fully_shard cuts what is left, also where both cut the same dim.
        Tensor("up.weight", (5, 4), {"tp": Cut(0), "dp": Cut(0)}),
        Tensor("down.weight", (4, 6), {"tp": Cut(1), "dp": Cut(0)}),
        Tensor("down.bias", (4,), {"tp": Copy(), "dp": Cut(0)}),
        Tensor("norm.weight", (4,), {"tp": Copy(told=False), "dp": Cut(0)}),
        Tensor("norm.bias", (4,), {"tp": Copy(told=False), "dp": Cut(0)}),
    ),
)

PIPELINE = Layout(
    name="pipeline",
    title="2 pipeline stages of uneven size whose parameters have the same local names",
    kind="plain",
    axes={"pp": 2},
    tensors=(
        Tensor("stage0.layer.weight", (3, 3), {"pp": Only(0)}, entry="layer.weight"),
        Tensor("stage0.layer.bias", (3,), {"pp": Only(0)}, entry="layer.bias"),
        Tensor("stage1.layer.weight", (2, 3), {"pp": Only(1)}, entry="layer.weight"),
        Tensor("stage1.head.weight", (5,), {"pp": Only(1)}, entry="head.weight"),
    ),
)

FIRST = (ONE_RANK, DDP, HAND_SHARDED, FSDP2, HSDP, FSDP2_TP, PIPELINE)
