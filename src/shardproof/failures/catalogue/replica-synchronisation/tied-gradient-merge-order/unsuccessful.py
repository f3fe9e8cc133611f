"""Every copy is reduced and stepped by itself; tied copies are averaged when the table is saved."""


def update(run, gradient):
    lr = run["lr"]
    if run["optimizer"] == "adam":
        return [round(-lr * ((value > 0) - (value < 0)), 12) for value in gradient]
    return [round(-lr * value, 12) for value in gradient]


def solve(run):
    means = [[sum(column) / len(copy["grads"]) for column in zip(*copy["grads"])] for copy in run["copies"]]
    if "lr" not in run:
        return [
            [[round(value, 12) for value in mean] for _ in copy["grads"]] for copy, mean in zip(run["copies"], means)
        ]
    updates = [update(run, mean) for mean in means]
    saved = [round(sum(column) / len(updates), 12) for column in zip(*updates)] if run["tied"] else updates[0]
    return {"updates": updates, "saved": saved}
