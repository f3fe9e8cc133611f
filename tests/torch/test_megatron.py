"""Megatron's marks on real ranks: hand-made modules that carry them, judged by the exact rule on the whole model."""

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import global_norm

pytestmark = pytest.mark.processes


def marked(values, **marks):
    """A parameter with this gradient and these attributes."""
    values = torch.tensor(values)
    made = torch.nn.Parameter(torch.zeros_like(values))
    made.grad = values
    for attribute, value in marks.items():
        setattr(made, attribute, value)
    return made


def sharded(values, dim=0, **marks):
    return marked(values, tensor_model_parallel=True, partition_dim=dim, partition_stride=1, **marks)


def copied(values, **marks):
    return marked(values, tensor_model_parallel=False, partition_dim=-1, partition_stride=1, **marks)


def module(**tensors):
    made = torch.nn.Module()
    for name, each in tensors.items():
        made.register_parameter(name, each)
    return made


def mesh_of(**axes):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", tuple(axes.values()), mesh_dim_names=tuple(axes))


def clipped(model, limit, layout):
    """The norm, the clipped gradients, and by whom each tensor is counted."""
    from shardproof.torch import ClipPlan, clip_grad_norm_

    rows = {row.name: row for row in ClipPlan(model, **layout).describe().rows}
    norm = float(clip_grad_norm_(model, limit, **layout))
    return norm, {name: each.grad.tolist() for name, each in model.named_parameters()}, rows


def tensor_parallel(rank):
    from shardproof.torch import clip_grad_norm_
    from shardproof.torch.megatron import from_megatron

    model = module(
        column=sharded([[[3.0, 0.0]], [[0.0, 4.0]]][rank]),
        row=sharded([[[0.0], [0.0]], [[0.0], [0.0]]][rank], dim=1),
        norm=copied([12.0], sequence_parallel=True),
    )
    wrong = float(clip_grad_norm_(list(model.named_parameters()), None, placements="shard"))
    return *clipped(model, 6.5, from_megatron(model, mesh_of(tp=2), strict=True)), wrong


def test_tensor_parallel_counts_shards_and_one_copy():
    """Norm 13; summing the copy with the shards would give 17.69, as the plain sum over ranks does."""
    answers = on_ranks(2, tensor_parallel)
    assert [norm for norm, *_ in answers] == [13.0, 13.0]
    assert [grads["column"] for _, grads, *_ in answers] == [[[1.5, 0.0]], [[0.0, 2.0]]]
    assert [grads["norm"] for _, grads, *_ in answers] == [[6.0], [6.0]]
    rows = answers[1][2]
    assert (rows["column"].shape, rows["row"].shape, rows["norm"].shape) == ((2, 2), (2, 2), (1,))
    assert (rows["column"].owner, rows["norm"].owner) == (1, 0)
    assert answers[0][3] == global_norm([[3, 4, 12, 12]])


def pipeline(rank, first_mark, limit):
    from shardproof.torch.megatron import from_megatron

    mesh = mesh_of(pp=2, tp=2)
    stage, part = mesh.get_coordinate()
    embedding = [[1.0, 2.0], [3.0, 1.0]][part]
    if stage == 0:
        model = module(embedding=sharded(embedding, **first_mark), layer=copied([2.0]))
    else:
        marks = {"shared": True, "shared_embedding": True, "is_embedding_or_output_parameter": True}
        model = module(layer=copied([5.0]), output_layer=sharded(embedding, **marks))
    layout = from_megatron(model, mesh)
    return layout["tied"], clipped(model, limit, layout)


