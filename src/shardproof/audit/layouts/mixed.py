"""Layouts that mix: dtypes, plain tensors beside DTensors, ranks that hold nothing of some tensors."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Tensor

_COPY = Copy(told=False)

MIXED_DTYPES = Layout(
    name="mixed-dtypes",
    title="float32 and bfloat16 gradients cut over 2 ranks, and a float32 copy",
    kind="plain",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (4, 4), {"tp": Cut(0)}),
        Tensor("down.weight", (4, 3), {"tp": Cut(0, sizes=(1, 3))}, dtype="bfloat16"),
        Tensor("norm.weight", (3,), {"tp": _COPY}),
    ),
)

FSDP2_BF16 = Layout(
    name="fsdp2-bf16",
    title="fully_shard on 2 ranks, every gradient bfloat16",
    kind="fsdp2",
    axes={"dp": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("up.weight", (5, 3), {"dp": Cut(0)}, dtype="bfloat16"),
        Tensor("down.weight", (3, 4), {"dp": Cut(0)}, dtype="bfloat16"),
    ),
)

PLAIN_AND_DTENSOR = Layout(
    name="plain-and-dtensor",
    title="a DTensor cut over 2 ranks, a plain tensor cut by hand and a plain copy in one model",
    kind="dtensor",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (5, 3), {"tp": Cut(0)}),
        Tensor("gate.weight", (4, 2), {"tp": Cut(0, sizes=(1, 3), told=False)}),
        Tensor("norm.weight", (4,), {"tp": _COPY}),
    ),
)

EMPTY_SLICES = Layout(
    name="empty-slices",
    title="plain tensors cut by hand on 3 ranks; the last rank has only empty slices",
    kind="plain",
    axes={"dp": 3},
    tensors=(
        Tensor("up.weight", (4, 3), {"dp": Cut(0, sizes=(3, 1, 0))}),
        Tensor("down.weight", (5,), {"dp": Cut(0, sizes=(2, 3, 0))}),
    ),
)

SHARDS_NO_GRADIENTS = Layout(
    name="shards-no-gradients",
    title="plain tensors cut by hand on 2 ranks; on most steps rank 0's slice of one has no gradient",
    kind="plain",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (5, 3), {"tp": Cut(0, sizes=(2, 3))}, idle=(0,)),
        Tensor("down.weight", (6,), {"tp": Cut(0, sizes=(4, 2))}),
        Tensor("norm.weight", (4,), {"tp": _COPY}),
    ),
)

MIXED = (MIXED_DTYPES, FSDP2_BF16, PLAIN_AND_DTENSOR, EMPTY_SLICES, SHARDS_NO_GRADIENTS)
