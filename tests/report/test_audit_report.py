"""Reports of an audit: made from the record alone, escaped, and with no number that the JSON does not have."""

import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from shardproof.records.audit import (
    AuditReport,
    Candidate,
    CellPlan,
    CellVerdict,
    ClauseVerdict,
    Diagnosis,
    Environment,
    Finding,
    LayoutPlan,
    Named,
    NormRow,
    Plan,
    Residual,
    SubjectPlan,
    TellApart,
    Verdict,
)
from shardproof.report.audit_html import audit_html, audit_json
from shardproof.report.audit_terminal import print_audit, summary_line

NASTY = "<script>alert('x')</script>\x1b[2J\x00&amp;"


class Page(HTMLParser):
    """The visible text and the tags of a page; raises on tags that do not nest."""

    VOID = frozenset({"meta", "br"})

    def __init__(self):
        super().__init__()
        self.text, self.tags, self.links, self.open = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "action")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


@pytest.fixture
def report():
    layout = LayoutPlan(
        name="pipeline", title="2 stages", world_size=2, axes={"pp": 2}, tensors=(), pieces=(), fixtures=()
    )
    first = Finding(
        fixture="over", rank=1, expected=13.0, observed=9.486832618713379, text=f"over: 9.486832618713379 {NASTY}"
    )
    row = NormRow(
        fixture="over",
        limit=6.5,
        expected_norm=13.0,
        expected_factor=0.5,
        returned=(9.486832618713379, float("nan")),
        ratio=(0.7297563552856445, None),
        factor=(0.6851601004600525, float("inf")),
    )
    cells = (
        CellVerdict(
            cell="control/pipeline", subject="control", layout="pipeline", control=True, verdict="pass", reason="ok"
        ),
        CellVerdict(
            cell="a/pipeline",
            subject="a",
            layout="pipeline",
            control=False,
            verdict="fail",
            reason="norm.global",
            ranks=(1,),
            clauses=(ClauseVerdict(clause="norm.global", outcome="violated", checks=17, violations=5, first=first),),
            norms=(row,),
        ),
        CellVerdict(cell="b/pipeline", subject="b", layout="pipeline", control=False, verdict="hang", reason=NASTY),
    )
    return AuditReport(
        plan=Plan(
            run_id="0f" * 16,
            command=("shardproof", "audit", "run", NASTY),
            timeout_s=5.0,
            subjects=(SubjectPlan(name="a", spec="a"), SubjectPlan(name="b", spec="b")),
            layouts=(layout,),
            cells=tuple(
                CellPlan(id=cell.cell, subject=cell.subject, layout="pipeline", control=cell.control) for cell in cells
            ),
        ),
        environment=Environment(
            time="2026-01-02T03:04:05+00:00",
            python="3.11.7",
            implementation="CPython",
            platform="Linux",
            cpu="a processor",
            cpus=2,
            backend="gloo",
            accelerator=None,
            packages={"torch": "2.13.0"},
        ),
        verdict=Verdict(
            run_id="0f" * 16,
            plan_sha256="ab" * 32,
            graded_by="shardproof 0.1.0",
            word="violated",
            exit_code=1,
            planned=2,
            observed=2,
            counts={"fail": 1, "hang": 1},
            cells=cells,
            clauses={"norm.global": "the norm is the global norm"},
            tolerances=("norm: 1e-6",),
            limits=("No violation found means: none on these layouts.",),
            notes=("a note",),
        ),
    )


def test_every_number_of_the_page_is_in_the_json(report):
    page = Page()
    page.feed(audit_html(report))
    number = r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
    numbers = set(re.findall(number, " ".join(page.text)))
    known = set(re.findall(number, audit_json(report)))

    assert {"9.486832618713379", "0.7297563552856445", "0.6851601004600525", "17", "5", "6.5"} <= numbers
    # Rank numbers are places in the JSON's lists; 256 is the name of the digest.
    assert numbers - {"0", "1", "256"} <= known


def test_a_number_that_the_json_lacks_would_be_noticed(report):
    page = Page()
    page.feed(audit_html(report).replace("0.7297563552856445", "0.73"))

    assert "0.73" in " ".join(page.text)
    assert "0.73" not in re.findall(r"[\d.]+", audit_json(report))


def test_the_page_needs_no_script_and_no_network(report):
    html = audit_html(report)
    page = Page()
    page.feed(html)
    page.close()

    assert page.open == []
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert page.links
    assert all(link.startswith("#") for link in page.links)
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html


