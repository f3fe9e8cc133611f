"""The lowerings of the contracts about clipping: what the map's programs predict of the audit's own layouts."""

import functools
import math
from collections import defaultdict

import pytest

from shardproof.audit.layouts import LAYOUTS
from shardproof.audit.lowering import cell_of
from shardproof.audit.run import plan_of
from shardproof.clip import clip_factor, global_norm
from shardproof.failures.axes import clips, exponent, groups
from shardproof.failures.dictionary import lowered
from shardproof.failures.lowering import PADDING, Cell, Ended, Holds, Piece
from shardproof.failures.mechanism import CATALOGUE, function_of, load_catalogue, members_folder

CONTRACTS = ("clip-run", "clip-shards", "clip-groups", "combine-norms", "clip-stepped")
WRONG = [each for each in lowered() if each.contract in CONTRACTS]
REPAIRED = [each for each in load_catalogue() if each.contract.says.id in CONTRACTS]


def named(implementation):
    return f"{implementation.slug}-{implementation.role}"


@functools.cache
def cells(*fixtures):
    """The audit's cells by layout and fixture, without the layouts of eight ranks: nothing in them is new."""
    layouts = [layout for layout in LAYOUTS.values() if layout.world_size <= 4]
    plan = plan_of([], layouts, timeout_s=1)
    return {
        (layout.name, fixture.name): cell_of(layout, fixture)
        for layout in plan.layouts
        for fixture in layout.fixtures
        if fixture.name in fixtures
    }


def right(cell):
    """What a right call gives on each rank, from the library's rule on the logical gradient."""
    pairs = [
        ((piece.tensor, index), value)
        for rank in cell.ranks
        for piece in rank.pieces
        for index, value in zip(piece.indices, piece.values or (), strict=False)
        if index != PADDING
    ]
    norm = global_norm([list(dict(pairs).values())])
    factor = clip_factor(norm, cell.limit)
    return [Ended(norm=norm, values=tuple(after(piece, factor) for piece in rank.pieces)) for rank in cell.ranks]


def after(piece, factor):
    if piece.values is None:
        return None
    pairs = zip(piece.indices, piece.values, strict=True)
    return tuple(value if index == PADDING else value * factor for index, value in pairs)


def rounded(ended):
    """Predictions as something that can be compared and hashed: seven digits, as float32 holds."""
    return tuple((short(each.norm), each.values and tuple(map(shortened, each.values))) for each in ended)


def shortened(values):
    return None if values is None else tuple(map(short, values))


def short(number):
    return None if number is None else float(f"{number:.6e}")


def differences(cell, ended):
    """Over ranks: norms and gradients that differ from what is right, where anything is said of them."""
    pairs = zip(rounded(ended), rounded(right(cell)), strict=True)
    return sum((norm not in (None, want)) + (values != wanted) for (norm, values), (want, wanted) in pairs)


def copied(cell):
    places = [(p.tensor, index) for rank in cell.ranks for p in rank.pieces for index in p.indices if index != PADDING]
    return len(places) != len(set(places))


@functools.cache
def predictions(implementation):
    """Reading -> (layout, fixture) -> prediction; readings with the same arguments are solved once."""
    found = defaultdict(dict)
    for place, cell in cells("over", "between").items():
        solved = {}
        for reading, arguments in readings(implementation.contract, place).items():
            if id(arguments) not in solved:
                result = implementation.solve(*arguments)
                solved[id(arguments)] = rounded(implementation.predicted(cell, result))
            found[reading][place] = solved[id(arguments)]
    return {reading: frozenset(each.items()) for reading, each in found.items()}


@functools.cache
def readings(contract, place):
    return next(each for each in WRONG if each.contract == contract).readings(cells("over", "between")[place])


@pytest.mark.parametrize("mechanism", REPAIRED, ids=lambda each: each.slug)
def test_a_repair_predicts_what_is_right(mechanism):
    if members_folder() is None:
        pytest.skip("the repairs are held back: there is no members folder")
    solve = function_of(members_folder() / mechanism.slug / "repair.py", "solve")
    lowering = mechanism.contract.lowering
    said, predicted = function_of(lowering, "readings"), function_of(lowering, "predicted")
    for cell in cells("over", "zero-gradient").values():
        # Shards that hold copies are no disjoint shards; only what a wrong program makes of them is asked for.
        if mechanism.contract.says.id == "clip-shards" and copied(cell):
            continue
        # Shards that a rank sees elsewhere too, and what each rank looks at, are no disjoint shards either.
        skipped = ("elsewhere", "only the first rank")
        arguments = {id(each): each for name, each in said(cell).items() if not any(word in name for word in skipped)}
        assert arguments
        assert not sum(differences(cell, predicted(cell, solve(*each))) for each in arguments.values())


@pytest.mark.parametrize("implementation", WRONG, ids=named)
def test_a_wrong_program_is_seen_to_be_wrong_in_more_than_one_observation(implementation):
    seen = [
        sum(differences(cells("over", "between")[place], from_rounded(each)) for place, each in predicted)
        for predicted in set(predictions(implementation).values())
    ]
    assert max(seen) >= 2


def from_rounded(ended):
    return [Ended(norm=norm, values=values) for norm, values in ended]


