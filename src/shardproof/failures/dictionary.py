"""The wrong implementations that can predict an audit: those whose contract has a lowering."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from shardproof.failures.lowering import Cell, Ended
from shardproof.failures.mechanism import CATALOGUE, function_of, load_catalogue
from shardproof.failures.roles import WRONG


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A wrong implementation, and how its contract is read from a layout and back.

    Attributes:
        slug: the mechanism.
        role: which of its two wrong implementations.
        contract: the contract's id.
        solve: the implementation, the same file that the page shows.
        readings: cell -> reading -> the arguments of solve; empty where the layout cannot be expressed.
        predicted: cell, what solve returned -> how the call ends on each rank.
    """

    slug: str
    role: Literal["failing", "unsuccessful"]
    contract: str
    solve: Callable[..., Any]
    readings: Callable[[Cell], Mapping[str, tuple[Any, ...]]]
    predicted: Callable[[Cell, Any], Sequence[Ended]]


def lowered(catalogue: Path = CATALOGUE) -> Iterator[Lowered]:
    """Every wrong implementation that can predict an audit, by family, slug and role; loaded in this process.

    Raises:
        InvalidValueError: a file of the catalogue cannot be read or run.
    """
    for mechanism in load_catalogue(catalogue):
        path = mechanism.contract.lowering
        if path is None:
            continue
        readings, predicted = function_of(path, "readings"), function_of(path, "predicted")
        for role in WRONG:
            solve = function_of(mechanism.folder / f"{role}.py", "solve")
            yield Lowered(mechanism.slug, role, mechanism.contract.says.id, solve, readings, predicted)
