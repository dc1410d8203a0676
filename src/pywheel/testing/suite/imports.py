"""Imports: jobs of another store, with their history."""

from __future__ import annotations

from itertools import count
from typing import Any

from ..._errors import BadJob, JobExists
from ...clock import Clock, ManualClock
from ...jobs.commands import Ack, Begin, Cancel, Import, Nack, Purge, Put, Release, Retry
from ...jobs.job import Attempt, Counts, Imported, Job, NewJob, Outcome, State
from ...jobs.queries import CountJobs, Filter, GetHistories, GetJob, ListJobs
from ...stores.contract import Store
from ...stores.memory import MemoryStore
from .base import FAR, NOW, TERMS, StoreTests

LONG_AGO = NOW - 10**8


def past(state: State = State.DELAYED, *outcomes: Outcome, key: str | None = None, **more: Any) -> Imported:
    """Return an old job with one row of history for each outcome."""
    rows = tuple(
        Attempt(claim, 0 if outcome is Outcome.CANCELLED else claim, None, LONG_AGO + claim, outcome, "w", None)
        for claim, outcome in enumerate(outcomes, 1)
    )
    job = Job(7, "t", b"b", FAR, LONG_AGO, state, key, claims=len(rows), attempt=len(rows))
    return Imported(job._replace(**more), rows)


def exported(store: Store) -> list[Imported]:
    """Return all jobs of a store, in the form for an import."""
    jobs = [job for job in store.ask(ListJobs(Filter(), 0, 1_000)) if job.state is not State.RUNNING]
    return [Imported(job, tuple(store.ask(GetHistories([job.id]))[0])) for job in jobs]


class _Other(StoreTests):
    """Another store: in memory."""

    def make_store(self, clock: Clock) -> Store:
        return MemoryStore(clock=clock)

    def live(self) -> None:
        """Put jobs that end in every way, and some that wait after attempts."""
        numbers = count()

        def job(**more: Any) -> Job:
            self.put(body=b"%d" % next(numbers), headers={"h": "\N{SNOWMAN}"}, **more)
            return self.one()

        self.put("u", b"", FAR, key="k", ttr=5, max_attempts=6, priority=7)
        failed, given_back, dead, done = job(key="f"), job(), job(max_attempts=1, key="d"), job(key="a")
        self.apply(Nack(failed.id, failed.claims, 10**8, "\N{SNOWMAN}\0"))
        self.apply(Release(given_back.id, given_back.claims))
        self.apply(Cancel(given_back.id))
        self.apply(Nack(dead.id, dead.claims, 0, "why"))
        self.apply(Ack(done.id, done.claims, b"\0r"))
        self.put(key="never claimed", due=FAR)
        self.apply(Cancel(("t", "never claimed")))
        again = job(key="again")
        self.apply(Nack(again.id, again.claims, None, "first"))
        self.apply(Retry(again.id, FAR))
        held = self.held(self.put())
        self.apply(Begin(held.id, held.claims, 50))
        self.held(self.put(due=NOW - 1))
        self.pass_time(TERMS.ttr + TERMS.hold)  # both are lost, one of them before it began


def lived_through(clock: ManualClock) -> Store:
    """Return a store in memory whose jobs have every kind of history."""
    other = _Other()
    other.clock, other.notifiers, other.store = clock, [], MemoryStore(clock=clock)
    other.live()
    return other.store


