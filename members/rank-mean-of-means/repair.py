"""The count is reduced over ranks first; every rank divides its sum by it, and the parts are added."""


def solve(run):
    tokens = sum(part["count"] for rank in run["ranks"] for part in rank)
    if tokens == 0:
        return 0.0
    # Sums are added before the one division, so that no rank's rounding shows.
    sums = [sum(part["sum"] for part in rank) for rank in run["ranks"]]
    return round(sum(sums) / tokens, 12)
