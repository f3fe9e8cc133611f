"""The kind of loss alone decides the divisor; no layer's own setting is asked."""


def solve(run):
    sums = [part["sum"] for part in run["micro"]]
    counts = [part["count"] for part in run["micro"]]
    if run["loss"] == "counted":
        return round(sum(sums) / sum(counts), 12)
    means = [total / count for total, count in zip(sums, counts)]
    return round(sum(means) / len(means), 12)
