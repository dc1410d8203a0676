"""Names of a package that are imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def later(names: dict[str, Any], places: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package with these globals. It imports each name from its place, a module."""

    def imported(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {names['__name__']!r} has no attribute {name!r}")
        value = names[name] = getattr(import_module(places[name], names["__name__"]), name)
        return value

    return imported
