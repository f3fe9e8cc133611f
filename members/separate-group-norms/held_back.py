"""The same rule on more groups, with signs, and with a limit of zero."""

from shardproof.failures.clipping import clipped, turned


def check(label, values, limit, square):
    groups = {f"group {number}": each for number, each in enumerate(values)}
    return label, (groups, limit), {name: clipped(each, limit, square) for name, each in groups.items()}


def checks(n):
    m = 1 + n % 97
    many = turned([[m, -m], [m, m], [2 * m], [-m]], n)
    return [
        check("four groups with signs", many, m, 9 * m * m),
        check("one large and one small group", turned([[12 * m], [5 * m]], n), 6 * m, 169 * m * m),
        check("the limit is the norm: groups keep their values", many, 3 * m, 9 * m * m),
        check("the limit is zero", many, 0, 9 * m * m),
        check("no groups", [], m, 0),
    ]
