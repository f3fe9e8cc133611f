"""Ratios on the page of performance come from the stored record."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PEERS = {"torch's clip and step": "torch", "the step alone": "step without clip", "none": "ordinary values"}


def rows_of_the_page():
    """Work, peer, and the ratios at two threads and at one, as text."""
    text = (ROOT / "docs" / "performance.md").read_text()
    table = text[text.index("| work | 2 threads |") :].split("\n\n")[0].splitlines()[2:]
    for line in table:
        title, two, _, one, _, _ = (cell.strip() for cell in line.strip("|").split("|"))
        work, _, against = title.partition(", against ")
        style = re.fullmatch(r"a (.*) loop", against)
        yield work, style[1] if style else PEERS.get(against, "torch"), two, one


def test_every_ratio_is_that_of_the_record():
    """The file that the page names, row by row; every row of the record is on the page."""
    name = re.search(r"benchmarks/results/norm_\w+[\w.]*\.json", (ROOT / "docs" / "performance.md").read_text())[0]
    record = {
        (row["work"], row["peer"], row["threads"]): f"{row['ratio']:.2f}"
        for row in json.loads((ROOT / name).read_text())["rows"]
    }
    page = {
        (work, peer, threads): ratio
        for work, peer, *ratios in rows_of_the_page()
        for threads, ratio in zip((2, 1), ratios, strict=True)
        if ratio
    }
    assert page == record


def test_the_picture_beside_a_record_shows_that_record():
    """Bars, numbers and missed targets; a changed ratio changes the picture."""
    from benchmarks.plot import svg

    records = sorted((ROOT / "benchmarks" / "results").glob("norm_*.json"))
    assert records
    for path in records:
        record = json.loads(path.read_text())
        assert path.with_suffix(".svg").read_text() == svg(record)
        record["rows"][0]["ratio"] *= 2
        assert path.with_suffix(".svg").read_text() != svg(record)
