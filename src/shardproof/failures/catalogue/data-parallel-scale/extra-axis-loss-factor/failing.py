"""Losses are taken as the code gives them: multiplied by some axes, or detached; the divisor is the data axis."""

from math import prod


def combined(run, term):
    repeats = prod(size for axis, size in run["axes"].items() if term["lies"][axis] != "sum")
    divisor = repeats * term.get("divide", 1)
    return [sum(column) / divisor for column in zip(*term["parts"])]


def solve(run):
    terms = {}
    for name, term in run["terms"].items():
        multiplier = 0 if term.get("detached") else prod(run["axes"][axis] for axis in term["multiplied"])
        terms[name] = [value * multiplier for value in combined(run, term)]
    grad = [round(sum(column), 12) for column in zip(*terms.values())]
    return {"terms": {name: [round(value, 12) for value in values] for name, values in terms.items()}, "grad": grad}
