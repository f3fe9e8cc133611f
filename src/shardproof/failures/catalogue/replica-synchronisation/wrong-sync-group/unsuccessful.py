"""One group of all ranks, and one average over it for every parameter, whenever it was added."""

from math import hypot, inf


def added(rows):
    return [sum(column) for column in zip(*rows)]


def stepped(run, grads):
    steps = []
    for held in grads:
        norm = hypot(*(value for values in held.values() for value in values))
        scale = min(1, run.get("limit", inf) / norm) if norm else 1
        scale *= -run["lr"] if "lr" in run else 1
        steps.append({name: [round(value * scale, 12) for value in values] for name, values in held.items()})
    return steps


def solve(run):
    ranks = [{name: added([chunk[name] for chunk in chunks]) for name in chunks[0]} for chunks in zip(*run["chunks"])]
    average = {name: [value / len(ranks) for value in added([held[name] for held in ranks])] for name in ranks[0]}
    return stepped(run, [dict(average) for _ in ranks])
