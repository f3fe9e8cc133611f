"""Imported by the forkserver before the first rank starts, so that ranks need not; it only imports."""

import importlib

for _module in (
    "torch._dynamo",  # DistributedDataParallel and DTensor import it when they are first used, for half a second
    "torch.distributed.fsdp",
    "torch.distributed.nn.functional",
    "torch.distributed.tensor.parallel",
    "torch.nn.parallel",
    "shardproof.audit.control",
    "shardproof.audit.ranks.worker",
):
    importlib.import_module(_module)
