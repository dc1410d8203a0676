"""Makes the pages of figures, and their pictures, from benchmarks/results. Nothing is measured.

usage: python -m benchmarks.report [--check] [FOLDER]

Results of another folder, such as build/results, become pages in build/report.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.host import ROOT
from benchmarks.kept import RESULTS, read
from benchmarks.report.parts import PARTS, of_other_versions


def main() -> None:
    """Write all parts that have results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description="Make the pages of figures.")
    parser.add_argument("folder", nargs="?", type=Path, default=RESULTS, help="the files of results")
    parser.add_argument("--check", action="store_true", help="say which were not measured with this version, and fail")
    options = parser.parse_args()
    if options.check:
        sys.exit("\n".join(of_other_versions(options.folder)) or None)
    root = ROOT if options.folder.resolve() == RESULTS else ROOT / "build" / "report"
    for part in PARTS:
        if (found := read(options.folder / f"{part.results}.json"))["results"]:
            page = root / part.page
            page.parent.mkdir(parents=True, exist_ok=True)
            whole = (page if page.exists() else ROOT / part.page).read_text(encoding="utf-8")
            page.write_text(part.write(whole, found), encoding="utf-8")
            print(f"written: {page}, {part.results}")
    _draw(options.folder, root / "docs" / "images")


def _draw(folder: Path, images: Path) -> None:
    """Draw every picture that has results."""
    from benchmarks.report.queues import chart as queues  # matplotlib: the pages need none
    from benchmarks.report.stores import chart as stores
    from benchmarks.report.timers import charts as timers

    for name, draw in (("timers", timers.draw), ("stores", stores.draw), ("queues", queues.draw)):
        if (found := read(folder / f"{name}.json"))["results"]:
            draw(found, images)


if __name__ == "__main__":
    main()