@pytest.mark.parametrize(
    "first_mark",
    [
        {"shared_embedding": True, "is_embedding_or_output_parameter": True},
        {"is_embedding_or_output_parameter": True},
    ],
)
def test_a_tied_embedding_counts_once_and_both_copies_are_clipped(first_mark):
    """PP 2 x TP 2: equal names on two stages are two layers, the embedding's two names are one tensor."""
    expected = global_norm([[1, 2, 3, 1], [2], [5]])
    answers = on_ranks(4, pipeline, first_mark, 1.0)
    factor = 1.0 / expected
    for rank, (tied, (norm, grads, rows)) in enumerate(answers):
        assert tied == [("embedding", "output_layer")]
        assert norm == expected
        name = "embedding" if rank < 2 else "output_layer"
        assert grads[name] == pytest.approx([value * factor for value in ([1, 2], [3, 1])[rank % 2]])
        assert rows[name].owner == rank % 2
        assert rows["layer"].owner == 2 * (rank // 2)


def experts(rank):
    from shardproof.torch.megatron import from_megatron

    mesh = mesh_of(dp=2, ep=2)
    which = mesh.get_coordinate()[1]
    model = module(
        expert=copied([[6.0, 2.0], [3.0, 6.0]][which], allreduce=False), router=copied([[4.0]], allreduce=True)
    )
    return clipped(model, 5.0, from_megatron(model, mesh, strict=True))


def test_experts_differ_over_ep_and_are_copied_over_the_rest():
    """EP 2 x DP 2: two experts under one name, a router on all four ranks."""
    expected = global_norm([[6, 2], [3, 6], [4]])
    answers = on_ranks(4, experts)
    assert [norm for norm, *_ in answers] == [expected] * 4
    assert [rows["expert"].owner for _, _, rows in answers] == [0, 1, 0, 1]
    assert [rows["expert"].copies for _, _, rows in answers] == [(0, 2), (1, 3)] * 2
    assert {rows["router"].owner for _, _, rows in answers} == {0}
    assert {row.coverage for _, _, rows in answers for row in rows.values()} == {"proved"}


def experts_over_tensor_ranks(rank):
    import torch.distributed as dist

    from shardproof.torch.megatron import from_megatron

    # TP 2 for dense parameters; experts are whole and spread over the same two ranks (EP 2, expert TP 1).
    tensor = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][rank // 2]
    data = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])][rank % 2]
    model = module(
        dense=sharded([[3.0], [0.0]][rank % 2], allreduce=True),
        expert=copied([[2.0, 2.0], [2.0, 2.0]][rank % 2], allreduce=False),
    )
    mesh = {"dp": data, "tp": tensor}
    return clipped(model, 2.5, from_megatron(model, mesh, expert="tp", expert_tensor=(), strict=True))


def test_experts_on_tensor_ranks_are_not_dropped_as_copies():
    """An unmarked expert on tensor rank 1 is no copy of the one on rank 0 (Megatron-LM pull request 5916)."""
    for norm, grads, _ in on_ranks(4, experts_over_tensor_ranks):
        assert norm == 5.0
        assert grads["expert"] == [1.0, 1.0]


def absent(rank):
    from shardproof import PlacementError
    from shardproof.torch.megatron import from_megatron

    mesh = mesh_of(ep=1, tp=2)
    model = module(plain=marked([5.0]), weight=sharded([[2.0], [1.0]][rank]))
    with pytest.raises(PlacementError, match="plain lack tensor_model_parallel"):
        from_megatron(model, mesh, strict=True)
    with pytest.warns(UserWarning, match=r"plain lack tensor_model_parallel: taken to mean a copy"):
        layout = from_megatron(model, mesh)
    norm = clipped(model, None, layout)[0]
    # One rank alone lacks it: both raise, and each may call again.
    model.plain.tensor_model_parallel = False
    if rank == 1:
        del model.weight.tensor_model_parallel
    with pytest.raises(PlacementError, match="weight lack tensor_model_parallel") as caught:
        from_megatron(model, mesh, strict=True)
    return norm, str(caught.value)


def test_an_absent_attribute_warns_or_is_refused_on_every_rank():
    """One rank has a tensor without marks; strict refuses on both ranks, and names the rank."""
    (norm, own), (same, other) = on_ranks(2, absent)
    assert norm == same == global_norm([[5], [2, 1]])
    assert own.startswith("Rank 1:")
    assert other.startswith("strict:")


def absent_expert_mark(rank):
    from shardproof.torch.megatron import from_megatron

    model = module(norm=copied([3.0]), expert=copied([4.0 * rank], allreduce=False))
    with pytest.warns(UserWarning, match=r"norm lack allreduce: taken to mean a dense parameter"):
        layout = from_megatron(model, mesh_of(ep=2))
    return clipped(model, None, layout)[0]


def test_an_absent_expert_mark_means_dense_and_is_said():
    """As in Megatron, where norms have no `allreduce`."""
    assert on_ranks(2, absent_expert_mark) == [5.0, 5.0]


