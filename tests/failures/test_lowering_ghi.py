"""The lowerings of families G, H and I: what their programs predict of small layouts made by hand."""

import functools
import math

import pytest

from shardproof.clip import clip_factor, global_norm
from shardproof.failures.lowering import PADDING, Cell, Ended, Holds, Piece, answer
from shardproof.failures.mechanism import CATALOGUE, function_of, load_contract, load_mechanism, members_folder

FAMILIES = ("precision-and-non-finite", "participation", "layout-and-limits")
MECHANISMS = {
    mechanism.slug: mechanism
    for family in FAMILIES
    for path in sorted((CATALOGUE / family).glob("*/mechanism.toml"))
    if (mechanism := load_mechanism(path.parent)).contract.lowering is not None
}


def piece(values, tensor="w", start=0, how="shard", dtype="float32", padding=0, name=None):
    indices = [*range(start, start + len(values) - padding), *[PADDING] * padding]
    return Piece(name or tensor, tensor, {"dp": how}, (), dtype, tuple(indices), tuple(map(float, values)))


def cell(*ranks, limit=1.0, order=2.0):
    holds = tuple(Holds({"dp": index}, tuple(pieces)) for index, pieces in enumerate(ranks))
    return Cell({"dp": len(ranks)}, holds, limit, order)


def cut(first, second, limit, dtype="float32", order=2.0):
    return cell([piece(first, dtype=dtype)], [piece(second, start=len(first), dtype=dtype)], limit=limit, order=order)


def without_gradient(size, tensor="v"):
    return Piece(tensor, tensor, {"dp": "distinct"}, (), "float32", tuple(range(size)), None)


SHARED = piece([2.0, 1.0], tensor="bias", how="replicate")
CELLS = {
    "over": cut([3, 0], [0, 4], 2),
    "under": cut([3, 0], [0, 4], 10),
    "at": cut([3, 0], [0, 4], 5),
    "zero-gradient": cut([0, 0], [0], 1),
    "zero-limit": cut([3, 0], [0, 4], 0),
    "no-limit": cut([3, 0], [0, 4], math.inf),
    "copies": cell([piece([2, 4]), SHARED], [piece([0], start=2), SHARED], limit=2.5),
    "only copies on one rank": cell([piece([4.0]), SHARED, piece([2.0], tensor="u")], [SHARED], limit=2.5),
    "huge": cut([3e25, 0], [0, 4e25], 2.5e25),
    "tiny": cut([3e-25, 0], [0, 4e-25], 2.5e-25),
    "bfloat16": cell(
        *[[piece([value], start=index, dtype="bfloat16")] for index, value in enumerate((100, 7, 7, 7))], limit=50
    ),
    "many bfloat16": cut([16] * 16, [1] * 6, 2, dtype="bfloat16"),
    "empty rank": cell([piece([3, 4])], [], limit=1),
    "no gradients on one rank": cell([piece([3, 4])], [without_gradient(2)], limit=1),
    "empty slice": cell([piece([3, 4])], [piece([])], limit=1),
    "no gradients beside an empty slice": cell([piece([3, 4])], [piece([])], [without_gradient(2)], limit=1),
    "padding": cell([piece([3])], [piece([4, 9, 0], start=1, padding=2)], limit=1),
    "padding of copies": cell(*[[piece([3, 4, 12], how="replicate", padding=1)]] * 2, limit=1),
    "order inf, copies": cell([piece([2, 4]), SHARED], [piece([0], start=2), SHARED], limit=3, order=math.inf),
    "order inf": cut([3, -7], [2, 8], 4, order=math.inf),
    "order inf, empty rank": cell([piece([3, -7])], [], limit=3.5, order=math.inf),
    "order 1": cut([3], [-4], 3.5, order=1.0),
    "nan on one rank": cut([3, 1], [math.nan, 4], 2),
    "inf on one rank": cut([3, math.inf], [1, 4], 2),
    "negative limit": cut([3, 0], [0, 4], -1),
    "nan limit": cut([3, 0], [0, 4], math.nan),
    "summands": cell([piece([1, 3], how="partial")], [piece([2, 1], how="partial")], limit=2.5),
    "opposed summands": cell([piece([3, 0], how="partial")], [piece([-3, 4], how="partial")], limit=2),
}


