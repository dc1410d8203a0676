"""The jobs of a store behind a spool, and whether all were forwarded."""

from pywheel import StoreAway
from pywheel.jobs.commands import Put
from pywheel.jobs.queries import ListJobs
from pywheel.stores import Filter
from tests.jobs.waiting import until


def bodies(store, topic="t"):
    """Return the bodies in the store, in the order of the puts."""
    return [job.json() for job in store.inner.ask(ListJobs(Filter(topic), 0, 10_000))]


def forwarded(queue):
    """Whether nothing waits, and calls go to the store again."""
    return not queue.store._spool.waiting() and queue.store._breaker.away is None


def back(queue, store):
    """Bring the store back; wait until all was forwarded."""
    store.away = False
    until(lambda: forwarded(queue))


def puts_jobs(commands):
    return any(isinstance(command, Put) and command.jobs for command in commands)


def lose_answers(store, count=1):
    """Have the store make `count` puts without an answer; return the list of lost ones."""
    lost = []

    def lose(when, commands):
        if when == "after" and puts_jobs(commands) and len(lost) < count:
            lost.append(commands)
            raise StoreAway("the answer was lost")

    store.fault = lose
    return lost


def fail_with(store, error):
    """Have the store raise this at whatever it is asked."""

    def fail(when, commands):
        raise error

    store.fault = fail
