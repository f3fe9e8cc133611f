"""Every parameter is averaged over the ranks of the group that reduces it."""


def average(rows):
    return [round(sum(column) / len(rows), 12) for column in zip(*rows)]


def solve(run):
    return {kind: {name: average(rows) for name, rows in run[kind].items()} for kind in ("experts", "dense")}
