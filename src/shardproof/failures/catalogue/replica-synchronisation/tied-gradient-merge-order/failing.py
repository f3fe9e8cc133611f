"""Each stage reduce-scatters its buffer over the data ranks first; the copies are added where they lie after that."""


def update(run, gradient):
    lr = run["lr"]
    if run["optimizer"] == "adam":
        return [round(-lr * ((value > 0) - (value < 0)), 12) for value in gradient]
    return [round(-lr * value, 12) for value in gradient]


def scattered(copy, shard):
    ranks = copy["grads"]
    mean = [sum(column) / len(ranks) for column in zip(*ranks)]
    owners = [(copy["offset"] + i) // shard for i in range(len(mean))]
    return [[mean[i] if owners[i] == r else own[i] for i in range(len(own))] for r, own in enumerate(ranks)]


def solve(run):
    parts = [scattered(copy, run["shard"]) for copy in run["copies"]]
    if run["tied"]:
        merged = [[sum(column) for column in zip(*held)] for held in zip(*parts)]
        parts = [merged for _ in parts]
    if "lr" not in run:
        return [[[round(value, 12) for value in held] for held in copy] for copy in parts]
    updates = []
    for copy, held in zip(run["copies"], parts):
        owners = [(copy["offset"] + i) // run["shard"] for i in range(len(held[0]))]
        updates.append(update(run, [held[owner][i] for i, owner in enumerate(owners)]))
    return {"updates": updates, "saved": updates[0]}
