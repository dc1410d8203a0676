"""What a store has, and whether all was forwarded."""

from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter
from tests.jobs.waiting import until


def bodies(store, topic="t"):
    """What the store has, in the order of its puts."""
    return [job.json() for job in store.inner.ask(ListJobs(Filter(topic), 0, 10_000))]


def forwarded(queue):
    """Whether nothing waits."""
    return not queue.store._spool.waiting()


def back(queue, store):
    """Bring the store back; wait until all was forwarded."""
    store.away = False
    until(lambda: forwarded(queue) and queue.store._breaker.away is None)
