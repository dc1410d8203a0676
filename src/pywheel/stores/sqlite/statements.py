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
    # Jobs with a priority stand in an index of their own. Where a topic has none, no row is looked at for that.
    windows, due = found["windows"], found["due_of_topic"]
    none = {"{index}": "job_due ON j.topic = t.id", "{lane}": "(t.lanes = 0 OR j.priority IS NULL)"}
    lane = {"{index}": "job_lane ON j.topic = t.id AND j.priority = s.value ->> 6", "{lane}": "j.priority IS NOT NULL"}
    found["windows"], found["windows_of_lane"] = _filled(windows, none), _filled(windows, lane)
    found["due_of_topic"] = due.replace("{lane}", "")
    found["due_without"] = due.replace("{lane}", "AND j.priority IS NULL")
    found["due_of_lane"] = _filled(due, {"INDEXED BY job_due": "INDEXED BY job_lane", "{lane}": "AND j.priority = ?"})
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
