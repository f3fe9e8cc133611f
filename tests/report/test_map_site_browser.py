"""The map's pages in headless Chromium: nothing scrolls sideways on a narrow screen, no error, no request."""

from __future__ import annotations

import functools
import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.report.map_pages import executed

from shardproof.failures.mechanism import members_folder
from shardproof.failures.site_records import site_records, stock_of
from shardproof.report.map_site import site_pages

pytestmark = pytest.mark.processes
NARROW = 360
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--enable-logging=stderr",
    "--allow-file-access-from-files",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--virtual-time-budget=600000",
    "--window-size=1200,900",
    "--dump-dom",
)
# Each page in a frame as wide as a small telephone; what it loaded and how wide it came out is written into the tree.
VISIT = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, seen = {};
const frame = document.body.appendChild(document.createElement("iframe"));
frame.style.cssText = "width: %dpx; height: 640px; border: 0";
function next() {
  const page = pages.pop();
  if (page === undefined) {
    document.body.textContent = JSON.stringify(seen);
    return;
  }
  frame.onload = () => {
    const inside = frame.contentWindow, root = inside.document.documentElement;
    seen[page] = {
      wide: root.scrollWidth,
      room: root.clientWidth,
      title: inside.document.title,
      loaded: inside.performance.getEntriesByType("resource").map(entry => entry.name),
    };
    next();
  };
  frame.src = page;
}
next();
</script>"""


@functools.cache
def chromium() -> str | None:
    """A Chromium that starts; the name alone may be a stub that only says what to install."""
    for name in NAMES:
        if path := shutil.which(name):
            try:
                done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=False)
            except (OSError, subprocess.TimeoutExpired):
                continue
            if done.returncode == 0 and re.search(r"\d+\.\d+", done.stdout):
                return path
    return None


@pytest.fixture
def visit(tmp_path):
    """Open pages of a folder; returns what each was seen to do, and the lines of the browser's console."""
    browser = chromium()
    if browser is None:
        pytest.skip(f"no Chromium that starts under any of the names {', '.join(NAMES)}")

    def run(folder: Path, paths: list[str]):
        urls = [(folder / path).as_uri() for path in paths]
        (tmp_path / "visit.html").write_text(VISIT % (json.dumps(urls), NARROW), encoding="utf-8")
        command = [browser, *OPTIONS, f"--user-data-dir={tmp_path / 'profile'}", (tmp_path / "visit.html").as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=110, check=False)
        found = re.search(r"<body>(\{.*\})</body>", done.stdout, re.DOTALL)
        assert found, (done.returncode, done.stdout[-500:], done.stderr[-500:])
        seen = json.loads(html.unescape(found[1]))
        assert len(seen) == len(paths)
        return seen, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    return run


def test_every_page_fits_a_narrow_screen_without_error_or_request(visit, tmp_path):
    members = members_folder()
    stock = stock_of(members)
    results = {plan.content.id: executed(plan) for plan in stock.plans[::2]}
    index, cases = site_records(stock, results, "member" if members else "open")
    folder = tmp_path / "site"
    chosen = {}
    for path, text in site_pages(index, cases):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
        chosen[path] = text
    seen, console = visit(folder, list(chosen))
    assert console == []
    assert {url: page for url, page in seen.items() if page["wide"] > page["room"]} == {}
    assert {url: page for url, page in seen.items() if page["loaded"]} == {}
    assert {page["room"] for page in seen.values()} <= set(range(NARROW - 20, NARROW + 1))
    assert all(page["title"] for page in seen.values())


def test_a_page_that_does_any_of_this_would_be_noticed(visit, tmp_path):
    (tmp_path / "wide.html").write_text('<title>a</title><div style="width: 500px">wide</div>', encoding="utf-8")
    (tmp_path / "loads.html").write_text('<title>b</title><img src="https://example.org/x.png">', encoding="utf-8")
    (tmp_path / "errs.html").write_text("<title>c</title><script>nothing.here()</script>", encoding="utf-8")
    seen, console = visit(tmp_path, ["wide.html", "loads.html", "errs.html"])
    pages = {Path(url).name: page for url, page in seen.items()}
    assert pages["wide.html"]["wide"] > pages["wide.html"]["room"]
    assert pages["loads.html"]["loaded"] == ["https://example.org/x.png"]
    assert any("nothing is not defined" in line for line in console)
