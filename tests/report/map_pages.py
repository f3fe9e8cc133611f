"""Cases of the map with what their programs print, had in this process; and pages read as a browser's tree."""

from __future__ import annotations

import contextlib
import io
from html.parser import HTMLParser

from shardproof.failures.judge import judge_roles, read_report, word
from shardproof.records.map import CaseResult, ProgramResult

NASTY = "<script>alert('x')</script>\x1b[2J\x00&amp;\"><img src=x>"


def executed(plan) -> CaseResult:
    """The result of a case whose programs are run here: they are our own, and quick without processes."""
    programs = tuple(_ran(program) for program in plan.programs)
    broken = judge_roles(plan, programs)
    return CaseResult(
        id=plan.content.id,
        mechanism=plan.content.mechanism,
        family=plan.content.family,
        variant=plan.content.variant,
        case_digest=plan.digest,
        key=plan.key("none"),
        level="none",
        repair="run" if any(one.role == "repair" for one in programs) else "held back",
        programs=programs,
        broken=broken,
        verdict=word(programs, broken),
        python="3.11.99",
        platform="Testing-1.5-x",
        time="2026-01-02T03:04:05+00:00",
    )


def _ran(program) -> ProgramResult:
    printed, code = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(program.source, program.role, "exec"), {"__name__": "program"})
        except SystemExit as end:
            code = end.code
    return ProgramResult(
        role=program.role,
        part=program.part,
        sha256=program.sha256,
        runs=1,
        ending="exited",
        exit_code=code,
        detail=f"exited with {code}",
        observations=read_report(printed.getvalue().encode(), program.checks),
        problems=(),
        unclear=(),
    )


class Page(HTMLParser):
    """Text, links, ids, headings, sources and table rows of a page; raises on tags that do not nest."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, html: str):
        super().__init__()
        self.text, self.tags, self.links, self.ids, self.open = [], [], [], [], []
        self.headings, self.sources, self.rows = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("href", "src", "action", "srcset", "data")]
        self.ids += [value for name, value in attrs if name == "id"]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"]
        if tag not in self.VOID:
            self.open.append(tag)
        if tag in ("h1", "h2"):
            self.headings.append("")
        elif tag == "pre":
            self.sources.append("")
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text.append(data)
        if {"h1", "h2"} & set(self.open):
            self.headings[-1] += data
        if "pre" in self.open:
            self.sources[-1] += data
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
