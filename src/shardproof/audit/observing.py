"""Reading, on a rank, what a call did: the gradients after it, and whether its return value is a number.

The objects looked at are the subject's. Whatever they do when touched becomes a fact, not an exception.
"""

from __future__ import annotations

import traceback
from typing import Any

from shardproof.audit.layouts.build import Entry, local
from shardproof.records.audit import Returned, Slice

_LONGEST_TEXT = 2000

Before = list[tuple[Any, tuple[float, ...], str]]
"""Each entry's gradient object, the values of its elements, and its form; none where there is no gradient."""


def seen_before(entries: tuple[Entry, ...]) -> Before:
    """Each entry's gradient object and the values of its elements, before the call."""
    return [
        (grad, () if grad is None else _values(grad)[: len(entry.indices)], _form(grad))
        for entry, grad in _gradients(entries)
    ]


def seen_after(entries: tuple[Entry, ...], before: Before) -> list[Slice]:
    """Each entry's gradient after the call, beside what it was."""
    return [_slice(entry, *earlier) for entry, earlier in zip(entries, before, strict=True)]


def described(value: Any) -> Returned:
    """What can be said of a return value without a collective."""
    name = type(value).__name__
    if value is None or isinstance(value, (bool, str, bytes)) or not hasattr(type(value), "__float__"):
        return Returned(type=name, problem=f"{name} is not a number")
    try:
        placements = storable(str(value.placements)) if hasattr(type(value), "full_tensor") else None
    except Exception as error:
        return Returned(type=name, problem=f"its placements raise {summary(error)}")
    try:
        return Returned(type=name, number=float(value), placements=placements)
    except BaseException as error:
        return Returned(type=name, problem=f"float() raises {summary(error)}", placements=placements)


def resolved(value: Any, seen: Returned) -> Returned:
    """The same for a DTensor, with what its full_tensor() gives; collective."""
    try:
        return seen.model_copy(update={"full": float(value.full_tensor())})
    except Exception as error:
        return seen.model_copy(update={"full_problem": summary(error)})


def summary(error: BaseException) -> str:
    """An exception in one or two lines, whatever its own text does."""
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be read)"
    return storable(f"{type(error).__name__}: {text}".strip()[:_LONGEST_TEXT])


def last_lines(error: BaseException, lines: int = 6) -> str:
    """The last lines of an exception's traceback."""
    try:
        text = "".join(traceback.format_exception(error)).rstrip()
    except BaseException:
        return summary(error)
    return storable("\n".join(text.splitlines()[-lines:])[-_LONGEST_TEXT:])


def storable(text: str) -> str:
    """The text with what no encoding holds, as a lone surrogate, as an escape: a record is stored as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _gradients(entries: tuple[Entry, ...]) -> list[tuple[Entry, Any]]:
    return [(entry, entry.parameter.grad) for entry in entries]


def _slice(entry: Entry, grad_before: Any, values_before: tuple[float, ...], form_before: str) -> Slice:
    grad = entry.parameter.grad
    seen = Slice(before=values_before, after=None, kind=type(grad).__name__, same_object=grad is grad_before)
    if grad is None:
        # No gradient where there was none is as it should be; it counts as zero.
        return seen if grad_before is None else seen.model_copy(update={"problem": "the gradient is gone"})
    try:
        values, form = _values(grad), _form(grad)
    except Exception as error:
        return seen.model_copy(update={"problem": summary(error)})
    count = len(entry.indices)
    if len(values) != count + entry.padding:
        problem = f"{len(values)} values where there were {count + entry.padding}"
        return seen.model_copy(update={"problem": problem})
    if grad_before is not None and form != form_before:
        # Its optimizer would refuse it, or read it by another layout.
        return seen.model_copy(update={"problem": f"the gradient was {form_before}, and is {form}"})
    return seen.model_copy(update={"after": values[:count], "padding": values[count:]})


def _form(grad: Any) -> str:
    return "" if grad is None else f"{str(grad.dtype).removeprefix('torch.')} of shape {tuple(grad.shape)}"


def _values(grad: Any) -> tuple[float, ...]:
    return tuple(float(value) for value in local(grad).flatten().tolist())
