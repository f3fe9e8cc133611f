"""Each row of docs/differences-from-torch.md, run: what torch 2.13 does and what shardproof does with the same call."""

import math
import re
from pathlib import Path

import pytest
import torch
from tests.ranks import on_ranks
from torch.nn.utils import clip_grad_norm_ as of_torch
from torch.nn.utils import get_total_norm as norm_of_torch

from shardproof import InvalidValueError, NonFiniteGradientError, clip_factor, global_norm
from shardproof.torch import clip_grad_norm_, get_total_norm

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"the page states what torch 2.13 does, this is {torch.__version__}",
)

PAGE = Path(__file__).parents[2] / "docs" / "differences-from-torch.md"


def parameter(values, dtype=torch.float32):
    values = torch.as_tensor(values, dtype=dtype)
    made = torch.nn.Parameter(torch.zeros_like(values))
    made.grad = values.clone()
    return made


def both(values, limit, dtype=torch.float32, **options):
    """(norm, gradient) of torch and of shardproof for one parameter."""
    results = []
    for clip in (of_torch, clip_grad_norm_):
        weight = parameter(values, dtype)
        results.append((float(clip([weight], limit, **options)), weight.grad.tolist()))
    return results


def refused(values, limit, **options):
    """torch's result, and that shardproof refuses the call and leaves the gradient as it was."""
    weight = parameter(values)
    with pytest.raises(InvalidValueError):
        clip_grad_norm_([weight], limit, **options)
    assert weight.grad.tolist() == values
    weight = parameter(values)
    return float(of_torch([weight], limit, **options)), weight.grad.tolist()


def float32(*values):
    return torch.tensor(values, dtype=torch.float64).float().tolist()


# ---- the factor


def test_epsilon():
    """torch divides by norm + 1e-6; eps=1e-6 gives the same factor here, rounded once."""
    (_, theirs), (_, ours) = both([3.0, 4.0], 1.0)
    assert ours == float32(0.6, 0.8)
    assert theirs != ours
    assert theirs == pytest.approx([3 / (5 + 1e-6), 4 / (5 + 1e-6)], rel=1e-7)
    weight = parameter([3.0, 4.0])
    clip_grad_norm_([weight], 1.0, eps=1e-6)
    assert weight.grad.tolist() == float32(3 * (1 / (5 + 1e-6)), 4 * (1 / (5 + 1e-6)))


def test_tiny_norm():
    """A norm of 5e-8 and a limit of 1e-8: torch scales to 4.8e-10, a twentieth of the limit."""
    (_, theirs), (_, ours) = both([3e-8, 4e-8], 1e-8)
    assert global_norm([theirs]) == pytest.approx(4.76e-10, rel=1e-2)
    assert global_norm([ours]) == pytest.approx(1e-8, rel=1e-6)


def test_norm_equal_to_the_limit():
    """torch rescales; the rule is one at the limit."""
    (_, theirs), (_, ours) = both([3.0, 4.0], 5.0)
    assert theirs[0] < 3.0
    assert theirs[1] < 4.0
    assert ours == [3.0, 4.0]


def test_factor_in_the_gradients_dtype():
    """bf16: torch rounds the norm, the factor and the product; here the product alone is rounded."""
    values = [1.25, 1.5]
    (_, theirs), (_, ours) = both(values, 1.0, torch.bfloat16)
    exact = [value * clip_factor(global_norm([values]), 1.0) for value in values]
    assert ours == torch.tensor(exact, dtype=torch.float64).bfloat16().tolist()
    assert theirs != ours


def test_under_the_limit():
    """torch multiplies by one, a pass over the gradient; here nothing is written."""
    versions = []
    for clip in (of_torch, clip_grad_norm_):
        weight = parameter([3.0, 4.0])
        before = weight.grad._version
        clip([weight], 10.0)
        versions.append(weight.grad._version - before)
    assert versions == [1, 0]


# ---- the limit


def test_negative_limit():
    """torch flips every sign."""
    norm, theirs = refused([3.0, 4.0], -1.0)
    assert (norm, [value < 0 for value in theirs]) == (5.0, [True, True])


def test_nan_limit():
    """torch fills the gradient with NaN."""
    norm, theirs = refused([3.0, 4.0], math.nan)
    assert norm == 5.0
    assert all(map(math.isnan, theirs))


@pytest.mark.parametrize("limit", [True, "1"])
def test_limit_that_is_no_number(limit):
    """torch takes a bool and text."""
    with pytest.raises((TypeError, ValueError), match="limit"):
        clip_grad_norm_([parameter([3.0, 4.0])], limit)
    assert float(of_torch([parameter([3.0, 4.0])], limit)) == 5.0


