"""What changed between two graded runs, cell by cell and clause by clause."""

from __future__ import annotations

from collections.abc import Iterator

from shardproof.records.audit import AuditDiff, AuditReport, CellChange, CellVerdict, ClauseChange, Side

_ABSENT = "not planned"


def diff(old: AuditReport, new: AuditReport) -> AuditDiff:
    """Compare two runs by subject and layout; cells that only one of them planned are changes too.

    Subjects are matched by name; a source file whose digest differs is said in `notes`.
    """
    before = {cell.cell: cell for cell in old.verdict.cells if not cell.control}
    after = {cell.cell: cell for cell in new.verdict.cells if not cell.control}
    changes = tuple(
        change for name in dict.fromkeys([*before, *after]) if (change := _cell(before.get(name), after.get(name)))
    )
    return AuditDiff(
        old=_side(old),
        new=_side(new),
        same=len(before.keys() | after.keys()) - len(changes),
        changes=changes,
        notes=tuple(_notes(old, new)),
    )


def _side(report: AuditReport) -> Side:
    verdict = report.verdict
    return Side(run_id=report.plan.run_id, graded_by=verdict.graded_by, profile=verdict.profile, word=verdict.word)


def _cell(old: CellVerdict | None, new: CellVerdict | None) -> CellChange | None:
    clauses = tuple(_clauses(old, new)) if old and new else ()
    words = (old.verdict if old else _ABSENT, new.verdict if new else _ABSENT)
    if words[0] == words[1] and not clauses:
        return None
    cell = new or old
    assert cell is not None, "a name comes from one of the two"
    return CellChange(subject=cell.subject, layout=cell.layout, old=words[0], new=words[1], clauses=clauses)


def _clauses(old: CellVerdict, new: CellVerdict) -> Iterator[ClauseChange]:
    before = {each.clause: each for each in old.clauses}
    for each in new.clauses:
        was = before.get(each.clause)
        if was is not None and was.outcome != each.outcome:
            text = each.first.text if each.first else was.first.text if was.first else ""
            yield ClauseChange(clause=each.clause, old=was.outcome, new=each.outcome, text=text)


def _notes(old: AuditReport, new: AuditReport) -> Iterator[str]:
    if old.verdict.profile != new.verdict.profile:
        yield f"the old run was graded by {old.verdict.profile}, the new one by {new.verdict.profile}"
    digests = {subject.name: subject.sha256 for subject in old.plan.subjects}
    for subject in new.plan.subjects:
        if subject.name in digests and digests[subject.name] != subject.sha256:
            yield f"the source of {subject.name} changed: SHA-256 {digests[subject.name]}, now {subject.sha256}"
    for package, version in new.environment.packages.items():
        was = old.environment.packages.get(package, "not installed")
        if was != version:
            yield f"{package} {was}, now {version}"
