"""Names, ties and memory that several entries share, and arguments that only one rank gets wrong."""

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import InvalidTypeError, InvalidValueError, PlacementError, UnequalCopiesError


def parameter(values):
    made = torch.nn.Parameter(torch.zeros(2 if values is None else len(values)))
    made.grad = None if values is None else torch.tensor(values)
    return made


def test_a_tied_tensor_whose_first_name_has_no_gradient():
    """Both names on one rank: the one that has the gradient counts, whichever it is."""
    from shardproof.torch import clip_grad_norm_

    for first, second in ((None, [3.0, 4.0]), ([3.0, 4.0], None), ([3.0, 4.0], [3.0, 4.0])):
        a, b = parameter(first), parameter(second)
        assert float(clip_grad_norm_([("a", a), ("b", b)], 2.5, tied=[("a", "b")])) == 5.0
        for each in (a, b):
            assert each.grad is None or each.grad.tolist() == [1.5, 2.0]


def tied_beside_another(rank):
    from shardproof.torch import clip_grad_norm_

    here = [("a", parameter(None)), ("b", parameter([3.0, 4.0]))] if rank == 0 else [("c", parameter([12.0]))]
    return float(clip_grad_norm_(here, None, placements="distinct", tied=[("a", "b")]))


@pytest.mark.processes
def test_a_tied_tensor_on_one_of_two_ranks():
    """Norm 13 over both ranks."""
    assert on_ranks(2, tied_beside_another) == [13.0, 13.0]


def other_names(rank):
    from shardproof.torch import clip_grad_norm_

    model = torch.nn.Linear(2, 1)
    model.weight.grad, model.bias.grad = torch.tensor([[3.0, 4.0]]), torch.tensor([12.0])
    wrapped = torch.nn.ModuleDict({"module": model})
    with pytest.raises(PlacementError, match="do not list it under this name"):
        clip_grad_norm_(wrapped if rank else model, 100.0, placements="replicate")
    with pytest.raises(PlacementError, match="do not list it under this name"):
        clip_grad_norm_(list(model.parameters()) if rank else model, 100.0, placements="replicate")
    return float(clip_grad_norm_(model, None, placements="replicate"))


@pytest.mark.processes
def test_copies_under_other_names_are_refused():
    """A prefix on one rank, or a list here and a module there: never counted under each name."""
    assert on_ranks(2, other_names) == [13.0, 13.0]


def inside_its_own_mesh(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate

    from shardproof.torch import clip_grad_norm_

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "ep"))
    flat = mesh._flatten("all")
    weight = torch.nn.Parameter(DTensor.from_local(torch.zeros(2), flat, [Replicate()]))
    weight.grad = DTensor.from_local(torch.tensor([3.0, 4.0]), flat, [Replicate()])
    with pytest.raises(PlacementError, match="lies inside the tensor's own mesh"):
        clip_grad_norm_([("w", weight)], 1.0, mesh=mesh, placements={"*": {"ep": "distinct"}})
    return float(clip_grad_norm_([("w", weight)], None, mesh=mesh, placements={"*": {"ep": "replicate"}}))


@pytest.mark.processes
def test_an_axis_inside_a_tensors_own_mesh_cannot_be_said_otherwise():
    """The own mesh has another axis name; the contradiction is an error all the same."""
    assert on_ranks(4, inside_its_own_mesh) == [5.0] * 4


def test_gradients_that_would_be_scaled_twice_are_refused():
    """Parts of one memory, and one object in two groups; nothing is touched."""
    from shardproof.torch import clip_grad_norm_

    memory = torch.tensor([3.0, 4.0, 0.0, 0.0])
    for view in (memory[:2], memory[::2], memory[1:3]):
        a, b = parameter([0.0] * 4), parameter([0.0] * len(view))
        a.grad, b.grad = memory, view
        with pytest.raises(InvalidValueError, match="share memory"):
            clip_grad_norm_([("a", a), ("b", b)], 1.0)
    assert memory.tolist() == [3.0, 4.0, 0.0, 0.0]
    a.grad = b.grad = None
    c, d = parameter([3.0, 4.0]), parameter([3.0, 4.0])
    d.grad = c.grad
    with pytest.raises(InvalidValueError, match="share memory"):
        clip_grad_norm_([("c", c), ("d", d)], 1.0, groups={"x": ["c"], "y": ["d"]})


