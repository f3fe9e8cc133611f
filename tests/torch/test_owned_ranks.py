"""Ranges of flat buffers on real ranks: what does not cover the buffer once is refused on every rank, with names."""

import math
import re

import pytest
import torch
from tests.ranks import on_ranks

pytestmark = pytest.mark.processes

RANKS = 3
RIGHT = [(0, 4, 9), (4, 7, 9), (7, 9, 9)]
"""Elements of nine that each rank's buffer of five begins with; behind them lies padding."""


def buffer(rank):
    start, stop, _ = RIGHT[rank]
    made = torch.nn.Parameter(torch.zeros(5))
    made.grad = torch.full((5,), math.nan)
    made.grad[: stop - start] = torch.arange(start, stop, dtype=torch.float32)
    return made


GEOMETRY = {
    "gap": ([(0, 4, 9), (5, 8, 9), (8, 9, 9)], "flat: 8 of 9 elements are owned"),
    "overlap": ([(0, 4, 9), (3, 7, 9), (7, 9, 9)], "flat: 10 of 9 elements are owned"),
    "overlap that fills a gap": ([(0, 4, 9), (3, 7, 9), (8, 9, 9)], "9 elements are owned, but not each exactly once"),
    "the same on every rank": ([(0, 3, 9)] * 3, "9 elements are owned, but not each exactly once"),
    "too small a whole": ([(0, 4, 10), (4, 7, 10), (7, 9, 10)], "flat: 9 of 10 elements are owned"),
    "another whole on one rank": ([(0, 4, 9), (4, 7, 9), (7, 9, 12)], r"rank \d says shape \(9,\).*rank 2 says shape"),
}
ARGUMENT = {
    "backwards": (4, 2, 9),
    "before the start": (-1, 3, 9),
    "beyond the whole": (7, 10, 9),
    "longer than the tensor": (0, 6, 9),
    "two numbers": (0, 4),
    "a bool": (False, 4, 9),
    "no ints": (0.0, 4.0, 9.0),
}


def attacked(rank):
    from shardproof import InvalidTypeError, PlacementError
    from shardproof.torch import clip_grad_norm_

    held, said = buffer(rank), {}

    def clip(owned, **more):
        return float(clip_grad_norm_([("flat", held)], 1.0, placements="shard", owned=owned, **more))

    before = held.grad.clone()
    for name, (ranges, _) in GEOMETRY.items():
        with pytest.raises(PlacementError) as caught:
            clip({"flat": ranges[rank]})
        said[name] = str(caught.value)
    for name, wrong in ARGUMENT.items():
        # Only the last rank is wrong; the others must hear of it.
        with pytest.raises((PlacementError, InvalidTypeError)) as caught:
            clip({"flat": wrong if rank == RANKS - 1 else RIGHT[rank]})
        said[name] = str(caught.value)
    with pytest.raises(PlacementError) as caught:
        clip({"flat": RIGHT[rank]} | ({"other": (0, 1, 2)} if rank == 1 else {}))
    said["unknown name"] = str(caught.value)
    assert bits(held.grad) == bits(before)
    return said, clip({"flat": RIGHT[rank]}), held.grad.tolist()


def bits(tensor):
    return tensor.view(torch.int32).tolist()


@pytest.fixture(scope="module")
def answers():
    return on_ranks(RANKS, attacked)


def test_wrong_ranges_are_refused_on_every_rank_and_name_the_tensor(answers):
    for said, _, _ in answers:
        for name, (_, text) in GEOMETRY.items():
            assert re.search(text, said[name]), (name, said[name])
        for name in ARGUMENT:
            assert "Rank 2" in said[name], name
            assert "owned['flat']" in said[name], name
        assert "Rank 1" in said["unknown name"]
        assert "'other'" in said["unknown name"]


def test_the_right_ranges_count_nine_elements_and_no_padding(answers):
    """After all the refusals the group can still be used; NaN in the padding is neither counted nor touched."""
    norm = math.sqrt(sum(value**2 for value in range(9)))
    for rank, (_, found, gradient) in enumerate(answers):
        start, stop, _ = RIGHT[rank]
        assert found == norm
        wanted = [float(torch.tensor(value * (1 / norm), dtype=torch.float64).float()) for value in range(start, stop)]
        assert gradient[: stop - start] == wanted
        assert all(map(math.isnan, gradient[stop - start :]))


def strided(rank):
    from shardproof import DisagreementError, InvalidValueError
    from shardproof.torch import ClipPlan

    held = buffer(rank)
    plan = ClipPlan([("flat", held)], placements="shard", owned={"flat": RIGHT[rank]})
    good = held.grad
    if rank == 1:
        held.grad = good.repeat_interleave(2)[::2]
    error = InvalidValueError if rank == 1 else DisagreementError
    with pytest.raises(error, match=r"rank 1: .*flat is a flat range \(owned=\) but not contiguous"):
        plan.clip_(1.0)
    held.grad = good
    return float(plan.clip_(None))


def test_a_range_in_scattered_memory_is_refused_on_every_rank():
    assert on_ranks(RANKS, strided) == [math.sqrt(204)] * RANKS
