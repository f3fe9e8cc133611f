"""As soon as one rank has left, a mean divides by the ranks that are there, whatever the rule."""


def solve(ranks, rule):
    present = [rank for rank in ranks if rank is not None]
    if not present:
        return None
    count = sum(rank["tokens"] for rank in present) if rule == "tokens" else len(present)
    return [round(sum(values) / count, 12) if count else 0.0 for values in zip(*(rank["gradient"] for rank in present))]