def test_infinite_limit_with_an_infinite_norm():
    """inf / inf: torch fills the gradient with NaN, though the limit asks for no clipping."""
    for values in ([3e25, 4e25], [math.inf, 1.0]):
        (norm, theirs), (_, ours) = both(values, math.inf)
        assert norm == math.inf
        assert all(map(math.isnan, theirs))
        assert ours == parameter(values).grad.tolist()


def test_no_limit():
    """None measures here; torch raises TypeError."""
    assert float(clip_grad_norm_([parameter([3.0, 4.0])], None)) == 5.0
    with pytest.raises(TypeError):
        of_torch([parameter([3.0, 4.0])], None)


# ---- values that are not finite


def test_nan_in_a_gradient():
    """torch spreads the NaN over every gradient."""
    (norm, theirs), (other, ours) = both([math.nan, 4.0], 1.0)
    assert all(map(math.isnan, (norm, other, *theirs, ours[0])))
    assert ours[1] == 4.0


def test_infinity_in_a_gradient():
    """torch zeroes the finite values and makes the infinite ones NaN."""
    (norm, theirs), (other, ours) = both([math.inf, 4.0], 1.0)
    assert (norm, other) == (math.inf, math.inf)
    assert math.isnan(theirs[0])
    assert (theirs[1], ours) == (0.0, [math.inf, 4.0])


# ---- the norm


def test_squares_overflow():
    """torch's norm of [3e25, 4e25] is inf and the gradient becomes zero; the same for float16 beyond 65504."""
    (norm, theirs), (other, ours) = both([3e25, 4e25], 1.0)
    assert (norm, theirs) == (math.inf, [0.0, 0.0])
    assert other == global_norm([float32(3e25, 4e25)])
    assert ours == pytest.approx([0.6, 0.8], rel=1e-7)
    (norm, theirs), (other, ours) = both([3e4] * 6, 1.0, torch.float16)
    assert (norm, theirs) == (math.inf, [0.0] * 6)
    assert other == global_norm([torch.tensor([3e4] * 6).half().tolist()])


def test_squares_underflow():
    """torch's norm of [3e-30, 4e-30] is 0."""
    (norm, _), (other, _) = both([3e-30, 4e-30], 1.0)
    assert norm == 0.0
    assert other == global_norm([float32(3e-30, 4e-30)])


def test_bf16_norm():
    """torch rounds the norm of bf16 gradients to bf16."""
    (norm, _), (other, _) = both([3.0, 4.0, 1.0], 100.0, torch.bfloat16)
    assert (norm, other) == (5.09375, math.sqrt(26.0))


def test_many_values():
    """2**24 values of 0.1: torch's float32 norm is 0.9% low on this CPU; bound here at a tenth of that."""
    values = torch.full((1 << 24,), 0.1)
    exact = float(values[0]) * 4096.0
    assert float(get_total_norm([values])) == exact
    assert abs(float(norm_of_torch([values])) / exact - 1) > 1e-3


def test_bits_depend_on_the_split():
    """The same values in one tensor, in two, in four: torch gives different norms."""
    values = torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    splits = [[values], list(values.split(50_000)), list(values.split(33_333))]
    assert len({float(norm_of_torch(each)) for each in splits}) > 1
    assert {float(get_total_norm(each)) for each in splits} == {global_norm([values.tolist()])}


def test_returned_dtype():
    """torch: the gradients' dtype, and a DTensor for DTensors (see below). Here a plain float64 scalar."""
    assert of_torch([parameter([3.0], torch.bfloat16)], 1.0).dtype == torch.bfloat16
    ours = clip_grad_norm_([parameter([3.0], torch.bfloat16)], 1.0)
    assert (type(ours), ours.dtype, ours.dim()) == (torch.Tensor, torch.float64, 0)


def test_order_zero_and_below():
    """torch's order 0 counts tensors that are not zero, not values; a negative order divides by zero values."""
    assert refused([3.0, 4.0, 0.0], 10.0, norm_type=0)[0] == 1.0
    assert refused([3.0, 4.0, 0.0], 10.0, norm_type=-1)[0] == 0.0


# ---- which tensors


def test_parameter_listed_twice():
    """torch counts it twice and scales it twice."""
    results = []
    for clip in (of_torch, clip_grad_norm_):
        weight = parameter([3.0, 4.0])
        results.append((float(clip([weight, weight], 1.0)), weight.grad.tolist()))
    (norm, theirs), (other, ours) = results
    assert norm == pytest.approx(math.sqrt(50))
    assert theirs == pytest.approx([3 / 50, 4 / 50], rel=1e-6)
    assert (other, ours) == (5.0, float32(0.6, 0.8))


