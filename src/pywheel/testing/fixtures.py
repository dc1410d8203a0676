"""pytest's plugin: fixtures for the tests of programs that use timers or jobs.

    def test_an_idle_session_ends(manual_clock):
        timers = pywheel.Timers(manual_clock)
        session = Session(timers)
        manual_clock.advance(1800)
        assert session.ended

    def test_an_unpaid_order_is_closed(queue_tester):
        jobs = queue_tester(shop.queue)
        order = shop.place()
        jobs.advance("30m")
        assert order.closed

pytest loads this module in every test run where pywheel is installed. So it imports the jobs only when a test needs
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from typing import TypeVar

    from ..client.queue import AsyncJobQueue, JobQueue
    from .tester import QueueTester

    F = TypeVar("F", bound=Callable[..., object])

    def _fixture(function: F) -> F: ...

else:
    try:
        import pytest
    except ImportError:  # without pytest the functions stay plain functions

        def _fixture(function):
            return function
    else:
        _fixture = pytest.fixture


@_fixture
def manual_clock() -> ManualClock:
    """Return a clock that stands at 0 s until the test moves it."""
    return ManualClock()


@_fixture
def autojump_clock() -> ManualClock:
    """Return a clock that jumps to the next deadline whenever all sleep."""
    return ManualClock(autojump=True)


@_fixture
def job_queue(manual_clock: ManualClock) -> Iterator[JobQueue]:
    """Return a new queue in memory, which uses `manual_clock`."""
    from ..client.queue import JobQueue  # most tests do not need it

    with JobQueue("memory:", clock=manual_clock) as queue:
        yield queue


@_fixture
def queue_tester(manual_clock: ManualClock) -> Iterator[Callable[..., QueueTester]]:
    """Return a function that makes a QueueTester on `manual_clock` for a program's queue: ``queue_tester(shop.queue)``.

    It also takes `raises` and `moved`. After the test, all testers are closed.
    """
    from .tester import QueueTester  # most tests do not need it

    made: list[QueueTester] = []

    def make(
        queue: JobQueue | AsyncJobQueue | None = None,
        *,
        raises: bool = False,
        moved: Callable[[datetime], object] | None = None,
    ) -> QueueTester:
        made.append(QueueTester(queue, clock=manual_clock, raises=raises, moved=moved))
        return made[-1]

    yield make
    for tester in made:
        tester.close()
