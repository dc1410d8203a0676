"""Repeated tests: a few rounds with every commit, more under stress."""

from collections.abc import Iterable
from typing import Any

import pytest


def often(values: Iterable[Any], few: int = 1) -> list[Any]:
    """Return them as parameters of a test: `make test` runs the first few, `make stress` the rest."""
    values = list(values)
    return [*values[:few], *(pytest.param(value, marks=pytest.mark.stress) for value in values[few:])]
