"""`shardproof.sums` stands on the standard library; kernels load their libraries when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.processes
@pytest.mark.parametrize("module", ["shardproof.sums", "shardproof.clip", "shardproof.sums.kernels"])
def test_importing_loads_no_numerical_library(module):
    program = (
        f"import sys, {module}\n"
        "print([name for name in ('numpy', 'numba', 'llvmlite', 'torch', 'jax') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert found.strip() == "[]"
