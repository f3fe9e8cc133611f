"""The trainer owns the division: engine and schedule are switched off, and where it divides it hands over no count."""


def solve(run):
    micro = run["micro"]
    divides = "trainer" in run["dividers"]
    counted = run["loss"] == "counted" and not divides
    if counted:
        items = sum(part["count"] for part in micro)
        contributions = [part["sum"] / items for part in micro]
    else:
        contributions = [part["sum"] / part["count"] for part in micro]
    gradient = sum(contributions)
    return round(gradient / len(micro) if divides else gradient, 12)
