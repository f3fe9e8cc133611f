"""One file that shows a failing call without shardproof: the layout, the gradients, the call, right and observed."""

from __future__ import annotations

import importlib.metadata
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jinja2

from shardproof.audit import clauses as ids
from shardproof.audit.agreement import wanted
from shardproof.audit.clauses import expected
from shardproof.audit.layouts import Cut, Layout, Tensor, Tied, coordinates, held, told
from shardproof.audit.layouts.describe import local_names, spans
from shardproof.audit.reproduction_source import Inlined, inlined
from shardproof.audit.strict import finite, limit_allowed
from shardproof.audit.subjects import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.audit import FixturePlan, LayoutPlan, PiecePlan, PlacementKind, SubjectPlan
from shardproof.sums.kernels import Format
from shardproof.sums.kernels.python_kernel import decoded, encoded

WAIT_S: Final = 120
GRACE_S: Final = 10
CLIP: Final = "clip"
TEMPLATE: Final = "reproduction.py.j2"
BITS: Final = frozenset({ids.ZERO_LIMIT, ids.BITS_NORM, ids.BITS_ELEMENTS, ids.BITS_UNDER, ids.RANGE})
IMPORTS: Final = (
    "import inspect",
    "import math",
    "import operator",
    "import os",
    "import queue",
    "import runpy",
    "import sys",
    "import tempfile",
    "import time",
    "from types import SimpleNamespace",
    "",
    "import torch",
    "import torch.distributed as dist",
    "import torch.multiprocessing as mp",
    "from torch import nn",
    "from torch.distributed.device_mesh import init_device_mesh",
)


@dataclass(frozen=True)
class Shown:
    """What a file is to show: a call on a layout, and the clauses that it violates there."""

    subject: SubjectPlan
    layout: Layout
    planned: LayoutPlan
    call: FixturePlan
    clauses: frozenset[str]


class Source(str):
    """Text that stands in the file as it is, where repr() would quote it."""

    def __repr__(self) -> str:
        return str(self)


def reproduction(shown: Shown, file: str = "reproduction.py") -> str:
    """The text of the file; it imports torch, what the subject's library is, and nothing of shardproof's own.

    Args:
        shown: what it shows.
        file: its name, for the lines that say how to run it.

    Raises:
        InvalidValueError: the subject is not one of torch, or its clause compares layouts.
    """
    if shown.subject.framework != "torch":
        raise InvalidValueError(
            f"Expected a subject of torch, got {shown.subject.name} of {shown.subject.framework}: reproductions are "
            "written for torch processes. `audit replay` prints the command that runs the cell again."
        )
    if shown.clauses == {ids.BITS_LAYOUTS}:
        raise InvalidValueError("Expected a clause of one layout, got bits.across-layouts, which compares layouts.")
    code = _code(shown.subject)
    text = _environment().get_template(TEMPLATE).render(file=file, **_facts(shown, code))
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _facts(shown: Shown, code: Inlined | None) -> dict[str, Any]:
    layout = shown.layout
    parameters = [_parameters(layout, rank) for rank in range(layout.world_size)]
    words = [more for rank in parameters for _, _, more in rank]
    built_in = BUILT_IN.get(shown.subject.spec)
    return {
        **_numbers(shown),
        "title": f"{_said(shown)}: {', '.join(sorted(shown.clauses))}.",
        "needs": " and ".join(built_in.needs) if built_in else "torch",
        "torch": importlib.metadata.version("torch"),
        "kind": layout.kind,
        "world": layout.world_size,
        "axes": dict(layout.axes),
        "imports": _imports(layout, code, any("dtensor" in more for more in words)),
        "parameters": parameters,
        "layout": shown.planned.name,
        "tied": shown.planned.tied,
        "owned": _owned(shown.planned),
        "copies": _copies(shown) if ids.COPIES in shown.clauses else (),
        "wrapper": {"ddp": "DistributedDataParallel", "fsdp2": "fully_shard", "fsdp1": "FSDP"}.get(layout.kind, ""),
        "wrap": _wrap(layout),
        "prefix": {"ddp": "module.", "fsdp1": "_fsdp_wrapped_module."}.get(layout.kind, ""),
        "inlined": code.code if code else "",
        "name": code.name if code else "",
        "spec": repr(shown.subject.spec),
        "full": ids.NORM_NUMBER not in shown.clauses,
        "wait": WAIT_S,
        "grace": GRACE_S,
        **{key: any(key in more for more in words) for key in ("frozen", "marks", "aliases")},
        "dtensors": any("dtensor" in more for more in words),
    }


