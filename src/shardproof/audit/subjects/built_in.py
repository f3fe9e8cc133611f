"""The subjects that come with the audit: their names, what they need, and where their clip is."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from shardproof.audit.subjects.capabilities import EVERYWHERE, Capabilities

Framework = Literal["torch", "jax", "files"]
TWO: Final = Capabilities(norm_types=(2.0,))


@dataclass(frozen=True)
class BuiltIn:
    """One built-in subject.

    Attributes:
        calls: the real library's function, as a reader would look it up.
        clip: "module:name" of the few lines that call it; loaded on ranks only.
        needs: the packages that are imported.
        install: the line that installs them.
    """

    calls: str
    clip: str
    needs: tuple[str, ...] = ("torch",)
    install: str = "pip install 'shardproof[torch]'"
    framework: Framework = "torch"
    capabilities: Capabilities = EVERYWHERE


_CLIPS: Final = "shardproof.audit.subjects.torch_clips"
_JAX: Final = "shardproof.audit.subjects.jax_clips"

BUILT_IN: Final[Mapping[str, BuiltIn]] = MappingProxyType(
    {
        "torch": BuiltIn("torch.nn.utils.clip_grad_norm_", f"{_CLIPS}:torch"),
        "torch-total-norm": BuiltIn(
            "torch.nn.utils.get_total_norm, then clip_grads_with_norm_", f"{_CLIPS}:torch_total_norm"
        ),
        "fsdp1": BuiltIn(
            "torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_",
            f"{_CLIPS}:fsdp1",
            capabilities=Capabilities(layouts=("fsdp1*",)),
        ),
        "accelerate": BuiltIn(
            "accelerate.Accelerator.clip_grad_norm_"
            ", told the distributed_type that it has on a GPU: on a CPU it ignores its FSDP plugin",
            f"{_CLIPS}:Accelerate",
            ("torch", "accelerate"),
            "pip install 'shardproof[torch]' accelerate",
        ),
        "fabric": BuiltIn(
            "lightning_fabric.Fabric.clip_gradients"
            "; under FSDP1 its strategy's method directly, as Fabric refuses that strategy on a CPU",
            f"{_CLIPS}:Fabric",
            ("torch", "lightning_fabric"),
            "pip install 'shardproof[torch]' lightning-fabric",
        ),
        "deepspeed": BuiltIn(
            "deepspeed.runtime.utils.clip_grad_norm_ on plain parameters, without a model-parallel unit",
            f"{_CLIPS}:DeepSpeed",
            ("torch", "deepspeed"),
            "pip install 'shardproof[torch]' deepspeed",
        ),
        "optax": BuiltIn(
            "optax.clip_by_global_norm inside jax.jit on arrays with a NamedSharding",
            f"{_JAX}:OptaxJit",
            ("jax", "optax"),
            "pip install 'jax[cpu]' optax",
            framework="jax",
            capabilities=TWO,
        ),
        "optax-shard-map": BuiltIn(
            "optax.clip_by_global_norm inside jax.shard_map, on each device's own slices",
            f"{_JAX}:optax_shard_map",
            ("jax", "optax"),
            "pip install 'jax[cpu]' optax",
            framework="jax",
            capabilities=TWO,
        ),
        "shardproof": BuiltIn("shardproof.torch.clip_grad_norm_", f"{_CLIPS}:shardproof"),
    }
)


def missing(spec: str) -> str | None:
    """Why a built-in subject cannot be run here, with the line that installs what it needs; None where it can."""
    subject = BUILT_IN.get(spec)
    lacking = [name for name in subject.needs if importlib.util.find_spec(name) is None] if subject else []
    if subject is None or not lacking:
        return None
    return f"{spec} needs {' and '.join(lacking)}, which is not installed: {subject.install}"
