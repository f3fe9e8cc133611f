"""Sharded and copied tensors in one group, on one, two and more ranks."""

from shardproof.failures.clipping import check, cut, line, piece, sharded, turned


def model(slices, copied, limit, mesh=()):
    bias = piece("bias", copied, {"tp": "replicate"}, mesh=mesh)
    held = [[weight, bias] for weight in cut("weight", slices, "tp", mesh=mesh)]
    return line("tp", held, limit, ["tp"])


def checks(n):
    m = 1 + n % 97
    world = 2 + n % 3
    many = model([[m]] * 8, [m], m)
    copies = [[piece("bias", [3 * m, 4 * m], {"tp": "replicate"})] for _ in range(world)]
    once = line("tp", copies, 5 * m, ["tp"])
    return [
        check("two ranks, one copied tensor", model(turned([[3 * m], [4 * m]], n), [12 * m], m), 169 * m * m),
        check("eight ranks, one copied number", many, 9 * m * m),
        check("copies only, at the limit", once, 25 * m * m),
        check("the copy is longer than the slices", model([[m], [m, m]], [2 * m, -3 * m, 3 * m], m), 25 * m * m),
        check(
            "tensors that know their placement: cannot reveal it", model([[3 * m], [4 * m]], [0], m, ["tp"]), 25 * m * m
        ),
        check("slices only: cannot reveal a copy", sharded("tp", [[m]] * 4, m, ["tp"]), 4 * m * m),
        check("one rank: cannot reveal the error", model([[3 * m, 4 * m]], [12 * m], m), 169 * m * m),
        check("the copy is zero: cannot reveal it", model([[3 * m], [4 * m]], [0, 0], m), 25 * m * m),
    ]