def pairs(rank):
    held = [(each, each.values) for each in rank.pieces if each.values is not None]
    return [
        ((each.tensor, index), value)
        for each, values in held
        for index, value in zip(each.indices, values, strict=True)
        if index != PADDING
    ]


def gradient_of(cell):
    """The logical gradient: copies once, summands added."""
    parts = any(how == "partial" for rank in cell.ranks for each in rank.pieces for how in each.on.values())
    found = {}
    for rank in cell.ranks:
        for element, value in pairs(rank):
            found[element] = found.get(element, 0.0) + value if parts else value
    return list(found.values())


def right(cell):
    """What the contract of the library asks for on every rank."""
    if not cell.limit >= 0:
        return [Ended(outcome="raised") for _ in cell.ranks]
    values = gradient_of(cell)
    if not all(map(math.isfinite, values)):
        norm, factor = (math.nan if any(map(math.isnan, values)) else math.inf), 1.0
    elif cell.norm_type == 2:
        norm = global_norm([values])
        factor = clip_factor(norm, cell.limit)
    else:
        norm = max(map(abs, values)) if math.isinf(cell.norm_type) else sum(map(abs, values))
        factor = min(1.0, cell.limit / norm)
    return [Ended(norm=norm, values=tuple(after(each, factor) for each in rank.pieces)) for rank in cell.ranks]


def after(piece, factor):
    if piece.values is None:
        return None
    return tuple(
        value if index == PADDING else value * factor for index, value in zip(piece.indices, piece.values, strict=True)
    )


def near(one, other, tolerance):
    if one is None or other is None:
        return one is None and other is None
    if not (math.isfinite(one) and math.isfinite(other)):
        return one == other or (math.isnan(one) and math.isnan(other))
    return math.isclose(one, other, rel_tol=tolerance)


def agrees(ended, wanted, tolerance=1e-10):
    """Whether a prediction for one rank is the wanted one; what it says nothing about agrees."""
    if ended.outcome != wanted.outcome:
        return False
    if ended.norm is not None and not near(ended.norm, wanted.norm, tolerance):
        return False
    for row, expected in zip(ended.values or (), wanted.values or (), strict=bool(ended.values)):
        if (row is None) != (expected is None):
            return False
        if row is not None and not all(near(*both, tolerance) for both in zip(row, expected, strict=True)):
            return False
    return True


@functools.cache
def lowering(contract):
    path = load_contract(CATALOGUE / "contracts" / contract).lowering
    return function_of(path, "readings"), function_of(path, "predicted")


def predictions(mechanism, solve):
    """(cell, reading) -> what the program predicts; a program that raises is seen as a check sees it."""
    readings, predicted = lowering(mechanism.contract.says.id)
    found = {}
    for name, cell in CELLS.items():
        for reading, arguments in readings(cell).items():
            found[name, reading] = predicted(cell, answer(solve, arguments))
    return found


def wrong_of(mechanism, role):
    """(cell, reading) -> the ranks on which the program's prediction is not what is right."""
    solve = function_of(mechanism.folder / f"{role}.py", "solve")
    found = predictions(mechanism, solve)
    assert found
    return {
        place: ranks
        for place, ended in found.items()
        if (
            ranks := [
                rank for rank, both in enumerate(zip(ended, right(CELLS[place[0]]), strict=True)) if not agrees(*both)
            ]
        )
    }