def _said(shown: Shown) -> str:
    called = BUILT_IN[shown.subject.spec].calls if shown.subject.spec in BUILT_IN else shown.subject.name
    return f"{called} under {shown.planned.title}"


def _code(subject: SubjectPlan) -> Inlined | None:
    """The subject's source where it can stand in the file; None where the file imports it."""
    if subject.spec in BUILT_IN:
        from shardproof.audit.subjects import find

        where, _, name = BUILT_IN[subject.spec].clip.rpartition(":")
        file = Path(find.__code__.co_filename).with_name(f"{where.rpartition('.')[2]}.py")
        found = inlined(file.read_text(encoding="utf-8"), name)
        return _as_clip(found) if found is not None else None
    where, _, name = subject.spec.rpartition(":")
    if subject.file is None:
        return None
    path = Path(subject.file)
    try:
        found = inlined(path.read_text(encoding="utf-8"), name, path.parent)
        return found if found is not None and not _collides(found) else None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValueError(f"Expected the subject's file, got {path}: {error}.") from error


def _as_clip(found: Inlined) -> Inlined:
    """A built-in subject under names that the file has free: its function is `clip`, and torch is `torch`."""
    code = re.sub(rf"^(def|class) {found.name}\b", rf"\1 {CLIP}", found.code, flags=re.MULTILINE)
    code = re.sub(r"\bpytorch\.", "torch.", code)
    imports = tuple(line for line in found.imports if line != "import torch as pytorch")
    return Inlined(imports, code, CLIP)


def _collides(found: Inlined) -> bool:
    """Whether the code would give a name of the file another meaning."""
    template = Path(__file__).parent / "templates" / TEMPLATE
    ours = set(re.findall(r"^(?:def )?(\w+)(?:\(| =|, )", template.read_text(encoding="utf-8"), re.MULTILINE))
    ours |= {line.rpartition(" ")[2] for line in IMPORTS}
    return any(re.search(rf"^(?:def |class )?{name}\b", found.code, re.MULTILINE) for name in ours if name)


def _imports(layout: Layout, code: Inlined | None, dtensors: bool) -> list[str]:
    lines = list(IMPORTS)
    if layout.kind == "fsdp2":
        lines.append("from torch.distributed.fsdp import fully_shard")
    if layout.kind == "fsdp1":
        lines.append("from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy")
    if dtensors or layout.kind == "fsdp2":
        names = ["DTensor", "Replicate", "Shard", "distribute_tensor"] if dtensors else ["DTensor"]
        lines.append(f"from torch.distributed.tensor import {', '.join(names)}")
    own = [line for line in (code.imports if code else ()) if line not in lines and "__future__" not in line]
    return [*lines, *own]


def _parameters(layout: Layout, rank: int) -> list[tuple[str, tuple[int, ...], dict[str, Any]]]:
    """What this rank makes before anything is wrapped: name, shape, and what else there is to say of it."""
    where = coordinates(layout, rank)
    if layout.original:
        return [(f"layer{number}.weight", shape, {}) for number, shape in enumerate(layout.original)]
    if layout.kind == "fsdp1":
        return [(tensor.name, tensor.shape, {}) for tensor in layout.tensors]
    return [
        (name, _shape(layout, tensor, where), _more(layout, tensor, where))
        for tensor in layout.tensors
        if held(tensor, where)
        for name in local_names(tensor, where)
    ]


