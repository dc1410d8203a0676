"""Pages of figures mark the missed goals, and exactly those."""

import re

import pytest

from benchmarks.report.missed import reached, verdicts
from tests.docs.pages import text

ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("goal", "measured", "expected"),
    [
        (">= 30 000", "32,175 (36,682)", True),
        (">= 30 000", "29,999 (36,682)", False),
        (">= 0.85 of the floor", "floor 5,001 (5,787), put 4,841 (5,097), ratio 0.84 (1)", False),
        (">= 75 000", "floor 98,998 (102,090), put_many 85,279 (87,350)", True),
        ("p50 <= 1, p99 <= 3, max <= 20", "p50 0.5 (0.4), p99 2.6 (2.4), p100 7.6 (6.9)", True),
        ("p50 <= 1, p99 <= 3, max <= 20", "p50 0.5 (0.4), p99 2.6 (2.4), p100 20.1 (6.9)", False),
        ("<= 250 / 70 us", "one 284, batched 53.2", False),
        ("<= 0.2/s, 0.05 %, 40 MB", "queries/s 0.05, cpu % 0.04, rss MB 39.7", True),
        ("<= 0.2/s, 0.05 %, 40 MB", "queries/s 0.05, cpu % 0.04, rss MB 41", False),
        ("<= 20 ms", "any 0.171, of a topic 20.5", False),
        ("ratio ≥ 0.5", "http 21,153 (21,872), ratio 0.385 (0.5)", False),
        (">= 1.6 x that", "200 (205)", True),
        (">= 1.6 x that", "150 (205)", False),
    ],
)
def test_a_goal_is_reached_by_what_was_measured(goal, measured, expected):
    found = verdicts([("the row before", "", "100"), ("this row", goal, measured)])
    assert found == [None, expected]
    assert reached(found) == (
        "All 1 goals were reached." if expected else "Of 1 goals 0 were reached. Rows in **bold** missed theirs."
    )


def test_what_has_no_figure_for_a_goal_is_no_goal():
    found = verdicts([("a", "nothing grows", "file MB 12.3"), ("b", "", "7")])
    assert found == [None, None]
    assert reached(found) == "All 0 goals were reached."


@pytest.mark.parametrize(("page", "part"), [("jobs", ""), ("service", "service"), ("service", "outlets")])
def test_a_page_of_figures_has_the_rows_in_bold_that_missed_their_goals_and_no_others(page, part):
    shown = text(f"docs/{page}-benchmarks.md")
    if part:
        shown = shown.split(f"<!-- {part} -->")[1].split(f"<!-- /{part} -->")[0]
    _, *rows = [line.split(" | ") for line in ROW.findall(shown)]
    found = verdicts(rows)
    assert [cells[0].startswith("**") for cells in rows] == [verdict is False for verdict in found]
    assert f"\n\n{reached(found)}\n" in shown
