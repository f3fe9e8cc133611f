"""Experts are averaged over all data ranks, as dense weights are: each rank brings the expert that it holds."""


def average(rows, count):
    return [round(sum(column) / count, 12) for column in zip(*rows)]


def solve(run):
    held = [row for rows in run["experts"].values() for row in rows]
    return {
        "experts": {name: average(held, run["data"]) for name in run["experts"]},
        "dense": {name: average(rows, run["data"]) for name, rows in run["dense"].items()},
    }
