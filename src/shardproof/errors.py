"""What shardproof raises: one base error and a few children that are also the built-in errors users expect."""

from __future__ import annotations


class ShardproofError(Exception):
    """Base of every error that shardproof raises on purpose."""


class InvalidValueError(ShardproofError, ValueError):
    """A value has the right type and the wrong content: a negative limit, a NaN, a malformed file."""


class InvalidTypeError(ShardproofError, TypeError):
    """A value has the wrong type: a bool where a number is expected, a shard that is not a sequence."""


class PlacementError(ShardproofError, ValueError):
    """How a tensor lies on the ranks is unknown, contradictory or not covered; says what to pass."""


class DisagreementError(ShardproofError, RuntimeError):
    """Ranks called with different limits, options or plans; gradients are untouched."""


class UnequalCopiesError(ShardproofError, RuntimeError):
    """Slices that should be equal on several ranks are not; gradients are untouched."""


class ParticipationError(ShardproofError, RuntimeError):
    """A rank did not take part in a collective: it died, hung or never called."""


class NonFiniteGradientError(ShardproofError, RuntimeError):
    """The total norm is NaN or infinite and the caller asked for an error."""