def test_what_a_subject_says_is_shown_and_not_obeyed(report):
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;" in audit_html(report)
    assert not set(audit_html(report)) & {"\x00", "\x1b"}
    terminal = printed(report)
    assert "\x1b" not in terminal
    assert "\\x1b[2J" in terminal


def test_a_name_in_the_matrix_drives_no_terminal_and_is_no_markup(report):
    named = SubjectPlan(name=f"[/red]{NASTY}", spec="a")
    plan = report.plan.model_copy(update={"subjects": (named,)})

    terminal = printed(report.model_copy(update={"plan": plan}))

    assert not set(terminal) & {"\x1b", "\x00"}
    assert "[/red]" in terminal


def test_the_page_names_every_candidate_and_how_near_the_others_come(report):
    name = Named(mechanism="missing-model-axis", implementation="failing", reading=f"no axis {NASTY}")
    other = name.model_copy(update={"mechanism": "local-shard-clip"})
    explained = Diagnosis(
        subject="a",
        scope="core",
        word="explained",
        observations=17,
        wrong=5,
        candidates=tuple(Candidate(together=((one,),), agreeing=17, departing=5) for one in (name, other)),
        apart=(TellApart(layout="fsdp2", fixture="over", one="A", other="B"),),
        left_out=("tp: error",),
    )
    near = Residual(nearest=name, agreeing=3, of=17, worst=float("inf"))
    unknown = Diagnosis(
        subject="b", scope="core", word="not a known mechanism", observations=17, wrong=5, residuals=(near,)
    )
    verdict = report.verdict.model_copy(update={"diagnoses": (explained, unknown)})
    told = report.model_copy(update={"verdict": verdict})
    html, terminal = audit_html(told), " ".join(printed(told).split())

    for text in (
        "missing-model-axis",
        "local-shard-clip",
        "fsdp2, call over: A from B",
        "tp: error",
        "cannot be told apart",
    ):
        assert text in html
    assert "<script>" not in html
    assert "explained by missing-model-axis" in terminal
    assert "or by local-shard-clip" in terminal
    assert "not a known mechanism. Nearest, and not it: missing-model-axis (failing) agrees on 3 of 17." in terminal


def test_a_value_that_is_wrong_is_marked_by_more_than_colour(report):
    html = audit_html(report)

    assert '<span class="wrong">9.486832618713379</span>' in html
    assert '<span class="wrong">nan</span>' in html
    assert "text-decoration: underline" in html
    assert html.count("<rect") == 2


def test_each_link_has_its_section(report):
    html = audit_html(report)

    for target in re.findall(r'href="#([^"]+)"', html):
        assert html.count(f'id="{target}"') == 1


def test_the_page_says_what_the_result_does_not_show(report):
    html = audit_html(report)

    assert all(limit in html for limit in (*report.verdict.limits, *report.verdict.notes, *report.verdict.tolerances))
    assert "No violation found means" in printed(report)


def test_the_matrix_and_the_reasons_fit_a_plain_terminal(report):
    text = printed(report)

    assert re.search(r"pipeline\W+2\W+fail \[1\]\W+hang \[2\]", text)
    assert "[1] a under pipeline: fail" in text
    assert "norm.global: over: 9.486832618713379" in text
    assert "Note: a note." in text
    assert summary_line(report) == ("violated: 1 fail, 1 hang of 2 cells; graded by shardproof 0.1.0, torch 2.13.0")


def test_a_terminal_that_knows_only_ascii_is_written_to(report):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    control = report.verdict.cells[0].model_copy(update={"verdict": "hang", "reason": "\N{BEACH WITH UMBRELLA}"})
    cells = (control, *report.verdict.cells[1:])
    print_audit(
        report.model_copy(update={"verdict": report.verdict.model_copy(update={"cells": cells})}),
        Console(file=stream, width=100),
    )
    stream.flush()

    assert b"control under pipeline: hang, \\U0001f3d6" in stream.buffer.getvalue()


def test_the_json_has_no_bare_nan_and_reads_back_the_same(report):
    text = audit_json(report)
    json.loads(text, parse_constant=lambda name: pytest.fail(f"bare {name}"))

    assert audit_json(AuditReport.model_validate_json(text)) == text
    with pytest.raises(ValueError, match="extra"):
        AuditReport.model_validate_json(text.replace('"plan":', '"plan2": 1, "plan":', 1))


def printed(report):
    stream = io.StringIO()
    print_audit(report, Console(file=stream, width=100))
    return stream.getvalue()
