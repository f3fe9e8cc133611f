"""Triton's kernels run in its interpreter, on CPU tensors; it reads the environment when it is first imported."""

import os

os.environ.setdefault("TRITON_INTERPRET", "1")
