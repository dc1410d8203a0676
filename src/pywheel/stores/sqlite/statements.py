"""The schema of a file, and the statements of those who wait for hints, read once from the file beside this."""

from __future__ import annotations

from importlib.resources import files
from typing import Final

from .dialect import SCHEMA

__all__ = ["MIGRATIONS", "SQL"]


def _named(text: str) -> dict[str, str]:
    """Split a file into its statements, by name. A statement follows a line ``-- name: its_name``."""
    parts = text.split("-- name: ")[1:]
    return {name.strip(): statement.strip() for name, _, statement in (part.partition("\n") for part in parts)}


SQL: Final = _named((files(__package__) / "sql" / "notify.sql").read_text("utf-8"))
MIGRATIONS: Final = [SCHEMA]
"""The scripts that lead from one version of a file to the next, from version 0 on."""
