"""The reduction runs after the last pass, for what that pass used; whatever is missing is filled with zeros."""

from math import hypot


def ended(run, grads):
    present = [value for values in grads.values() if values is not None for value in values]
    result = {"grads": grads, "norm": round(hypot(*present), 12)}
    if "lr" in run:
        lr, decay = run["lr"], run["decay"]
        result["weights"] = {
            name: list(old)
            if grads[name] is None
            else [round(w - lr * (g + decay * w), 12) for w, g in zip(old, grads[name])]
            for name, old in run["weights"].items()
        }
    return result


def solve(run):
    last = run["micro_batches"][-1]
    ranks = [{} for _ in last]
    for name in last[0]:
        width = max(len(held[name] or []) for batch in run["micro_batches"] for held in batch) or 1
        local = [
            [sum(column) for column in zip(*(batch[rank][name] or [0] * width for batch in run["micro_batches"]))]
            for rank in range(len(last))
        ]
        if any(held[name] is not None for held in last):
            local = [[sum(column) / len(local) for column in zip(*local)]] * len(local)
        for rank, values in zip(ranks, local):
            rank[name] = [round(value, 12) for value in values]
    return [ended(run, grads) for grads in ranks]
