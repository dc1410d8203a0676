"""Many jobs at once: by topic, state, key, due time and error."""

from datetime import UTC, datetime

import pytest

from pywheel import BadJob, Fixed
from pywheel.client.jobs import _QUIET
from pywheel.jobs import Counts, Job, State
from pywheel.stores.pages import BYTES
from pywheel.worker.leases import _START, _START_BEGUN
from tests.jobs.fixtures import NOW


def at(seconds):
    return datetime.fromtimestamp(NOW / 1000 + seconds, UTC)


def kill(queue, topic, error):
    [job] = queue.reserve(topic, retry=Fixed(1, attempts=1))
    assert queue.nack(job, error=error) is State.DEAD
    return job.id


def test_a_page_goes_on_after_the_last_id_of_the_one_before(queue):
    ids = queue.put_many(queue.job("t") for _ in range(3))
    assert [job.id for job in queue.jobs.list(limit=2)] == ids[:2]
    assert [job.id for job in queue.jobs.list(after=ids[1])] == ids[2:]


NONSENSE = {
    "after": [2**63, -1, True],
    "limit": [2**63, 10**400_000, 0, 1.5],
    "state": ["asleep"],
    "key": [7, ""],
    "error": [b"x", ""],
    "due_from": [datetime(2030, 1, 1)],
    "due_until": [5],
    "topic": [""],
}


@pytest.mark.parametrize("word", NONSENSE)
def test_a_filter_that_makes_no_sense_is_refused(queue, word):
    for value in NONSENSE[word]:
        with pytest.raises(BadJob):
            queue.jobs.list(**{word: value})


def test_numbers_beyond_the_store_are_refused_everywhere(queue):
    for call in (
        lambda: queue.jobs.purge(limit=2**63),
        lambda: queue.jobs.purge(older_than=-1),
        lambda: queue.reserve("t", 2**63),
    ):
        with pytest.raises(BadJob):
            call()


def test_many_are_cancelled_in_batches_of_a_transaction_each(queue):
    queue.put_many([queue.job("a", delay=n) for n in range(600)])
    queue.put_many([queue.job("b", delay=n) for n in range(10)])
    assert queue.jobs.cancel_many("a", dry_run=True) == 600
    assert queue.topics.counts()["a"] == Counts(delayed=600)
    sizes, seen, apply = [], [], queue.store.apply
    queue.store.apply = lambda commands: sizes.append(len(commands)) or apply(commands)
    assert queue.jobs.cancel_many("a", progress=seen.append) == 600
    assert sizes == [250, 250, 100]
    assert seen == [250, 500, 600]
    assert queue.topics.counts() == {"a": Counts(cancelled=600), "b": Counts(delayed=10)}
    assert queue.jobs.cancel_many("a") == 0
    assert queue.jobs.cancel_many(due_until=at(4)) == 5


def bodies_read(queue, monkeypatch):
    """Return a list that gets the bytes of the bodies in each answer of the store."""
    held, ask = [], queue.store.ask

    def asked(query):
        answer = ask(query)
        held.append(sum(len(job.body) for job in getattr(answer, "jobs", answer) if isinstance(job, Job)))
        return answer

    monkeypatch.setattr(queue.store, "ask", asked)
    return held


LARGE = 900_000


def test_a_change_of_many_reads_no_bodies_unless_they_are_searched(queue, monkeypatch):
    queue.put_many([queue.job("t", bytes(LARGE), delay=n, priority=n % 2) for n in range(20)])
    held = bodies_read(queue, monkeypatch)
    assert queue.jobs.cancel_many("t", priority=1, due_until=at(4), dry_run=True) == 2
    assert queue.jobs.cancel_many("t", priority=1) == 10
    assert not any(held)
    assert queue.jobs.cancel_many("t", text="nothing") == 0
    assert max(held) <= BYTES + LARGE


