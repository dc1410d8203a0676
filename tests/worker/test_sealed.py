"""Workers without the key: they leave jobs as they are, say so, and others take them."""

import logging

import pytest

from pywheel import JobQueue, Keyring, NoKey
from pywheel.events import BodiesSealed, JobEnded, JobGivenBack
from pywheel.jobs import Counts, State
from pywheel.jobs.commands import Rewrite
from pywheel.jobs.queries import CountJobs, GetHistories, GetJob, ListWorkers
from pywheel.stores import open as open_store
from pywheel.testing import run_due
from pywheel.worker import unreadable as module
from tests.asked import when_asked
from tests.jobs.waiting import finished, until, working

ONE, TWO = bytes(range(32)), bytes(range(1, 33))
KEYRINGS = [None, Keyring({"b": TWO}), Keyring({"a": TWO}), Keyring({"b": TWO}, find=lambda id: b"no key")]


@pytest.fixture
def store(url):
    with open_store(url) as store:
        yield store


@pytest.fixture
def queue(store):
    """The queue of those who have the key."""
    return JobQueue(store, encryption=Keyring({"a": ONE}))


def without(store, keyring=None):
    """Return a queue without the key, what its handler sees, and what it tells."""
    seen, told = [], []
    other = JobQueue(store, encryption=keyring, listeners=[told.append])
    other.handler("t")(seen.append)
    return other, seen, told


def found(told, kind=BodiesSealed):
    """Return the events of a kind."""
    return [event for event in told if isinstance(event, kind)]


@pytest.mark.parametrize("keyring", KEYRINGS, ids=["none", "other", "wrong", "not a key"])
def test_a_worker_without_the_key_leaves_jobs_as_they_are(queue, store, keyring):
    ids = queue.put_many(queue.job("t", {"n": n}, max_attempts=1) for n in range(30))
    before = [queue.get(id) for id in ids]
    other, seen, told = without(store, keyring)
    with working(other):
        until(lambda: found(told) and all(store.ask(GetJob(id)).claims for id in ids))
        until(lambda: store.ask(CountJobs())["t"] == Counts(delayed=30))
    after = [queue.get(id) for id in ids]
    assert [job._replace(claims=0) for job in after] == before
    assert seen == []
    assert not found(told, JobEnded)
    queue.handler("t")(seen.append)
    assert run_due(queue) == 30
    assert sorted(job.json()["n"] for job in seen) == list(range(30))


def test_it_says_which_key_is_missing(queue, store, caplog):
    id = queue.put("t", {"card": "hush"})
    other, _, told = without(store)
    with caplog.at_level(logging.DEBUG), working(other):
        until(lambda: found(told))
    [event] = found(told)
    assert (event.topic, event.jobs) == ("t", 1)
    assert isinstance(event.error, NoKey)
    assert str(event.error).startswith(f"job {id}: the body is encrypted, with key 'a', and there is no keyring: set")
    assert f'bodies_sealed topic=t count=1 error_text="job {id}: the body is encrypted' in caplog.text
    assert "hush" not in caplog.text


def test_it_claims_such_a_job_once_and_looks_at_it_from_then_on(queue, store, monkeypatch):
    """A job that nobody can read gets no longer history by the minute."""
    monkeypatch.setattr(module, "_AGAIN", 0.05)
    monkeypatch.setattr(module, "_RESTS", (0.01, 0.02))
    monkeypatch.setattr("pywheel.worker.due_times._LOOK", 100)
    id = queue.put("t")
    looks = []
    when_asked(monkeypatch, store, GetJob, lambda query: looks.append(query.ref))
    other, _, _ = without(store)
    with working(other):
        until(lambda: looks.count(id) >= 3)
        claims = store.ask(GetJob(id)).claims  # one, or another where the machine let the first run out
        until(lambda: looks.count(id) >= 9)
        assert store.ask(GetJob(id)).claims == claims
        assert len(store.ask(GetHistories([id]))[0]) == claims


def test_it_handles_the_job_once_the_key_is_there(queue, store, monkeypatch):
    monkeypatch.setattr(module, "_AGAIN", 0.05)
    monkeypatch.setattr("pywheel.jobs.keyring._MISSED", 0.0)
    monkeypatch.setattr("pywheel.worker.due_times._LOOK", 100)
    keys = {}
    other, seen, told = without(store, Keyring(find=keys.get, current="b"))
    id = queue.put("t", {"n": 1}, max_attempts=1)
    with working(other):
        until(lambda: found(told))
        keys["a"] = ONE
        assert finished(other, id).state is State.DONE
    assert [job.json() for job in seen] == [{"n": 1}]
    assert seen[0].attempt == 1


def test_it_handles_what_it_can_read_beside_what_it_cannot(queue, store):
    other, seen, _ = without(store)
    sealed = queue.put_many(queue.job("t", n) for n in range(100))
    plain = other.put_many(other.job("t", n) for n in range(20))
    with working(other):
        until(lambda: len(seen) == 20)
        later = other.put("t", "later")
        until(lambda: len(seen) == 21)
    assert sorted(job.id for job in seen) == [*plain, later]
    assert {queue.get(id).state for id in sealed} == {State.DELAYED}


def test_workers_with_the_key_take_them(shared_url):
    """Also those that lie in the shards of the worker that has none."""
    with open_store(shared_url) as store, JobQueue(shared_url, encryption=Keyring({"a": ONE})) as queue:
        other, wrong, told = without(store)
        seen = []
        queue.handler("t")(seen.append)
        with working(other), working(queue):
            until(lambda: len(queue.store.ask(ListWorkers())) == 2)
            ids = queue.put_many(queue.job("t", n, max_attempts=1) for n in range(64))
            until(lambda: len(seen) == 64)
            assert {finished(queue, id).state for id in ids} == {State.DONE}
    assert sorted(job.json() for job in seen) == list(range(64))
    assert wrong == found(told, JobEnded) == []


def test_a_body_that_was_changed_is_left_and_named(queue, store):
    id = queue.put("t", {"n": 1})
    body = store.ask(GetJob(id)).body
    store.apply([Rewrite(id, body, body[:-1] + bytes([body[-1] ^ 1]))])
    told, seen = [], []
    queue.events.listen(told.append)
    queue.handler("t")(seen.append)
    with working(queue):
        until(lambda: found(told))
        until(lambda: queue.get(id).state is State.DELAYED)
    [event] = found(told)
    assert "does not open with key 'a'" in str(event.error)
    assert seen == []
    assert (queue.get(id).attempt, queue.get(id).last_error) == (0, None)


def test_run_due_gives_back_what_it_cannot_read(queue, store):
    id = queue.put("t")
    other, _, _ = without(store)
    with pytest.raises(NoKey):
        run_due(other)
    assert (queue.get(id).state, queue.get(id).attempt) == (State.DELAYED, 0)


def test_a_topic_of_which_nothing_can_be_read_rests(queue, store, monkeypatch):
    monkeypatch.setattr(module, "_ROW", 20)
    monkeypatch.setattr(module, "_RESTS", (1_000.0, 2_000.0))
    queue.put_many(queue.job("t", n) for n in range(200))
    other, _, told = without(store)
    with working(other):
        until(lambda: len(found(told, JobGivenBack)) >= 20)
    assert len(found(told, JobGivenBack)) < 40
    assert store.ask(CountJobs())["t"] == Counts(delayed=200)
