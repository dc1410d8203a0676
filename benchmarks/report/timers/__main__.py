"""Turns the results of `make bench` into docs/benchmarks.md, the charts, and the few figures of the README.

    python -m benchmarks.report.timers build/benchmarks.json

What BENCH=quick or the pure twin measured is not for the documentation: it goes to build/report instead.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report.timers import charts, programs
from benchmarks.report.timers.goal import Goal
from benchmarks.report.timers.page import page
from benchmarks.report.timers.readme import figures, with_figures
from benchmarks.report.timers.results import Results
from benchmarks.report.timers.timer_goals import timer_goals
from benchmarks.report.timers.wheel_goals import wheel_goals

ROOT = Path(__file__).parents[3]


def main() -> None:
    """Write everything, and print the goals."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.report.timers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("json", type=Path, help="what pytest-benchmark wrote (--benchmark-json)")
    options = parser.parse_args()
    results = Results(options.json)
    about = results.machine["pywheel"]
    root = ROOT / "build" / "report" if about["quick"] or about["implementation"] != "native" else ROOT
    lines = wheel_goals(results)
    timer_lines = timer_goals(results)
    charts.comparison(results, root / "docs/images/comparison.svg")
    charts.scaling(results, root / "docs/images/scaling.svg")
    programs.picture(results, root / "docs/images/programs.svg")
    (root / "docs/benchmarks.md").write_text(page(results, lines, timer_lines), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (root / "README.md").write_text(with_figures(readme, figures(results)), encoding="utf-8")
    print(_plain([*lines, *timer_lines]))
    print(f"written: {root / 'docs/benchmarks.md'}, its images, and the figures of {root / 'README.md'}")


def _plain(lines: list[Goal]) -> str:
    return "\n".join(
        f"{line.met:>12}  {line.measure}\n{'':14}goal {line.goal}, measured {line.measured}" for line in lines
    )


if __name__ == "__main__":
    main()
