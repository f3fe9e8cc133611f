"""One flag for each rank from all its values, and the logical or of the flags decides everywhere."""

import math


def digits(number):
    return float(f"{number:.11e}")


def solve(ranks, limit, scale, dtype):
    flags = [any(not math.isfinite(value) for value in values) for values in ranks]
    everything = [value for values in ranks for value in values]
    if any(flags):
        norm = math.nan if any(math.isnan(value) for value in everything) else math.inf
        return [{"skip": True, "scale": scale / 2, "norm": norm, "values": values} for values in ranks]
    norm = math.hypot(*everything)
    factor = 1.0 if norm <= limit else limit / norm
    return [
        {"skip": False, "scale": scale, "norm": digits(norm), "values": [digits(value * factor) for value in values]}
        for values in ranks
    ]
