"""A mean divides by the number of ranks that the run started with, as an averaging all-reduce does."""


def solve(ranks, rule):
    present = [rank for rank in ranks if rank is not None]
    if not present:
        return None
    count = len(ranks)
    if rule == "tokens":
        count = sum(rank["tokens"] for rank in present)
    if count == 0:
        return None
    return [round(sum(values) / count, 12) for values in zip(*(rank["gradient"] for rank in present))]
