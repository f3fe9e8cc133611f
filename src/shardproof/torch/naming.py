"""From what a caller passes to named tensors, and from patterns to what they say of each tensor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from shardproof.errors import InvalidTypeError, PlacementError
from shardproof.layout import Placement, placement

Parameters: TypeAlias = nn.Module | Tensor | Iterable[Tensor] | Iterable[tuple[str, Tensor]]
Placements: TypeAlias = Mapping[str | Tensor, Mapping[str, str] | str] | str
Groups: TypeAlias = Mapping[str, Sequence[str | Tensor]]


@dataclass(frozen=True)
class Named:
    """Tensors under names, each tensor once; `by_caller` says whether the names are the caller's."""

    tensors: tuple[tuple[str, Tensor], ...]
    by_caller: bool


def named(parameters: Parameters) -> Named:
    """Give every tensor one name: a module's own, the pair's, or `[index]` in an unnamed list.

    A tensor that is listed twice is kept once, under its first name.

    Raises InvalidTypeError for anything else, InvalidValueError for one name with two tensors.
    """
    if isinstance(parameters, nn.Module):
        return Named(tuple(parameters.named_parameters()), by_caller=True)
    if isinstance(parameters, Tensor):
        return Named((("[0]", parameters),), by_caller=False)
    if isinstance(parameters, (str, bytes, Mapping)) or not isinstance(parameters, Iterable):
        raise InvalidTypeError(_expected("parameters", parameters))
    listed = list(parameters)
    by_caller = bool(listed) and all(_is_pair(item) for item in listed)
    pairs = listed if by_caller else [(f"[{index}]", item) for index, item in enumerate(listed)]
    for name, tensor in pairs:
        if not isinstance(tensor, Tensor):
            raise InvalidTypeError(_expected(f"parameters{name}", tensor))
    return Named(_once(pairs), by_caller)


