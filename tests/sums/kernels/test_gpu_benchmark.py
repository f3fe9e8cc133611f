"""benchmarks/gpu.py: honest where there is no GPU, and its checks reject wrong kernels."""

import sys
from importlib.util import find_spec

import pytest
import torch
from benchmarks import gpu

if find_spec("triton") is None:
    pytest.skip("Triton is not installed: it has no release for this system", allow_module_level=True)

from shardproof.sums.kernels import Format, triton_kernel

CPU = torch.device("cpu")


def test_without_a_gpu_it_says_so_and_could_not_tell(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu"])
    assert gpu.main() == 3
    assert capsys.readouterr().out.startswith("No GPU")


def test_checks_hold_in_the_interpreter():
    """Two formats and the rest of the checks; `--interpret` runs them all."""
    for form in (Format.FLOAT32, Format.FLOAT8_E4M3FN):
        for _, values in gpu.inputs(form, 100):
            assert gpu.sums_agree(form, values, 2, CPU)
            assert gpu.largest_agrees(form, values, CPU)
            assert gpu.scaled_agree(form, values, 1 / 3, CPU)
    assert gpu.plans_agree(CPU, 300)


def test_a_failed_check_is_shown_and_ends_with_one(monkeypatch, capsys):
    monkeypatch.setattr(gpu, "checks", lambda device, size: iter([("a", True), ("b", False)]))
    monkeypatch.setattr(sys, "argv", ["gpu", "--interpret"])
    assert gpu.main() == 1
    assert "FAIL  b\n1 checks failed" in capsys.readouterr().out


def test_wrong_kernels_are_rejected(monkeypatch):
    """A sum without its last value, a largest value of another slot, a product rounded twice, a root one place off."""
    right = {name: getattr(triton_kernel, name) for name in ("tallies", "largest", "scale", "norms_and_factors")}

    def without_the_last(parts, slots, order, device):
        return right["tallies"](parts[:-1], slots, order, device)

    def halved(parts, slots, device):
        tops, counts = right["largest"](parts, slots, device)
        return tops / 2, counts

    def rounded_twice(parts, factors):
        for values, slot in parts:
            values.copy_((values.float() * float(factors[slot])).to(values.dtype))

    def off_by_a_place(*arguments):
        norms, factors = right["norms_and_factors"](*arguments)
        return norms.nextafter(torch.tensor(0.0, dtype=torch.float64)), factors

    wrong = {
        "tallies": without_the_last,
        "largest": halved,
        "scale": rounded_twice,
        "norms_and_factors": off_by_a_place,
    }
    values = dict(gpu.inputs(Format.FLOAT32, 900))["close"]
    checks = {
        "tallies": lambda: gpu.sums_agree(Format.FLOAT32, values, 2, CPU),
        "largest": lambda: gpu.largest_agrees(Format.FLOAT32, values, CPU),
        "scale": lambda: gpu.scaled_agree(Format.FLOAT32, values, 1 / 3, CPU),
        "norms_and_factors": lambda: gpu.roots_agree(2, CPU),
    }
    for name, check in checks.items():
        monkeypatch.setattr(triton_kernel, name, wrong[name])
        assert not check(), name
        monkeypatch.setattr(triton_kernel, name, right[name])
