"""The statements for those who wait for hints, read from the file beside this, and the scripts that make the tables."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files

from . import dialect
from .dialect import PostgresDialect

__all__ = ["migrations", "statements"]


def statements(tables: str) -> Mapping[str, str]:
    """Return statements by their names, for tables whose names begin so."""
    parts = (files(__package__) / "sql" / "workers.sql").read_text("utf-8").split("-- name: ")[1:]
    found = {}
    for part in parts:
        title, _, text = part.partition("\n")
        text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        found[title.strip()] = (
            text.strip().replace("{p}", tables).replace("{now}", dialect.NOW.replace(":now", "%(now)s"))
        )
    return found


def migrations(schema: str | None, prefix: str) -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    return [PostgresDialect(prefix if schema is None else f'"{schema}".{prefix}').schema()]
