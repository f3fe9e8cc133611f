"""Gradient clipping by the true global norm under every sharding, and the proof that a stack does it.

`import shardproof` needs the standard library only; frameworks live in `shardproof.torch`.
"""

from shardproof.clip import clip_factor, clip_shards, global_norm
from shardproof.errors import (
    DisagreementError,
    InvalidTypeError,
    InvalidValueError,
    NonFiniteGradientError,
    ParticipationError,
    PlacementError,
    ShardproofError,
    UnequalCopiesError,
)

__version__ = "0.1.0"

__all__ = [
    "DisagreementError",
    "InvalidTypeError",
    "InvalidValueError",
    "NonFiniteGradientError",
    "ParticipationError",
    "PlacementError",
    "ShardproofError",
    "UnequalCopiesError",
    "clip_factor",
    "clip_shards",
    "global_norm",
]