@pytest.mark.parametrize("slug", MECHANISMS)
def test_a_repair_predicts_what_is_right_under_every_reading(slug):
    if members_folder() is None:
        pytest.skip("the repairs are held back: there is no members folder")
    solve = function_of(members_folder() / slug / "repair.py", "solve")
    found = predictions(MECHANISMS[slug], solve)
    assert found
    for (name, reading), ended in found.items():
        # Who looks at a call like this does not see the NaN that has to be refused.
        if (name, reading) == ("nan limit", UNSEEN):
            assert all(rank.outcome == "returned" for rank in ended)
            continue
        # Raising on all ranks is a way of skipping together.
        if "raises" in reading and name in ("nan on one rank", "inf on one rank"):
            assert all(rank.outcome == "raised" for rank in ended)
            continue
        # Whoever zeroes what is not finite first leaves nothing to a program that reports it.
        if reading in SILENCED and name in ("nan on one rank", "inf on one rank"):
            assert all(math.isfinite(value) for rank in ended for row in rank.values for value in row)
            continue
        for rank, wanted in zip(ended, right(CELLS[name]), strict=True):
            assert agrees(rank, wanted), (name, reading, rank, wanted)


@pytest.mark.parametrize("role", ["failing", "unsuccessful"])
@pytest.mark.parametrize("slug", MECHANISMS)
def test_a_wrong_program_is_seen_to_be_wrong(slug, role):
    wrong = wrong_of(MECHANISMS[slug], role)
    assert sum(map(len, wrong.values())) >= 2, wrong


def predicted(slug, role, name, reading):
    return predictions(MECHANISMS[slug], function_of(MECHANISMS[slug].folder / f"{role}.py", "solve"))[name, reading]


def returned(norm, *rows):
    return Ended(norm=norm, values=tuple(map(tuple, rows)))


