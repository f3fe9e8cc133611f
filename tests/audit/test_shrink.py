"""Shrinking: parts of layouts are layouts, and what is left of a failure is small, real, and the same failure."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.audit.failing_cell import stored_cell

from shardproof.audit import shrink_store, store
from shardproof.audit.layouts import LAYOUTS, shares
from shardproof.audit.reproduction_cell import observation_of
from shardproof.audit.shrink import NotShrunkError, completed, parts, shrink
from shardproof.audit.shrink_calls import probes
from shardproof.audit.shrink_layouts import FIXED, everything, part_of
from shardproof.errors import InvalidValueError
from shardproof.report.shrunk import shrunk_text


@pytest.mark.parametrize("name", LAYOUTS)
def test_all_of_a_layout_is_the_layout(name):
    layout = LAYOUTS[name]
    part = part_of(layout, everything(layout))

    assert part.layout.world_size == layout.world_size
    assert [tensor.shape for tensor in part.layout.tensors] == [tensor.shape for tensor in layout.tensors]
    for rank in range(layout.world_size):
        assert [each.indices for each in shares(part.layout, rank)] == [each.indices for each in shares(layout, rank)]


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_a_part_holds_elements_of_the_whole_and_each_where_some_rank_has_it(data):
    layout = data.draw(st.sampled_from([each for each in LAYOUTS.values() if each.kind not in FIXED]))
    part = part_of(layout, data.draw(parts(layout)))

    assert part.layout.world_size == len(part.ranks) <= layout.world_size
    held = {
        (share.tensor.name, index)
        for rank in range(part.layout.world_size)
        for share in shares(part.layout, rank)
        for index in share.indices
    }
    wholes = {tensor.name: tensor for tensor in layout.tensors}
    for tensor in part.layout.tensors:
        olds = part.came_from[tensor.name]
        assert len(set(olds)) == len(olds) == math.prod(tensor.shape)
        assert set(olds) <= set(range(math.prod(wholes[tensor.name].shape)))
        if not tensor.frozen:
            assert {index for name, index in held if name == tensor.name} == set(range(len(olds)))


@given(st.lists(st.integers(0, 9), max_size=6))
@settings(deadline=None)
def test_the_last_integer_makes_the_norm_an_integer_where_one_can(values):
    square = sum(value * value for value in completed(values))

    assert completed(values)[:-1] == values
    assert math.isqrt(square) ** 2 == square or completed(values)[-1] == 0


def test_probes_keep_a_value_that_is_not_finite():
    layout = LAYOUTS["ddp"]
    call = next(each for each in _calls("ddp") if each.name == "nan-one-rank")
    kept = everything(layout).model_copy(update={"tensors": ("up.bias",), "longest": {"up.bias": (2,)}})

    for probe in probes(part_of(layout, kept), call):
        assert sum(map(math.isnan, probe.gradients["up.bias"])) == 1


@pytest.mark.processes
@pytest.mark.parametrize(
    ("clip", "layout", "shards"),
    [
        ("wrong.py:sum_of_norms", "fsdp2", [[(3.0,)], [(4.0,)]]),
        ("wrong.py:largest_local_norm", "hand-sharded", [[(3.0,)], [(4.0,)]]),
        ("wrong.py:copies_counted_each_time", "hsdp", [[(1.0,)], [(1.0,)]]),
        ("wrong_on_layouts.py:padding_counted", "zero-flat", [[(1.0,)]]),
    ],
)
def test_a_failure_is_left_with_few_ranks_and_numbers(subjects, tmp_path, clip, layout, shards):
    cell = stored_cell(tmp_path, f"{subjects}/{clip}", layout)
    plan, digest = store.read_plan(tmp_path)

    shrunk = shrink(plan, digest, cell, observation_of(tmp_path, plan, digest, cell.id), seconds=60)

    assert {"norm.global", "scale.one-factor"} <= set(shrunk.clauses)
    assert [list(rank.given) for rank in shrunk.ranks] == shards
    for rank in shrunk.ranks:
        assert rank.norm is not None
    assert any(abs(rank.norm - shrunk.norm) > 0.1 for rank in shrunk.ranks)
    shrink_store.write(tmp_path, shrunk)
    assert shrink_store.read(tmp_path, cell.id, digest) == shrunk
    assert f"norm {shrunk.norm}" in shrunk_text(shrunk)


@pytest.mark.processes
def test_a_hang_stays_a_hang(subjects, tmp_path):
    cell = stored_cell(tmp_path, f"{subjects / 'rude.py'}:skips_a_collective", "ddp", timeout_s=1.0)
    plan, digest = store.read_plan(tmp_path)

    shrunk = shrink(plan, digest, cell, observation_of(tmp_path, plan, digest, cell.id), seconds=1)

    assert (shrunk.word, shrunk.clauses) == ("hang", ("calls.return",))
    assert len(shrunk.ranks) == 2
    assert "used up" in shrunk.notes[0]


@pytest.mark.processes
def test_what_passes_and_what_does_not_fail_alone_are_refused(subjects, tmp_path):
    file = tmp_path / "second.py"
    file.write_text(
        (subjects / "right.py").read_text()
        + "\ncalls = []\n\ndef second(params, max_norm, ctx):\n    calls.append(1)\n"
        + "    norm = by_hand(params, max_norm, ctx)\n    return norm if len(calls) < 2 else 2 * norm\n"
    )
    for clip, error in ((f"{subjects / 'right.py'}:by_hand", InvalidValueError), (f"{file}:second", NotShrunkError)):
        folder = tmp_path / error.__name__
        cell = stored_cell(folder, clip, "hand-sharded")
        plan, digest = store.read_plan(folder)
        with pytest.raises(error):
            shrink(plan, digest, cell, observation_of(folder, plan, digest, cell.id), seconds=20)


def _calls(name):
    from shardproof.audit.fixtures import fixtures

    return fixtures(LAYOUTS[name])
