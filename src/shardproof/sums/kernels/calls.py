"""The front door of the kernels: checks the arguments, then calls the kernel that was given."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
from collections.abc import Sequence
from typing import Final, Literal, cast

from shardproof.errors import InvalidTypeError, InvalidValueError
from shardproof.sums.kernels.formats import Format
from shardproof.sums.kernels.powers import checked_power
from shardproof.sums.kernels.protocol import Kernel, Largest, Order, Tally

KernelName = Literal["python", "numpy", "numba"]
_MODULES: Final = {name: f"shardproof.sums.kernels.{name}_kernel" for name in ("python", "numpy", "numba")}


def load_kernel(name: KernelName) -> Kernel:
    """Return the kernel of that name; its libraries are imported now.

    Raises:
        InvalidValueError: there is no kernel of that name.
        ImportError: the library that it needs is not installed.
    """
    if name not in _MODULES:
        raise InvalidValueError(f"Expected a kernel of {sorted(_MODULES)}, got name={name!r}.")
    return cast("Kernel", importlib.import_module(_MODULES[name]))


def best_kernel() -> Kernel:
    """Return the fastest kernel that this installation has: numba, else numpy. Both give the same bits."""
    return load_kernel("numba" if importlib.util.find_spec("numba") else "numpy")


def tally(
    kernel: Kernel,
    format: Format,
    addresses: Sequence[int],
    counts: Sequence[int],
    order: Order,
    threads: int = 1,
) -> Tally:
    """Return the exact sum of |value|**order over the finite values of all pieces, and the non-finite counts.

    Args:
        kernel: from `best_kernel` or `load_kernel`.
        format: of every piece.
        addresses: of the first byte of each piece; any alignment; not read where the count is 0.
        counts: values (not bytes) of each piece.
        order: 1 for magnitudes, 2 for squares.
        threads: at most so many; the python and numpy kernels use one. The result does not depend on it.

    Raises:
        InvalidValueError: lengths differ, a count is negative, the order is neither 1 nor 2, threads < 1.

    >>> import array
    >>> values = array.array("f", [3.0, -4.0])
    >>> found = tally(load_kernel("numpy"), Format.FLOAT32, [values.buffer_info()[0]], [2], 2)
    >>> from shardproof.sums import ExactSum
    >>> ExactSum(found.total).root()
    5.0
    """
    _check(format, addresses, counts, threads)
    if order not in (1, 2):
        raise InvalidValueError(f"Expected order 1 or 2, got order={order!r}. Use largest() or powers() for others.")
    return kernel.tally(format, addresses, counts, order, threads)


def largest(
    kernel: Kernel, format: Format, addresses: Sequence[int], counts: Sequence[int], threads: int = 1
) -> Largest:
    """Return the largest finite magnitude of all pieces (exact in float64), and the non-finite counts.

    Arguments and errors as in `tally`.
    """
    _check(format, addresses, counts, threads)
    return kernel.largest(format, addresses, counts, threads)


def powers(
    kernel: Kernel,
    format: Format,
    addresses: Sequence[int],
    counts: Sequence[int],
    p: float,
    exponent: int,
    threads: int = 1,
) -> Tally:
    """Return the exact sum of the float64 values (|value| x 2**-exponent)**p, and the non-finite counts.

    Each power is rounded to float64 (`shardproof.sums.kernels.powers` states the error); their sum is exact.

    Args:
        kernel, format, addresses, counts, threads: as in `tally`.
        p: in (0, 512].
        exponent: from `power_exponent` with the largest magnitude over all ranks; the same on every rank.

    Raises:
        InvalidValueError: as in `tally`; p out of range; a power overflows, so that `exponent` was too small.
    """
    _check(format, addresses, counts, threads)
    return kernel.powers(format, addresses, counts, checked_power(p), exponent, threads)


def scale(
    kernel: Kernel,
    format: Format,
    addresses: Sequence[int],
    counts: Sequence[int],
    factor: float,
    threads: int = 1,
) -> None:
    """Replace, in place, each value by float64(value) x factor, rounded once to the format.

    The product is a float64; it is rounded to nearest, ties to even. NaN stays NaN; infinite x 0 is NaN.
    Arguments and errors as in `tally`; `factor` lies in [0, 1], so nothing overflows.
    """
    _check(format, addresses, counts, threads)
    if not 0 <= factor <= 1:
        raise InvalidValueError(f"Expected a factor in [0, 1], got factor={factor!r}.")
    kernel.scale(format, addresses, counts, float(factor), threads)


_prepared: set[tuple[int, Format]] = set()


def prepare(kernel: Kernel, format: Format) -> None:
    """Have a kernel's code for `tally` and `scale` of this format ready, where the kernel compiles: once in a process.

    From an empty cache that takes many seconds, in which other ranks must not wait inside a collective.

    >>> prepare(load_kernel("numpy"), Format.FLOAT32)
    """
    key = (id(kernel), format)
    if key in _prepared:
        return
    _prepared.add(key)
    zero = ctypes.create_string_buffer(format.bits.size)
    where = (format, [ctypes.addressof(zero)], [1])
    kernel.tally(*where, 2, 1)
    kernel.scale(*where, 0.5, 1)


def _check(format: object, addresses: Sequence[int], counts: Sequence[int], threads: int) -> None:
    if not isinstance(format, Format):
        raise InvalidTypeError(f"Expected a Format, got format={format!r} ({type(format).__name__}).")
    if len(addresses) != len(counts):
        raise InvalidValueError(f"Expected a count for each address, got {len(addresses)} and {len(counts)}.")
    if counts and min(counts) < 0:
        raise InvalidValueError(f"Expected counts >= 0, got {min(counts)} for piece {counts.index(min(counts))}.")
    if threads < 1:
        raise InvalidValueError(f"Expected threads >= 1, got threads={threads!r}.")