UNSEEN = "a NaN limit compares as no limit"
ADDED = "a rank that skips adds its values all the same"
ASIDE = f"{ADDED}; NaN aside"
SILENCED = ("all is set to zero where the norm is not finite", "what is not finite is set to zero first")
HANG, RAISED = Ended(outcome="hang"), Ended(outcome="raised")
NAN, INF = math.nan, math.inf
CALL, ALL = "in the units of the call", "empty is a rank without gradients"
OWN = "a rank that skips adds nothing; copies count on the first rank"
SAID = [
    # mechanism, role, cell, reading, what is predicted on each rank
    ("square-out-of-range", "failing", "huge", "one group, in float32", [returned(INF, [0, 0]), returned(INF, [0, 0])]),
    (
        "square-out-of-range",
        "unsuccessful",
        "tiny",
        "each rank, in the gradients' format",
        [returned(0, [3e-25, 0]), returned(0, [0, 4e-25])],
    ),
    (
        "low-precision-norm-grouping",
        "failing",
        "bfloat16",
        "each tensor, in the gradients' format",
        [returned(101, [100 * 50 / 101]), *[returned(101, [7 * 50 / 101])] * 3],
    ),
    (
        "nonfinite-norm-policy",
        "failing",
        "inf on one rank",
        "squared in float32",
        [returned(INF, [0, NAN]), returned(INF, [0, 0])],
    ),
    (
        "nonfinite-norm-policy",
        "failing",
        "nan on one rank",
        "squared in float64",
        [returned(NAN, [NAN, NAN]), returned(NAN, [NAN, NAN])],
    ),
    ("nonfinite-norm-policy", "failing", "nan on one rank", SILENCED[0], [returned(NAN, [0, 0])] * 2),
    ("nonfinite-norm-policy", "failing", "inf on one rank", SILENCED[0], [returned(INF, [0, 0])] * 2),
    (
        "nonfinite-norm-policy",
        "failing",
        "inf on one rank",
        SILENCED[1],
        [returned(26**0.5, [6 / 26**0.5, 0]), returned(26**0.5, [2 / 26**0.5, 8 / 26**0.5])],
    ),
    ("nonfinite-norm-policy", "unsuccessful", "nan on one rank", "squared in float32", [RAISED, RAISED]),
    (
        "low-precision-norm-grouping",
        "failing",
        "bfloat16",
        "each value, in the gradients' format",
        [returned(100.5, [100 * 50 / 100.5]), *[returned(100.5, [7 * 50 / 100.5])] * 3],
    ),
    (
        "nonfinite-norm-policy",
        "failing",
        "huge",
        "squared in float32, NaN aside",
        [returned(INF, [0, 0]), returned(INF, [0, 0])],
    ),
    ("nonfinite-norm-policy", "unsuccessful", "huge", "squared in float32", [RAISED, RAISED]),
    (
        "nonfinite-flag-local",
        "failing",
        "inf on one rank",
        OWN,
        [returned(INF, [3, INF]), returned(math.sqrt(17), [2 / math.sqrt(17), 8 / math.sqrt(17)])],
    ),
    (
        "nonfinite-flag-local",
        "failing",
        "nan on one rank",
        "a rank that skips does not join the reduction",
        [HANG, returned(NAN, [NAN, 4])],
    ),
    ("nonfinite-flag-local", "failing", "inf on one rank", ADDED, [returned(INF, [3, INF]), returned(INF, [0, 0])]),
    ("nonfinite-flag-local", "failing", "nan on one rank", ADDED, [returned(NAN, [NAN, NAN]), returned(NAN, [NAN, 4])]),
    ("nonfinite-flag-local", "failing", "nan on one rank", ASIDE, [returned(NAN, [3, 1]), returned(NAN, [NAN, 4])]),
    ("nonfinite-flag-local", "failing", "nan on one rank", "a rank raises before the reduction", [HANG, RAISED]),
    (
        "nonfinite-flag-local",
        "failing",
        "inf on one rank",
        "a rank raises after the reduction",
        [RAISED, returned(INF, [0, 0])],
    ),
    ("nonfinite-flag-local", "unsuccessful", "nan on one rank", OWN, [returned(NAN, [NAN, NAN])] * 2),
    (
        "early-return-skips-collective",
        "failing",
        "no gradients on one rank",
        "the others are ranks without gradients",
        [HANG, Ended(norm=0.0, values=(None,))],
    ),
    (
        "early-return-skips-collective",
        "failing",
        "no gradients on one rank",
        "the others are ranks without parameters",
        [returned(5, [0.6, 0.8]), Ended(norm=5.0, values=(None,))],
    ),
    (
        "early-return-skips-collective",
        "failing",
        "only copies on one rank",
        "the others are ranks without gradients",
        [returned(5, [2], [1, 0.5], [1]), returned(5, [1, 0.5])],
    ),
    (
        "early-return-skips-collective",
        "unsuccessful",
        "empty rank",
        "the others are ranks without parameters",
        [returned(5, [0.6, 0.8]), returned(0)],
    ),
    (
        "early-return-skips-collective",
        "failing",
        "empty slice",
        "the others are ranks without gradients",
        [returned(5, [0.6, 0.8]), returned(5, [])],
    ),
    (
        "early-return-skips-collective",
        "failing",
        "no gradients beside an empty slice",
        "the others are ranks without gradients",
        [HANG, HANG, Ended(norm=0.0, values=(None,))],
    ),
    (
        "early-return-skips-collective",
        "failing",
        "no gradients beside an empty slice",
        "the others are ranks whose gradients have no elements",
        [HANG, returned(0, []), Ended(norm=0.0, values=(None,))],
    ),
    ("empty-norm-identity", "failing", "empty rank", ALL, [HANG, RAISED]),
    ("empty-norm-identity", "failing", "empty slice", ALL, [returned(5, [0.6, 0.8]), returned(5, [])]),
    (
        "empty-norm-identity",
        "failing",
        "empty slice",
        "empty is a rank whose gradients have no elements",
        [HANG, RAISED],
    ),
    ("empty-norm-identity", "failing", "no gradients beside an empty slice", ALL, [HANG, HANG, RAISED]),
    ("limit-domain", "failing", "nan limit", UNSEEN, [returned(5, [3, 0]), returned(5, [0, 4])]),
    ("empty-norm-identity", "unsuccessful", "empty rank", ALL, [returned(5, [0.6, 0.8]), returned(5)]),
    ("empty-norm-identity", "unsuccessful", "order inf, empty rank", ALL, [HANG, RAISED]),
    ("inf-norm-branch", "failing", "order inf", ALL, [returned(1, [3, -7]), returned(1, [2, 8])]),
    (
        "inf-norm-branch",
        "unsuccessful",
        "order inf, copies",
        "copies count on each rank",
        [returned(6, [1, 2], [1, 0.5]), returned(6, [0], [1, 0.5])],
    ),
    (
        "inf-norm-branch",
        "unsuccessful",
        "order inf",
        ALL,
        [returned(15, [12 / 15, -28 / 15]), returned(15, [8 / 15, 32 / 15])],
    ),
    ("limit-domain", "failing", "negative limit", CALL, [returned(5, [-0.6, 0]), returned(5, [0, -0.8])]),
    ("limit-domain", "failing", "nan limit", CALL, [returned(5, [NAN, NAN]), returned(5, [NAN, NAN])]),
    ("limit-domain", "unsuccessful", "negative limit", CALL, [returned(5, [3, 0]), returned(5, [0, 4])]),
    ("limit-domain", "unsuccessful", "zero-limit", CALL, [returned(5, [3, 0]), returned(5, [0, 4])]),
    ("coefficient-formula", "failing", "under", CALL, [returned(5, [6, 0]), returned(5, [0, 8])]),
    ("coefficient-formula", "failing", "zero-gradient", CALL, [returned(0, [NAN, NAN]), returned(0, [NAN])]),
    (
        "coefficient-formula",
        "unsuccessful",
        "over",
        "an epsilon 1,000 times as large",
        [returned(5, [6 / 5.001, 0]), returned(5, [0, 8 / 5.001])],
    ),
    (
        "norm-of-unreduced-partials",
        "unsuccessful",
        "opposed summands",
        "a summand is all that lies at one place of the axis",
        [
            returned(math.sqrt(34), [6 / math.sqrt(34), 0]),
            returned(math.sqrt(34), [-6 / math.sqrt(34), 8 / math.sqrt(34)]),
        ],
    ),
    (
        "uneven-shard-average",
        "failing",
        "padding",
        "a buffer is what a rank owns, and its padding",
        [returned(math.sqrt(106), [3 / math.sqrt(106)]), returned(math.sqrt(106), [4 / math.sqrt(106), 9, 0])],
    ),
    (
        "uneven-shard-average",
        "unsuccessful",
        "padding of copies",
        "a buffer is what a rank owns, and its padding",
        [returned(13, [3 / 13, 4 / 13, 12])] * 2,
    ),
]