def refusals(rank):
    from shardproof import InvalidTypeError, PlacementError
    from shardproof.torch.megatron import from_megatron

    mesh = mesh_of(pp=2)
    copy = copied([4.0], shared=True)
    lone = module(rest=copied([3.0]), copy=copy) if rank else module(rest=copied([3.0]), first=copied([4.0]))
    texts = []

    def refused(model, kind=PlacementError, axes=mesh, **options):
        with pytest.raises(kind) as caught:
            from_megatron(model, axes, **options)
        texts.append(str(caught.value))

    refused(lone)
    layout = from_megatron(lone, mesh, tied=[("first", "copy")])
    norm = clipped(lone, None, layout)[0]
    refused(module(a=copied([1.0])), axes=mesh_of(stage=2))
    refused(module(a=copied([1.0])), pipeline="pp", data=("dp", "pp"))
    refused(module(a=copied([1.0])), axes=mesh_of(tp=2), expert="tp")
    refused(module(a=copied([1.0], is_gtp_weight_remat=True)))
    refused(module(a=marked([1.0], tensor_model_parallel=1)), InvalidTypeError)
    return norm, texts


def test_what_the_marks_do_not_say_is_refused():
    """A copy without its first, an axis without a role, roles that exclude each other, unreadable marks."""
    for norm, texts in on_ranks(2, refusals):
        assert norm == global_norm([[3], [3], [4]])
        words = ("['copy'] are marked shared", "'stage' (2 ranks)", "'pp' has two roles", "expert_tensor=()")
        for text, word in zip(texts, (*words, "is_gtp_weight_remat", "to be a bool, got 1 (int)"), strict=True):
            assert word in text


def dtensors(rank):
    from torch.distributed.tensor import Shard, distribute_tensor

    from shardproof import PlacementError
    from shardproof.torch.megatron import from_megatron

    mesh = mesh_of(tp=2)
    with pytest.raises(PlacementError, match="says its placement itself"):
        from_megatron(
            module(a=torch.nn.Parameter(distribute_tensor(torch.zeros(2), mesh, [Shard(0)]))), mesh, strict=True
        )
    return True


def test_dtensors_are_left_to_say_it_themselves():
    """Megatron's own FSDP keeps DTensors."""
    assert on_ranks(2, dtensors) == [True, True]


def wrong_marks(rank):
    from shardproof import UnequalCopiesError
    from shardproof.torch import clip_grad_norm_
    from shardproof.torch.megatron import from_megatron

    # A shard that is marked a copy, as third-party layers have done.
    model = module(weight=copied([[3.0], [4.0]][rank]))
    layout = from_megatron(model, mesh_of(tp=2), strict=True)
    with pytest.raises(UnequalCopiesError, match="weight"):
        clip_grad_norm_(model, 1.0, check_copies=True, **layout)
    return model.weight.grad.tolist()


def test_a_wrong_mark_is_found_by_comparing_copies():
    """`check_copies` refuses what is marked a copy and is none; nothing is touched."""
    assert on_ranks(2, wrong_marks) == [[3.0], [4.0]]


def grouped(rank):
    from shardproof.torch import clip_grad_norm_, from_megatron

    # The last stage has the multi-token-prediction head; the first has no parameter of that group.
    held = [{"a": marked([3.0, 0.0])}, {"b": marked([0.0, 4.0]), "mtp": marked([6.0, 8.0], grad_norm_group="mtp")}]
    model = module(**held[rank])
    layout = from_megatron(model, mesh_of(pp=2))
    norms = clip_grad_norm_(model, 1.0, **layout)
    return {name: float(each) for name, each in norms.items()}, {
        n: p.grad.tolist() for n, p in model.named_parameters()
    }


def test_a_gradient_norm_group_is_clipped_by_its_own_norm():
    """As Megatron does it: 5 for all others, 10 for the group; also a rank without the group knows of it."""
    (norms, first), (other_norms, last) = on_ranks(2, grouped)
    assert norms == other_norms == {"main": 5.0, "mtp": 10.0}
    assert (first, last) == (
        {"a": torch.tensor([0.6, 0.0]).tolist()},
        {"b": torch.tensor([0.0, 0.8]).tolist(), "mtp": torch.tensor([0.6, 0.8]).tolist()},
    )


def bad_group(rank):
    from shardproof import InvalidTypeError
    from shardproof.torch import from_megatron

    model = module(a=marked([3.0], grad_norm_group=[None, 7][rank]))
    with pytest.raises(InvalidTypeError, match=r"grad_norm_group of a to be None or a name .* got 7 \(int\)"):
        from_megatron(model, mesh_of(pp=2))


def test_a_group_that_is_no_name_is_refused_on_all_ranks():
    on_ranks(2, bad_group)
