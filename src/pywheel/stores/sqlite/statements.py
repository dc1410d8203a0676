"""The SQL of this store, read once from the .sql files beside it. A statement follows a line ``-- name: its_name``."""

from __future__ import annotations

from importlib.resources import files

__all__ = ["MIGRATIONS", "SQL"]

_LAST = str(2**63 - 1)
_FOLDER = files(__package__) / "sql"


def _named(text: str) -> dict[str, str]:
    """Split a file into its statements, by name."""
    parts = text.split("-- name: ")[1:]
    return {name.strip(): statement.strip() for name, _, statement in (part.partition("\n") for part in parts)}


def _all() -> dict[str, str]:
    found: dict[str, str] = {}
    for name in ("put", "claim", "settle", "manage", "read", "list", "reading", "note", "notify", "verify"):
        found |= _named((_FOLDER / f"{name}.sql").read_text("utf-8"))
    get = found["get"].replace("j.body", "length(j.body)").replace("json_each(?)", "json_each(:ids)")
    for name, statement in _named((_FOLDER / "page.sql").read_text("utf-8")).items():
        found[name] = _filled(statement, {"{>}": ">", "{<=}": "<=", "{asc}": "ASC", "{end}": _LAST, "{get}": get})
        found[f"{name}_down"] = _filled(statement, {"{>}": "<", "{<=}": ">=", "{asc}": "DESC", "{end}": "0"})
    return found


def _filled(statement: str, words: dict[str, str]) -> str:
    for mark, word in words.items():
        statement = statement.replace(mark, word)
    return statement


def _migrations() -> list[str]:
    """Return the scripts that lead from one version of a file to the next, from version 0 on."""
    folder = _FOLDER / "migrations"
    return [entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)]


SQL = _all()
MIGRATIONS = _migrations()