def test_strided_views_are_refused_where_they_share_an_element_and_taken_where_they_do_not():
    """Extents that cross are no overlap; one element in two views is."""
    from shardproof.torch import clip_grad_norm_

    def listed(*views):
        made = [(f"p{index}", torch.nn.Parameter(torch.zeros(view.shape))) for index, view in enumerate(views)]
        for (_, each), view in zip(made, views, strict=True):
            each.grad = view
        return made

    memory = torch.arange(1.0, 13.0).reshape(3, 4)
    for views in (
        (memory[:, :2], memory[:, 1]),
        (memory[:, 1], memory[:, :2]),
        (memory[:, :1], memory[2, :]),
        (memory.flatten()[::3], memory.flatten()[::2]),
    ):
        before = memory.clone()
        with pytest.raises(InvalidValueError, match=r"p[01] and p[01] share memory"):
            clip_grad_norm_(listed(*views), 1.0)
        assert torch.equal(memory, before)
    norm = clip_grad_norm_(listed(memory[:, :2], memory[:, 2:]), 650**0.5 / 2)
    assert float(norm) == 650**0.5
    assert torch.allclose(memory, torch.arange(1.0, 13.0).reshape(3, 4) / 2)


def test_a_pattern_that_means_no_tensor_of_any_rank_is_said_by_the_description():
    from shardproof.torch import ClipPlan

    listed = [("model.experts.0", parameter([3.0, 4.0])), ("c", parameter([0.0]))]
    said = {"placements": {"*.expert.*": "replicate", "*": "replicate"}, "groups": {"a": ["layers.0*"], "b": ["*"]}}
    description = ClipPlan(listed, **said).describe()

    assert description.unmatched == ("placements '*.expert.*'", "groups['a'] 'layers.0*'")
    assert str(description).endswith("no tensor of any rank matches placements '*.expert.*', groups['a'] 'layers.0*'")
    assert ClipPlan(listed, placements={"*.experts.*": "replicate", "*": "shard"}).describe().unmatched == ()


def test_tied_copies_on_one_rank_are_compared_too():
    """check_copies: two names of one tensor with different gradients, on a single rank."""
    from shardproof.torch import clip_grad_norm_

    listed = [("a", parameter([3.0, 4.0])), ("b", parameter([30.0, 40.0]))]
    with pytest.raises(UnequalCopiesError, match="a is one thing on ranks 0 and another on ranks 0"):
        clip_grad_norm_(listed, 1.0, tied=[("a", "b")], check_copies=True)
    listed[1][1].grad = torch.tensor([3.0, 4.0])
    assert float(clip_grad_norm_(listed, 1.0, tied=[("a", "b")], check_copies=True)) == 5.0


BAD = ({"owned": {"a": 5}}, {"shape": {"a": 4}}, {"tied": [5]}, {"groups": ["a"]}, {"max_norm": torch.ones(2)})


def wrong_on_one(rank, number):
    from shardproof import ShardproofError
    from shardproof.torch import clip_grad_norm_

    weight = parameter([[3.0], [4.0]][rank])
    arguments = {"max_norm": 1.0, **(BAD[number] if rank == 0 else {})}
    # Groups are compared before they are read, so that error is the same on both ranks.
    kind = InvalidTypeError if rank == 0 and "groups" not in BAD[number] else ShardproofError
    with pytest.raises(kind):
        clip_grad_norm_([("a", weight)], placements="shard", **arguments)
    return float(clip_grad_norm_([("a", weight)], None, placements="shard"))


@pytest.mark.processes
@pytest.mark.parametrize("number", range(len(BAD)))
def test_an_argument_of_the_wrong_type_on_one_rank_is_an_error_on_all(number):
    """The other ranks hear of it at once, and the group can be used again."""
    assert on_ranks(2, wrong_on_one, number) == [5.0, 5.0]
