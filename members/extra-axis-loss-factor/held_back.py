"""The same rule with three terms, three axes, wide gradients and one batch on several layouts."""

from shardproof.failures.exact import scaled


def checks(n):
    m = 1 + n % 53
    size = (2, 4, 8)[n % 3]
    wide = [[m * (rank % 2), 4 * m] for rank in range(size)]
    main = {"lies": {"cp": "sum"}, "parts": wide, "multiplied": ["cp"], "divide": size}
    copies = {"lies": {"cp": "copy"}, "parts": [[m, -m]] * size, "multiplied": []}
    both = {"lies": {"cp": "copy"}, "parts": [[2 * m, m]] * size, "multiplied": ["cp"]}
    half = scaled([m], 1, 2)[0]
    cube = {"lies": {"dp": "mean", "cp": "sum", "tp": "copy"}, "divide": 2, "multiplied": ["cp", "tp"]}
    layouts = [({"dp": 4}, {"dp": "mean"}, []), ({"dp": 2, "sp": 2}, {"dp": "mean", "sp": "mean"}, ["sp"])]
    batch = [m, 3 * m, 5 * m, 7 * m]
    return [
        (
            "three terms, of which two have the factor",
            ({"axes": {"cp": size}, "terms": {"main": main, "aux": copies, "mtp": both}},),
            {
                "terms": {"main": [half, 4 * m], "aux": [m, -m], "mtp": [2 * m, m]},
                "grad": [scaled([7 * m], 1, 2)[0], 4 * m],
            },
        ),
        (
            "three axes, two with a factor",
            (
                {
                    "axes": {"dp": 2, "cp": 2, "tp": 2},
                    "terms": {"main": cube | {"parts": [[k * m] for k in (1, 1, 3, 3, 5, 5, 7, 7)]}},
                },
            ),
            {"terms": {"main": [4 * m]}, "grad": [4 * m]},
        ),
    ] + [
        (
            f"one batch, extra axes: {len(axes) - 1}",
            (
                {
                    "axes": axes,
                    "terms": {"main": {"lies": lies, "parts": [[part] for part in batch], "multiplied": times}},
                },
            ),
            {"terms": {"main": [4 * m]}, "grad": [4 * m]},
        )
        for axes, lies, times in layouts
    ]
