"""The loss code multiplies by the sizes of some axes; the divisor is that of the data axis alone."""

from math import prod


        factor = prod(run["axes"][axis] for axis in term["multiplied"])
        terms[name] = [value * factor for value in combined(run, term)]
    grad = [round(sum(column), 12) for column in zip(*terms.values())]
    return {"terms": {name: [round(value, 12) for value in values] for name, values in terms.items()}, "grad": grad}
