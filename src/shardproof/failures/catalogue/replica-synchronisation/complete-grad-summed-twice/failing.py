"""To be safe, every replicated parameter is reduced over all of its axes at the end of each chunk."""

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


def reduced(parameters, axes, grads):
    for name, parameter in parameters.items():
        for axis, groups in axes.items():
            rule = parameter["over"][axis]
            for group in groups if rule != "split" else []:
                total = added([grads[rank][name] for rank in group])
                for rank in group:
                    grads[rank][name] = [value / len(group) for value in total] if rule == "mean" else list(total)


def solve(run):
    grads = [{name: [0] * len(values) for name, values in held.items()} for held in run["chunks"][0]]
    for chunk in run["chunks"]:
        for held, new in zip(grads, chunk):
            for name in held:
                held[name] = added([held[name], new[name]])
        reduced(run["parameters"], run["groups"], grads)
    return stepped(run, grads)
