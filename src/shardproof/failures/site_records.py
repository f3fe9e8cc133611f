"""The records behind the static pages: each case with what was observed of it, and nothing that its tier holds back."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from shardproof.errors import InvalidValueError
from shardproof.failures.bundles import case_bundle, file_name
from shardproof.failures.cases import REGISTRY, read_registry
from shardproof.failures.environment import environment
from shardproof.failures.groups import groups_of
from shardproof.failures.kept import ResultsError
from shardproof.failures.mechanism import CATALOGUE, Mechanism, load_catalogue
from shardproof.failures.plan import Plan, Program, catalogue_digest
from shardproof.failures.selection import choose, plans
from shardproof.failures.values import plain
from shardproof.records.map import CaseEntry, CaseResult, CheckContent, ProgramContent
from shardproof.records.map_share import GroupsRecord
from shardproof.records.map_site import (
    SiteBundle,
    SiteCase,
    SiteCounts,
    SiteFamily,
    SiteIndex,
    SiteMechanism,
    SiteMember,
    SiteObserved,
    SiteRow,
    SiteWithdrawn,
    Tier,
)


@dataclasses.dataclass(frozen=True)
class Stock:
    """What pages are made about: the mechanisms, the registry, the groups and every case, rendered."""

    mechanisms: tuple[Mechanism, ...]
    entries: tuple[CaseEntry, ...]
    groups: GroupsRecord
    plans: tuple[Plan, ...]


def stock_of(members: Path | None, catalogue: Path = CATALOGUE) -> Stock:
    """Read the catalogue and render every case that is not withdrawn.

    Raises:
        InvalidValueError: a mechanism cannot be read.
        RegistryError: the registry breaks its rules.
    """
    mechanisms, entries = load_catalogue(catalogue), read_registry(catalogue / REGISTRY)
    cases = tuple(plans(choose([], (), catalogue), members))
    return Stock(tuple(mechanisms), entries, groups_of(mechanisms, entries, members), cases)


def site_records(stock: Stock, results: Mapping[str, CaseResult], tier: Tier) -> tuple[SiteIndex, tuple[SiteCase, ...]]:
    """Join what cases say with what was observed of them.

    Args:
        stock: made by `stock_of`.
        results: by the ids of cases; a case without one is recorded as not run.
        tier: in the open one nothing of the repair is recorded but whether the verdict is also about it.

    Raises:
        ResultsError: a result is of other programs than the catalogue has under that id.
        InvalidValueError: the member tier is asked for and no repair is there.
    """
    if tier == "member" and not any(program.role == "repair" for plan in stock.plans for program in plan.programs):
        raise InvalidValueError("Expected repairs for tier='member', got none: name their folder with --members.")
    cases = tuple(_case(plan, stock, results.get(plan.content.id), tier) for plan in stock.plans)
    return _index(stock, cases, tier), cases


def _case(plan: Plan, stock: Stock, result: CaseResult | None, tier: Tier) -> SiteCase:
    content, group = plan.content, _group_of(stock.groups, plan.content.mechanism)
    entry = next((one for one in stock.entries if one.id == content.id), None)
    if result is not None:
        _fits(plan, result)
    return SiteCase(
        tier=tier,
        digest=plan.digest,
        evaluation_group=group,
        state=entry.state if entry else "active",
        reason=entry.reason if entry else None,
        aliases=entry.aliases if entry else (),
        content=content,
        member=_member(plan) if tier == "member" else None,
        observed=_observed(result, tier) if result is not None else None,
        bundle=_bundle(plan, group),
    )


def _fits(plan: Plan, result: CaseResult) -> None:
    here = {(program.role, program.part): program.sha256 for program in plan.programs}
    other = [
        f"{one.part} {one.role}" for one in result.programs if here.get((one.role, one.part), one.sha256) != one.sha256
    ]
    if result.case_digest != plan.digest or other:
        of = f"the {' and the '.join(other)}" if other else "the case's texts or checks"
        raise ResultsError(
            f"Expected results of the catalogue as it stands, got {result.id}, verified at {result.time} when {of} "
            "had other bytes. Run `shardproof map verify --out` again."
        )


def _observed(result: CaseResult, tier: Tier) -> SiteObserved:
    # A sentence about the repair quotes its results and the labels of held-back checks.
    hidden = [said for said in result.broken if "repair" in said] if tier == "open" else []
    return SiteObserved(
        level=result.level,
        programs=tuple(one for one in result.programs if tier == "member" or one.role != "repair"),
        repair="run" if result.repair == "run" else "not run",
        broken=tuple(said for said in result.broken if said not in hidden),
        broken_held_back=len(hidden),
        verdict=result.verdict,
        python=result.python,
        platform=result.platform,
        time=result.time,
    )


def _bundle(plan: Plan, group: str) -> SiteBundle:
    packed = case_bundle(plan, group)
    name = f"{file_name(plan.content.id)}.zip"
    return SiteBundle(file=name, sha256=hashlib.sha256(packed).hexdigest(), bytes=len(packed))


def _member(plan: Plan) -> SiteMember | None:
    found = {program.part: program for program in plan.programs if program.role == "repair"}
    if "visible" not in found:
        return None
    hidden = found.get("held back")
    return SiteMember(
        repair=_program(found["visible"]),
        held_back=_program(hidden) if hidden else None,
        held_back_checks=tuple(
            CheckContent.model_validate(
                {
                    "label": check.label,
                    "arguments": [plain(argument) for argument in check.arguments],
                    "expected": plain(check.expected),
                }
            )
            for check in (hidden.checks if hidden else ())
        ),
    )


def _program(program: Program) -> ProgramContent:
    return ProgramContent(role=program.role, source=program.source.decode("ascii"), sha256=program.sha256)


def _index(stock: Stock, cases: Sequence[SiteCase], tier: Tier) -> SiteIndex:
    mechanisms = tuple(_mechanism(one, stock, cases) for one in stock.mechanisms)
    families = sorted({one.family for one in mechanisms})
    return SiteIndex(
        tier=tier,
        catalogue_digest=catalogue_digest(stock.plans),
        counts=_counts(row for one in mechanisms for row in one.cases),
        families=tuple(_family(slug, mechanisms) for slug in families),
        mechanisms=mechanisms,
        groups=stock.groups.groups,
        withdrawn=tuple(_withdrawn(one) for one in stock.entries if one.state == "withdrawn"),
        made_with=environment().shardproof,
    )


def _mechanism(mechanism: Mechanism, stock: Stock, cases: Sequence[SiteCase]) -> SiteMechanism:
    says = mechanism.says
    rows = tuple(_row(case) for case in cases if case.content.mechanism == says.slug)
    told = next(case.content.contract for case in cases if case.content.mechanism == says.slug)
    return SiteMechanism(
        slug=says.slug,
        title=says.title,
        family=says.family,
        evaluation_group=_group_of(stock.groups, says.slug),
        contract=told,
        root_cause=says.root_cause,
        unsuccessful_approach=says.unsuccessful_approach,
        why_it_matters=says.why_it_matters,
        scope=says.scope,
        references=says.references,
        counts=_counts(rows),
        cases=rows,
    )


def _row(case: SiteCase) -> SiteRow:
    observed, fails = case.observed, {}
    for one in observed.programs if observed else ():
        if one.part == "visible" and one.observations:
            fails[one.role] = sum(not row.passed for row in one.observations)
    return SiteRow(
        id=case.content.id,
        variant=case.content.variant,
        state=case.state,
        checks=len(case.content.checks),
        failing_fails=fails.get("failing"),
        unsuccessful_fails=fails.get("unsuccessful"),
        word=observed.verdict if observed else "not run",
    )


def _family(slug: str, mechanisms: Sequence[SiteMechanism]) -> SiteFamily:
    inside = [one for one in mechanisms if one.family == slug]
    counts = _counts(row for one in inside for row in one.cases)
    return SiteFamily(slug=slug, counts=counts, mechanisms=tuple(one.slug for one in inside))


def _counts(rows: Iterable[SiteRow]) -> SiteCounts:
    words = Counter(row.word for row in rows)
    return SiteCounts(
        cases=words.total(),
        held=words["held"],
        violated=words["violated"],
        could_not_tell=words["could not tell"],
        not_run=words["not run"],
    )


def _group_of(groups: GroupsRecord, slug: str) -> str:
    return next(group.id for group in groups.groups if slug in group.mechanisms)


def _withdrawn(entry: CaseEntry) -> SiteWithdrawn:
    return SiteWithdrawn(id=entry.id, mechanism=entry.mechanism, variant=entry.variant, reason=entry.reason or "")
