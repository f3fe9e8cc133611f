"""The divisor now covers every extra axis, whether or not a term is multiplied by its size."""

from math import prod


        factor = prod(run["axes"][axis] for axis in term["multiplied"])
        factor /= prod(size for axis, size in run["axes"].items() if axis != "dp")
        terms[name] = [value * factor for value in combined(run, term)]
    grad = [round(sum(column), 12) for column in zip(*terms.values())]
    return {"terms": {name: [round(value, 12) for value in values] for name, values in terms.items()}, "grad": grad}
