"""reduce_partials on real ranks: listed in any order, means and sums, and what no sum makes whole."""

import warnings

import pytest
import torch
from tests.ranks import on_ranks

pytestmark = pytest.mark.processes


def summand(*values):
    made = torch.nn.Parameter(torch.zeros(len(values)))
    made.grad = torch.tensor(values)
    return made


def error_of(call):
    from shardproof.errors import ShardproofError

    try:
        call()
    except ShardproofError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def plain(listed, **options):
    from shardproof.torch import clip_grad_norm_

    return float(clip_grad_norm_(listed, None, placements="partial", reduce_partials=True, **options))


def listed_in_other_orders(rank):
    first, second = summand(1.0 + rank, 0.0), summand(10.0 + 10.0 * rank, 0.0)
    listed = [("first", first), ("second", second)]
    norm = plain(listed if rank == 0 else listed[::-1])
    return norm**2, first.grad.tolist(), second.grad.tolist()


def test_order_of_the_list_does_not_matter():
    """Packs were filled in the order of each rank's list, so that first was added to second."""
    answers = on_ranks(2, listed_in_other_orders)

    assert answers == [(pytest.approx(909.0), [3.0, 0.0], [30.0, 0.0])] * 2


def as_dtensors(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    from shardproof.torch import clip_grad_norm_

    warnings.filterwarnings("ignore", message="While redistributing")
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weight = torch.nn.Parameter(distribute_tensor(torch.zeros(4), mesh, [Replicate(), Replicate()]))
    cut = torch.nn.Parameter(distribute_tensor(torch.zeros(4), mesh, [Replicate(), Shard(0)]))

    def norm_of(parameter, *placements):
        parameter.grad = DTensor.from_local(torch.full((4,), 1.0 + rank), mesh, placements, run_check=False)
        return float(clip_grad_norm_([("weight", parameter)], None, reduce_partials=True))

    both = [norm_of(weight, Partial(a), Partial(b)) for a, b in (("sum", "sum"), ("avg", "sum"), ("sum", "avg"))]
    both += [norm_of(weight, Partial("avg"), Partial("avg")), norm_of(weight, Partial(), Partial())]
    refused = [error_of(lambda: norm_of(weight, Partial("max"), Replicate()))]
    refused += [error_of(lambda: norm_of(cut, Partial(), Partial()))]
    return both, refused


def test_means_and_sums_of_dtensors():
    """Ranks hold 1, 2, 3 and 4; a mean was taken for a sum beside a sum, or when the plan knew a mean from before."""
    for norms, refused in on_ranks(4, as_dtensors):
        assert norms == [20.0, 10.0, 10.0, 5.0, 20.0]
        assert all(each.startswith("PlacementError") and "redistribute" in each for each in refused)


def a_rank_lists_nothing(rank):
    return error_of(lambda: plain([("weight", summand(1.0))] if rank == 0 else []))


def test_rank_without_its_summand():
    """It did not take part in the sum, and gloo ended the other rank."""
    for text in on_ranks(2, a_rank_lists_nothing):
        assert text.startswith("PlacementError")
        assert "ranks [1] do not list it" in text


def two_dtypes(rank):
    weight = summand(1.0, 2.0)
    return error_of(
        lambda: plain([("weight", weight if rank == 0 else torch.nn.Parameter(weight.detach().bfloat16()))])
    )


def test_summands_of_two_dtypes():
    for text in on_ranks(2, two_dtypes):
        assert text.startswith("PlacementError")
        assert "sum of torch.bfloat16" in text


def sparse(rank):
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    embedding(torch.tensor([rank])).sum().backward()
    return error_of(lambda: plain(embedding)), embedding.weight.grad.is_sparse


def test_sparse_summands_are_refused():
    for text, untouched in on_ranks(2, sparse):
        assert text.startswith("InvalidValueError")
        assert "to_dense" in text
        assert untouched
