"""A test's view of a store: its statements, its answers and its refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pywheel.jobs.queries import Query
from pywheel.stores import Store

__all__ = ["when_asked"]


def when_asked(
    monkeypatch: pytest.MonkeyPatch, store: Store, kind: type[Query[Any]], look: Callable[[Any], Any]
) -> None:
    """Call `look` with each query of a kind before the store answers it; what it raises is raised instead."""
    ask = store.ask

    def looked_at(query: Query[Any]) -> Any:
        if isinstance(query, kind):
            look(query)
        return ask(query)

    monkeypatch.setattr(store, "ask", looked_at)
