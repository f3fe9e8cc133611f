"""A job of a user's own that clips what `shardproof audit export` wrote; it needs torch and safetensors only.

torchrun --nproc-per-node N job.py DIR LAYOUT
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file


def clip(params, max_norm, job, norm_type=2.0):
    """The code in question: here torch's own clip, which knows nothing of the other ranks."""
    return torch.nn.utils.clip_grad_norm_(params, max_norm, norm_type=norm_type)


def main(folder, layout, clip=clip):
    here, out = Path(folder, "job", layout), Path(folder, "results", layout)
    job, rank = json.loads((here / "job.json").read_text()), dist.get_rank() if dist.is_initialized() else 0
    for call in job["calls"]:
        grads = load_file(here / call["name"] / f"rank{rank}.safetensors")
        params = {name: torch.nn.Parameter(torch.zeros_like(grad)) for name, grad in grads.items()}
        for name, param in params.items():
            param.grad = grads[name]
        try:
            norm = clip(list(params.values()), float(call["limit"]), job, float(call["norm_type"]))
            answer = {"norm": float(norm)}
        except ValueError as error:
            answer = {"error": str(error)}
        (out / call["name"]).mkdir(parents=True, exist_ok=True)
        save_file({name: param.grad for name, param in params.items()}, out / call["name"] / f"rank{rank}.safetensors")
        (out / call["name"] / f"rank{rank}.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    dist.init_process_group("gloo")
    main(*sys.argv[1:3])
