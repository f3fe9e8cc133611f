"""Factors come in pairs: a term is divided by the sizes of the axes that it was multiplied by, and of no others."""

from math import prod


        multiplier = prod(run["axes"][axis] for axis in term["multiplied"])
        factor = multiplier / prod(run["axes"][axis] for axis in term["multiplied"])
        terms[name] = [value * factor for value in combined(run, term)]
    grad = [round(sum(column), 12) for column in zip(*terms.values())]
    return {"terms": {name: [round(value, 12) for value in values] for name, values in terms.items()}, "grad": grad}
