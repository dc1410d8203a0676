"""Fixtures for the tests of programs that use timers.

They are there after ``pytest_plugins = ["pywheel.testing"]`` in a conftest.py:

    def test_an_idle_session_ends(manual_clock):
        timers = pywheel.Timers(manual_clock)
        session = Session(timers)
        manual_clock.advance(1800)
        assert session.ended
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    F = TypeVar("F", bound=Callable[..., object])

    def _fixture(function: F) -> F: ...

else:
    try:
        import pytest
    except ImportError:  # they are no fixtures then, and the rest of the module is what it is

        def _fixture(function):
            return function
    else:
        _fixture = pytest.fixture


__all__ = ["autojump_clock", "manual_clock"]


@_fixture
def manual_clock() -> ManualClock:
    """Return a clock that stands at 0 s until the test moves it."""
    return ManualClock()


@_fixture
def autojump_clock() -> ManualClock:
    """Return a clock that jumps to the next deadline whenever everybody sleeps."""
    return ManualClock(autojump=True)
