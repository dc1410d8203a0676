"""What `make simulate` runs: the tables of docs/scaling.md and its picture, from the model.

usage: python -m benchmarks.scaling [PAGE] [--measured FILE] [--brief]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report.scaling.page import with_table
from benchmarks.report.text import table
from benchmarks.scaling.kinds import MEASURED, kinds
from benchmarks.scaling.sweeps import all_of_it


def main() -> None:
    """Simulate, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Simulate stores and workers.")
    parser.add_argument("page", nargs="?", type=Path, help="whose tables and picture are written anew")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="what benchmarks.scaling.calibrate wrote")
    parser.add_argument("--brief", action="store_true", help="some seconds: to see that it runs")
    options = parser.parse_args()
    found = {}
    for answer in all_of_it(kinds(options.measured), options.measured, brief=options.brief):
        found[answer.name] = answer
        print(f"\n{answer.name}\n\n{table(answer.head, answer.rows)}", flush=True)
    if options.page:
        from benchmarks.report.scaling.chart import chart

        text = options.page.read_text(encoding="utf-8")
        for answer in found.values():
            text = with_table(text, answer.name, table(answer.head, answer.rows))
        options.page.write_text(text, encoding="utf-8")
        chart(
            {name: answer.points for name, answer in found.items()}, options.page.parent / "images" / "stores-scaling"
        )


if __name__ == "__main__":
    main()
