"""The pages of figures match their results to the letter, and README, capacity and others quote the same."""

import re
import sys

import pytest

import pywheel
from benchmarks import kept
from benchmarks.report.__main__ import main
from benchmarks.report.parts import PARTS, of_other_versions
from benchmarks.report.quotes import CAPACITY, EVENT_LOOP, README, quoted
from tests.docs.pages import text

ABOUT = {
    "pywheel": "0.1.0",
    "commits": ["12345678"],
    "date": "2026-11-27",
    "python": "CPython 3.11.7",
    "kernel": "Linux 6.1",
    "processor": "a processor",
    "cores": 2,
    "memory": "24 GiB",
    "files": "ext4 on /dev/sda",
    "versions": {},
}


@pytest.fixture
def machine(monkeypatch):
    """What the machine says of itself; a test changes it."""
    now = {name: value for name, value in ABOUT.items() if name != "versions"}
    monkeypatch.setattr(kept, "about", lambda: dict(now))
    return now


@pytest.mark.parametrize("part", PARTS, ids=lambda part: f"{part.page} {part.results}")
def test_a_page_is_what_its_results_give_between_its_marks(part):
    if part.page in ("docs/scaling.md", "docs/service-benchmarks.md", "README.md"):
        name = "figures" if part.page == "README.md" else part.results
        assert len(re.findall(rf"<!-- {name} -->.*<!-- /{name} -->", text(part.page), re.DOTALL)) == 1
    found = kept.read(kept.RESULTS / f"{part.results}.json")
    if not found["results"]:
        pytest.skip(f"{part.results}: no results are kept yet")
    assert part.write(text(part.page), found) == text(part.page), "make bench-pages"


@pytest.mark.parametrize(
    ("page", "quote"),
    [
        *(("docs/capacity.md", quote) for quotes in CAPACITY.values() for quote in quotes),
        *(("docs/event-loop.md", quote) for quote in EVENT_LOOP),
        *(("README.md", quote) for quote in README),
    ],
    ids=lambda value: value if isinstance(value, str) else value.before,
)
def test_a_figure_that_is_quoted_is_found_once(page, quote):
    assert len(quote.pattern().findall(text(page))) == 1


def rows(**rounds):
    """Results of rows, each with the figures of its rounds."""
    found = {
        name: {"title": name, "goal": ">= 3", "floors": [[100.0, 0.1]] * len(each), "rounds": each}
        for name, each in rounds.items()
    }
    return {"about": ABOUT, "results": found}


def test_a_page_says_with_which_version_and_on_what_its_medians_were_measured():
    [part] = [part for part in PARTS if part.page == "docs/jobs-benchmarks.md"]
    page = part.write("", rows(one=[1.0, 4.0, 2.0]))
    assert "Measured with pywheel 0.1.0 (commit 12345678) on 2026-11-27: CPython 3.11.7, Linux 6.1, a processor" in page
    assert "| **one** | >= 3 | 2 (4) |" in page


def test_a_page_quotes_the_median_and_leaves_what_was_not_measured():
    page = "which share that wait: 7 a second by 100\n  tasks on SQLite, 8 by `put_many` of 1,000."
    written = quoted(page, CAPACITY["jobs"], rows(tasks100=[98_815.6, 1.0, 100_000.0]))
    assert written == page.replace("wait: 7 a", "wait: 98,816 a")


def test_readme_keeps_its_figures_where_only_a_part_was_measured():
    [part] = [part for part in PARTS if part.page == "README.md" and part.results == "timers"]
    results = {"schedule+cancel | TimingWheel | 100000 | uniform": {"seconds": [1e-9]}}
    assert part.write(text("README.md"), {"about": ABOUT, "results": results}) == text("README.md")


def test_what_was_measured_with_another_version_or_not_at_all_is_named(tmp_path):
    for name, version in (("jobs", "0.1.0"), ("stores", pywheel.__version__)):
        kept.write({"about": {**ABOUT, "pywheel": version}, "results": {"one": 1}}, tmp_path / f"{name}.json")
    lines = of_other_versions(tmp_path)
    assert f"docs/jobs-benchmarks.md: jobs measured with pywheel 0.1.0, this is {pywheel.__version__}" in lines
    assert any(line.startswith("docs/jobs-peers.md: queues measured with nothing that is kept") for line in lines)
    assert not any("stores-benchmarks" in line for line in lines)


def test_a_check_fails_exactly_where_something_was_measured_with_another_version(tmp_path, monkeypatch):
    for folder in (kept.RESULTS, tmp_path):
        monkeypatch.setattr(sys, "argv", ["report", "--check", str(folder)])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == ("\n".join(of_other_versions(folder)) or None)


def test_results_are_kept_with_a_line_for_each_measure_and_a_run_of_the_same_version_adds_to_them(machine, tmp_path):
    path = tmp_path / "some" / "x.json"
    results = {"one": [1.23456789, 3], "two": {"rate": 123456789.0}}
    kept.write({"about": {**ABOUT, "versions": {"Redis": "7"}}, "results": results}, path)
    assert kept.read(path)["results"] == {"one": [1.2346, 3], "two": {"rate": 123460000.0}}
    assert '  "one": [1.2346, 3],\n' in path.read_text(encoding="utf-8")
    machine["commits"] = ["87654321"]
    found = kept.begun(path, {"SQLite": "3"})
    assert found["results"] == {"one": [1.2346, 3], "two": {"rate": 123460000.0}}
    assert found["about"]["commits"] == ["12345678", "87654321"]
    assert found["about"]["versions"] == {"Redis": "7", "SQLite": "3"}


@pytest.mark.parametrize(("what", "value"), [("pywheel", "0.2.0"), ("cores", 4), ("processor", "another")])
def test_a_run_of_another_version_or_on_another_machine_begins_anew(machine, tmp_path, what, value):
    path = tmp_path / "x.json"
    kept.write({"about": ABOUT, "results": {"one": 1}}, path)
    machine[what] = value
    assert kept.begun(path, {})["results"] == {}
