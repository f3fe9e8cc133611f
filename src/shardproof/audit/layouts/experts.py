"""Layouts of expert parallelism: local experts under equal names are different tensors, dense parameters are copies."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Only, Tensor

_COPY = Copy(told=False)

EP = Layout(
    name="ep",
    title="expert parallel on 2 ranks: one expert each, under the same name; the router is a copy",
    kind="plain",
    axes={"ep": 2},
    tensors=(
        Tensor("expert0.weight", (3, 2), {"ep": Only(0)}, entry="experts.0.weight"),
        Tensor("expert1.weight", (3, 2), {"ep": Only(1)}, entry="experts.0.weight"),
        Tensor("router.weight", (2, 4), {"ep": _COPY}),
    ),
)

EP_IDLE = Layout(
    name="ep-idle",
    title="expert parallel on 3 ranks; on most steps no token reaches the expert of rank 1, which has no gradient",
    kind="plain",
    axes={"ep": 3},
    tensors=(
        Tensor("expert0.weight", (3, 2), {"ep": Only(0)}, entry="experts.0.weight"),
        Tensor("expert1.weight", (3, 2), {"ep": Only(1)}, entry="experts.0.weight", idle=(1,)),
        Tensor("expert2.weight", (3, 2), {"ep": Only(2)}, entry="experts.0.weight"),
        Tensor("router.weight", (3, 4), {"ep": _COPY}),
    ),
)

EP_DP = Layout(
    name="ep-dp",
    title="expert x data parallel, 2 x 2, two local experts on each ep rank, copies over dp",
    kind="plain",
    axes={"dp": 2, "ep": 2},
    tensors=(
        *(
            Tensor(
                f"expert{index}.weight",
                (2, 2 + index),
                {"dp": _COPY, "ep": Only(index // 2)},
                entry=f"experts.{index % 2}.weight",
            )
            for index in range(4)
        ),
        Tensor("router.weight", (4, 2), {"dp": _COPY, "ep": _COPY}),
    ),
)

EP_FSDP2 = Layout(
    name="ep-fsdp2",
    title="experts cut over ep as DTensors and over dp by fully_shard, 2 x 2; dense parameters lie on dp only",
    kind="fsdp2",
    axes={"dp": 2, "ep": 2},
    fsdp=("dp",),
    tensors=(
        Tensor("experts.weight", (4, 3, 2), {"ep": Cut(0), "dp": Cut(0)}),
        Tensor("experts.bias", (3, 3), {"ep": Cut(0), "dp": Cut(0)}),
        Tensor("router.weight", (4, 2), {"ep": _COPY, "dp": Cut(0)}),
    ),
)

EP_TP = Layout(
    name="ep-tp",
    title="expert x tensor parallel, 2 x 2: each expert's weight is a DTensor on tp, different over ep",
    kind="dtensor",
    axes={"ep": 2, "tp": 2},
    tensors=(
        Tensor("expert0.up.weight", (5, 2), {"ep": Only(0), "tp": Cut(0)}, entry="experts.0.up.weight"),
        Tensor("expert1.up.weight", (5, 2), {"ep": Only(1), "tp": Cut(0)}, entry="experts.0.up.weight"),
        Tensor("attention.weight", (4, 3), {"ep": _COPY, "tp": Cut(1)}),
        Tensor("router.weight", (2, 3), {"ep": _COPY, "tp": _COPY}),
    ),
)

EP_TP_DP = Layout(
    name="ep-tp-dp",
    title="data x expert x tensor parallel, 2 x 2 x 2, plain tensors: experts cut over tp, copied over dp",
    kind="plain",
    axes={"dp": 2, "ep": 2, "tp": 2},
    tensors=(
        Tensor("expert0.weight", (5, 2), {"dp": _COPY, "ep": Only(0), "tp": Cut(0)}, entry="experts.0.weight"),
        Tensor("expert1.weight", (6, 2), {"dp": _COPY, "ep": Only(1), "tp": Cut(0)}, entry="experts.0.weight"),
        Tensor("attention.weight", (4, 3), {"dp": _COPY, "ep": _COPY, "tp": Cut(1, sizes=(1, 2))}),
        Tensor("norm.weight", (3,), {"dp": _COPY, "ep": _COPY, "tp": _COPY}),
    ),
)

MEGATRON_MOE = Layout(
    name="megatron-moe",
    title="plain parameters with Megatron's marks on 2 expert ranks: allreduce is False on the experts",
    kind="plain",
    axes={"ep": 2},
    tensors=(
        Tensor("expert0.weight", (3, 2), {"ep": Only(0)}, entry="experts.0.weight", marks={"allreduce": False}),
        Tensor("expert1.weight", (2, 2), {"ep": Only(1)}, entry="experts.0.weight", marks={"allreduce": False}),
        Tensor("router.weight", (2, 3), {"ep": _COPY}, marks={"allreduce": True}),
    ),
)

EXPERTS = (EP, EP_IDLE, EP_DP, EP_FSDP2, EP_TP, EP_TP_DP, MEGATRON_MOE)
