"""The copies are added element by element before the one reduction over data, and stepped with one state."""


def update(run, gradient):
    lr = run["lr"]
    if run["optimizer"] == "adam":
        return [round(-lr * ((value > 0) - (value < 0)), 12) for value in gradient]
    return [round(-lr * value, 12) for value in gradient]


def solve(run):
    groups = [run["copies"]] if run["tied"] else [[copy] for copy in run["copies"]]
    gradients = []
    for group in groups:
        rows = [row for copy in group for row in copy["grads"]]
        gradient = [sum(column) / len(group[0]["grads"]) for column in zip(*rows)]
        gradients += [gradient for _ in group]
    if "lr" in run:
        updates = [update(run, gradient) for gradient in gradients]
        return {"updates": updates, "saved": updates[0]}
    return [
        [[round(value, 12) for value in gradient] for _ in copy["grads"]]
        for copy, gradient in zip(run["copies"], gradients)
    ]
