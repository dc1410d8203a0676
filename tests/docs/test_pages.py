"""The links of pages work in the repository and on the site, and quotes match their sources."""

import re
import runpy

import pytest

import pywheel
from tests.docs.pages import DOCS, LINK, PAGES, ROOT, anchors, prose, text

WIDEST = 121  # characters of code for which a window of 1280 pixels has room
SITE = runpy.run_path(str(DOCS / "_site" / "drawings.py"))


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_pages_and_to_their_headings(name):
    wrong = []
    for target in LINK.findall(prose(name)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (ROOT / name).parent.joinpath(path).resolve() if path else ROOT / name
        found = file.exists() and (not anchor or file.suffix != ".md" or anchor in anchors(str(file.relative_to(ROOT))))
        if not found:
            wrong.append(target)
    assert wrong == []


def test_code_is_as_wide_as_the_page_that_shows_it():
    code = {name: re.findall(r"^ *```.*?^ *```$", text(name), re.DOTALL | re.MULTILINE) for name in PAGES}
    lines = [(name, line) for name, blocks in code.items() for block in blocks for line in block.splitlines()]
    assert [line for line in lines if len(line[1]) > WIDEST] == []


def test_pictures_are_as_dark_as_the_page_that_shows_them():
    for path in (DOCS / "images").glob("*.svg"):
        assert re.search(r"@media \(prefers-color-scheme: ?dark\)", path.read_text(encoding="utf-8")), path.name


def test_index_lists_every_page_once():
    listed = re.findall(r"^- \[.+?\]\((.+?)\): ", text("docs/index.md"), re.MULTILINE)
    there = [str(path.relative_to(DOCS)) for pattern in ("*.md", "api/*.rst") for path in DOCS.glob(pattern)]
    assert sorted(listed) == sorted(set(there) - {"index.md"})


def test_the_changelog_and_the_images_have_the_version_of_the_package():
    newest = re.findall(r"^## \[(\d[^]]*)\]", text("CHANGELOG.md"), re.MULTILINE)[0]
    images = re.findall(r"image: pywheel:(\S+)", text("deploy/kubernetes/pywheel.yaml"))
    assert {newest, *images} == {pywheel.__version__}
    assert images != []


def test_the_drawings_are_those_that_the_script_draws():
    for name, draw in SITE["DRAWINGS"].items():
        assert text(f"docs/images/{name}.svg") == draw().svg(), "make drawings"


def test_troubleshooting_quotes_what_is_said():
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "pywheel").rglob("*.py"))
    sources = re.sub(r'"\s*\n\s*f?"', "", sources)  # a message in several lines
    quoted = re.findall(r"^### `(.+?)`", text("docs/troubleshooting.md"), re.MULTILINE)
    assert len(quoted) >= 15
    parts = [part.strip() for quote in quoted for part in quote.split("…") if part.strip()]
    assert [part for part in parts if part not in sources] == []


def test_every_alert_has_a_runbook_and_its_address_and_every_runbook_an_alert():
    rules = text("deploy/prometheus/pywheel.rules.yml")
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert alerts == re.findall(r"^### (Pywheel\w+)", text("docs/alarms.md"), re.MULTILINE)
    assert [alert.lower() for alert in alerts] == re.findall(r"runbook_url: .*/docs/alarms.md#(\w+)", rules)


def test_capacity_has_the_bytes_that_were_measured():
    row = re.findall(r"^\| bytes a job of 128 bytes \|.*\|$", text("docs/stores-benchmarks.md"), re.MULTILINE)[0]
    sqlite, postgres, mariadb, redis = re.findall(r"\d+", row.replace("*", ""))[-5:-1]
    quoted = re.findall(r"^\| bytes of a waiting job \|(.*)\|$", text("docs/capacity.md"), re.MULTILINE)[0]
    assert re.findall(r"\d+", quoted) == [sqlite, postgres, mariadb, redis]


def test_options_of_a_put_stand_before_the_arguments_of_its_task():
    call = r"\b(\w+)\.(?:put|reschedule)\([^()\n]*\b(?:delay|at|key|replace)="
    calls = {(name, it) for name in PAGES for it in re.findall(call, text(name))}
    assert {it for it in calls if it[1] not in {"queue", "aio", "jobs"}} == set()  # `jobs` is a DelayQueue


def test_capacity_quotes_what_was_measured():
    quoted = re.findall(r"\b\d{1,3}(?:,\d{3})+\b", prose("docs/capacity.md"))
    figures = {number for number in quoted if not number.endswith("000")}
    measured = "".join(text(f"docs/{name}-benchmarks.md") for name in ("jobs", "stores", "service"))
    assert len(figures) > 5
    assert {figure for figure in figures if figure not in measured} == set()
