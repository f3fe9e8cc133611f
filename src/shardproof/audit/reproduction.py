"""One file that shows a failing call without shardproof: the layout, the gradients, the call, right and observed."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import jinja2

from shardproof.audit import clauses as ids
from shardproof.audit.agreement import wanted
from shardproof.audit.clauses import expected
from shardproof.audit.layouts import Layout
from shardproof.audit.reproduction_call import MESHED, Calling, calling, imported
from shardproof.audit.reproduction_layout import copies, frozen, owned, parameters, shapes, wrap
from shardproof.audit.strict import finite, limit_allowed
from shardproof.audit.subjects import BUILT_IN
from shardproof.errors import InvalidValueError
from shardproof.records.audit import FixturePlan, LayoutPlan, PiecePlan, SubjectPlan
from shardproof.sums.kernels import Format
from shardproof.sums.kernels.python_kernel import decoded, encoded

WAIT_S: Final = 120
PATIENCE_S, GRACE_S = 60, 10
"""How long the file waits for the first rank to come back, and for the next one after another."""
WIDTH: Final = 118
TEMPLATE: Final = "reproduction.py.j2"
BITS: Final = frozenset({ids.ZERO_LIMIT, ids.BITS_NORM, ids.BITS_ELEMENTS, ids.BITS_UNDER, ids.RANGE})
SEEN_ELSEWHERE: Final = frozenset({ids.NORM_GLOBAL, ids.NORM_SAME, ids.SCALE_FACTOR, ids.SCALE_UNDER})
"""Clauses beside which copies that differ need no line of their own."""
MODULES: Final = ("contextlib", "inspect", "math", "operator", "os", "queue", "runpy", "sys", "tempfile", "time")
FROM: Final = {
    "SimpleNamespace": "types",
    "nn": "torch",
    "init_device_mesh": "torch.distributed.device_mesh",
    "fully_shard": "torch.distributed.fsdp",
    "FullyShardedDataParallel": "torch.distributed.fsdp",
    "ShardingStrategy": "torch.distributed.fsdp",
    "DTensor": "torch.distributed.tensor",
    "Replicate": "torch.distributed.tensor",
    "Shard": "torch.distributed.tensor",
    "distribute_tensor": "torch.distributed.tensor",
}
"""What the file may use, and where that is imported from."""


@dataclass(frozen=True)
class Shown:
    """What a file is to show: a call on a layout, and the clauses that it violates there."""

    subject: SubjectPlan
    layout: Layout
    planned: LayoutPlan
    call: FixturePlan
    clauses: frozenset[str]


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
    call = calling(shown.subject, shown.planned, shown.call.norm_type)
    if call.code and _collides(call, _rendered(shown, dataclasses.replace(call, code="", imports=()), file)):
        # A name of the subject would get another meaning in this file, or one of the file's in the subject.
        call = imported(shown.subject, shown.planned)
    return _rendered(shown, call, file)


def _collides(call: Calling, text: str) -> bool:
    """Whether the subject's code, or what it imports, gives a name of the file another meaning."""
    ours, theirs = _meanings(text), _meanings("\n".join(call.imports))
    bound = _bound(text)
    top = ast.parse(call.code).body
    made = {each.name for each in top if isinstance(each, ast.FunctionDef | ast.ClassDef)}
    assigned = [name for each in top if isinstance(each, ast.Assign) for name in ast.walk(each)]
    made |= {each.id for each in assigned if isinstance(each, ast.Name)}
    taken = {name for name, meaning in theirs.items() if ours.get(name, meaning) != meaning}
    return bool(made & (bound | ours.keys()) or taken or theirs.keys() & bound)


def _meanings(text: str) -> dict[str, str]:
    """What the import lines of a text bind: name -> what it stands for."""
    meanings: dict[str, str] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import):
            for each in node.names:
                whole = each.name if each.asname else each.name.partition(".")[0]
                meanings[each.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom):
            meanings |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return meanings


