"""Ranks: real processes with gloo, started from a warm forkserver, that cannot hold the harness up."""

from shardproof.audit.ranks.cell import Outcome, kept_warm, observe_cell
from shardproof.audit.ranks.everywhere import RankResult, on_every_rank, results_on_every_rank

__all__ = ["Outcome", "RankResult", "kept_warm", "observe_cell", "on_every_rank", "results_on_every_rank"]
