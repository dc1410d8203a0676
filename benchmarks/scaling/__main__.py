"""The program of `make simulate`: the tables of docs/scaling.md and its picture, from the model.

usage: python -m benchmarks.scaling [PAGE] [--measured FILE] [--only NAME,NAME] [--brief]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.report.text import table, with_part
from benchmarks.scaling.kinds import MEASURED, kinds
from benchmarks.scaling.sweeps import answers


def main() -> None:
    """Simulate, print, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Simulate stores and workers.")
    parser.add_argument("page", nargs="?", type=Path, help="whose tables and picture are written anew")
    parser.add_argument("--measured", type=Path, default=MEASURED, help="what benchmarks.scaling.calibrate wrote")
    parser.add_argument("--brief", action="store_true", help="some seconds: to see that it runs")
    parser.add_argument("--only", default="", help="names of tables; then the picture stays as it is")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    found = {}
    for answer in answers(kinds(options.measured), options.measured, only, brief=options.brief):
        found[answer.name] = answer
        print(f"\n{answer.name}\n\n{table(answer.head, answer.rows)}", flush=True)
    if not options.page:
        return
    text = options.page.read_text(encoding="utf-8")
    for answer in found.values():
        text = with_part(text, answer.name, table(answer.head, answer.rows))
    options.page.write_text(text, encoding="utf-8")
    if not only:
        from benchmarks.report.scaling.chart import chart  # it needs matplotlib

        chart(
            {name: answer.points for name, answer in found.items()}, options.page.parent / "images" / "stores-scaling"
        )


if __name__ == "__main__":
    main()
