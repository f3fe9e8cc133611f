"""The map's pages: links lead somewhere, numbers and outcomes are the records', nothing is obeyed or leaked."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from pathlib import Path

import pytest
from tests.report.map_pages import NASTY, Page, executed

from shardproof.errors import InvalidValueError
from shardproof.failures import record_text
from shardproof.failures.kept import ResultsError
from shardproof.failures.mechanism import members_folder
from shardproof.failures.site_records import site_records, stock_of
from shardproof.records.map_site import SiteCase, SiteIndex
from shardproof.report.map_site import case_path, programs_of, site_pages

SEED = Path(__file__).parents[3] / "shared" / "seeds" / "000_8a709edd6f2de6d2.txt"
NUMBER = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
ROLES = ("failing", "unsuccessful", "repair")
needs_members = pytest.mark.skipif(members_folder() is None, reason="repairs are held back here: no members/ folder")


@pytest.fixture(scope="module")
def stock():
    """The whole catalogue, rendered."""
    return stock_of(members_folder())


@pytest.fixture(scope="module")
def results(stock):
    """What every second case printed; the others were not run."""
    first = [plan for plan in stock.plans if plan.content.id == "SP-00001"]
    return {plan.content.id: executed(plan) for plan in [*stock.plans[::2], *first]}


@pytest.fixture(scope="module")
def open_tier(stock, results):
    return site_records(stock, results, "open")


@pytest.fixture(scope="module")
def open_pages(open_tier):
    return dict(site_pages(*open_tier))


@pytest.fixture(scope="module")
def member_tier(stock, results):
    if members_folder() is None:
        pytest.skip("repairs are held back here: no members/ folder")
    return site_records(stock, results, "member")


def dead_links(files: dict[str, str]) -> list[str]:
    """Links of HTML pages that lead to no file, or to no id, of the same folder; other sites are not asked."""
    pages = {path: Page(text) for path, text in files.items() if path.endswith(".html")}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith("https://"):
                continue
            target, _, anchor = link.partition("#")
            to = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
            if to not in files or (anchor and pages[to].ids.count(anchor) != 1):
                dead.append(f"{path}: {link}")
    return dead


def files_of(index, cases) -> dict[str, str]:
    files = {"index.json": record_text(index)}
    files |= {case_path(case.content.id).replace(".html", ".json"): record_text(case) for case in cases}
    files |= {f"cases/{case.bundle.file}": "" for case in cases}
    return files | dict(site_pages(index, cases))


def test_every_link_leads_somewhere(open_tier):
    assert dead_links(files_of(*open_tier)) == []


def test_every_page_is_reached_from_the_home_page(open_pages):
    reached, ahead = set(), ["index.html"]
    while ahead:
        path = ahead.pop()
        if path in open_pages and path not in reached:
            reached.add(path)
            links = [link.partition("#")[0] for link in Page(open_pages[path]).links if not link.startswith("https:")]
            ahead += [posixpath.normpath(posixpath.join(posixpath.dirname(path), link)) for link in links if link]
    assert reached == set(open_pages)


def test_a_dead_link_would_be_noticed():
    page = '<p id="here"><a href="cases/a.html">a</a><a href="#there">b</a><a href="#here">c</a></p>'
    assert dead_links({"index.html": page}) == ["index.html: cases/a.html", "index.html: #there"]


def test_each_family_mechanism_and_case_has_its_page(stock, open_pages):
    slugs = {mechanism.slug for mechanism in stock.mechanisms}
    families = {mechanism.says.family for mechanism in stock.mechanisms}
    expected = {"index.html"} | {f"mechanisms/{slug}.html" for slug in slugs}
    expected |= {f"families/{family}.html" for family in families}
    expected |= {f"cases/{plan.content.id}.html" for plan in stock.plans}
    assert set(open_pages) == expected


def test_pages_need_no_script_and_no_network(open_pages):
    for path, html in open_pages.items():
        page = Page(html)
        assert not {"script", "link", "img", "iframe", "object", "form", "svg", "base"} & set(page.tags), path
        assert "default-src 'none'; style-src 'unsafe-inline'" in html
        assert "url(" not in html
        assert "@import" not in html
        for link in page.links:
            # Reports are linked to; nothing of another site is loaded.
            assert re.match(r"(https://|#|\.\./|[a-zA-Z])", link), link
            assert link.startswith("https://") or ":" not in link, link


def test_the_order_is_that_of_the_published_page(open_pages):
    order = ["Root cause", "Unsuccessful approach", "Case contract", "Why this case matters", "1 / The failure"]
    order += ["2 / The unsuccessful fix", "3 / The repair", "Verification & scope"]
    headings = Page(open_pages["cases/SP-00001.html"]).headings[1:]
    assert headings == [*order, "Public reports", "Variants", "Evaluation group"]
    if not SEED.exists():
        pytest.skip("the published page, ../shared/seeds, is not here")
    text = SEED.read_text(encoding="utf-8").replace("HELD IN THE MEMBER ARCHIVE", "3 / The repair").lower()
    at = [text.index(heading.lower()) for heading in order]
    assert at == sorted(at)


def test_sources_and_tables_are_those_of_the_record(open_tier, open_pages):
    for case in open_tier[1]:
        page = Page(open_pages[case_path(case.content.id)])
        assert page.sources == [program.source for program in case.content.programs]
        text = "".join(page.text)
        for program in case.content.programs:
            assert hashlib.sha256(program.source.encode()).hexdigest() == program.sha256
            assert f"SHA-256 / {program.sha256}" in text
        seen = [one for one in case.observed.programs if one.part == "visible"] if case.observed else []
        assert rows_of(page) == [row for one in seen for row in recorded(one)] or not seen
        assert [f"Exit {one.exit_code}" for one in seen] == re.findall(r"^Exit \d+$", text, re.M)


def rows_of(page) -> list[list[str]]:
    """The rows of tables of checks: label, actual, expected, outcome."""
    return [[*row[:3], row[3].partition(":")[0]] for row in page.rows if len(row) == 4 and row[0] != "Boundary fixture"]


def recorded(result) -> list[list[str]]:
    return [
        [one.check, written(one.actual), written(one.expected), "Passed" if one.passed else "Failed"]
        for one in result.observations
    ]


def written(value) -> str:
    return json.dumps(value, ensure_ascii=False)


def test_a_wrong_result_says_where_it_differs(open_tier, open_pages):
    html = open_pages["cases/SP-00001.html"]
    assert "[[<mark>2.0</mark>, 0.0], [0.0, <mark>2.0</mark>]]" in html
    assert "[[<mark>1.2</mark>, 0], [0, <mark>1.6</mark>]]" in html
    assert '<span class="failed">Failed</span>: differs at [0][0], [1][1]' in html
    assert "text-decoration: underline" in html
    for case in open_tier[1]:
        for row in (row for program in programs_of(case) for row in program.rows if row.actual is not None):
            # A place that one side lacks can be marked on the other only.
            assert ("<mark>" in row.actual + row.expected) is bool(row.where) is (row.outcome == "Failed")


def test_every_number_of_a_page_is_in_its_records(open_tier, open_pages):
    index, cases = open_tier
    for case in cases[:12]:
        assert unknown_numbers(open_pages[case_path(case.content.id)], index, case) == set()
    for path in open_pages:
        if not path.startswith("cases/"):
            assert unknown_numbers(open_pages[path], index) == set()


def test_a_number_that_no_record_has_would_be_noticed(open_tier, open_pages):
    html = open_pages["cases/SP-00001.html"].replace("2.78", "2.79").replace(">7<", ">77<")
    assert "77" in unknown_numbers(html, open_tier[0], open_tier[1][0])


def unknown_numbers(html: str, *records) -> set[str]:
    page = Page(html)
    shown = set(re.findall(NUMBER, " ".join(page.text)))
    known = {"256", "1", "2", "3"}  # SHA-256, and the numbers of headings
    for record in records:
        known |= set(re.findall(NUMBER, record.model_dump_json()))
        known |= {text for value in values(record.model_dump(mode="json")) for text in re.findall(NUMBER, str(value))}
        known |= lengths(record.model_dump(mode="json"))
    places = {str(number) for row in page.rows for cell in row for number in re.findall(r"\[(\d+)\]", cell)}
    return shown - known - places


def values(value) -> list[object]:
    if isinstance(value, dict):
        return [*value, *(one for item in value.values() for one in values(item))]
    return [one for item in value for one in values(item)] if isinstance(value, list) else [value]


def lengths(value) -> set[str]:
    if isinstance(value, dict):
        return {text for item in value.values() for text in lengths(item)}
    return {str(len(value))} | {text for item in value for text in lengths(item)} if isinstance(value, list) else set()


def test_the_verdict_of_the_published_pages_case_is_shown(open_pages):
    text = " ".join("".join(Page(open_pages["cases/SP-00001.html"]).text).split())
    assert "checks per implementation · Source bundle (" in text
    assert "SP-00001 / Norm scope / Open access / also published as FA-99266" in text
    assert "Verified by execution: held · Variant 1 · 7 checks per implementation" in text
    assert "recorded using Python 3.11.99 on Testing-1.5-x at 2026-01-02T03:04:05+00:00, isolation level none." in text


def test_what_was_not_run_says_so_and_is_counted_as_nothing_else(stock, results, open_tier, open_pages):
    index, cases = open_tier
    assert (index.counts.cases, index.counts.held) == (len(stock.plans), len(results))
    assert index.counts.not_run == len(stock.plans) - len(results) > 0
    for case in (case for case in cases if case.observed is None):
        page = Page(open_pages[case_path(case.content.id)])
        text = "".join(page.text)
        assert "not run: no observation of this case is known here" in text
        assert text.count("Exit: not run") == 2
        assert {row[3] for row in rows_of(page)} == {"not run"}
        assert not {"Passed", "Verified by execution", "Observations recorded"} & set(re.findall(r"[A-Z][a-z ]+", text))


def test_a_program_that_could_not_be_observed_is_not_said_to_pass(stock, results):
    plan = stock.plans[0]
    result = results[plan.content.id]
    unseen = {"observations": (), "unclear": ("its time ran out",), "ending": "wall time", "exit_code": None}
    failing = result.programs[0].model_copy(update={**unseen, "detail": "killed after 10 s"})
    changed = {"programs": (failing, *result.programs[1:]), "verdict": "could not tell"}
    index, cases = site_records(stock, {plan.content.id: result.model_copy(update=changed)}, "open")
    page = Page(dict(site_pages(index, cases[:1]))[case_path(plan.content.id)])
    assert (index.counts.could_not_tell, index.counts.held) == (1, 0)
    assert {row[3] for row in rows_of(page)[: len(plan.content.checks)]} == {"could not tell"}
    assert "killed after 10 s" in "".join(page.text)
    assert "its time ran out" in "".join(page.text)


@needs_members
def test_the_open_tier_holds_nothing_of_the_repair(stock, results, open_tier):
    files = files_of(*open_tier)
    digests = set(re.findall(r"[0-9a-f]{64}", "\n".join(files.values())))
    for plan in stock.plans:
        hidden = [program for program in plan.programs if program.role == "repair"]
        text = "".join(files[case_path(plan.content.id).replace(".html", end)] for end in (".html", ".json"))
        assert len(hidden) == 2
        assert not digests & {program.sha256 for program in hidden}
        assert plan.programs[0].sha256 in digests
        assert '"role": "repair"' not in text
        shown = {check.label for check in plan.content.checks}
        labels = [check.label for check in hidden[1].checks if check.label not in shown]
        assert not [label for label in labels if f'"check": {json.dumps(label)}' in text]
        assert plan.content.id not in results or results[plan.content.id].key not in digests
        assert "held back, for every case of this mechanism and of its evaluation group" in text


@needs_members
def test_a_broken_rule_about_the_repair_is_counted_in_the_open_tier_and_told_in_the_other(stock, results):
    plan = stock.plans[0]
    said = ("repair fails the held-back check 'a secret label': it gives 7", "failing passes all 7 checks")
    result = results[plan.content.id].model_copy(update={"broken": said, "verdict": "violated"})
    for tier, told in (("open", said[1:]), ("member", said)):
        index, cases = site_records(stock, {plan.content.id: result}, tier)
        html = dict(site_pages(index, cases[:1]))[case_path(plan.content.id)]
        assert cases[0].observed.broken == told
        assert ("a secret label" in html + record_text(cases[0])) is (tier == "member")
        assert index.counts.violated == 1
        assert '<span class="violated">violated</span>' in html


@needs_members
def test_the_member_tier_shows_the_repair_and_its_checks(stock, results, member_tier):
    index, cases = member_tier
    pages = files_of(index, cases)
    assert dead_links(pages) == []
    for plan, case in list(zip(stock.plans, cases, strict=True))[::3]:
        page = Page(pages[case_path(case.content.id)])
        assert page.sources == [program.source.decode() for program in plan.programs]
        assert page.headings[7:9] == ["3 / The repair", "4 / The repair on the held-back checks"]
        if case.content.id in results:
            seen = [row for one in results[case.content.id].programs for row in recorded(one)]
            assert rows_of(page) == seen
            repairs = [one for one in case.observed.programs if one.role == "repair"]
            assert {row[3] for one in repairs for row in recorded(one)} == {"Passed"}


def test_the_member_tier_without_repairs_is_refused(results):
    with pytest.raises(InvalidValueError, match="Expected repairs for tier='member', got none"):
        site_records(stock_of(None), {}, "member")


def test_results_of_other_programs_are_refused(stock, results):
    plan = stock.plans[0]
    result = results[plan.content.id]
    other = result.programs[0].model_copy(update={"sha256": "0" * 64})
    for changed in ({"case_digest": "0" * 64}, {"programs": (other, *result.programs[1:])}):
        with pytest.raises(ResultsError, match=f"got {plan.content.id}, verified at 2026"):
            site_records(stock, {plan.content.id: result.model_copy(update=changed)}, "open")


def test_pages_are_a_function_of_the_stored_records(open_tier, open_pages):
    index, cases = open_tier
    read = SiteIndex.model_validate_json(record_text(index))
    again = [SiteCase.model_validate_json(record_text(case)) for case in cases]
    assert dict(site_pages(read, again)) == open_pages
    for record in (index, *cases):
        json.loads(record_text(record), parse_constant=lambda name: pytest.fail(f"bare {name}"))


def test_what_a_record_holds_is_shown_and_not_obeyed(open_tier):
    index, cases = open_tier
    case = nasty(cases[0])
    changed = dict.fromkeys(("title", "root_cause", "unsuccessful_approach", "why_it_matters", "scope"), NASTY)
    first = next(one for one in index.mechanisms if one.slug == case.content.mechanism)
    mechanism = first.model_copy(update=changed)
    others = tuple(mechanism if one.slug == first.slug else one for one in index.mechanisms)
    index = index.model_copy(update={"mechanisms": others, "made_with": NASTY})
    for path, html in dict(site_pages(index, [case])).items():
        assert not {"script", "img"} & set(Page(html).tags), path
        assert not set(html) & {"\x00", "\x1b"}, path
    html = dict(site_pages(index, [case]))[case_path(case.content.id)]
    for place in ("h1", "code", "mark", "li", "td"):
        assert re.search(rf"<{place}[^>]*>[^<]*&lt;script&gt;alert\(&#39;x&#39;\)", html), place


def nasty(case: SiteCase) -> SiteCase:
    """The same case with markup and control characters in every text that an author or a program chooses."""
    texts = ("title", "root_cause", "unsuccessful_approach", "why_it_matters", "scope")
    contract = case.content.contract.model_copy(update={"text": NASTY, "arguments": {NASTY: NASTY}, "solve": NASTY})
    sources = tuple(one.model_copy(update={"source": NASTY}) for one in case.content.programs)
    references = tuple(one.model_copy(update={"note": NASTY}) for one in case.content.references)
    content = case.content.model_copy(
        update=dict.fromkeys(texts, NASTY) | {"contract": contract, "programs": sources, "references": references}
    )
    programs = []
    for one in case.observed.programs:
        rows = tuple(
            row.model_copy(update={"check": NASTY, "actual": [NASTY, {NASTY: 1}], "passed": False})
            for row in one.observations
        )
        programs.append(one.model_copy(update={"observations": rows, "problems": (NASTY,), "unclear": (NASTY,)}))
    observed = case.observed.model_copy(
        update={"programs": tuple(programs), "broken": (NASTY,), "platform": NASTY, "python": NASTY}
    )
    changed = {"content": content, "observed": observed, "aliases": (NASTY,), "state": "deprecated", "reason": NASTY}
    return case.model_copy(update=changed)
