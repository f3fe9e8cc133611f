"""The static pages of the Failure Map, from their records alone: they open from disk, without script or network."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from shardproof.records.map import CheckContent, ObservedCheck, Part, ProgramContent, ProgramResult, RoleName
from shardproof.records.map_site import SiteCase, SiteIndex
from shardproof.report.difference import marked, places, told
from shardproof.report.page import printable

HEADINGS: dict[tuple[RoleName, Part], str] = {
    ("failing", "visible"): "1 / The failure",
    ("unsuccessful", "visible"): "2 / The unsuccessful fix",
    ("repair", "visible"): "3 / The repair",
    ("repair", "held back"): "4 / The repair on the held-back checks",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of a table of checks; `actual` is None where nothing was observed."""

    check: str
    actual: Markup | None
    expected: Markup
    outcome: str
    where: str
    """Where a wrong result differs, in words."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """One program as its section shows it."""

    heading: str
    content: ProgramContent
    exit: str
    said: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def name(self) -> str:
        """The heading without its number."""
        return self.heading.partition(" / ")[2]


def site_pages(index: SiteIndex, cases: Iterable[SiteCase]) -> Iterator[tuple[str, str]]:
    """Yield every page as (path, HTML), the same for the same records.

    Args:
        index: the home page, families and mechanisms.
        cases: every case that `index` lists.

    Yields:
        Paths with / between folders, relative to the folder that the pages go to.
    """
    environment = _environment()
    mechanisms = {one.slug: one for one in index.mechanisms}
    groups = {group.id: group for group in index.groups}
    always: dict[str, Any] = {"tier": index.tier, "made_with": index.made_with, "mechanisms": mechanisms, "up": "../"}

    def page(name: str, **values: Any) -> str:
        return environment.get_template(f"site/{name}.html").render(always | values)

    yield "index.html", page("home", index=index, up="")
    for family in index.families:
        yield f"families/{family.slug}.html", page("family", family=family)
    for one in index.mechanisms:
        yield f"mechanisms/{one.slug}.html", page("mechanism", mechanism=one, group=groups[one.evaluation_group])
    for case in cases:
        mechanism, group = mechanisms[case.content.mechanism], groups[case.evaluation_group]
        shown = programs_of(case)
        yield case_path(case.content.id), page("case", case=case, mechanism=mechanism, group=group, programs=shown)


def file_name(case: str) -> str:
    """The name of a case's files without their ending.

    >>> file_name("SP-00001"), file_name("local-shard-clip/17")
    ('SP-00001', 'local-shard-clip-17')
    """
    return case.replace("/", "-")


def case_path(case: str) -> str:
    """The path of a case's page.

    >>> case_path("SP-00001")
    'cases/SP-00001.html'
    """
    return f"cases/{file_name(case)}.html"


def programs_of(case: SiteCase) -> tuple[Shown, ...]:
    """The programs that the case's tier shows, in the order of its page."""
    results = {(one.role, one.part): one for one in case.observed.programs} if case.observed else {}
    found = [_shown(one, "visible", case.content.checks, results) for one in case.content.programs]
    if case.member is not None:
        found.append(_shown(case.member.repair, "visible", case.content.checks, results))
        if case.member.held_back is not None:
            found.append(_shown(case.member.held_back, "held back", case.member.held_back_checks, results))
    return tuple(found)


def _shown(
    content: ProgramContent,
    part: Part,
    checks: Iterable[CheckContent],
    results: Mapping[tuple[RoleName, Part], ProgramResult],
) -> Shown:
    heading, result = HEADINGS[content.role, part], results.get((content.role, part))
    if result is None:
        return Shown(heading, content, "Exit: not run", (), _unobserved(checks, "not run"))
    end = f"Exit {result.exit_code}" if result.ending == "exited" else result.detail
    rows = tuple(_row(one) for one in result.observations) or _unobserved(checks, "could not tell")
    return Shown(heading, content, end, (*result.problems, *result.unclear), rows)


def _unobserved(checks: Iterable[CheckContent], word: str) -> tuple[Row, ...]:
    return tuple(Row(check.label, None, marked(check.expected, ()), word, "") for check in checks)


def _row(one: ObservedCheck) -> Row:
    # The outcome is the record's; the marks only say where to look.
    found = () if one.passed else places(one.actual, one.expected)
    outcome = "Passed" if one.passed else "Failed"
    where = told(found, one.actual, one.expected)
    return Row(one.check, marked(one.actual, found), marked(one.expected, found), outcome, where)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("shardproof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printed,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"lines": _lines, "prose": _prose, "words": _words}
    environment.globals |= {"anchor": _anchor, "case_path": case_path, "file_name": file_name}
    return environment


def _printed(value: object) -> object:
    # What a program or an author wrote may hold control characters, which no page may; markup is ours and stays.
    return printable(value) if type(value) is str else value


def _lines(text: str) -> Markup:
    return Markup("\n").join(escape(printable(line)) for line in text.split("\n"))


def _prose(text: str) -> Markup:
    paragraphs = (" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
    return Markup("\n").join(Markup("<p>{}</p>").format(printable(one)) for one in paragraphs if one)


def _words(slug: str) -> str:
    return slug.replace("-", " ").capitalize()


def _anchor(name: str) -> str:
    return "group-" + "".join(letter if letter.isalnum() else "-" for letter in name)
