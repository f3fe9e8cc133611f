"""Imported by the forkserver before the first rank starts, so that ranks need not; it only imports."""

import importlib
import warnings

from shardproof.audit.ranks import strays
from shardproof.sums.kernels import best_kernel

for _module in (
    "torch._dynamo",  # DistributedDataParallel and DTensor import it when they are first used, for half a second
    "torch.distributed.fsdp",
    "torch.distributed.nn.functional",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
    "shardproof.audit.control",
    "shardproof.audit.ranks.worker",
    "shardproof.torch",
):
    importlib.import_module(_module)

# Imports numba where it is installed, half a second that each rank would need; nothing is compiled, no thread runs.
best_kernel()

# What a rank that has ended left behind becomes this process's child, and is ended with the rank's cell.
strays.adopt_orphans()
warnings.filterwarnings("ignore", message="forkserver: waitpid returned unexpected pid")
