"""Groups of one, two and three, some of them under the limit by themselves."""

from shardproof.failures.clipping import clipped, turned


def check(label, values, limit, square):
    groups = {f"group {number}": each for number, each in enumerate(values)}
    return label, (groups, limit), {name: clipped(each, limit, square) for name, each in groups.items()}


def checks(n):
    m = 1 + n % 97
    cut = 1 + n % 2
    values = [m, 2 * m, 2 * m]
    return [
        check("two groups above the limit", turned([[3 * m], [4 * m]], n), m, 25 * m * m),
        check("each group is under the limit, the whole is not", turned([[6 * m], [8 * m]], n), 9 * m, 100 * m * m),
        check("three groups", turned([[m], [2 * m], [2 * m]], n), m, 9 * m * m),
        check("one group is zero", turned([[0], [7 * m]], n), 3 * m, 49 * m * m),
        check("variables of different length", turned([[6 * m], [2 * m, 3 * m]], n), 3 * m, 49 * m * m),
        check("the same values in two groups", [values[:cut], values[cut:]], 2 * m, 9 * m * m),
        check("an empty group", turned([[], [3 * m, 4 * m]], n), 2 * m, 25 * m * m),
        check("one group: cannot reveal the clipping by groups", [[3 * m, 4 * m]], m, 25 * m * m),
        check("far under the limit: cannot reveal the error", [[m], [m, m]], 9 * m, 3 * m * m),
    ]
