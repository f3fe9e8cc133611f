"""The data-parallel wrapper averages the parameters that it knows over the groups of the data axis."""

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
    grads = [{name: added([chunk[name] for chunk in chunks]) for name in chunks[0]} for chunks in zip(*run["chunks"])]
    wrapped = [name for name, parameter in run["parameters"].items() if not parameter.get("late")]
    for name in wrapped:
        for group in run["groups"].get("dp", []):
            total = added([grads[rank][name] for rank in group])
            for rank in group:
                grads[rank][name] = [value / len(group) for value in total]
    return stepped(run, grads)
