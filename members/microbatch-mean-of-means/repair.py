"""One sum over one count: nothing is divided before everything is added."""


def solve(run):
    total, tokens = 0, 0
    for micro_batches in run["ranks"]:
        for micro_batch in micro_batches:
            total += micro_batch["sum"]
            tokens += micro_batch["count"]
    return round(total / tokens, 12) if tokens else 0.0
