"""Layouts of pipeline parallelism: different tensors under equal names, tied embeddings, several stages per rank."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Only, Tensor, Tied

_COPY = Copy(told=False)

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

PIPELINE_INTERLEAVED = Layout(
    name="pipeline-interleaved",
    title="4 pipeline stages, 2 on each of 2 ranks, numbered locally",
    kind="plain",
    axes={"pp": 2},
    tensors=(
        Tensor("stage0.weight", (3, 2), {"pp": Only(0)}, entry="chunks.0.weight"),
        Tensor("stage1.weight", (2, 4), {"pp": Only(1)}, entry="chunks.0.weight"),
        Tensor("stage2.weight", (5,), {"pp": Only(0)}, entry="chunks.1.weight"),
        Tensor("stage3.weight", (3, 3), {"pp": Only(1)}, entry="chunks.1.weight"),
    ),
)

PIPELINE_TIED = Layout(
    name="pipeline-tied",
    title="3 pipeline stages; the first and the last hold copies of one embedding under different names",
    kind="plain",
    axes={"pp": 3},
    tensors=(
        Tensor("embed", (4, 2), {"pp": Tied({0: "embed.weight", 2: "head.weight"})}),
        Tensor("stage0.layer.weight", (2, 3), {"pp": Only(0)}, entry="layer.weight"),
        Tensor("stage1.layer.weight", (3, 3), {"pp": Only(1)}, entry="layer.weight"),
        Tensor("stage2.layer.weight", (5,), {"pp": Only(2)}, entry="layer.weight"),
    ),
)

PIPELINE_V = Layout(
    name="pipeline-v",
    title="4 pipeline stages folded onto 2 ranks: both copies of the tied embedding lie on rank 0",
    kind="plain",
    axes={"pp": 2},
    tensors=(
        Tensor("embed", (4, 2), {"pp": Only(0)}, entry="first.embed.weight", twins=("last.head.weight",)),
        Tensor("stage0.weight", (3, 2), {"pp": Only(0)}, entry="first.layer.weight"),
        Tensor("stage1.weight", (3, 3), {"pp": Only(1)}, entry="first.layer.weight"),
        Tensor("stage2.weight", (6,), {"pp": Only(1)}, entry="last.layer.weight"),
        Tensor("stage3.weight", (2, 2), {"pp": Only(0)}, entry="last.layer.weight"),
    ),
)

PIPELINE_EMPTY_RANK = Layout(
    name="pipeline-empty-rank",
    title="3 pipeline ranks, of which the middle one has no parameter at all",
    kind="plain",
    axes={"pp": 3},
    tensors=(
        Tensor("stage0.layer.weight", (3, 3), {"pp": Only(0)}, entry="layer.weight"),
        Tensor("stage2.layer.weight", (2, 3), {"pp": Only(2)}, entry="layer.weight"),
        Tensor("stage2.head.weight", (6,), {"pp": Only(2)}, entry="head.weight"),
    ),
)

PIPELINE_NO_GRADIENTS = Layout(
    name="pipeline-no-gradients",
    title="3 pipeline stages; on most steps the middle rank has no gradient at all",
    kind="plain",
    axes={"pp": 3},
    tensors=(
        Tensor("stage0.layer.weight", (4, 3), {"pp": Only(0)}, entry="layer.weight"),
        Tensor("stage1.layer.weight", (2, 3), {"pp": Only(1)}, entry="layer.weight", idle=(1,)),
        Tensor("stage1.layer.bias", (3,), {"pp": Only(1)}, entry="layer.bias", idle=(1,)),
        Tensor("stage2.head.weight", (3, 2), {"pp": Only(2)}, entry="head.weight"),
    ),
)

PIPELINE_DP = Layout(
    name="pipeline-dp",
    title="3 pipeline stages x 2 data ranks, plain copies over dp",
    kind="plain",
    axes={"pp": 3, "dp": 2},
    tensors=(
        Tensor("stage0.layer.weight", (3, 3), {"pp": Only(0), "dp": _COPY}, entry="layer.weight"),
        Tensor("stage1.layer.weight", (2, 3), {"pp": Only(1), "dp": _COPY}, entry="layer.weight"),
        Tensor("stage2.layer.weight", (4, 2), {"pp": Only(2), "dp": _COPY}, entry="layer.weight"),
        Tensor("stage2.head.weight", (5,), {"pp": Only(2), "dp": _COPY}, entry="head.weight"),
    ),
)

PIPELINE_FSDP2 = Layout(
    name="pipeline-fsdp2",
    title="2 pipeline stages x fully_shard on 2 ranks: DTensors that read alike on both stages and differ",
    kind="fsdp2",
    axes={"pp": 2, "dp": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("stage0.layer.weight", (5, 2), {"pp": Only(0), "dp": Cut(0)}, entry="layer.weight"),
        Tensor("stage0.norm.weight", (3,), {"pp": Only(0), "dp": Cut(0)}, entry="norm.weight"),
        Tensor("stage1.layer.weight", (5, 2), {"pp": Only(1), "dp": Cut(0)}, entry="layer.weight"),
        Tensor("stage1.norm.weight", (3,), {"pp": Only(1), "dp": Cut(0)}, entry="norm.weight"),
    ),
)

PIPELINE_DP_TP = Layout(
    name="pipeline-dp-tp",
    title="pipeline x data x tensor parallel, 2 x 2 x 2, the embedding tied over pp and cut over tp",
    kind="dtensor",
    axes={"pp": 2, "dp": 2, "tp": 2},
    tensors=(
        Tensor("embed", (6, 2), {"pp": Tied({0: "embed.weight", 1: "head.weight"}), "dp": _COPY, "tp": Cut(0)}),
        Tensor("stage0.up.weight", (5, 3), {"pp": Only(0), "dp": _COPY, "tp": Cut(0)}, entry="up.weight"),
        Tensor("stage0.norm.weight", (3,), {"pp": Only(0), "dp": _COPY, "tp": _COPY}, entry="norm.weight"),
        Tensor("stage1.up.weight", (4, 3), {"pp": Only(1), "dp": _COPY, "tp": Cut(0)}, entry="up.weight"),
        Tensor("stage1.norm.weight", (3,), {"pp": Only(1), "dp": _COPY, "tp": _COPY}, entry="norm.weight"),
    ),
)

PIPELINES = (
    PIPELINE,
    PIPELINE_INTERLEAVED,
    PIPELINE_TIED,
    PIPELINE_V,
    PIPELINE_EMPTY_RANK,
    PIPELINE_NO_GRADIENTS,
    PIPELINE_DP,
    PIPELINE_FSDP2,
    PIPELINE_DP_TP,
)
