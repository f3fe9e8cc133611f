"""Several plans of one group: which one a rank means is part of what ranks agree on."""

import pytest
import torch
from tests.ranks import on_ranks

pytestmark = pytest.mark.processes


def model(value):
    made = torch.nn.Linear(2, 2, bias=False)
    made.weight.grad = torch.full((2, 2), value)
    return made


def each_its_own(rank):
    from shardproof.errors import DisagreementError
    from shardproof.torch import ClipPlan

    models = [model(1.0), model(2.0)]
    plans = [ClipPlan(each, placements="distinct") for each in models]
    try:
        plans[rank].clip_(1.0)
    except DisagreementError as error:
        text = str(error)
    else:
        text = "no error"
    gradients = [each.weight.grad.flatten().tolist() for each in models]
    return text, gradients, [float(each.clip_(None)) ** 2 for each in plans]


def test_plans_of_two_models_of_one_architecture():
    """Their tensors have equal names and shapes; one rank's gradients of one were added to another's of the other."""
    for text, gradients, squares in on_ranks(2, each_its_own):
        assert "Ranks called differently" in text
        assert "plan" in text.split("ranks 1")[1]
        assert gradients == [[1.0] * 4, [2.0] * 4]
        assert squares == pytest.approx([8.0, 32.0])


def alternating(rank):
    from shardproof.torch import clip_grad_norm_

    first, second = model(1.0).weight, model(2.0).weight
    squares = []
    for step in range(6):
        # Rank 0 has no tensor of either model, rank 1 leaves out what has no gradient in this step.
        listed = [] if rank == 0 else [("first", first), ("second", second)][: 1 + step % 2]
        squares.append(float(clip_grad_norm_(listed, None, placements="distinct")) ** 2)
    return squares


def test_a_list_that_is_looked_up_on_one_rank_and_new_on_another():
    """Rank 0 keeps one plan for its empty list, rank 1 two; they disagreed from the third call on."""
    assert on_ranks(2, alternating) == [pytest.approx([4.0, 20.0] * 3)] * 2


def slips(rank):
    from shardproof.errors import ShardproofError
    from shardproof.torch import clip_grad_norm_

    weight = model(1.0).weight
    tensors, texts = [(["embed", "head"][rank], weight)], []
    for options in ({"tied": [("embedd", "haed")]}, {"groups": 5} if rank else {}, {"groups": 5}):
        try:
            clip_grad_norm_(tensors, 1.0, placements="distinct", **options)
        except ShardproofError as error:
            texts.append(f"{type(error).__name__}: {error}")
    return texts, float(clip_grad_norm_(tensors, None, placements="distinct", tied=[("embed", "head")]))


def test_slips_in_what_is_said():
    """A tie that names nothing counted its tensor twice; groups that are no mapping left the other ranks waiting."""
    for (tie, one_rank, all_ranks), norm in on_ranks(2, slips):
        assert tie.startswith("PlacementError") and "'embedd', 'haed'" in tie  # noqa: PT018
        assert one_rank.startswith("DisagreementError")
        assert all_ranks.startswith("InvalidTypeError")
        assert norm == 2.0
