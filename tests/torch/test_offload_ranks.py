"""FSDP2 with parameters and gradients offloaded to the host, with a real backward, judged by the whole model."""

import pytest
import torch
from tests.ranks import on_ranks

from shardproof import global_norm

pytestmark = pytest.mark.processes


def whole():
    """A model of small integers, so that every gradient is exact on any number of ranks."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 5, bias=False), torch.nn.Linear(5, 1))
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(torch.arange(each.numel()).reshape(each.shape) - 2)
    return model


def offloaded(rank, ranks):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

    from shardproof.torch import ClipPlan

    model = whole()
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    # torch pins memory only where there is an accelerator; without it, offloading works on the host alone.
    fully_shard(model, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
    plan, norms = ClipPlan(model), []
    for _ in range(2):  # the second step's gradients are new objects
        model.zero_grad(set_to_none=True)
        model(torch.tensor([[1.0, 2.0, -1.0]])).sum().backward()
        before = [each.grad.to_local().clone() for each in model.parameters()]
        norms.append(float(plan.clip_(0.75)))
        factor = 0.75 / norms[-1]
        for each, values in zip(model.parameters(), before, strict=True):
            assert each.grad.to_local().device.type == "cpu"
            assert torch.equal(each.grad.to_local(), (values.double() * factor).float())
    return norms, {row.coverage for row in plan.describe().rows}


@pytest.mark.parametrize("ranks", [2, 3])
def test_offloaded_gradients_are_counted_once(ranks):
    model = whole()
    model(torch.tensor([[1.0, 2.0, -1.0]])).sum().backward()
    expected = global_norm([each.grad.flatten().tolist() for each in model.parameters()])
    assert on_ranks(ranks, offloaded, ranks) == [([expected, expected], {"proved"})] * ranks
