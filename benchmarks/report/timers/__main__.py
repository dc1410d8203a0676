"""Turns the results of `make bench` into docs/benchmarks.md, the charts, and the few figures of the README.

    python -m benchmarks.report.timers build/benchmarks.json

What BENCH=quick or the pure twin measured is not for the documentation: it goes to build/report instead.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from benchmarks.report.timers import charts, tables
from benchmarks.report.timers.charts import spoken
from benchmarks.report.timers.results import Results
from benchmarks.report.timers.timer_goals import timer_goals
from benchmarks.report.timers.wheel_goals import WHEEL, Goal, goals

ROOT = Path(__file__).parents[3]
PAGE = Path(__file__).with_name("page.md")


def main() -> None:
    """Write everything, and print the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("json", type=Path, help="what pytest-benchmark wrote (--benchmark-json)")
    options = parser.parse_args()
    results = Results(options.json)
    about = results.machine["pywheel"]
    root = ROOT / "build" / "report" if about["quick"] or about["implementation"] != "native" else ROOT
    lines = goals(results)
    timer_lines = timer_goals(results)
    charts.comparison(results, root / "docs/images/comparison.svg")
    charts.scaling(results, root / "docs/images/scaling.svg")
    (root / "docs/benchmarks.md").write_text(page(results, lines, timer_lines), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (root / "README.md").write_text(with_figures(readme, figures(results)), encoding="utf-8")
    print(_plain([*lines, *timer_lines]))
    print(f"written: {root / 'docs/benchmarks.md'}, its images, and the figures of {root / 'README.md'}")


def page(results: Results, lines: list[Goal], timer_lines: list[Goal]) -> str:
    """Return docs/benchmarks.md."""
    horizons = ("schedule", "cancel", "schedule+cancel", "reschedule", "delivery")
    return PAGE.read_text(encoding="utf-8").format(
        machine=machine(results),
        goals=tables.goals(lines),
        timer_goals=tables.goals(timer_lines),
        callbacks=tables.callbacks(results),
        calls=tables.comparisons(results),
        bulk=tables.bulk(results),
        ticks=tables.ticks(results),
        growth=tables.growth(results),
        memory=tables.memory(results),
        collection=tables.collection(results),
        workloads=tables.workloads(results),
        horizons=tables.comparisons(results, "horizons", horizons),
    )


def machine(results: Results) -> str:
    """Return what it ran on."""
    about = results.machine
    processor = about.get("cpu", {}).get("brand_raw") or about.get("processor") or about["machine"]
    cores = about.get("cpu", {}).get("count", "?")
    python = f"{about['python_implementation']} {about['python_version']}"
    return f"pywheel {about['pywheel']['version']}, {python}, {about['system']}, {processor}, {cores} cores."


def figures(results: Results) -> str:
    """Return the README's few figures."""

    def times(measure: str, peer: str, size: int) -> str:
        ratio = results.ratio(measure, peer, WHEEL, size)
        return f"{ratio:.0f} times" if ratio else "- times"

    def own(measure: str, peer: str, size: int) -> str:
        return spoken(results.ns(measure, peer, size) or 0)

    many, most = 100_000, 1_000_000
    churn = [times("schedule+cancel", peer, many) for peer in ("asyncio", "uvloop", "heapq")]
    bulk = [own(measure, "KeyWheel", most) for measure in ("schedule_many", "cancel_many", "advance_many")]
    memory = results.value("resident", "bytes", WHEEL, most) or 0
    lines = (
        f"- With {many:,} timers pending, starting and cancelling one takes {own('schedule+cancel', WHEEL, many)}: ",
        f"asyncio takes {churn[0]} as long, uvloop {churn[1]}, heapq {churn[2]}.\n",
        f"- With {most:,} pending, delivering one takes {own('delivery', WHEEL, most)}: ",
        f"heapq takes {times('delivery', 'heapq', most)} as long.\n",
        f"- `KeyWheel`'s bulk calls take {bulk[0]} to schedule one, {bulk[1]} to cancel one in random order, ",
        f"{bulk[2]} to deliver one.\n",
        f"- A timer takes {memory:.0f} bytes. A jump over 2^40 empty ticks takes {own('jump of 2^40', WHEEL, 0)}.",
    )
    return f"Measured on {machine(results)}\n\n" + "".join(lines)


def with_figures(readme: str, text: str) -> str:
    """Return the README with the text between its two markers."""
    between = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)
    return between.sub(lambda marks: f"{marks[1]}{text}\n{marks[2]}", readme)


def _plain(lines: list[Goal]) -> str:
    return "\n".join(
        f"{line.met:>12}  {line.measure}\n{'':14}goal {line.goal}, measured {line.measured}" for line in lines
    )


if __name__ == "__main__":
    main()
