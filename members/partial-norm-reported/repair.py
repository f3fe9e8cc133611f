"""Every element of every logical tensor counts once, wherever it lies; one norm and one factor for all ranks."""

import math


def owners(ranks):
    """Element of a logical tensor -> its gradient; a copy, wherever it lies, says the same again."""
    gradient = {}
    for held in (piece for rank in ranks for piece in rank["pieces"]):
        for element, value in zip(held["elements"], held["values"]):
            gradient.setdefault((held["tensor"], element), value)
    return gradient


def solve(run):
    norm, limit = math.hypot(*owners(run["ranks"]).values()), run["limit"]
    # Multiplied before it is divided: one rounding fewer than with a factor.
    numerator, denominator = (limit, norm) if norm > limit else (1, 1)

    def scaled(held):
        return [round(value * numerator / denominator, 12) for value in held["values"]]

    return [{"norm": round(norm, 12), "values": list(map(scaled, rank["pieces"]))} for rank in run["ranks"]]