def _rendered(shown: Shown, call: Calling, file: str) -> str:
    facts = _facts(shown, call)
    template = _environment().get_template(TEMPLATE)
    text = template.render(file=file, imports=[], **facts)
    text = template.render(file=file, imports=_imports(text, call), **facts)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _bound(text: str) -> set[str]:
    """What the file makes anywhere but by importing it."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    names |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    return names | {each.name for each in nodes if isinstance(each, ast.FunctionDef)}


def _imports(text: str, call: Calling) -> list[str]:
    """The import lines that the text needs, and those of the subject."""
    used = {each.id for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Name)}
    modules = [f"import {name}" for name in MODULES if name in used]
    places: dict[str, list[str]] = {}
    for name, place in FROM.items():
        if name in used:
            places.setdefault(place, []).append(name)
    types = [f"from {place} import {', '.join(names)}" for place, names in places.items() if place == "types"]
    rest = [f"from {place} import {', '.join(names)}" for place, names in places.items() if place != "types"]
    ours = ["import torch", "import torch.distributed as dist", "import torch.multiprocessing as mp"]
    lines = [*modules, *types, "", *ours, *rest]
    return [*lines, *(line for line in call.imports if line not in lines and "__future__" not in line)]


def _facts(shown: Shown, call: Calling) -> dict[str, Any]:
    layout = shown.layout
    modelled = layout.kind in ("ddp", "fsdp1", "fsdp2") or "model" in call.reads
    flattened = layout.kind == "fsdp1"
    tree = flattened or (modelled and bool({"model", "names"} & call.reads))
    rows = _rows(shown, None if flattened else _told(shown, call, tree=tree))
    built_in = BUILT_IN.get(shown.subject.spec)
    words = [row[2] for rank in rows for row in rank if len(row) == 5]
    dtensors = any("dtensor" in more for more in words)
    meshed = bool(MESHED & call.reads) or dtensors or layout.kind.startswith("fsdp")
    sizes, names = tuple(layout.axes.values()), tuple(layout.axes)
    return {
        **_numbers(shown),
        "title": textwrap.fill(f"{_said(shown)}: {', '.join(sorted(shown.clauses))}.", WIDTH),
        "needs": " and ".join(built_in.needs) if built_in else "torch",
        "torch": importlib.metadata.version("torch"),
        "world": layout.world_size,
        "shapes": shapes(layout) if flattened else {},
        "frozen": frozen(layout) if modelled and not flattened else [],
        "columns": _columns(flattened=flattened, long=bool(words)),
        "ranks": _first(rows),
        "absent": any(row[-2] is None for rank in rows for row in rank),
        "same": _same(rows),
        "constants": _constants(shown, call),
        "code": call.code,
        "environment": call.libraries,
        "mesh": f'init_device_mesh("cpu", {sizes}, mesh_dim_names={names})' if meshed and layout.axes else "",
        "modelled": modelled,
        "long": bool(words),
        "tree": tree,
        "wrap": wrap(layout, ignored=any("ignored" in more for more in words)),
        "prefix": {"ddp": "module.", "fsdp1": "_fsdp_wrapped_module."}.get(layout.kind, ""),
        "local": dtensors or layout.kind == "fsdp2",
        "making": call.making,
        "call": call.call,
        "full": ids.NORM_NUMBER not in shown.clauses and (dtensors or layout.kind == "fsdp2"),
        "copies": ids.COPIES in shown.clauses and not shown.clauses & SEEN_ELSEWHERE,
        "wait": WAIT_S,
        "patience": PATIENCE_S,
        "grace": GRACE_S,
        **{key: any(key in more for more in words) for key in ("marks", "aliases", "ignored")},
        "dtensors": dtensors,
    }


def _said(shown: Shown) -> str:
    called = BUILT_IN[shown.subject.spec].calls if shown.subject.spec in BUILT_IN else shown.subject.name
    return f"{called} under {shown.planned.title}"


def _columns(*, flattened: bool, long: bool) -> str:
    shape = "" if flattened else "shape, "
    return (
        f"name, {shape}{'what else there is to say, ' if long else ''}gradient, and what that should be after the call"
    )


Row = tuple[Any, ...]


def _told(shown: Shown, call: Calling, *, tree: bool) -> set[str]:
    """What is said of parameters: what makes them, and what the subject may look at."""
    marks = {mark for tensor in shown.layout.tensors for mark in tensor.marks}
    looked = not call.code or any(mark in call.code for mark in marks)
    return {"dtype", "dtensor", "ignored"} | ({"marks"} if looked else set()) | ({"aliases"} if tree else set())


def _rows(shown: Shown, told: set[str] | None) -> list[list[Row]]:
    """By rank: name, shape and what is told beside it, gradient, and what it should be; None: no shapes either."""
    gradients = _gradients(shown)
    if told is None:
        return gradients
    made = [
        {name: (shape, {key: said[key] for key in said if key in told}) for name, shape, said in listed}
        for listed in (parameters(shown.layout, rank) for rank in range(len(gradients)))
    ]
    long = any(each[name][1] for each, rank in zip(made, gradients, strict=True) for name, _, _ in rank)
    return [
        [(name, each[name][0], *([each[name][1]] if long else []), given, right) for name, given, right in rank]
        for each, rank in zip(made, gradients, strict=True)
    ]


def _same(rows: Sequence[list[Row]]) -> list[int]:
    """For each rank the place in the listing of what it holds; [] where no rank holds what another one does."""
    listed = _first(rows)
    return [listed.index(rank) for rank in rows] if len(listed) < len(rows) else []


def _first(rows: Sequence[list[Row]]) -> list[list[Row]]:
    return [rank for place, rank in enumerate(rows) if rank not in rows[:place]]


def _constants(shown: Shown, call: Calling) -> list[tuple[str, str]]:
    """What the context is made of, as far as the subject reads it."""
    planned, reads = shown.planned, call.reads
    ranks = range(planned.world_size)
    lies = [tuple(dict(piece.placements) for piece in planned.pieces if piece.rank == rank) for rank in ranks]
    constants = [
        ("COPIES", repr(copies(planned)), ids.COPIES in shown.clauses and not shown.clauses & SEEN_ELSEWHERE),
        ("AXES", repr(dict(shown.layout.axes)), bool({"axes", "groups"} & reads)),
        ("LAYOUT", repr(planned.name), "layout" in reads),
        ("NORM_TYPE", f"float({str(shown.call.norm_type)!r})", "norm_type" in reads),
        ("PLACEMENTS", repr(lies), "placements" in reads),
        ("TIED", repr(planned.tied), "tied" in reads),
        ("OWNED", repr(owned(planned)), "owned" in reads),
    ]
    return [(name, value) for name, value, needed in constants if needed]


def _numbers(shown: Shown) -> dict[str, Any]:
    planned, call = shown.planned, shown.call
    want, exact, outcome = expected(planned, call), _exact(shown), _outcome(call)
    numbers = [call.limit, want.norm, *(value for row in call.gradients.values() for value in row)]
    return {
        "limit": repr(call.limit),
        "norm": repr(want.norm),
        "norm_tolerance": 0.0 if exact else want.norm_tolerance,
        "element_tolerance": 0.0 if exact or outcome != "returned" else want.element_tolerance,
        "outcome": outcome,
        "not_finite": not all(map(math.isfinite, numbers)),
    }


def _exact(shown: Shown) -> bool:
    return bool(shown.clauses & BITS) and not shown.clauses - BITS


def _outcome(call: FixturePlan) -> str:
    return "refused" if not limit_allowed(call) else "returned" if finite(call) else "left alone"


def _gradients(shown: Shown) -> list[list[Row]]:
    """By rank and parameter: name, gradient, and what it should be; None where there is none."""
    planned, call, exact = shown.planned, shown.call, _exact(shown)
    right = wanted(planned, call)[0]
    dtypes = {tensor.name: Format(tensor.dtype) for tensor in planned.tensors}
    found = []
    for rank in range(planned.world_size):
        pieces = [piece for piece in planned.pieces if piece.rank == rank]
        rows = right[rank].values if _outcome(call) == "returned" else None
        entries: list[Row] = []
        for place, piece in enumerate(pieces):
            given = _given(piece, call)
            after = rows[place] if rows is not None else _given(piece, call, padded=False)
            if exact and after is not None:
                after = tuple(decoded(dtypes[piece.tensor], encoded(dtypes[piece.tensor], value)) for value in after)
            none = after is None or given is None
            entries.append((piece.entry, None if none else list(given or ()), None if none else list(after or ())))
        found.append(entries)
    return found


def _given(piece: PiecePlan, call: FixturePlan, *, padded: bool = True) -> tuple[float, ...] | None:
    if piece.rank in call.absent.get(piece.tensor, ()):
        return None
    values = tuple(call.gradients[piece.tensor][index] for index in piece.indices)
    return (*values, *(piece.stale for _ in range(piece.padding))) if padded else values


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("shardproof.audit", "templates"),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
