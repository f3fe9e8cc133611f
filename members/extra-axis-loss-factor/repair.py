"""Factors come in pairs: a term is divided by the sizes of the axes that it was multiplied by, and of no others."""

from math import prod


def combined(run, term):
    repeats = prod(size for axis, size in run["axes"].items() if term["lies"][axis] != "sum")
    divisor = repeats * term.get("divide", 1)
    return [sum(column) / divisor for column in zip(*term["parts"])]


def solve(run):
    terms = {}
    for name, term in run["terms"].items():
        paired = [run["axes"][axis] for axis in term["multiplied"]]
        loss = [value * prod(paired) for value in combined(run, term)]
        terms[name] = [value / prod(paired) for value in loss]
    grad = [round(sum(column), 12) for column in zip(*terms.values())]
    return {"terms": {name: [round(value, 12) for value in values] for name, values in terms.items()}, "grad": grad}
