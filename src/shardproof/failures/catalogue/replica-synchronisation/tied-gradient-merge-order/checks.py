"""Tied tables over two stages and several data ranks, with equal and different offsets."""

from fractions import Fraction

from shardproof.failures.exact import rounded


def run_of(*copies, offsets, shard=1, tied=True, **more):
    held = [{"grads": grads, "offset": offset} for grads, offset in zip(copies, offsets, strict=True)]
    return ({"tied": tied, "shard": shard, "copies": held} | more,)


def alike(copies, ranks, values):
    return [[list(values) for _ in range(ranks)] for _ in range(copies)]


def stepped(copies, values):
    return {"updates": [list(values) for _ in range(copies)], "saved": list(values)}


def checks(n):
    m = 1 + n % 89
    world = 2 + n % 3
    first = [[m * (1 + (rank + n) % world)] for rank in range(world)]
    last = [[m * world * (rank + 1)] for rank in range(world)]
    mean = rounded(Fraction(m * (world + 1) ** 2, 2))
    wide_in = [[m, 2 * m, 3 * m], [3 * m, 4 * m, 9 * m]]
    wide_out = [[5 * m, m, m], [7 * m, -m, m]]
    far = 2 + n % 2
    tenth = Fraction(m, 10)
    return [
        (
            "two data ranks, different offsets",
            run_of([[m], [3 * m]], [[5 * m], [11 * m]], offsets=[1, 0]),
            alike(2, 2, [10 * m]),
        ),
        (
            "every data rank, different offsets",
            run_of(first, last, offsets=[n % world, (n + 1) % world]),
            alike(2, world, [mean]),
        ),
        (
            "a table over two slices",
            run_of(wide_in, wide_out, offsets=[0, far - 1], shard=far),
            alike(2, 2, [8 * m, 3 * m, 7 * m]),
        ),
        (
            "different offsets, update with lr",
            run_of([[m], [3 * m]], [[5 * m], [11 * m]], offsets=[1, 0], lr=0.1, optimizer="sgd"),
            stepped(2, [rounded(-10 * tenth)]),
        ),
        (
            "one data rank, plain step",
            run_of([[m, 2 * m]], [[3 * m, -m]], offsets=[0, 0], shard=2, lr=1, optimizer="sgd"),
            stepped(2, [-4 * m, -m]),
        ),
        (
            "one data rank, first step of adam",
            run_of([[3 * m]], [[-m]], offsets=[0, 0], lr=0.1, optimizer="adam"),
            stepped(2, [-0.1]),
        ),
        ("one data rank, gradient", run_of([[m]], [[5 * m]], offsets=[0, 0]), alike(2, 1, [6 * m])),
        (
            "copies of opposite sign, adam over two data ranks",
            run_of([[-m], [-m]], [[2 * m], [-m * (2 + n % 2)]], offsets=[0, 1], lr=0.1, optimizer="adam"),
            stepped(2, [0.1]),
        ),
        (
            "not tied: cannot reveal the error",
            run_of([[m]], [[5 * m]], offsets=[0, 0], tied=False, lr=0.5, optimizer="sgd"),
            {
                "updates": [[rounded(Fraction(-m, 2))], [rounded(Fraction(-5 * m, 2))]],
                "saved": [rounded(Fraction(-m, 2))],
            },
        ),
        (
            "one copy, one data rank: cannot reveal the error",
            run_of([[m, -m]], offsets=[n % 3], shard=9),
            alike(1, 1, [m, -m]),
        ),
    ]
