"""What a server has, and whether all was forwarded."""

from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter
from tests.jobs.waiting import until


def bodies(server, topic="t"):
    """What the server has, in the order of its puts."""
    return [job.json() for job in server.inner.ask(ListJobs(Filter(topic), 0, 10_000))]


def forwarded(queue):
    """Whether nothing waits."""
    return not queue.store._spool.waiting()


def back(queue, server):
    """Bring the server back; wait until all was forwarded."""
    server.away = False
    until(lambda: forwarded(queue) and queue.store._breaker.away is None)
