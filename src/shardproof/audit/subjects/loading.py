"""Loading a subject on a rank: imported, made where it is a class, and called with what it takes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from shardproof.audit.subjects.built_in import BUILT_IN
from shardproof.audit.subjects.capabilities import EVERYWHERE, Capabilities, declared
from shardproof.audit.subjects.find import CONTROL, JAX, Clip, adapted, find
from shardproof.errors import InvalidTypeError


@dataclass(frozen=True)
class Loaded:
    """A subject on a rank: its clip, what it is made for, and what is to be called once before the first call."""

    clip: Clip
    capabilities: Capabilities = EVERYWHERE
    build: Callable[[Any], object] | None = None
    whole: bool = False
    """Of a jax subject: called inside jax.jit on whole arrays, rather than inside shard_map on each device's slices."""


def load(spec: str, dtypes: Iterable[str] = ()) -> Loaded:
    """Import the subject, on a rank.

    What a subject compiles for gradients of `dtypes` belongs here, into its import: nobody waits in a
    collective yet, and the time allowed is that of an import.
    """
    if spec == CONTROL:
        from shardproof.audit import control

        return Loaded(control.clip)
    if spec == "shardproof":
        from shardproof.sums.kernels import Format, best_kernel, prepare

        for dtype in dtypes:
            prepare(best_kernel(), Format(dtype))
    if spec in BUILT_IN:
        subject = loaded(find(BUILT_IN[spec].clip))
        return replace(subject, capabilities=BUILT_IN[spec].capabilities)
    return loaded(find(spec.removeprefix(JAX)))


def loaded(found: Any) -> Loaded:
    """A callable, or an engine: an object (or a class, called without arguments) with `clip`.

    An engine may have `capabilities`, and `build(ctx)`, called once on every rank before the first call.

    Raises InvalidTypeError for what is neither.
    """
    engine = found() if inspect.isclass(found) and hasattr(found, "clip") else found
    clip = getattr(engine, "clip", None)
    if not callable(clip):
        if not callable(found):
            raise InvalidTypeError(
                f"Expected a callable, or an object with a method `clip`, got {found!r} ({type(found).__name__})."
            )
        return Loaded(adapted(found), declared(found))
    build = getattr(engine, "build", None)
    whole = bool(getattr(engine, "whole", False))
    return Loaded(adapted(clip), declared(engine), build if callable(build) else None, whole)
