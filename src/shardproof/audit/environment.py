"""Where a run takes place, read without importing any framework."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Final

from shardproof.records.audit import Environment

_PACKAGES: Final = (
    *("shardproof", "torch", "numpy", "pydantic"),
    *("accelerate", "deepspeed", "jax", "lightning-fabric", "optax"),
)


def environment() -> Environment:
    """This machine, this Python, and the versions of the packages that take part."""
    return Environment(
        time=now(),
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        platform=platform.platform(),
        cpu=_cpu(),
        cpus=os.cpu_count() or 0,
        backend="gloo",
        accelerator=None,
        packages={name: version for name in _PACKAGES if (version := _version(name)) is not None},
    )


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
