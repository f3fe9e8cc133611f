"""A complete gradient is left alone but for its bypassing positions; one reduction, after the last chunk."""

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


def combined(rule, rows, own, bypass):
    total = added(rows)
    if rule == "sum":
        return total
    if rule == "mean":
        return [value / len(rows) for value in total]
    if rule == "complete":
        return [total[i] if i in bypass else value for i, value in enumerate(own)]
    return own


def solve(run):
    grads = [{name: added([chunk[name] for chunk in chunks]) for name in chunks[0]} for chunks in zip(*run["chunks"])]
    for name, parameter in run["parameters"].items():
        if not parameter["over"].keys() >= run["groups"].keys():
            raise ValueError(f"Expected a rule for each axis, got {name}: {parameter['over']}.")
        for axis, groups in run["groups"].items():
            bypass = parameter.get("bypass", {}).get(axis, [])
            for group in groups:
                rows = [grads[rank][name] for rank in group]
                for rank in group:
                    grads[rank][name] = combined(parameter["over"][axis], rows, grads[rank][name], bypass)
    return stepped(run, grads)
