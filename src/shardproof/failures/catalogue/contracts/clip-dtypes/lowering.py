"""A layout as groups of values: what is normed together, and in which format."""

from shardproof.failures.axes import clips, elements
from shardproof.failures.owned import scaled

FORMATS = ("float16", "bfloat16", "float32")
KINDS = (("the gradients' format", None), ("float32", "float32"), ("bfloat16", "bfloat16"))
GROUPS = {
    "one group": lambda rank, piece: "",
    "each rank": lambda rank, piece: str(rank),
    "each tensor": lambda rank, piece: piece.tensor,
    "each slice on a rank": lambda rank, piece: f"{piece.tensor} {piece.indices}",
    # Nothing is rounded but the norm itself.
    "each value": None,
}


def readings(cell):
    if not clips(cell):
        return {}
    named = {}
    for name, group_of in GROUPS.items():
        for format_name, dtype in KINDS if group_of else KINDS[:1]:
            groups = groups_of(cell, group_of, dtype)
            if all(group["dtype"] in FORMATS for group in groups):
                named[f"{name}, in {format_name}"] = (groups, cell.limit)
    return named


def groups_of(cell, group_of, dtype):
    """Each element once, where it is first held; values of several formats are several groups."""
    groups, seen = {}, set()
    for index, rank in enumerate(cell.ranks):
        for piece in rank.pieces:
            new = [(element, value) for element, value in elements(piece) if element not in seen]
            seen.update(element for element, _ in new)
            for element, value in new:
                name = group_of(index, piece) if group_of else element
                groups.setdefault((name, dtype or piece.dtype), []).append(value)
    return [{"dtype": kind, "values": values} for (_, kind), values in groups.items()]


def predicted(cell, result):
    return [scaled(rank, result["norm"], result["factor"]) for rank in cell.ranks]
