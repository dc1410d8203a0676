"""The stores that are measured, by name."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from benchmarks.report.stores.results import STORES
from benchmarks.stores.mariadb import MariaDB
from benchmarks.stores.place import Place
from benchmarks.stores.postgres import Postgres
from benchmarks.stores.redis import Always, EverySec
from benchmarks.stores.sqlite import Sqlite
from tests.stores.server import Missing

PLACES: dict[str, type[Place]] = {
    "sqlite": Sqlite,
    "postgres": Postgres,
    "mysql": MariaDB,
    "redis": EverySec,
    "redis-always": Always,
}


def chosen(names: str) -> dict[str, type[Place]]:
    """Return the stores with these names, comma-separated, or all; without stores that are not installed."""
    wanted = set(filter(None, names.split(",")))
    if unknown := wanted - {name.partition("-")[0] for name in PLACES} - set(PLACES):
        sys.exit(f"no such store: {', '.join(sorted(unknown))}; there are {', '.join(PLACES)}")
    found = {name: place for name, place in PLACES.items() if not wanted or wanted & {name, name.partition("-")[0]}}
    return {name: place for name, place in found.items() if _is_there(name, place)}


def _is_there(name: str, place: type[Place]) -> bool:
    if find_spec(f"pywheel.stores.{name.partition('-')[0]}") is None:
        print(f"{STORES[name]} is left out: there is no such store", file=sys.stderr)
        return False
    try:
        with place():
            return True
    except Missing as missing:
        print(f"{STORES[name]} is left out: {missing}", file=sys.stderr)
        return False
