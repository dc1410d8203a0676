"""Results, as they are kept in benchmarks/results: a small file of JSON for each page or part of one.

The pages are made from these files alone: `python -m benchmarks.report`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.host import about

RESULTS = Path(__file__).parent / "results"
TRIED = Path("build/results")
"""The folder for runs that are not for the documentation: with a part of the jobs, or in a hurry."""


class Kept(TypedDict):
    """A file of results: where and when they were measured, and the values of each measure."""

    about: dict[str, Any]
    results: dict[str, Any]


def read(path: Path) -> Kept:
    """Return the contents of a file; nothing if it does not exist."""
    if not path.exists():
        return {"about": {}, "results": {}}
    return json.loads(path.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def begun(path: Path, versions: Mapping[str, str]) -> Kept:
    """Return the results that a run adds to: the file's, if they are of this version of pywheel on a like machine."""
    before, now = read(path), about()
    alike = all(before["about"].get(name) == now[name] for name in ("pywheel", "python", "processor", "cores"))
    kept: Kept = before if alike else {"about": {}, "results": {}}
    commits = dict.fromkeys([*kept["about"].get("commits", ()), *now["commits"]])
    versions = {**kept["about"].get("versions", {}), **versions}
    return {"about": {**now, "commits": list(commits), "versions": versions}, "results": kept["results"]}


def write(kept: Kept, path: Path) -> None:
    """Write a file: a line for each measure, numbers to five digits."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(f"  {_short(name)}: {_short(found)}" for name, found in kept["results"].items())
    head = json.dumps(kept["about"], indent=2).replace("\n", "\n ")
    path.write_text(f'{{\n "about": {head},\n "results": {{\n{lines}\n }}\n}}\n', encoding="utf-8")


def _short(value: Any) -> str:
    return json.dumps(json.loads(json.dumps(value), parse_float=lambda digits: float(f"{float(digits):.5g}")))
