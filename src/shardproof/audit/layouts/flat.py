"""Layouts of flat buffers, as ZeRO-1/2 and Megatron's distributed optimizer keep them: ranges with padding behind."""

from __future__ import annotations

from shardproof.audit.layouts.describe import Copy, Cut, Layout, Tensor

ZERO_FLAT = Layout(
    name="zero-flat",
    title="a flat buffer of 11 elements on 2 ranks, padded to 6 each; old values lie in the padding",
    kind="plain",
    axes={"dp": 2},
    tensors=(Tensor("flat", (11,), {"dp": Cut(0, sizes=(6, 5))}, padded=6, stale=9.0),),
)

ZERO_FLAT_UNEVEN = Layout(
    name="zero-flat-uneven",
    title="two flat buffers on 4 ranks, ranges of uneven length; one rank owns nothing but padding",
    kind="plain",
    axes={"dp": 4},
    tensors=(
        Tensor("flat.decay", (13,), {"dp": Cut(0, sizes=(5, 5, 3, 0))}, padded=5, stale=7.0),
        Tensor("flat.no_decay", (7,), {"dp": Cut(0, sizes=(1, 3, 1, 2))}, padded=4, stale=-8.0),
    ),
)

ZERO_FLAT_REPLICAS = Layout(
    name="zero-flat-replicas",
    title="a flat buffer cut over 2 ranks and copied over 2 nodes; old values lie in the padding",
    kind="plain",
    axes={"node": 2, "dp": 2},
    tensors=(
        Tensor("flat", (9,), {"node": Copy(told=False), "dp": Cut(0, sizes=(5, 4))}, padded=6, stale=9.0),
        Tensor("scale", (3,), {"node": Copy(told=False), "dp": Copy(told=False)}),
    ),
)

FLAT = (ZERO_FLAT, ZERO_FLAT_UNEVEN, ZERO_FLAT_REPLICAS)
