"""What an audit finds here: packages that subjects need, back ends, isolation levels, and whether ranks start."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from importlib import metadata

from shardproof.audit.environment import environment
from shardproof.audit.subjects import BUILT_IN, missing
from shardproof.isolation import namespaces
from shardproof.records.audit import Doctor, DoctorLine


def doctor() -> Doctor:
    """Look at this machine; one real one-rank cell is run to see whether ranks start at all."""
    return Doctor(environment=environment(), lines=(*_subjects(), *_back_ends(), *_levels(), _ranks()))


def _subjects() -> Iterator[DoctorLine]:
    for name, subject in BUILT_IN.items():
        lacking = missing(name)
        text = lacking or ", ".join(f"{package} {_version(package)}" for package in subject.needs)
        yield DoctorLine(what=f"subject {name}", found=lacking is None, text=text)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "of unknown version"


def _back_ends() -> Iterator[DoctorLine]:
    if importlib.util.find_spec("torch") is None:
        yield DoctorLine(what="back ends", found=False, text="torch is not installed: pip install 'shardproof[torch]'")
        return
    import torch
    import torch.distributed as dist

    gloo = dist.is_available() and dist.is_gloo_available()
    yield DoctorLine(what="back end gloo", found=gloo, text="audits run on it" if gloo else "torch was built without")
    cuda = torch.cuda.is_available()
    text = f"{torch.cuda.device_count()} devices, not used by an audit" if cuda else "no device found, none is needed"
    yield DoctorLine(what="CUDA", found=cuda, text=text)


def _levels() -> Iterator[DoctorLine]:
    yield DoctorLine(what="isolation process", found=os.name == "posix", text="limits, own tree; no security boundary")
    why = namespaces.missing()
    text = why or "bubblewrap was tried: own processes, no network, a read-only system"
    yield DoctorLine(what="isolation namespaces", found=why is None, text=text)


def _ranks() -> DoctorLine:
    if importlib.util.find_spec("torch") is None:
        return DoctorLine(what="ranks", found=False, text="not tried: torch is not installed")
    from shardproof.audit.fixtures import fixtures
    from shardproof.audit.layouts import named
    from shardproof.audit.ranks import observe_cell
    from shardproof.audit.subjects import CONTROL

    layout = named(["ddp"])[0]
    outcome = observe_cell(layout, fixtures(layout)[:1], CONTROL, 5.0)
    started = outcome.status == "ran" and all(call.outcome == "returned" for r in outcome.ranks for call in r.calls)
    text = "two ranks started and added their numbers" if started else f"{outcome.status}: {outcome.note}"
    return DoctorLine(what="ranks", found=started, text=text)