@pytest.mark.parametrize("words", [{"priority": 5}, {"text": "nothing"}, {"error": "nothing"}, {"limit": 1_000}])
def test_a_list_reads_bodies_of_a_bounded_size_at_once(queue, monkeypatch, words):
    ids = queue.put_many([queue.job("t", bytes(LARGE), delay=n) for n in range(20)])
    held = bodies_read(queue, monkeypatch)
    assert [job.id for job in queue.jobs.list("t", **words)] == (ids if "limit" in words else [])
    assert max(held) <= BYTES + LARGE


def test_a_list_reads_the_bodies_of_jobs_in_its_due_range_only(queue, monkeypatch):
    ids = queue.put_many([queue.job("t", bytes(10), delay=n) for n in range(20)])
    held = bodies_read(queue, monkeypatch)
    assert [job.id for job in queue.jobs.list("t", State.DELAYED, due_from=at(3), due_until=at(5))] == ids[3:6]
    assert sum(held) == 30


def test_a_list_goes_by_id_whatever_the_due_times_are(queue):
    ids = queue.put_many([queue.job("t", delay=20 - n) for n in range(20)])
    words = {"state": State.DELAYED, "due_from": at(3), "due_until": at(9)}
    assert [job.id for job in queue.jobs.list("t", **words)] == ids[11:18]
    assert [job.id for job in queue.jobs.list(**words, after=ids[12], limit=3)] == ids[13:16]


def test_many_are_retried_with_all_their_attempts(queue):
    ids = []
    for _ in range(3):
        queue.put("t")
        ids.append(kill(queue, "t", "no"))
    assert queue.jobs.retry_many("t", dry_run=True) == 3
    assert queue.jobs.retry_many("t", delay="5s") == 3
    assert {(queue.get(id).state, queue.get(id).due, queue.get(id).attempt) for id in ids} == {
        (State.DELAYED, NOW + 5_000, 0)
    }
    queue.jobs.cancel_many("t")
    assert queue.jobs.retry_many("t") == 0
    assert queue.jobs.retry_many("t", "cancelled") == 3


def test_a_retry_of_many_leaves_out_whose_key_is_taken(queue):
    queue.put("t", key="k")
    queue.put("t", key="l")
    kill(queue, "t", "no")
    kill(queue, "t", "no")
    queue.put("t", key="k")
    assert queue.jobs.retry_many("t") == 1
    assert queue.topics.counts() == {"t": Counts(delayed=2, dead=1)}


def test_many_are_deleted_except_those_that_run(queue):
    queue.put_many([queue.job("t") for _ in range(5)])
    [running] = queue.reserve("t")
    assert queue.jobs.delete_many("t", dry_run=True) == queue.jobs.delete_many("t") == 4
    assert [job.id for job in queue.jobs.list()] == [running.id]
    assert queue.ack(running)
    assert queue.jobs.delete(running)
    assert not queue.jobs.delete(running)
    assert queue.jobs.list() == []


@pytest.mark.parametrize(
    ("method", "state"),
    [("cancel_many", "dead"), ("retry_many", "delayed"), ("delete_many", "running"), ("purge", "running")],
)
def test_a_bulk_call_is_for_states_that_it_can_change(queue, method, state):
    with pytest.raises(BadJob, match="this is for jobs that are"):
        getattr(queue.jobs, method)(state=state)


def test_a_pause_asks_the_workers_before_it_returns(queue):
    asked, quiet = [], queue.store.quiet
    queue.store.quiet = lambda *args: asked.append((args, queue.topics.list()[0].paused)) or quiet(*args)
    queue.put("t")
    assert queue.topics.pause("t") is True
    assert asked == [(("t", _QUIET), True)]
    assert queue.topics.pause("t") is False


def test_a_pause_waits_for_longer_than_a_worker_that_stands_still_may_start_what_it_has_claimed():
    assert _QUIET > _START_BEGUN > _START


def test_a_change_of_many_by_due_time_knows_jobs_whose_lease_is_over(queue, clock):
    id = queue.put("t")
    queue.reserve("t", ttr=1)
    clock.advance(2)
    assert queue.jobs.cancel_many("t", due_until=at(5)) == 1
    assert queue.get(id).state is State.CANCELLED
