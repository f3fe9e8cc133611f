"""Where and when something was verified."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from shardproof.records.page import Environment


def environment() -> Environment:
    """The interpreter, the platform and the time, now."""
    try:
        own = version("shardproof")
    except PackageNotFoundError:
        own = "not installed"
    return Environment(
        shardproof=own,
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        platform=platform.platform(),
        time=datetime.now(UTC).isoformat(),
    )