def _is_pair(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _once(pairs: Iterable[tuple[str, Tensor]]) -> tuple[tuple[str, Tensor], ...]:
    seen: dict[int, str] = {}
    names: dict[str, Tensor] = {}
    for name, tensor in pairs:
        if id(tensor) in seen:
            continue
        if name in names:
            raise PlacementError(
                f"Expected different names for different tensors, got {name!r} twice on this rank. "
                "Give each tensor its own name; equal names on different ranks are told apart by placements."
            )
        seen[id(tensor)], names[name] = name, tensor
    return tuple(names.items())


def _expected(what: str, value: object) -> str:
    return (
        f"Expected {what} to be a module, a tensor, or an iterable of tensors or (name, tensor) pairs, "
        f"got {type(value).__name__}."
    )


class Exactly(str):
    """A name that stands for itself, whatever pattern characters it has: a tensor key, without the tensor."""


def without_tensors(said: Any, listed: Named) -> Any:
    """Replace tensors among keys and members by their exact names, so that nothing keeps a model alive.

    A tensor that is not listed stays, to be refused where all ranks hear of it.
    """
    if isinstance(said, Tensor):
        return next((Exactly(name) for name, tensor in listed.tensors if tensor is said), said)
    if isinstance(said, Mapping):
        return {without_tensors(key, listed): without_tensors(value, listed) for key, value in said.items()}
    return [without_tensors(each, listed) for each in said] if isinstance(said, (list, tuple)) else said


def matches(name: str, key: str) -> bool:
    """Whether a pattern, or an exact name, means this name; "layers[0].weight" means itself too."""
    return name == key or (not isinstance(key, Exactly) and fnmatchcase(name, key))


@dataclass(frozen=True)
class Rules:
    """What a caller says of placements: patterns (or tensors) in order, each with axis -> placement.

    The axis "*" stands for every axis.
    """

    rules: tuple[tuple[str, tuple[tuple[str, Placement], ...]], ...] = ()

    def of(self, name: str, axes: Sequence[str]) -> dict[str, Placement]:
        """Axis by axis, what the first matching rule says; axes that no rule names are absent."""
        found: dict[str, Placement] = {}
        for key, says in self.rules:
            if matches(name, key):
                for axis, kind in says:
                    for each in axes if axis == "*" else (axis,):
                        found.setdefault(each, kind)
        return {axis: kind for axis, kind in found.items() if axis in axes}


def rules(placements: Placements | None, listed: Named, known: frozenset[str]) -> Rules:
    """Read `placements`; refuse unknown axes, unknown words, and tensors as keys that are not listed.

    `known` holds every axis name that some tensor or the mesh has.
    """
    if placements is None:
        return Rules()
    if isinstance(placements, str):
        placements = {"*": placements}
    if not isinstance(placements, Mapping):
        raise InvalidTypeError(
            'Expected placements to be a mapping such as {"*.experts.*": {"ep": "distinct"}} or one word, '
            f"got {placements!r} ({type(placements).__name__})."
        )
    return Rules(tuple((_key(key, listed), _says(key, says, known)) for key, says in placements.items()))


def _key(key: object, listed: Named) -> str:
    if isinstance(key, Tensor):
        raise PlacementError(
            f"Expected the tensors in placements to be among the parameters; one of shape {tuple(key.shape)} is not."
        )
    if not isinstance(key, str):
        raise InvalidTypeError(
            f"Expected patterns or tensors as keys of placements, got {key!r} ({type(key).__name__})."
        )
    if not listed.by_caller and key != "*" and listed.tensors and not isinstance(key, Exactly):
        raise PlacementError(
            f'The tensors were passed without names, so placements can name them only by "*" or by the tensor '
            f"itself, not by {key!r}. Pass a module or (name, tensor) pairs to use patterns."
        )
    return key


def _says(key: object, says: object, known: frozenset[str]) -> tuple[tuple[str, Placement], ...]:
    label = key if isinstance(key, str) else "a tensor"
    if isinstance(says, str):
        return (("*", placement(says, f"{label}, every axis")),)
    if not isinstance(says, Mapping):
        raise InvalidTypeError(
            f"Expected placements[{label!r}] to map axes to words, or one word for every axis, "
            f"got {says!r} ({type(says).__name__})."
        )
    unknown = [axis for axis in says if axis not in known]
    if unknown:
        raise PlacementError(
            f"placements[{label!r}] names the axis {unknown[0]!r}, which neither the mesh nor any tensor has; "
            f"known axes: {', '.join(sorted(known)) or 'none (pass mesh=)'}."
        )
    return tuple((axis, placement(word, f"{label}, axis {axis}")) for axis, word in says.items())


@cache
def _dtensor() -> type | None:
    """DTensor's class; None where torch is built without distributed. Asked once: this runs for every tensor."""
    if not torch.distributed.is_available():
        return None
    from torch.distributed.tensor import DTensor

    return DTensor


def is_dtensor(tensor: object) -> bool:
    """Whether `tensor` is a DTensor."""
    # A Parameter that wraps a DTensor has DTensor's type, so these two are plain; most tensors end here.
    if type(tensor) is Tensor or type(tensor) is nn.Parameter:
        return False
    return isinstance(tensor, _dtensor() or ())


def group_of(name: str, groups: Groups | None) -> str:
    """The caller's group of a tensor: the first that names it, by pattern or as the tensor itself; "" without groups.

    Raises PlacementError when groups are given and none of them has the tensor.
    """
    if groups is None:
        return ""
    for group, members in groups.items():
        if isinstance(members, str) or not isinstance(members, Iterable):
            raise InvalidTypeError(
                f"Expected groups[{group!r}] to be a list of patterns or tensors, got {members!r} "
                f"({type(members).__name__})."
            )
        if any(isinstance(each, str) and matches(name, each) for each in members):
            return group
    raise PlacementError(
        f'{name} is in none of the groups {list(groups)}, so no limit would hold for it. Add it, or a last group ["*"].'
    )
