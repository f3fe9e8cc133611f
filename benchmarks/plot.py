"""The rows of a benchmark record as an SVG picture: our time as a part of the peer's, and the target, by threads.

python -m benchmarks.plot benchmarks/results/norm_2cores_torch2.13.0.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

LEFT, WIDTH, LINE, TOP = 400, 420, 22, 64
LONGEST = 2.0
"""The ratio at the right edge; longer bars are cut there and their number says more."""

HELD, MISSED, NONE = "#2f6f4f", "#b3382c", "#6b7280"


def svg(record: Mapping[str, Any]) -> str:
    """Draw a record of `benchmarks.norm`."""
    rows: Sequence[Mapping[str, Any]] = record["rows"]
    height = TOP + LINE * len(rows) + 16
    machine, missed = record["machine"], sum(map(is_missed, rows))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 80}" height="{height}" '
        f'viewBox="0 0 {LEFT + WIDTH + 80} {height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{text(12, 20, 'Time of shardproof / time of its peer: shorter is faster', size=15)}\n"
    )
    about = (
        f"{machine['processor']}, {machine['cores']} cores, torch {machine['torch']}, {record['date']}, medians of "
        f"{record['rounds']} rounds; targets missed: {missed} of {sum(row['target'] is not None for row in rows)}"
    )
    body = "\n".join(line for number, row in enumerate(rows) for line in drawn(row, TOP + LINE * number))
    return f"{head}{text(12, 40, about)}\n{body}\n{ruler(height)}\n</svg>\n"


def is_missed(row: Mapping[str, Any]) -> bool:
    """Whether the row has a target and is slower."""
    return row["target"] is not None and row["ratio"] > row["target"]


def drawn(row: Mapping[str, Any], top: float) -> Iterator[str]:
    """Title, bar, number and target of one row."""
    colour = NONE if row["target"] is None else MISSED if is_missed(row) else HELD
    against = "" if row["peer"] == "torch" else f" against {row['peer']}"
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    length = place(row["ratio"]) - LEFT
    yield text(LEFT - 8, top + 15, f"{row['work']}{against}, {threads}", anchor="end")
    yield f'<rect x="{LEFT}" y="{top + 4}" width="{length:.1f}" height="{LINE - 8}" fill="{colour}"/>'
    said = f"{row['ratio']:.2f}" + (f" (target {row['target']:g}: missed)" if is_missed(row) else "")
    inside = length > 200
    x, fill, anchor = (LEFT + length - 6, "#ffffff", "end") if inside else (LEFT + length + 6, "#111827", "start")
    yield text(x, top + 15, said, anchor=anchor, fill=fill)
    if row["target"] is not None:
        at = place(row["target"])
        yield f'<path d="M{at:.1f} {top + 1}v{LINE - 2}" stroke="#111827" stroke-width="2"/>'


def ruler(height: int) -> str:
    """A line where both take the same time."""
    at = place(1.0)
    label = text(at, TOP - 6, "same time", anchor="middle")
    return f'{label}\n<path d="M{at:.1f} {TOP}V{height - 12}" stroke="#9ca3af" stroke-dasharray="4 3"/>'


def place(ratio: float) -> float:
    """Where a ratio lies from left to right."""
    return LEFT + WIDTH * min(ratio, LONGEST) / LONGEST


def text(x: float, y: float, said: str, *, anchor: str = "start", fill: str = "#111827", size: int = 12) -> str:
    """One line of text."""
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
    return f'<text {where} fill="{fill}">{escape(said)}</text>'


def write_plot(record: Path) -> Path:
    """Draw the record and write the picture beside it; return its path."""
    target = record.with_suffix(".svg")
    target.write_text(svg(json.loads(record.read_text(encoding="utf-8"))), encoding="utf-8")
    return target


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(write_plot(Path(name)))
