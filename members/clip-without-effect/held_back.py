"""The same rule with three tensors, mixed buffers, and both names of the limit."""

from shardproof.failures.exact import root, rounded, scaled


def run_of(options, given, step, *pairs):
    tensors = [{"grad": grad, "main": main} for grad, main in pairs]
    return ({"tensors": tensors, "given": given, "options": options, "step": step},)


def checks(n):
    m = 1 + n % 89
    given = ("list", "iterator")[n % 2]
    name = ("clip_norm", "max_norm")[n // 2 % 2]
    mixed = [([m], None), ([9 * m], [2 * m]), ([], [2 * m])]
    turned = mixed[n % 3 :] + mixed[: n % 3]
    live = [[grad, main][main is not None] for grad, main in turned]
    return [
        (
            "own and other buffers",
            run_of({name: 1.5 * m}, given, "after", *turned),
            {"norm": rounded(3 * m), "stepped": [scaled(values, 1, 2) for values in live]},
        ),
        ("no limit", run_of({}, given, "after", *turned), {"norm": rounded(3 * m), "stepped": live}),
        (
            "no limit, stepped in backward",
            run_of({}, given, "in backward", ([3 * m], None), ([4 * m], None)),
            {"norm": rounded(5 * m), "stepped": [[3 * m], [4 * m]]},
        ),
        (
            "a limit, stepped in backward",
            run_of({name: 9 * m}, given, "in backward", ([m], None)),
            {"raises": "ValueError"},
        ),
        (
            "limit zero",
            run_of({name: 0}, given, "after", ([m], [m]), ([m], None)),
            {"norm": root(2 * m * m), "stepped": [[0], [0]]},
        ),
    ]
