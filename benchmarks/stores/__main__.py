"""The program of `make bench-stores`: the jobs on every store, each in its turn.

usage: python -m benchmarks.stores [--quick] [--rounds N] [--only NAME,NAME] [--stores NAME,NAME] [--kept FILE]

New results replace old results of the same measures; the rest stays. So a part can be measured at a time.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from benchmarks import kept
from benchmarks.report.stores.results import Turn
from benchmarks.report.text import number
from benchmarks.stores.measures import APART, MEASURES, Measure
from benchmarks.stores.place import Place
from benchmarks.stores.places import chosen


def main() -> None:
    """Measure, and keep what was seen."""
    options = _parser().parse_args()
    wanted = set(filter(None, options.only.split(",")))
    if unknown := wanted - {measure.name for measure in MEASURES}:
        sys.exit(f"no such measure: {', '.join(sorted(unknown))}; there are {', '.join(m.name for m in MEASURES)}")
    part = 10 if options.quick else options.part
    place = options.kept or (kept.RESULTS if part == 1 else kept.TRIED) / "stores.json"
    places, found = chosen(options.stores), kept.begun(place, {})
    results = found["results"]
    for measure in MEASURES:
        if measure.name in wanted if wanted else measure.name not in APART:
            rounds = options.rounds or (1 if options.quick else measure.rounds)
            results[measure.name] = {**results.get(measure.name, {}), **measured(measure, places, rounds, part)}
            kept.write(found, place)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description="Measure stores.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs, each measured once")
    parser.add_argument("--part", type=int, default=1, metavar="N", help="an N-th of the jobs")
    parser.add_argument("--rounds", type=int, help="how often each is measured")
    parser.add_argument("--only", default="", help=f"of {', '.join(measure.name for measure in MEASURES)}")
    parser.add_argument("--stores", default="", help="of sqlite, postgres, mysql, redis, redis-always")
    parser.add_argument("--kept", type=Path, help="the file of results")
    return parser


def measured(measure: Measure, places: dict[str, type[Place]], rounds: int, part: int) -> dict[str, list[Turn]]:
    """Return what each store did, a turn a round."""
    found: dict[str, list[Turn]] = {
        name: [] for name in places if not measure.stores or name.partition("-")[0] in measure.stores
    }
    for _ in range(rounds):
        beside: dict[str, float] = {}
        for name, turns in found.items():
            began = time.perf_counter()
            try:
                turn = one_turn(measure, places[name], part)
            except Exception:  # the others have their turns all the same
                traceback.print_exc()
                continue
            if name == "sqlite":
                beside = turn["values"]
            elif "rate" in beside:
                turn["values"]["of sqlite"] = turn["values"]["rate"] / beside["rate"]
            turns.append(turn)
            told = ", ".join(f"{key} {number(value)}" for key, value in turn["values"].items())
            print(f"{measure.name}: {name}: {told} ({time.perf_counter() - began:.0f} s)", flush=True)
    return {name: turns for name, turns in found.items() if turns}


def one_turn(measure: Measure, place: type[Place], part: int) -> Turn:
    """Measure once, and the floors before."""
    with place(durable=measure.durable) as here, tempfile.TemporaryDirectory(prefix="pywheel-bench-") as folder:
        floors = {"load": os.getloadavg()[0], "fsync": here.fsync(), "trip": here.trip()}
        return {"part": part, "server": here.version(), **floors, "values": measure.run(here, Path(folder), part)}  # type: ignore[typeddict-item]


if __name__ == "__main__":
    sys.exit(main())
