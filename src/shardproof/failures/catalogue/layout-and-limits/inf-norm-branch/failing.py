"""Power, sum and root for every order."""


def digits(number):
    return float(f"{number:.11e}")


def solve(shards, order, limit):
    order = float(order)
    total = 0.0
    for shard in shards:
        total += sum(abs(value) ** order for value in shard)
    norm = total ** (1 / order)
    return {"norm": digits(norm), "factor": digits(limit / norm if norm > limit else 1.0)}
