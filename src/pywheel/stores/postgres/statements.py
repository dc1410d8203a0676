"""The SQL of this store, read once from the .sql files beside it. A statement follows a line ``-- name: its_name``.

In it ``{p}`` stands for schema and prefix of the tables, and ``{now}`` for the time: a test's, or the server's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Final

__all__ = ["migrations", "statements"]

_FOLDER: Final = files(__package__) / "sql"
# A SELECT of its own: else a clock that runs on within a statement is asked for each row, and an index is of no use.
_NOW: Final = "(SELECT coalesce(%(now)s::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))"

# Which priorities jobs of a topic had, as bits: `jobs.limits.lane`.
_LANES: Final = "(SELECT coalesce(bit_or(1 << (priority + 9)), 0) FROM {p}priority r WHERE r.topic = {p}topic.id)"

_LAST: Final = str(2**63 - 1)


@lru_cache(maxsize=64)
def statements(tables: str) -> Mapping[str, str]:
    """Return the statements by name, for tables whose names begin so."""
    found: dict[str, str] = {}
    for name in ("put", "direct", "load", "store", "read", "page", "reading", "workers", "verify"):
        for part in (_FOLDER / f"{name}.sql").read_text("utf-8").split("-- name: ")[1:]:
            title, _, text = part.partition("\n")
            text = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
            found[title.strip()] = text.strip().replace("{lanes}", _LANES).replace("{p}", tables).replace("{now}", _NOW)
    # A claim leaves out what others lock: a transaction that lasts holds up its own jobs alone.
    found["claim_due"] = found["lock_due"].replace("FOR UPDATE OF d", "FOR UPDATE OF d SKIP LOCKED")
    run = found["lock_run"].replace("FOR UPDATE OF r", "FOR UPDATE OF r SKIP LOCKED")
    found["claim_run"] = run.replace("{lost}", f"r.lease <= {_NOW}")
    found["lock_run"] = found["lock_run"].replace("{lost}", "true")
    due = found["lock_due_of_topic"]
    found["lock_due_of_topic"] = due.replace("{lane}", "true")
    found["lock_due_without"] = due.replace(
        "{lane}", f"NOT EXISTS (SELECT FROM {tables}lane l WHERE l.id = d.id AND l.due = d.due)"
    )
    found["history"] = found["history"].replace("{results}", found["results"])
    look, recount, fits = found.pop("look"), found.pop("recount"), found.pop("fits")
    fits_finished = found.pop("fits_finished")
    head = look.replace("j.body,", "NULL::bytea,")
    for name in [name for name in found if name.startswith("page_") and name != "page_bodies"]:
        ids = found.pop(name)
        up = _filled(ids, {"{>}": ">", "{<=}": "<=", "{asc}": "ASC", "{end}": _LAST})
        down = _filled(ids, {"{>}": "<", "{<=}": ">=", "{asc}": "DESC", "{end}": "0"})
        found |= {name: head.replace("{ids}", up), f"{name}_down": head.replace("{ids}", down)}
        fit = fits_finished if name.startswith("page_finished") else fits
        found |= {f"fits_{name}": fit.replace("{ids}", up), f"fits_{name}_down": fit.replace("{ids}", down)}
    for name in ("find_counts", "mend_counts"):
        found[name] = found[name].replace("{recount}", recount)
    for name in [name for name in found if name.startswith("ids_")]:
        found[f"look_{name}"] = look.replace("{ids}", found.pop(name))
    return found


def _filled(statement: str, words: Mapping[str, str]) -> str:
    for mark, word in words.items():
        statement = statement.replace(mark, word)
    return statement


def migrations(schema: str | None, prefix: str) -> list[str]:
    """Return the scripts that lead from one version to the next, from version 0 on."""
    tables = prefix if schema is None else f'"{schema}".{prefix}'
    folder = _FOLDER / "migrations"
    scripts = [entry.read_text("utf-8") for entry in sorted(folder.iterdir(), key=lambda entry: entry.name)]
    # The name of an index has no schema of its own.
    return [script.replace("INDEX {p}", f"INDEX {prefix}").replace("{p}", tables) for script in scripts]
