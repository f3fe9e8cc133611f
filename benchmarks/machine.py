"""What measured numbers depend on, and where they are kept."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, str | int]:
    """Processor, cores, system and versions."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "cores": os.cpu_count() or 0,
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def write(name: str, command: str, content: Mapping[str, Any]) -> Path:
    """Write results with their date and machine to results/<name>_<cores>cores_torch<version>.json; return the path."""
    where = machine()
    record = {"command": command, "date": datetime.now(UTC).date().isoformat(), "machine": where, **content}
    RESULTS.mkdir(exist_ok=True)
    version = torch.__version__.split("+", maxsplit=1)[0]
    target = RESULTS / f"{name}_{where['cores']}cores_torch{version}.json"
    target.write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    return target
