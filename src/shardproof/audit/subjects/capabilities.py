"""What a subject says it is made for: cells outside are skipped with the reason, and count neither way."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from shardproof.audit.layouts import Layout
from shardproof.errors import InvalidTypeError


@dataclass(frozen=True)
class Capabilities:
    """Where a subject is meant to work; None: everywhere.

    Attributes:
        layouts: patterns of layout names, as "fsdp1*".
        axes: the mesh axes that it knows; a layout with another one is outside.
        world_sizes: numbers of ranks.
        dtypes: gradient dtypes, as "float32".
        norm_types: orders of the norm, as 2.0 or inf.
    """

    layouts: tuple[str, ...] | None = None
    axes: tuple[str, ...] | None = None
    world_sizes: tuple[int, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    norm_types: tuple[float, ...] | None = None


EVERYWHERE: Final = Capabilities()


def declared(subject: object) -> Capabilities:
    """A subject's `capabilities`: a Capabilities, or a mapping of its fields; everywhere where it has none.

    >>> declared(None)
    Capabilities(layouts=None, axes=None, world_sizes=None, dtypes=None, norm_types=None)

    Raises InvalidTypeError for anything else.
    """
    said = getattr(subject, "capabilities", None)
    if said is None:
        return EVERYWHERE
    if isinstance(said, Capabilities):
        return said
    known = [field.name for field in fields(Capabilities)]
    if not isinstance(said, Mapping) or not set(said) <= set(known):
        raise InvalidTypeError(
            f"Expected capabilities to be a mapping with keys out of {', '.join(known)}, got capabilities={said!r} "
            f"({type(said).__name__})."
        )
    return Capabilities(**{name: None if listed is None else _listed(name, listed) for name, listed in said.items()})


def outside(capabilities: Capabilities, layout: Layout, norm_type: float = 2.0) -> str | None:
    """Why a cell is outside of what a subject is made for; None where it is inside."""
    patterns = capabilities.layouts
    if patterns is not None and not any(fnmatch.fnmatchcase(layout.name, pattern) for pattern in patterns):
        return f"made for the layouts {_shown(patterns)} only"
    dtypes = sorted({tensor.dtype for tensor in layout.tensors if not tensor.frozen})
    asked: tuple[tuple[str, tuple[object, ...] | None, Iterable[object]], ...] = (
        ("axes", capabilities.axes, layout.axes),
        ("world sizes", capabilities.world_sizes, (layout.world_size,)),
        ("dtypes", capabilities.dtypes, dtypes),
        ("norm orders", capabilities.norm_types, (norm_type,)),
    )
    for what, known, needed in asked:
        if known is not None and (missing := [each for each in needed if each not in known]):
            return f"made for the {what} {_shown(known)} only, not {_shown(missing)}"
    return None


def _listed(name: str, listed: Any) -> tuple[Any, ...]:
    if isinstance(listed, (str, bytes)) or not isinstance(listed, Iterable):
        raise InvalidTypeError(
            f"Expected capabilities to list its {name}, got {name}={listed!r} ({type(listed).__name__})."
        )
    return tuple(math.inf if name == "norm_types" and each == "inf" else each for each in listed)


def _shown(values: Iterable[object]) -> str:
    return ", ".join(f"{each:g}" if isinstance(each, float) else str(each) for each in values) or "(none)"
