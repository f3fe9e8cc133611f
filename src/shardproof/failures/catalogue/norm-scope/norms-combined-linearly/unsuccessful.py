"""Every rank takes the norm of what it holds, and all ranks use the largest of these norms."""


def norm_of(values, order):
    sizes = [abs(value) for value in values]
    if order == float("inf"):
        return max(sizes, default=0)
    return sum(size**order for size in sizes) ** (1 / order)


def solve(parts, order, limit, reduce):
    held = [[value for values in rank for value in values] for rank in zip(*(part["ranks"] for part in parts))]
    norm = max((norm_of(values, order) for values in held), default=0)
    factor = min(1, limit / norm) if norm else 1
    return {"norm": round(norm, 12), "factor": round(factor, 12)}
