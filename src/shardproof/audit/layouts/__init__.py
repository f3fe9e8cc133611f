"""The layouts, defined once: the audit runs them, and the library's tests use them too.

A description (`describe`, `first`) needs no framework; `build` makes the real objects on a rank.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from shardproof.audit.layouts.describe import (
    Copy,
    Cut,
    Layout,
    Lie,
    Only,
    Share,
    Tensor,
    coordinates,
    held,
    kind_of,
    shares,
)
from shardproof.audit.layouts.first import FIRST
from shardproof.errors import InvalidValueError

LAYOUTS: Final = MappingProxyType({layout.name: layout for layout in FIRST})
"""Every layout by name, in the order in which an audit runs them."""


def named(names: Sequence[str] = ()) -> tuple[Layout, ...]:
    """The layouts with these names, in the registry's order; all of them for no names.

    Raises InvalidValueError for an unknown name.

    >>> [layout.world_size for layout in named(["fsdp2-tp"])]
    [4]
    """
    unknown = [name for name in names if name not in LAYOUTS]
    if unknown:
        raise InvalidValueError(f"Expected layouts out of {', '.join(LAYOUTS)}, got {unknown}.")
    return tuple(layout for name, layout in LAYOUTS.items() if not names or name in names)


__all__ = [
    "LAYOUTS",
    "Copy",
    "Cut",
    "Layout",
    "Lie",
    "Only",
    "Share",
    "Tensor",
    "coordinates",
    "held",
    "kind_of",
    "named",
    "shares",
]
