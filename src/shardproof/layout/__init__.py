"""How tensors lie on ranks, and who counts what; knows no framework."""

from shardproof.layout.coverage import FIELD, Claim, claim
from shardproof.layout.mesh import Mesh, crossed, line
from shardproof.layout.ownership import Gap, Holders, Share, claims, gaps, holders_of, prove, share
from shardproof.layout.placement import Placement, placement
from shardproof.layout.slices import Interval, Slice, chunk
from shardproof.layout.tensors import Identity, Listed

__all__ = [
    "FIELD",
    "Claim",
    "Gap",
    "Holders",
    "Identity",
    "Interval",
    "Listed",
    "Mesh",
    "Placement",
    "Share",
    "Slice",
    "chunk",
    "claim",
    "claims",
    "crossed",
    "gaps",
    "holders_of",
    "line",
    "placement",
    "prove",
    "share",
]
