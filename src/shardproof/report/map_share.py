"""Groups, splits, judged candidates and leaks on a terminal, from their records."""

from __future__ import annotations

from shardproof.records.map_share import GroupsRecord, LeakRecord, Split, SplitCheck, TryRecord


def group_lines(record: GroupsRecord) -> list[str]:
    """Each group with its size, its mechanisms and what joins them beside their declared group."""
    lines = []
    for group in record.groups:
        lines.append(f"{group.id}: {len(group.mechanisms)} mechanisms, {len(group.cases)} cases")
        lines.append(f"  {', '.join(group.mechanisms)}")
        for link in group.links:
            if link.kind not in ("group", "block"):
                lines.append(f"  same {link.kind} ({link.key[:60]}): {', '.join(link.mechanisms)}")
    if record.repairs == "held back":
        lines.append("repairs are held back here: equal repairs join nothing")
    return lines


def split_lines(split: Split) -> list[str]:
    """The side of each group, the fraction that was met, and what was kept out."""
    lines = [f"{side:5} {name}" for name, side in split.groups.items()]
    lines += [f"kept out: {one.id}: {one.why}" for one in split.kept_out]
    counts = f"{len(split.train)} cases in train, {len(split.test)} in test"
    return [*lines, f"{counts}: fraction {split.fraction_met:.3f}, asked {split.fraction_asked:g}"]


def split_check_lines(record: SplitCheck) -> list[str]:
    """What is wrong, then the verdict."""
    lines = [f"parted {record.level}: {said}" for said in record.straddling] + list(record.problems)
    if record.digest_agrees is False:
        lines.append("the split names the digest of another catalogue")
    elif record.digest_agrees is None:
        lines.append("the split names no catalogue digest: it may have been made for another one")
    sides = ", ".join(f"{count} in {side}" for side, count in record.sides.items())
    return [*lines, f"{sides}; verdict: {record.verdict}"]


def try_lines(record: TryRecord) -> list[str]:
    """Each visible check, the counts of each part, and the verdict last."""
    lines = []
    for part in record.parts:
        lines += [
            f"  {'passed' if row.passed else 'FAILED'}  {row.check}: {_answer(row.actual)}" for row in part.checks
        ]
        lines.append(f"{part.name}: {part.passed} of {part.asked} checks; {part.detail}")
        lines += [f"  {said}" for said in (*part.problems, *part.unclear)]
    return [*lines, f"{record.id}: {record.passed} of {record.asked} checks; verdict: {record.verdict}"]


def leak_lines(record: LeakRecord) -> list[str]:
    """Each leak, and the counts last."""
    lines = [f"{leak.file}: {leak.what} of {leak.mechanism}: {leak.detail}" for leak in record.leaks]
    return [*lines, f"{record.files} files, {record.mechanisms} mechanisms held back, {len(record.leaks)} leaks"]


def _answer(actual: str | None) -> str:
    return "no answer" if actual is None else actual if len(actual) <= 100 else actual[:100] + "…"
