"""Small terms after large ones, sums above and quotients below the range, sizes past 31 and 32 bits."""

from fractions import Fraction

from shardproof.failures.number_formats import significant, stored


def total(terms):
    return significant(sum(Fraction(value) * times for value, times in terms))


def mean(dtype, terms):
    count = sum(times for _, times in terms)
    return significant(Fraction(stored(sum(Fraction(value) * times for value, times in terms) / count, dtype)))


def checks(n):
    scale, world, large = 2 ** (n % 6), 2 + n % 3, 33024 + 32 * (n % 1000)
    after = [[256 * scale, 1], [scale, 8 + n % 3]]
    micro = [[1.0 * scale, 1], [scale / 256, 2]]
    many, tiny = [[300 - n % 40, 256]], [[2.0**-23, 256]]
    wide = [[2**24 * scale, 1], [scale, 2]]
    sizes = [[2**31 - n, 1], [n + 2, 1]]
    past = [[2**31 - n, 2], [2 * n + 3, 1]]
    return [
        ("bfloat16 small terms after a large one", ("bfloat16", after, False), total(after)),
        ("bfloat16 micro-batches of half a unit", ("bfloat16", micro, False), total(micro)),
        ("float16 mean of large values", ("float16", [[large, world]], True), large),
        ("float16 mean over 256 ranks", ("float16", many, True), mean("float16", many)),
        ("float16 mean of tiny values over 256 ranks", ("float16", tiny, True), mean("float16", tiny)),
        ("float32 accumulator that stands still", ("float32", wide, False), total(wide)),
        ("sizes past 31 bits", ("int32", sizes, False), 2**31 + 2),
        ("sizes past 32 bits", ("int32", past, False), 2**32 + 3),
        ("a few integers: cannot reveal the error", ("float32", [[n, 2], [3 * n, 2]], False), 8 * n),
    ]
