"""Print the number of lines of code of each room: Python, SQL and Lua, without blank lines and comments.

Run it as `python tests/size.py`, or with the names of rooms to see their files: `python tests/size.py stores/sql`.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "pywheel"
COMMENT = {".py": "#", ".sql": "--", ".lua": "--"}


def lines_of(path: Path) -> int:
    """Return the lines of a file that are neither blank nor a comment alone."""
    mark = COMMENT[path.suffix]
    lines = (line.strip() for line in path.read_text("utf-8").splitlines())
    return sum(bool(line) and not line.startswith(mark) for line in lines)


def main(rooms: list[str]) -> None:
    """Print the rooms, or the files of those that are named."""
    sizes: Counter[str] = Counter()
    for path in sorted(SOURCE.rglob("*")):
        if path.suffix in COMMENT:
            place = path.relative_to(SOURCE)
            for room in rooms:
                if place.is_relative_to(room):
                    sizes[str(place)] += lines_of(path)
            if not rooms:
                for parent in list(place.parents)[:-1]:
                    sizes[str(parent)] += lines_of(path)
                sizes["."] += lines_of(path)
    for room, lines in sorted(sizes.items()):
        print(f"{lines:7,} {room}")


if __name__ == "__main__":
    main(sys.argv[1:])