@pytest.mark.parametrize("implementation", WRONG, ids=named)
def test_every_wrong_program_has_a_reading_that_no_other_explains(implementation):
    others = {each for other in WRONG if other is not implementation for each in predictions(other).values()}
    assert set(predictions(implementation).values()) - others


def test_readings_have_the_same_names_under_every_layout_of_the_same_contract():
    for contract in ("clip-run", "clip-shards", "combine-norms"):
        assert len({frozenset(readings(contract, place)) for place in cells("over", "between")}) == 1


def test_a_program_that_sums_nothing_is_the_local_norm():
    """By hand: ranks with 3 and 4 and limit 2.5 see norms 3 and 4, and clip to 2.5 each."""
    cell = two_ranks((3.0,), (4.0,), limit=2.5)
    failing = next(each for each in WRONG if named(each) == "missing-model-axis-failing")
    (arguments,) = {
        id(each): each
        for name, each in failing.readings(cell).items()
        if name == "group: no axis; tensors know nothing"
    }.values()
    ended = failing.predicted(cell, failing.solve(*arguments))
    assert [(each.norm, each.values) for each in ended] == [(3.0, ((2.5,),)), (4.0, ((2.5,),))]


def two_ranks(*values, limit, how="shard", order=2.0):
    ranks = [
        Holds({"tp": rank}, (Piece("w", "w", {"tp": how}, (), "float32", (rank,), each),))
        for rank, each in enumerate(values)
    ]
    return Cell({"tp": len(ranks)}, tuple(ranks), limit, order)


@pytest.mark.parametrize(
    "cell",
    [
        two_ranks((math.nan,), (1.0,), limit=1.0),
        two_ranks((1.0,), (1.0,), limit=1.0, how="partial"),
        two_ranks((1.0,), (1.0,), limit=-1.0),
        two_ranks((1.0,), (1.0,), limit=math.nan),
        two_ranks((1.0,), (1.0,), limit=1.0, order=1.0),
    ],
    ids=["nan", "summands", "negative limit", "nan limit", "order 1"],
)
def test_what_a_clip_contract_does_not_speak_of_has_no_reading(cell):
    assert not clips(cell)
    for contract in ("clip-run", "clip-shards", "clip-groups"):
        assert not next(each for each in WRONG if each.contract == contract).readings(cell)


@pytest.mark.parametrize("scale", [1e-25, 1.0, 1e25])
@pytest.mark.parametrize("implementation", WRONG, ids=named)
def test_predictions_scale_with_the_gradients(implementation, scale):
    small, large = (two_ranks((3.0 * by,), (4.0 * by,), limit=2.5 * by) for by in (1.0, scale))
    for reading, arguments in implementation.readings(small).items():
        one = implementation.predicted(small, implementation.solve(*arguments))
        other = implementation.predicted(large, implementation.solve(*implementation.readings(large)[reading]))
        assert [each.norm for each in other] == pytest.approx([times(each.norm, scale) for each in one])
        assert [v for each in other for (v,) in each.values] == pytest.approx(
            [v * scale for each in one for (v,) in each.values]
        )


def times(norm, scale):
    return None if norm is None else norm * scale


def test_padding_and_absent_gradients_are_handed_back_as_they_were():
    padded = Piece("w", "w", {"dp": "shard"}, (), "float32", (0, PADDING), (3.0, 9.0))
    absent = Piece("b", "b", {"dp": "replicate"}, (), "float32", (0,), None)
    other = Piece("w", "w", {"dp": "shard"}, (), "float32", (1,), (4.0,))
    cell = Cell({"dp": 2}, (Holds({"dp": 0}, (absent, padded)), Holds({"dp": 1}, (other,))), 2.5)
    for implementation in WRONG:
        for arguments in implementation.readings(cell).values():
            first, second = implementation.predicted(cell, implementation.solve(*arguments))
            assert first.values[0] is None
            assert first.values[1][1] == 9.0
            assert len(second.values[0]) == 1
            assert first.norm is None or first.norm < 9.0


def test_the_unit_brings_the_largest_gradient_between_128_and_256():
    assert exponent(two_ranks((0.75,), (1.0,), limit=1.0)) == 7
    assert exponent(two_ranks((0.0,), (0.0,), limit=1.0)) == 0
    assert math.ldexp(1e-25, exponent(two_ranks((1e-25,), (0.0,), limit=1.0))) >= 128


def test_groups_are_named_by_place_by_role_and_by_what_lies_there():
    copies = Piece("w", "w", {"dp": "replicate", "tp": "shard"}, (), "float32", (0,), (1.0,))
    found = groups(Cell({"dp": 2, "tp": 2}, (Holds({"dp": 0, "tp": 0}, (copies,)),), 1.0))
    assert found["the first axis"] == found["the data axes"] == found["the axes that only copy"] == ("dp",)
    assert found["every axis but the first"] == found["the model axes"] == found["the axis tp"] == ("tp",)
    assert found["the axis pp"] == ()
    assert found["every axis but pp"] == ("dp", "tp")


def test_every_contract_of_these_families_has_a_lowering():
    assert {path.parent.name for path in (CATALOGUE / "contracts").glob("*/lowering.py")} >= set(CONTRACTS)
