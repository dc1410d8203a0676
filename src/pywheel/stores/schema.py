"""Versions of stores, and of the pywheels that may work with them.

A store has a version, which grows with each migration, and the least version that a pywheel must know to work with it.
So an older pywheel goes on beside a newer one if the migration has left its data alone. Such a migration has a line
``-- least: N``. A new table, or a column that may be left out, is of that kind.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from .._errors import StoreTooNew

_LEAST: Final = re.compile(r"^-- least: ([0-9]+)$", re.MULTILINE)


class Schema(NamedTuple):
    """The version of a store, or of the stores that a pywheel makes."""

    version: int  # 0: nothing is there
    least: int  # the version that a pywheel must know at least

    def refuse(self, known: int, shown: str) -> None:
        """Raise StoreTooNew if a pywheel that knows this version may not work with it."""
        if known < self.least:
            raise StoreTooNew(f"{shown} has version {self.version}, this pywheel knows {known}: install a newer one")


def of_migrations(scripts: list[str]) -> Schema:
    """Return the schema that these scripts make. The last one may name the least version; the default is its own."""
    said = _LEAST.search(scripts[-1])
    return Schema(len(scripts), int(said[1]) if said else len(scripts))
