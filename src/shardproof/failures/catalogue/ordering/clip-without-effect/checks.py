"""Iterators, unread options, old and other buffers, and steps that have already happened."""

from fractions import Fraction

from shardproof.failures.exact import rounded, scaled

REFUSED = {"raises": "ValueError"}


def run_of(options, *tensors, given="list", step="after"):
    pairs = [tensor if isinstance(tensor, tuple) else (tensor, None) for tensor in tensors]
    held = [{"grad": grad, "main": main} for grad, main in pairs]
    return ({"tensors": held, "given": given, "options": options, "step": step},)


def ended(norm, *stepped):
    return {"norm": rounded(norm), "stepped": list(stepped)}


def cut(values, n):
    """The four values over two to four tensors; the last one may be empty."""
    at = sorted({1, 1 + n % 3, 2 + n % 3})
    return [values[low:high] for low, high in zip([0, *at], [*at, len(values)])]


def checks(n):
    m = 1 + (n - 1) % 97
    quarters = 1 + n % 3  # the limit, in quarters of the norm
    limit = {("max_norm", "clip_norm")[n % 2]: 2.5 * m * quarters}
    values = [2 * m, 4 * m, -4 * m, 8 * m]  # norm 10m
    return [
        (
            "handed over as an iterator",
            run_of({"max_norm": m}, [3 * m], [4 * m], given="iterator"),
            ended(5 * m, *scaled_each(m, 1, 5)),
        ),
        (
            "the limit under its other name",
            run_of({"clip_norm": m / 2}, [3 * m], [4 * m]),
            ended(5 * m, *scaled_each(m, 1, 10)),
        ),
        (
            "gradients replaced after they were noted",
            run_of({}, ([6 * m, 8 * m], [3 * m, 4 * m])),
            ended(5 * m, [3 * m, 4 * m]),
        ),
        (
            "the optimizer has a copy of its own",
            run_of({"max_norm": 5 * m}, ([6 * m, 8 * m], [6 * m, 8 * m])),
            ended(10 * m, [3 * m, 4 * m]),
        ),
        (
            "zero gradients, full copies",
            run_of({"max_norm": m}, ([0], [3 * m]), ([0], [4 * m])),
            ended(5 * m, *scaled_each(m, 1, 5)),
        ),
        ("the step lies in the backward pass", run_of({"max_norm": m}, [3 * m], [4 * m], step="in backward"), REFUSED),
        (
            "four values in some tensors",
            run_of(limit, *cut(values, n)),
            ended(10 * m, *cut(scaled(values, Fraction(quarters, 4), 1), n)),
        ),
        (
            "one tensor handed over as a list: cannot reveal the error",
            run_of({"max_norm": 5 * m}, [6 * m, 8 * m]),
            ended(10 * m, [3 * m, 4 * m]),
        ),
        (
            "below the limit: cannot reveal the error",
            run_of({"max_norm": 9 * m}, [3 * m], [4 * m], given="iterator"),
            ended(5 * m, [3 * m], [4 * m]),
        ),
    ]


def scaled_each(m, numerator, denominator):
    return [scaled([value * m], numerator, denominator) for value in (3, 4)]
