"""Everything that the service reads, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

from benchmarks.reads.fill import BIG, HOT, HOUR, RARE
from pywheel.jobs import State
from pywheel.jobs.queries import (
    CountJobs,
    GetForecast,
    GetHistories,
    GetJob,
    GetNextDues,
    GetPage,
    ListEnded,
    ListTopics,
    ListWorkers,
)
from pywheel.stores import Filter, Store

Read = Callable[[], object]
_LIMIT = 100
_PREVIEW = 200


def measures(store: Store, small: str) -> Iterator[tuple[str, Read]]:
    """Yield every read, with its name; `small` is a topic of few jobs."""
    now = store.clock.wall()
    middle = _middle(store)
    ids = [job.id for job in store.ask(GetPage(Filter(), middle, 100)).jobs]
    keyed = next(job for job in _some(store, Filter(BIG)) if job.key is not None)
    yield "a job by id", lambda: store.ask(GetJob(ids[50]))
    yield "a job by key", lambda: store.ask(GetJob((BIG, str(keyed.key))))
    yield "a history", lambda: store.ask(GetHistories([ids[50]]))[0]
    yield "100 histories", lambda: store.ask(GetHistories(ids))
    yield "counts", lambda: store.ask(CountJobs())
    yield "topics", lambda: store.ask(ListTopics())
    yield "next_dues", lambda: store.ask(GetNextDues())
    yield "workers", lambda: store.ask(ListWorkers())
    yield from _pages(store, small, middle)
    yield from _dues(store, small, now)
    minutes = [now + n * 60_000 for n in range(61)]
    for name, topic in (("all topics", None), ("the big topic", BIG), ("a small topic", small)):
        yield f"forecast, 60 minutes, {name}", lambda topic=topic: store.ask(GetForecast(minutes, topic))
        yield (
            f"forecast, overdue and 24 hours, {name}",
            (lambda topic=topic: store.ask(GetForecast([0, *(now + n * HOUR for n in range(25))], topic))),
        )
        yield f"recent, {name}", lambda topic=topic: store.ask(ListEnded(topic, 0, 100))
        yield f"recent 1 000 of an hour, {name}", lambda topic=topic: store.ask(ListEnded(topic, now - HOUR, 1_000))


def _pages(store: Store, small: str, middle: str) -> Iterator[tuple[str, Read]]:
    for (name, topic), state in product(
        (("all topics", None), ("the big topic", BIG), ("a small topic", small)), (None, *State)
    ):
        filter = Filter(topic, state)
        what = f"page, {name}, {state or 'any state'}"
        yield what, _page(store, filter)
        yield f"{what}, newest", _page(store, filter, newest=True)
        yield f"{what}, from the middle", _page(store, filter, middle)
    yield "page, a key of one job", _page(store, Filter(key="0.1"))
    yield "page, a key of many", _page(store, Filter(BIG, key=HOT))
    yield "page, a key of many, all topics", _page(store, Filter(key=HOT))
    for name, topic in (("all topics", None), ("the big topic", BIG), ("a small topic", small)):
        yield f"page, dead, a rare error, {name}", _page(store, Filter(topic, State.DEAD, error=RARE))
        yield f"page, dead, a usual error, {name}", _page(store, Filter(topic, State.DEAD, error="order 1"))
    yield "page, a rare error, any state", _page(store, Filter(error=RARE))


def _dues(store: Store, small: str, now: int) -> Iterator[tuple[str, Read]]:
    for name, topic in (("all topics", None), ("the big topic", BIG), ("a small topic", small)):
        filter = Filter(topic, State.DELAYED, due_from=now + HOUR // 2, due_until=now + HOUR)
        yield f"page, {name}, due within an hour", _page(store, filter)
        yield f"page, {name}, due within an hour, newest", _page(store, filter, newest=True)
        yield f"page, {name}, any state, due within an hour", _page(store, filter._replace(state=None))


def _page(store: Store, filter: Filter, after: str = "", *, newest: bool = False) -> Read:
    return lambda: store.ask(GetPage(filter, after, _LIMIT, preview=_PREVIEW, newest=newest))


def _middle(store: Store) -> str:
    """Return a cursor in the middle of all jobs."""
    last = store.ask(GetPage(Filter(), limit=1, newest=True)).jobs[0].id
    first = store.ask(GetPage(Filter(), limit=1)).jobs[0].id
    return f"i{(first + last) // 2}"


def _some(store: Store, filter: Filter) -> Iterator:
    return iter(store.ask(GetPage(filter, limit=1_000)).jobs)
