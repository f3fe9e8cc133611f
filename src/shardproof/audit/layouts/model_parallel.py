"""Layouts of tensor, sequence and context parallelism, alone and under fully_shard, and Megatron's marks."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Only, Tensor, Tied

_COPY = Copy(told=False)

HAND_SHARDED = Layout(
    name="hand-sharded",
    title="plain tensors cut by hand over 2 ranks, unevenly, and one copied tensor",
    kind="plain",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (5, 3), {"tp": Cut(0, sizes=(4, 1))}),
        Tensor("down.weight", (2, 6), {"tp": Cut(1, sizes=(2, 4))}),
        Tensor("norm.weight", (3,), {"tp": _COPY}),
    ),
)

TP = Layout(
    name="tp",
    title="tensor parallel on 2 ranks: weights cut by column and row, a bias that is a copy, all DTensors",
    kind="dtensor",
    axes={"tp": 2},
    tensors=(
        Tensor("up.weight", (5, 3), {"tp": Cut(0)}),
        Tensor("up.bias", (5,), {"tp": Cut(0)}),
        Tensor("down.weight", (3, 5), {"tp": Cut(1)}),
        Tensor("down.bias", (3,), {"tp": Copy()}),
    ),
)

SP = Layout(
    name="sp",
    title="sequence parallel on 2 ranks: LayerNorms are plain tensors and copies, their gradients already reduced",
    kind="dtensor",
    axes={"tp": 2},
    tensors=(
        Tensor("norm.weight", (4,), {"tp": _COPY}),
        Tensor("norm.bias", (4,), {"tp": _COPY}),
        Tensor("up.weight", (6, 4), {"tp": Cut(0)}),
        Tensor("down.weight", (4, 6), {"tp": Cut(1)}),
    ),
)

CP = Layout(
    name="cp",
    title="context parallel on 2 ranks: plain copies, reduced over cp",
    kind="plain",
    axes={"cp": 2},
    tensors=(Tensor("qkv.weight", (6, 2), {"cp": _COPY}), Tensor("out.weight", (2, 3), {"cp": _COPY})),
)

CP_TP = Layout(
    name="cp-tp",
    title="context x tensor parallel, 2 x 2: DTensors on tp only, copies over cp, which they do not know of",
    kind="dtensor",
    axes={"cp": 2, "tp": 2},
    tensors=(
        Tensor("qkv.weight", (6, 2), {"cp": _COPY, "tp": Cut(0)}),
        Tensor("out.weight", (2, 5), {"cp": _COPY, "tp": Cut(1)}),
        Tensor("out.bias", (2,), {"cp": _COPY, "tp": Copy()}),
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
        Tensor("norm.weight", (4,), {"tp": _COPY, "dp": Cut(0)}),
        Tensor("norm.bias", (4,), {"tp": _COPY, "dp": Cut(0)}),
    ),
)

FSDP2_TP_MESHES = Layout(
    name="fsdp2-tp-meshes",
    title="2 x 2, one model on four meshes: dp x tp, dp, tp (fully_shard ignores it) and none (a plain copy)",
    kind="fsdp2",
    axes={"dp": 2, "tp": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("up.weight", (5, 4), {"tp": Cut(0), "dp": Cut(0)}),
        Tensor("norm.weight", (3,), {"tp": _COPY, "dp": Cut(0)}),
        Tensor("router.weight", (4, 3), {"tp": Cut(1), "dp": _COPY}),
        Tensor("scale", (2,), {"tp": _COPY, "dp": _COPY}),
    ),
)

HSDP_TP = Layout(
    name="hsdp-tp",
    title="HSDP x tensor parallel, 2 x 2 x 2, uneven: copies over dp_replicate, cut over dp_shard and tp",
    kind="fsdp2",
    axes={"dp_replicate": 2, "dp_shard": 2, "tp": 2},
    fsdp=("dp_replicate", "dp_shard"),
    tensors=(
        Tensor("up.weight", (7, 2), {"tp": Cut(0), "dp_replicate": Copy(), "dp_shard": Cut(0)}),
        Tensor("down.weight", (3, 6), {"tp": Cut(1), "dp_replicate": Copy(), "dp_shard": Cut(0)}),
        Tensor("norm.weight", (3,), {"tp": _COPY, "dp_replicate": Copy(), "dp_shard": Cut(0)}),
    ),
)

MEGATRON = Layout(
    name="megatron",
    title="plain parameters with Megatron's marks, pipeline x tensor parallel, 2 x 2, an embedding on both stages",
    kind="plain",
    axes={"pp": 2, "tp": 2},
    tensors=(
        Tensor(
            "embedding",
            (6, 2),
            {"pp": Tied({0: "embedding.weight", 1: "output.weight"}), "tp": Cut(0)},
            marks={"tensor_model_parallel": True, "partition_dim": 0},
        ),
        *(
            tensor
            for stage in range(2)
            for tensor in (
                Tensor(
                    f"stage{stage}.up.weight",
                    (4 + 2 * stage, 3),
                    {"pp": Only(stage), "tp": Cut(0)},
                    entry="up.weight",
                    marks={"tensor_model_parallel": True, "partition_dim": 0},
                ),
                Tensor(
                    f"stage{stage}.norm.weight",
                    (3,),
                    {"pp": Only(stage), "tp": _COPY},
                    entry="norm.weight",
                    marks={"tensor_model_parallel": False, "sequence_parallel": True},
                ),
            )
        ),
    ),
)

BY_HAND = (HAND_SHARDED,)
TENSOR = (TP, SP, CP, CP_TP, MEGATRON)
UNDER_FSDP2 = (FSDP2_TP, FSDP2_TP_MESHES, HSDP_TP)
