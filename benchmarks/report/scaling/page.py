"""The tables in the paper, between their marks."""

from __future__ import annotations

import re


def with_table(page: str, name: str, table: str) -> str:
    """Return the page with a table between its two marks; as it is, if it has none of that name."""
    between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return between.sub(lambda marks: f"{marks[1]}\n{table}\n\n{marks[2]}", page)
