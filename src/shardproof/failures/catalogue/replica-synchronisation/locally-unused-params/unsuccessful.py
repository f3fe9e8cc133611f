"""All parameters are averaged over the ranks; one that this rank did not use in the window has no gradient here."""

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
    ranks = [{} for _ in run["micro_batches"][0]]
    for name in run["micro_batches"][0][0]:
        used = [
            [batch[i][name] for batch in run["micro_batches"] if batch[i][name] is not None] for i in range(len(ranks))
        ]
        rows = [row for local in used for row in local]
        mean = [round(sum(column) / len(ranks), 12) for column in zip(*rows)]
        for rank, local in zip(ranks, used):
            rank[name] = list(mean) if local else None
    return [ended(run, grads) for grads in ranks]