def _shape(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> tuple[int, ...]:
    if tensor.padded:
        return (tensor.padded,)
    by_hand = tuple(axis for axis in layout.axes if axis not in told(layout, tensor))
    return tuple(len(span) for span in spans(layout, tensor, where, by_hand))


def _more(layout: Layout, tensor: Tensor, where: Mapping[str, int]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if tensor.dtype != "float32":
        more["dtype"] = Source(f"torch.{tensor.dtype}")
    lies = {axis: tensor.on[axis] for axis in told(layout, tensor) if axis not in layout.fsdp}
    if lies:
        placements = [Source(f"Shard({lie.dim})" if isinstance(lie, Cut) else "Replicate()") for lie in lies.values()]
        more["dtensor"] = (tuple(lies), placements)
    if tensor.frozen:
        more["frozen"] = True
    if tensor.aliases:
        more["aliases"] = tensor.aliases
    if layout.kind == "fsdp2" and not set(layout.fsdp) <= set(told(layout, tensor)):
        more["ignored"] = True
    if tensor.marks:
        more["marks"] = dict(tensor.marks) | _tied_marks(tensor, where)
    return more


def _tied_marks(tensor: Tensor, where: Mapping[str, int]) -> dict[str, bool]:
    marks: dict[str, bool] = {}
    for axis, lie in tensor.on.items():
        if isinstance(lie, Tied):
            marks |= {"shared_embedding": True} | ({"shared": True} if where[axis] != next(iter(lie.names)) else {})
    return marks


def _wrap(layout: Layout) -> list[str]:
    if layout.kind == "ddp":
        return ["return nn.parallel.DistributedDataParallel(root)"]
    if layout.kind == "fsdp2":
        over = f"mesh[{layout.fsdp!r}]"
        if any("ignored" in more for rank in range(layout.world_size) for _, _, more in _parameters(layout, rank)):
            return [
                'ignored = {root.get_parameter(name) for name, _, more in PARAMETERS[rank] if more.get("ignored")}',
                f"fully_shard(root, mesh={over}, ignored_params=ignored)",
                "return root",
            ]
        return [f"fully_shard(root, mesh={over})", "return root"]
    if layout.kind == "fsdp1":
        axes = tuple(reversed(tuple(layout.axes)))
        groups = ", ".join(f"mesh.get_group({axis!r})" for axis in axes)
        return [
            "return FullyShardedDataParallel(",
            "    root,",
            f"    process_group={f'({groups})' if len(axes) > 1 else groups},",
            f"    sharding_strategy=ShardingStrategy.{layout.strategy},",
            f"    use_orig_params={not layout.original},",
            '    device_id=torch.device("cpu"),',
            ")",
        ]
    return ["return root"]


def _numbers(shown: Shown) -> dict[str, Any]:
    planned, call = shown.planned, shown.call
    want = expected(planned, call)
    exact = bool(shown.clauses & BITS) and not shown.clauses - BITS
    outcome = "refused" if not limit_allowed(call) else "returned" if finite(call) else "left alone"
    numbers = [call.limit, want.norm, *(value for row in call.gradients.values() for value in row)]
    return {
        "limit": repr(call.limit),
        "norm_type": repr(call.norm_type),
        "norm": repr(want.norm),
        "norm_tolerance": 0.0 if exact else want.norm_tolerance,
        "element_tolerance": 0.0 if exact or outcome != "returned" else want.element_tolerance,
        "outcome": outcome,
        "not_finite": not all(map(math.isfinite, numbers)) or not math.isfinite(call.norm_type),
        "gradients": _gradients(shown, exact, outcome),
    }


def _gradients(shown: Shown, exact: bool, outcome: str) -> list[list[tuple[str, dict[str, PlacementKind], Any, Any]]]:
    planned, call = shown.planned, shown.call
    right = wanted(planned, call)[0]
    dtypes = {tensor.name: Format(tensor.dtype) for tensor in planned.tensors}
    found = []
    for rank in range(planned.world_size):
        pieces = [piece for piece in planned.pieces if piece.rank == rank]
        rows = right[rank].values if outcome == "returned" and right[rank].values is not None else None
        entries = []
        for place, piece in enumerate(pieces):
            given = _given(piece, call)
            after = rows[place] if rows is not None else _given(piece, call, padded=False)
            if exact and after is not None:
                after = tuple(decoded(dtypes[piece.tensor], encoded(dtypes[piece.tensor], value)) for value in after)
            listed = None if given is None else list(given)
            expects = None if after is None or listed is None else list(after)
            entries.append((piece.entry, dict(piece.placements), listed, expects))
        found.append(entries)
    return found


def _given(piece: PiecePlan, call: FixturePlan, *, padded: bool = True) -> tuple[float, ...] | None:
    if piece.rank in call.absent.get(piece.tensor, ()):
        return None
    values = tuple(call.gradients[piece.tensor][index] for index in piece.indices)
    return (*values, *(piece.stale for _ in range(piece.padding))) if padded else values


def _owned(planned: LayoutPlan) -> list[dict[str, tuple[int, int, int]]]:
    """By rank, the ranges of flat buffers; empty where no rank has one."""
    ranks = range(planned.world_size)
    owned = [
        {piece.entry: piece.owned for piece in planned.pieces if piece.rank == rank and piece.owned is not None}
        for rank in ranks
    ]
    return owned if any(owned) else []


def _copies(shown: Shown) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of whole slices that are copies of each other: the first one, and each other one."""
    first: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = {}
    pairs = []
    for rank in range(shown.planned.world_size):
        pieces = [piece for piece in shown.planned.pieces if piece.rank == rank and piece.indices]
        for place, piece in enumerate([each for each in shown.planned.pieces if each.rank == rank]):
            if piece in pieces and not piece.padding:
                here = (rank, place)
                one = first.setdefault((piece.tensor, piece.indices), here)
                if one != here:
                    pairs.append((one, here))
    return pairs


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("shardproof.audit", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
