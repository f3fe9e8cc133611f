"""The layouts, defined once: the audit runs them, and the library's tests use them too.

A description (`describe`, and the files that hold layouts) needs no framework; `build` makes the real objects.
"""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Final

from shardproof.audit.layouts.data_parallel import COPIED, FLATTENED, SHARDED
from shardproof.audit.layouts.describe import (
    Copy,
    Cut,
    Layout,
    Lie,
    Only,
    Share,
    Tensor,
    Tied,
    coordinates,
    held,
    kind_of,
    shares,
    tied,
    told,
)
from shardproof.audit.layouts.experts import EXPERTS
from shardproof.audit.layouts.flat import FLAT
from shardproof.audit.layouts.mixed import MIXED
from shardproof.audit.layouts.model_parallel import BY_HAND, TENSOR, UNDER_FSDP2
from shardproof.audit.layouts.pipeline import PIPELINES
from shardproof.errors import InvalidValueError

_ALL = (*COPIED, *BY_HAND, *SHARDED, *FLATTENED, *TENSOR, *UNDER_FSDP2, *PIPELINES, *EXPERTS, *FLAT, *MIXED)

LAYOUTS: Final = MappingProxyType({layout.name: layout for layout in _ALL})
"""Every layout by name, in the order in which an audit runs them."""

DEMO: Final = ("one-rank", "ddp", "hand-sharded", "fsdp2", "hsdp", "fsdp2-tp", "pipeline")
"""The layouts of `make demo`: one of each kind that people know."""

QUICK: Final = (*DEMO, "fsdp1-flat", "fsdp2-tp-meshes", "pipeline-tied", "ep-dp", "zero-flat", "mixed-dtypes")
"""The layouts of `shardproof audit run --quick`: each finds a mistake that the others here do not."""


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
    "DEMO",
    "LAYOUTS",
    "QUICK",
    "Copy",
    "Cut",
    "Layout",
    "Lie",
    "Only",
    "Share",
    "Tensor",
    "Tied",
    "coordinates",
    "held",
    "kind_of",
    "named",
    "shares",
    "tied",
    "told",
]
