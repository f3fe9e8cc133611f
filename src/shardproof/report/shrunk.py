"""A shrunk failure in a few lines: what each rank holds as nested lists, the right and the observed result."""

from __future__ import annotations

from collections.abc import Sequence

from shardproof.records.findings import SmallestCase
from shardproof.records.shrunk import Shrunk

Row = tuple[float, ...]


def shrunk_text(shrunk: Shrunk) -> str:
    """The failure as text. Numbers have seven digits, or all where seven hide the difference."""
    layout = shrunk.layout
    axes = " x ".join(f"{axis} {size}" for axis, size in layout.axes.items()) or "no mesh"
    ranks, tensors = _count(layout.world_size, "rank"), _count(len(layout.tensors), "tensor")
    lines = [
        f"{shrunk.cell}: {shrunk.word} ({', '.join(shrunk.clauses)})",
        f"{ranks} ({axes}, {shrunk.kind}), {tensors}; {shrunk.tries} tries, {shrunk.seconds:g} s",
        *(f"rank {rank.rank} holds {', '.join(rank.names) or 'nothing'}" for rank in shrunk.ranks),
        *shrunk_lines(shrunk),
    ]
    return "\n".join([*lines, *(f"Note: {note}." for note in shrunk.notes)])


def shrunk_lines(shrunk: Shrunk | SmallestCase) -> tuple[str, ...]:
    """What the ranks hold, what is right, and what was observed; then what ranks raised."""
    held = [(rank.given, rank.right, rank.observed) for rank in shrunk.ranks]
    digits = 7 if any(_told(right, 7) != _told(seen, 7) for _, right, seen in held) else 17
    given, right, seen = (_nested([_told(each[place], digits) for each in held]) for place in range(3))
    errors = [f"rank {rank.rank}: {rank.error.splitlines()[0]}" for rank in shrunk.ranks if rank.error]
    return (
        f"shards   {given}, limit {_number(shrunk.limit, digits)}",
        f"right    {right}, norm {_number(shrunk.norm, digits)}",
        f"observed {seen}, {_norms(shrunk, digits)}",
        *errors,
    )


def _norms(shrunk: Shrunk | SmallestCase, digits: int) -> str:
    norms = [_number(rank.norm, digits) if rank.norm is not None else "none" for rank in shrunk.ranks]
    return f"norm {norms[0]}" if len(set(norms)) == 1 else f"norms {', '.join(norms)}"


def _told(rows: Sequence[Row | None], digits: int) -> list[str]:
    return ["none" if row is None else f"[{', '.join(_number(each, digits) for each in row)}]" for row in rows]


def _nested(ranks: Sequence[Sequence[str]]) -> str:
    """One list for each rank; in it one for each tensor, where a rank holds other than one."""
    if all(len(rows) == 1 for rows in ranks):
        return f"[{', '.join(rows[0] for rows in ranks)}]"
    return f"[{', '.join('[' + ', '.join(rows) + ']' for rows in ranks)}]"


def _number(value: float, digits: int) -> str:
    return repr(float(f"{value:.{digits}g}"))


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
