"""Every layer that knows the number of micro-batches divides by it."""


def solve(run):
    micro = run["micro"]
    window = sum(part["count"] for part in micro)
    gradient = 0.0
    for part in micro:
        gradient += part["sum"] / (window if run["loss"] == "counted" else part["count"])
    for _ in run["dividers"]:
        gradient /= len(micro)
    return round(gradient, 12)