def test_empty_gradient_in_the_infinity_norm():
    """torch raises; an empty tensor adds nothing to any norm."""
    empty, weight = parameter([]), parameter([3.0])
    with pytest.raises(RuntimeError, match="empty"):
        of_torch([empty, weight], 1.0, norm_type=math.inf)
    assert float(clip_grad_norm_([empty, weight], 1.0, norm_type=math.inf)) == 3.0


def sparse(coalesced):
    made = torch.nn.Parameter(torch.zeros(3))
    grad = torch.sparse_coo_tensor([[0, 2]], [3.0, 4.0], (3,), check_invariants=True)
    made.grad = grad.coalesce() if coalesced else grad
    return made


def test_sparse_gradient():
    """torch raises; here a coalesced one is clipped, an uncoalesced one refused with the reason."""
    with pytest.raises(RuntimeError, match="Sparse"):
        of_torch([sparse(coalesced=True)], 1.0)
    weight = sparse(coalesced=True)
    assert float(clip_grad_norm_([weight], 1.0)) == 5.0
    assert weight.grad.to_dense().tolist() == float32(0.6, 0, 0.8)
    with pytest.raises(InvalidValueError, match="coalesce"):
        clip_grad_norm_([sparse(coalesced=False)], 1.0)


# ---- several ranks


def outcome(call):
    """The result, or the name of the error."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__


def cut(values, mesh, placements):
    """A parameter and its gradient as DTensors."""
    from torch.distributed.tensor import distribute_tensor

    values = torch.tensor(values)
    made = torch.nn.Parameter(distribute_tensor(torch.zeros_like(values), mesh, placements))
    made.grad = distribute_tensor(values, mesh, placements)
    return made


def mesh_of(*sizes):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", sizes, mesh_dim_names=("dp", "tp")[-len(sizes) :])


def hand_sharded(rank):
    theirs, ours = parameter([3.0 + rank]), parameter([3.0 + rank])
    norm = float(of_torch([theirs], 1.0))
    silent = outcome(lambda: clip_grad_norm_([ours], 1.0))
    said = float(clip_grad_norm_([ours], 1.0, placements="shard"))
    return norm, theirs.grad.tolist(), silent, said, ours.grad.tolist()


@pytest.mark.processes
def test_plain_tensors_on_several_ranks():
    """torch clips each rank's part by its own norm and says nothing; here the placement has to be said."""
    for rank, (norm, theirs, silent, said, ours) in enumerate(on_ranks(2, hand_sharded)):
        assert norm == 3.0 + rank
        assert theirs == pytest.approx([1.0])
        assert (silent, said) == ("PlacementError", 5.0)
        assert ours == float32([0.6, 0.8][rank])


def mixed(rank):
    from torch.distributed.tensor import Replicate, Shard

    mesh = mesh_of(1, 2)
    cases = {
        "two meshes": (
            [cut([3.0, 4.0], mesh["tp"], [Shard(0)]), cut([12.0], mesh, [Replicate(), Replicate()])],
            {"mesh": mesh},
        ),
        "plain": (
            [cut([3.0, 4.0], mesh["tp"], [Shard(0)]), plain := parameter([12.0, 0.0])],
            {"mesh": mesh["tp"], "placements": {plain: "replicate"}},
        ),
    }
    return {
        name: (outcome(lambda each=each: float(of_torch(each, 1.0))), float(clip_grad_norm_(each, 1.0, **options)))
        for name, (each, options) in cases.items()
    }


@pytest.mark.processes
def test_several_meshes_or_plain_tensors_and_dtensors():
    """torch raises; here they are one norm."""
    for answers in on_ranks(2, mixed):
        assert answers == {"two meshes": ("RuntimeError", 13.0), "plain": ("RuntimeError", 13.0)}


def one_element(rank):
    from torch.distributed.tensor import Shard

    mesh = mesh_of(2)
    listed = [("cut", cut([3.0, 4.0], mesh, [Shard(0)])), ("plain", parameter([12.0 * rank]))]
    norm = float(of_torch([each for _, each in listed], math.inf).full_tensor())
    options = {"mesh": mesh, "placements": {"plain": "distinct"}}
    return (
        norm,
        outcome(lambda: clip_grad_norm_(listed, 1.0, mesh=mesh)),
        float(clip_grad_norm_(listed, 1.0, **options)),
    )