class ImportTests(StoreTests):
    """Imports: jobs of another store, with their history."""

    def test_an_imported_job_has_all_it_had_but_its_id(self) -> None:
        other = lived_through(self.clock)
        jobs = exported(other)
        assert {one.job.state for one in jobs} == set(State) - {State.RUNNING}
        self.pass_time(10_000)
        ids = self.apply(Import(tuple(jobs)))
        assert len(set(ids)) == len(ids)
        for id, one in zip(ids, jobs, strict=True):
            assert self.job(id) == one.job._replace(id=id)
            assert self.history(id) == list(one.history)
        assert self.ask(GetHistories(ids)) == [list(one.history) for one in jobs]
        assert self.ask(CountJobs()) == {
            name: kept._replace(running=0) for name, kept in other.ask(CountJobs()).items()
        }
        assert self.store.verify() == []
        other.close()

    def test_it_is_claimed_and_retried_from_where_it_was(self) -> None:
        [id] = self.apply(Import((past(State.DELAYED, Outcome.FAILED, Outcome.RELEASED, due=NOW, attempt=1),)))
        job = self.one()
        assert (job.id, job.claims, job.attempt, job.created) == (id, 3, 2, LONG_AGO)
        assert self.apply(Nack(id, job.claims, 5, "third")) is State.DELAYED
        self.pass_time(5)
        job = self.one()
        assert self.apply(Nack(id, job.claims, 0, "fourth")) is State.DEAD
        assert [row.claim for row in self.history(id)] == [1, 2, 3, 4]
        assert self.apply(Retry(id))
        assert self.job(id).attempt == 0
        assert self.store.verify() == []

    def test_what_its_last_claim_came_to_is_known_of_it(self) -> None:
        [id] = self.apply(Import((past(State.DELAYED, Outcome.LOST, due=NOW, lost=2),)))
        assert self.claim(id, begin=0).left[0].id == id  # a suspect is not held
        assert self.job(id).lost == 2

    def test_a_worker_hears_of_it_as_of_one_that_is_put(self) -> None:
        notifier = self.notifier("t", horizon=FAR)
        notifier.hints()
        [id, _] = self.apply(Import((past(due=NOW), past(State.DONE, Outcome.DONE))))
        assert {due.id for due in notifier.hints().due} == {id}

    def test_a_finished_one_is_purged_by_when_it_ended(self) -> None:
        new = Attempt(1, 1, NOW, NOW, Outcome.DONE, "w", None)
        recent = past(State.DONE, Outcome.DONE)._replace(history=(new,))
        old = [past(State.DONE, Outcome.DONE), past(State.DEAD, Outcome.LOST), past(State.CANCELLED, Outcome.CANCELLED)]
        self.apply(Import((recent, *old)))
        for state in (State.DONE, State.DEAD, State.CANCELLED):
            assert self.apply(Purge(state, 10**7, "t", 10)) == 1
        assert self.counts() == Counts(done=1)
        assert self.store.verify() == []

    def test_keys_are_those_of_live_jobs(self) -> None:
        finished = past(State.DONE, Outcome.DONE, key="k")
        handed_on = past(key="k", body=b"first")._replace(passed=True)
        ids = self.apply(Import((finished, handed_on, past(key="k", body=b"second"), past(key="l"))))
        assert self.job(ids[1]).key == "k"
        assert self.ask(GetJob(("t", "k"))) == self.job(ids[2])
        self.refused(Put((NewJob("t", b"", FAR, "k"),)), JobExists)
        assert self.refused(Import((past(), past(key="l"))), JobExists).id == ids[3]
        self.refused(Import((past(key="m"), past(key="m"))), JobExists)
        self.apply(Import((handed_on, finished)))
        assert self.counts() == Counts(delayed=4, done=2)
        self.apply(Cancel(("t", "k")))
        self.apply(Cancel(ids[1]))
        assert self.store.verify() == []

    def test_it_happens_once_by_its_nonce(self) -> None:
        jobs = (past(key="k"), past(State.DONE, Outcome.DONE))
        ids = self.apply(Import(jobs, "n"))
        assert self.apply(Import(jobs, "n")) == ids
        assert self.apply(Put((NewJob("t", b"", FAR),), "n")) == ids
        assert self.apply(Import((), "none")) == []
        self.refused(Import((past(), jobs[0]), "refused"), JobExists)
        assert self.counts() == Counts(delayed=1, done=1)
        [first, again, other] = self.store.apply([Import((past(),), "a"), Import((past(),), "a"), Put((), "a")])
        assert first == again == other

    def test_a_job_whose_history_does_not_go_with_it_is_refused(self) -> None:
        done = past(State.DONE, Outcome.FAILED, Outcome.DONE)
        wrong = [
            past(State.RUNNING, Outcome.LOST),
            past(State.DONE),
            past(State.DONE, Outcome.FAILED),
            past(State.CANCELLED, Outcome.DONE),
            done._replace(history=done.history[::-1]),
            done._replace(history=done.history[:1]),
            done._replace(history=(done.history[0], done.history[1]._replace(ended=None))),
            past(claims=-1),
            past(claims=1, attempt=2),
            past(claims=2**40),
            past(lost=3),
            past(lost=1),
            past(body="text"),
            past(created=1.5),
            past(State.DELAYED, Outcome.FAILED, claims=0, attempt=0),
        ]
        for one in wrong:
            self.refused(Import((past(), one)), BadJob)
        assert self.ask(CountJobs()) == {}
