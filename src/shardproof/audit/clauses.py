"""The clauses of the contract that an audit grades, and what a correct call may differ by."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from shardproof.audit.orders import norm_of_order
from shardproof.clip import clip_factor
from shardproof.records.audit import FixturePlan, LayoutPlan, Profile

CALLS_RETURN: Final = "calls.return"
NORM_GLOBAL: Final = "norm.global"
NORM_SAME: Final = "norm.same-on-ranks"
NORM_NUMBER: Final = "norm.plain-number"
SCALE_FACTOR: Final = "scale.one-factor"
SCALE_UNDER: Final = "scale.under-limit"
COPIES: Final = "copies.equal"
ZERO_NORM: Final = "zero.gradient"
ZERO_LIMIT: Final = "zero.limit"
BITS_NORM: Final = "bits.norm"
BITS_ELEMENTS: Final = "bits.elements"
BITS_UNDER: Final = "bits.under-limit"
BITS_LAYOUTS: Final = "bits.across-layouts"
RANGE: Final = "range.extreme"
LIMIT_DOMAIN: Final = "limit.domain"
NON_FINITE: Final = "non-finite.policy"

CLAUSES: Final = MappingProxyType(
    {
        CALLS_RETURN: "every call returns on every rank, whatever that rank holds: no exception, no hang, no crash",
        NORM_GLOBAL: "the norm is the global norm: every logical element once, on every rank",
        NORM_SAME: "the norm is the same on every rank",
        NORM_NUMBER: "what is returned can be used as a plain number: float() gives the norm",
        SCALE_FACTOR: "above the limit every slice is scaled by the one factor limit / norm",
        SCALE_UNDER: "at or under the limit the values stay as they are",
        COPIES: "copies of a slice stay equal, bit by bit, on all ranks that hold it",
        ZERO_NORM: "a zero gradient gives norm zero and stays zero and finite",
        ZERO_LIMIT: "a limit of zero gives zero gradients",
        BITS_NORM: "the norm is the float64 nearest to the root of the exact sum of squares",
        BITS_ELEMENTS: "each clipped element is float64(gradient) x limit / norm, rounded once to its dtype",
        BITS_UNDER: "at or under the limit nothing is written: every bit stays",
        BITS_LAYOUTS: "the same gradients give the same bits of the norm under every layout",
        RANGE: "gradients whose squares leave the range of float32 give the exact norm, and are scaled by it",
        LIMIT_DOMAIN: "a limit that is negative or NaN is refused on every rank and gradients stay; inf is no limit",
        NON_FINITE: "a gradient that is not finite, on whichever rank, is reported on every rank; gradients stay",
    }
)

STRICT: Final = frozenset(
    {ZERO_LIMIT, BITS_NORM, BITS_ELEMENTS, BITS_UNDER, BITS_LAYOUTS, RANGE, LIMIT_DOMAIN, NON_FINITE}
)


def profile_of(clause: str) -> Profile:
    """The profile that a clause belongs to: core decides, strict is reported apart.

    >>> profile_of("norm.global"), profile_of("bits.norm")
    ('core', 'strict')
    """
    return "strict" if clause in STRICT else "core"


EPSILON: Final = 1e-6
"""The epsilon that torch adds to the norm before it divides; correct libraries do so, and core admits it."""

# Unit roundoff: half the distance between 1 and the next number.
_ROUNDOFF: Final = MappingProxyType(
    {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
)


@dataclass(frozen=True)
class Expected:
    """What the contract demands for one call; tolerances are relative."""

    norm: float
    factor: float
    norm_tolerance: float
    element_tolerance: float


def expected(layout: LayoutPlan, fixture: FixturePlan) -> Expected:
    """Derive norm, factor and tolerances for one call from the logical gradients."""
    norm = norm_of_order([value for row in fixture.gradients.values() for value in row], fixture.norm_type)
    norm_tolerance, element_tolerance = tolerances(layout, norm)
    return Expected(norm, clip_factor(norm, fixture.limit), norm_tolerance, element_tolerance)


def tolerances(layout: LayoutPlan, norm: float) -> tuple[float, float]:
    """What norm and elements may differ by, relative, where the norm is `norm`.

    norm: with u the unit roundoff of the coarsest gradient dtype, t tensors and w ranks: the fixture's squares
    and their sums are exact, so each tensor's norm carries one rounding (u); adding t + w squared norms in any
    order and taking the root adds at most (t + w + 2) / 2 more. 1e-6 + (t + w + 4) u covers this, and the
    norm's own rounding to the dtype.

    element: the norm's tolerance, for it is divided by; epsilon / norm; and 4 u for the quotient, its rounding
    to the dtype, the product and its rounding.
    """
    roundoff = max((_ROUNDOFF[tensor.dtype] for tensor in layout.tensors), default=0.0)
    norm_tolerance = EPSILON + (len(layout.tensors) + layout.world_size + 4) * roundoff
    return norm_tolerance, norm_tolerance + (EPSILON / norm if norm else 0.0) + 4 * roundoff


def tolerances_in_words() -> tuple[str, ...]:
    """How the tolerances are derived, for every report."""
    return (
        "norm: relative 1e-6 + (tensors + ranks + 4) u, u the unit roundoff of the coarsest gradient dtype; "
        "the fixtures' sums of squares are exact, so only roots, their sums and casts round",
        "elements: the norm's tolerance + 1e-6 / norm (an epsilon of up to 1e-6 beside the norm) + 4 u",
        "copies: none; a limit of zero and a zero gradient: none",
    )
