"""The count of the whole window is handed to the loss, and the loss is no longer divided by the number of steps."""


def solve(run):
    steps = list(zip(*run["ranks"]))
    window = sum(part["count"] for step in steps for part in step)
    gradient = 0.0
    for step in steps:
        tokens = window if run["loss"] == "counted" else sum(part["count"] for part in step)
        gradient += sum(part["sum"] for part in step) / max(tokens, 1)
    return round(gradient, 12)