@pytest.mark.parametrize(("slug", "role", "name", "reading", "wanted"), SAID)
def test_a_wrong_program_predicts_these_numbers(slug, role, name, reading, wanted):
    ended = predicted(slug, role, name, reading)
    assert len(ended) == len(wanted)
    assert all(agrees(*both, tolerance=1e-9) for both in zip(ended, wanted, strict=True)), ended


@pytest.mark.parametrize(
    "other",
    [
        HANG,
        returned(5, [0.6, 0.8], [0]),
        returned(5, [0.6, 0.8001]),
        returned(5, [0.6, NAN]),
        returned(INF, [0.6, 0.8]),
    ],
    ids=["another outcome", "a row too many", "another value", "nan", "another norm"],
)
def test_the_judge_rejects(other):
    wanted = returned(5, [0.6, 0.8])
    assert agrees(wanted, wanted)
    if other.values and len(other.values) != 1:
        with pytest.raises(ValueError, match="zip"):
            agrees(other, wanted)
    else:
        assert not agrees(other, wanted)


def test_what_a_contract_says_nothing_about_cannot_be_read():
    summands, unknown, negative = CELLS["summands"], CELLS["nan on one rank"], CELLS["negative limit"]
    for contract in {mechanism.contract.says.id for mechanism in MECHANISMS.values()}:
        readings, _ = lowering(contract)
        assert (readings(summands) != {}) == (contract == "norm-of-summands")
        assert (readings(unknown) != {}) == (contract in ("clip-steps", "skip-together"))
        assert (readings(negative) != {}) == (contract == "clip-by-limit")
