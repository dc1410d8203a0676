"""Measures of which each is a row of a page, taken in turns, beside the floors of disk and host."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import kept
from benchmarks.host import fsync_p50, wake_p99


class Measure(NamedTuple):
    """A row. `run` works in an empty folder; it returns a figure, or some by their names."""

    name: str
    rounds: int
    goal: str
    title: str
    run: Callable[[Path], Any]


def parser(name: str) -> argparse.ArgumentParser:
    """Return the options of a program that measures rows."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=f"Measure the {name}.")
    parser.add_argument("--rounds", type=int, help="how often each is measured at most")
    parser.add_argument("--only", default="", help="names of measures")
    parser.add_argument("--kept", type=Path, default=kept.RESULTS / f"{name}.json", help="the file of results")
    return parser


def run(
    measures: Iterable[Measure], options: argparse.Namespace, versions: Mapping[str, str], apart: Collection[str] = ()
) -> None:
    """Measure in turns, and keep each round at once. The measures in `apart` run only when named."""
    wanted = set(filter(None, options.only.split(",")))
    chosen = [one for one in measures if (one.name in wanted if wanted else one.name not in apart)]
    if unknown := wanted - {one.name for one in chosen}:
        raise SystemExit(f"no such measure: {', '.join(sorted(unknown))}")
    found = kept.begun(options.kept, versions)
    for number in range(max(options.rounds or one.rounds for one in chosen)):
        for measure in chosen:
            if number >= min(options.rounds or measure.rounds, measure.rounds):
                continue
            if number == 0:
                found["results"][measure.name] = {
                    "title": measure.title,
                    "goal": measure.goal,
                    "floors": [],
                    "rounds": [],
                }
            row = found["results"][measure.name]
            with tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
                row["floors"].append((1e6 * fsync_p50(Path(folder)), 1e3 * wake_p99()))
                row["rounds"].append(measure.run(Path(folder)))
            print(f"{measure.title}: {row['rounds'][-1]}", flush=True)
            kept.write(found, options.kept)
