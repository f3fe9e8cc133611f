"""Who counts what, for people and for tools."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from shardproof.torch.catalog import Catalog

DECLARED = "declared, not proved"


@dataclass(frozen=True)
class Row:
    """One tensor as this rank lists it.

    `placements`: axis -> placement, for axes of more than one rank. `owner`: the rank that counts this rank's slice.
    `copies`: all ranks that hold the same slice. `coverage`: "proved", or "declared, not proved" where some
    rank's slice of the tensor is unknown.
    """

    name: str
    shape: tuple[int, ...] | None
    placements: dict[str, str]
    owner: int
    copies: tuple[int, ...]
    coverage: str


@dataclass(frozen=True)
class Description:
    """What a plan counts on this rank; `str()` gives a table, `json()` the same for tools.

    `unmatched`: patterns of placements and groups that match no tensor of any rank, where a slip would show.
    """

    rank: int
    ranks: int
    rows: tuple[Row, ...]
    accumulate: str = "exact"
    unmatched: tuple[str, ...] = ()

    def json(self) -> str:
        """The description as JSON text."""
        return json.dumps(asdict(self), allow_nan=False)

    def __str__(self) -> str:
        titles = ("tensor", "global shape", "placement", "counted by", "copies on", "coverage")
        cells = [titles, *(_cells(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(titles))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells
        ]
        if self.unmatched:
            lines.append(f"no tensor of any rank matches {', '.join(self.unmatched)}")
        return "\n".join([f"rank {self.rank} of {self.ranks}{_ADDED[self.accumulate]}", *lines])


_ADDED = {"exact": "", "native": "; norms by torch's own reductions, whose last bits depend on the layout"}


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        "unknown" if row.shape is None else "x".join(map(str, row.shape)) or "scalar",
        ", ".join(f"{axis}: {kind}" for axis, kind in row.placements.items()) or "one rank",
        f"rank {row.owner}",
        _spans(row.copies) if len(row.copies) > 1 else "none",
        row.coverage,
    )


def _spans(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks[:8])) + (f" and {len(ranks) - 8} more" if len(ranks) > 8 else "")


def describe(found: Catalog, accumulate: str = "exact", unmatched: tuple[str, ...] = ()) -> Description:
    """Describe this rank's part of a catalog."""
    rows = []
    for each, part in zip(found.reads, found.shares, strict=True):
        listed = each.listed
        axes = zip(listed.mesh.axes, listed.mesh.sizes, listed.placements, strict=True)
        coverage = DECLARED if listed.identity(found.here.rank) in found.unproved else "proved"
        said = {axis: kind.value for axis, size, kind in axes if size > 1}
        rows.append(Row(listed.name, listed.shape, said, part.owner, part.copies, coverage))
    return Description(found.here.rank, found.here.size, tuple(rows), accumulate, unmatched)
