"""Every rank divides by its own number of tokens; the wrapper averages the ranks."""


def local_mean(micro_batches):
    tokens = sum(part["count"] for part in micro_batches)
    return sum(part["sum"] for part in micro_batches) / max(tokens, 1)


def solve(run):
    means = [local_mean(micro_batches) for micro_batches in run["ranks"]]
    return round(sum(means) / len(means), 12)