@pytest.mark.processes
def test_plain_tensor_of_one_element_beside_dtensors():
    """torch takes it for a copy: of 0 on rank 0 and 12 on rank 1 it counts half of the sum of squares."""
    for norm, silent, said in on_ranks(2, one_element):
        assert norm == pytest.approx(math.sqrt(25 + 144 / 2))
        assert (silent, said) == ("PlacementError", 13.0)


def largest(rank):
    from torch.distributed.tensor import Shard

    norms = []
    for clip in (of_torch, clip_grad_norm_):
        norm = clip([cut([3.0, 4.0], mesh_of(2), [Shard(0)])], math.inf, norm_type=math.inf)
        norms.append((type(norm).__name__, norm.item()))
    return norms


@pytest.mark.processes
def test_item_of_the_infinity_norm():
    """torch returns a DTensor that is still partial: `.item()` is the largest value of this rank, 3 and 4."""
    assert on_ranks(2, largest) == [
        [("DTensor", 3.0), ("Tensor", 4.0)],
        [("DTensor", 4.0), ("Tensor", 4.0)],
    ]


def partial(rank):
    from torch.distributed.tensor import DTensor, Partial, Replicate

    mesh = mesh_of(2)
    made = torch.nn.Parameter(DTensor.from_local(torch.zeros(2), mesh, [Replicate()]))
    made.grad = DTensor.from_local(torch.tensor([[1.0, 3.0], [2.0, 1.0]][rank]), mesh, [Partial()])
    norm = float(of_torch([made], math.inf).full_tensor())
    refusal = outcome(lambda: clip_grad_norm_([made], 1.0))
    return norm, refusal, float(clip_grad_norm_([made], 1.0, reduce_partials=True)), made.grad.to_local().tolist()


@pytest.mark.processes
def test_partial_gradients():
    """torch's norm is right, its gradients stay summands; here refused, or reduced in one collective and clipped."""
    answer = (5.0, "InvalidValueError", 5.0, float32(0.6, 0.8))
    assert on_ranks(2, partial) == [answer, answer]


def clipped(rank, clip, values, missing, options):
    """One call on DTensors cut over two ranks; `missing` says which rank has no gradient."""
    from torch.distributed.tensor import Shard

    weight = cut(values, mesh_of(2), [Shard(0)])
    if rank == missing:
        weight.grad = None
    return outcome(lambda: float({"torch": of_torch, "shardproof": clip_grad_norm_}[clip]([weight], 1.0, **options)))


@pytest.mark.processes
def test_empty_shard_in_the_infinity_norm():
    """One element over two ranks: torch raises on the rank without one, and the other waits for it until it fails."""
    options = {"norm_type": math.inf}
    assert on_ranks(2, clipped, "torch", [3.0], None, options) == ["RuntimeError", "RuntimeError"]
    assert on_ranks(2, clipped, "shardproof", [3.0], None, options) == [3.0, 3.0]


@pytest.mark.processes
def test_rank_without_gradients():
    """torch returns 0 there without a collective, and the other rank waits for it until it fails."""
    assert on_ranks(2, clipped, "torch", [3.0, 4.0], 1, {}) == ["RuntimeError", 0.0]
    assert on_ranks(2, clipped, "shardproof", [3.0, 4.0], 1, {}) == [3.0, 3.0]


def stages(rank):
    weight = parameter([math.nan if rank else 4.0])
    theirs = outcome(lambda: float(of_torch([weight], 1.0, error_if_nonfinite=True)))
    weight = parameter([math.nan if rank else 4.0])
    try:
        clip_grad_norm_([("weight", weight)], 1.0, error_if_nonfinite=True, placements="distinct")
    except NonFiniteGradientError as error:
        return theirs, str(error)
    return theirs, ""


@pytest.mark.processes
def test_error_if_nonfinite():
    """A NaN on one pipeline stage: torch raises there only; here on every rank, with the rank and the parameter."""
    answers = on_ranks(2, stages)
    assert [theirs for theirs, _ in answers] == [4.0, "RuntimeError"]
    assert answers[0][1] == answers[1][1]
    assert "rank 1: weight" in answers[0][1]
    assert issubclass(NonFiniteGradientError, RuntimeError)


# ---- the page


def rows():
    """The tests that the page's table names, row by row."""
    return re.findall(r"^\|.*\| `(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_has_a_row_for_each_difference_and_no_other():
    """Every row names a test of this file, and every test of a difference has its row."""
    here = [name for name in globals() if name.startswith("test_") and not name.startswith("test_the_page")]
    assert sorted(rows()) == sorted(here)
