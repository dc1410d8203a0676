"""A commit that only the primary has is never confirmed to a client."""

import contextlib
import threading

import pytest

from pywheel import JobQueue, StoreError
from tests.jobs.waiting import until


def restarted(pair):
    pair.primary.kill()
    pair.primary.start()


def ended(pair):
    """Somebody ends the session, as a proxy does that takes it for hung."""
    for session in pair.waiting():
        pair.end_session(session)


@pytest.mark.parametrize(("how", "broken"), [("put", ended), ("edit", restarted), ("edit", ended)])
def test_what_the_replica_has_not_is_not_told_when_the_connection_breaks_in_the_commit(synchronous_pair, how, broken):
    told = []
    ways = {
        "put": lambda: queue.put("t", "late", delay=60),
        "edit": lambda: queue.jobs.edit(id, body="late"),
    }

    def ask():
        with contextlib.suppress(StoreError):
            told.append(ways[how]())

    with JobQueue(synchronous_pair.url(timeout=3)) as queue:
        id = queue.put("t", "early", delay=60)
        synchronous_pair.hold()
        caller = threading.Thread(target=ask)
        caller.start()
        until(synchronous_pair.waiting)
        broken(synchronous_pair)
        caller.join()
        assert told == []
        synchronous_pair.lose()
        synchronous_pair.fail_over()
        until(lambda: there(queue) == ["early"])


def there(queue):
    try:
        return [job.json() for job in queue.jobs.list()]
    except StoreError:
        return None
