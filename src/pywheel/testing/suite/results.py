"""What handlers returned, and keys that stay taken after a job has ended."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

from ..._errors import BadJob, JobExists
from ...jobs.commands import RESULT_MOST, Ack, Cancel, Delete, Import, Nack, Purge, Put, Retry, Rewrite
from ...jobs.job import Attempt, Counts, Imported, Job, NewJob, Outcome, State
from ...jobs.queries import GetHistories, GetStates
from .base import FAR, NOW, StoreTests

__all__ = ["DedupeTests", "ResultTests"]


class ResultTests(StoreTests):
    """What handlers returned, beside the attempt that made a job done."""

    def done(self, result: bytes | None, **more: Any) -> int:
        """Put a job and make it done with a result; return its id."""
        id = self.put(**more)
        job = self.one()
        assert self.apply(Ack(job.id, job.claims, result)) is True
        return id

    def test_a_result_stands_with_the_attempt_that_made_the_job_done(self) -> None:
        id = self.put()
        first = self.one()
        self.apply(Nack(first.id, first.claims, 0, "no"))
        self.pass_time(5)
        again = self.one()
        assert self.apply(Ack(id, again.claims, b'{"a":1}')) is True
        assert self.history(id) == [
            Attempt(1, 1, NOW, NOW, Outcome.FAILED, "w", "no"),
            Attempt(2, 2, NOW + 5, NOW + 5, Outcome.DONE, "w", None, b'{"a":1}'),
        ]

    def test_a_result_may_be_any_bytes_none_of_them_too(self) -> None:
        for result in (b"", bytes(range(256)), b"x" * RESULT_MOST, None):
            assert self.last(self.done(result)).result == result

    def test_of_many_acks_each_keeps_its_own_result(self) -> None:
        ids = [self.put(key=f"k{n}" if n % 2 else None) for n in range(6)]
        jobs = {job.id: job for job in self.reserve()}
        results = [None if n % 3 == 0 else b"%d" % n for n in range(6)]
        acks = [Ack(id, jobs[id].claims, result) for id, result in zip(ids, results, strict=True)]
        assert self.store.apply(acks) == [True] * 6
        assert [self.last(id).result for id in ids] == results
        assert [rows[-1].result for rows in self.ask(GetHistories(ids))] == results
        assert self.counts() == Counts(done=6)

    def test_an_ack_that_comes_too_late_leaves_no_result(self) -> None:
        id = self.put()
        job = self.one()
        assert self.apply(Ack(id, job.claims)) is True
        assert self.apply(Ack(id, job.claims, b"late")) is False
        assert self.last(id).result is None
        other = self.put()
        lost = self.one()
        self.pass_time(1_000)
        assert self.apply(Ack(other, lost.claims, b"late")) is False
        assert self.last(other).result is None

    def test_of_two_acks_of_one_claim_the_first_one_counts(self) -> None:
        id = self.put()
        job = self.one()
        assert self.store.apply([Ack(id, job.claims, b"1"), Ack(id, job.claims, b"2")]) == [True, False]
        assert self.last(id).result == b"1"

    def test_a_held_claim_may_end_with_a_result(self) -> None:
        id = self.put()
        held = self.held(id)
        assert self.apply(Ack(id, held.claims, b"r")) is True
        assert self.last(id).result == b"r"

    def test_a_retry_by_hand_forgets_the_result(self) -> None:
        id = self.done(b"first")
        assert self.apply(Retry(id, NOW))
        assert [attempt.result for attempt in self.history(id)] == [None]
        job = self.one()
        self.apply(Ack(id, job.claims))
        assert [attempt.result for attempt in self.history(id)] == [None, None]

    def test_a_result_is_forgotten_with_its_job(self) -> None:
        first, second = self.done(b"1"), self.done(b"2")
        assert self.apply(Delete(first))
        assert self.apply(Purge(State.DONE, 0, None, 10)) == 1
        assert [self.history(id) for id in (first, second)] == [[], []]
        assert self.store.verify() == []

    def test_an_import_brings_the_result(self) -> None:
        past = (Attempt(1, 1, NOW - 9, NOW - 5, Outcome.DONE, "w", None, b"\x00r"),)
        job = Job(0, "t", b"b", NOW, NOW - 10, State.DONE, claims=1, attempt=1)
        [id] = self.apply(Import((Imported(job, past),)))
        assert self.history(id) == list(past)

    def test_a_result_is_rewritten_if_it_is_still_the_same(self) -> None:
        id, other = self.done(b"old"), self.done(None)
        for wrong in (Rewrite(id, b"not", b"new", 1), Rewrite(id, b"old", b"new", 2), Rewrite(other, b"", b"new", 1)):
            assert self.apply(wrong) is False
        assert self.apply(Rewrite(10**12, b"old", b"new", 1)) is False
        assert self.apply(Rewrite(id, b"old", b"new", 1)) is True
        assert [self.last(one).result for one in (id, other)] == [b"new", None]
        assert self.job(id).body == b"b"
        rewritten, _, late = self.store.apply(
            [Rewrite(id, b"new", b"3", 1), Retry(id, NOW), Rewrite(id, b"3", b"4", 1)]
        )
        assert (rewritten, late) == (True, False)
        assert self.last(id).result is None

    def test_what_cannot_be_a_result_is_refused(self) -> None:
        id = self.put()
        job = self.one()
        for bad in ("text", b"x" * (RESULT_MOST + 2_000)):
            self.refused(Ack(id, job.claims, bad), BadJob)  # type: ignore[arg-type]
        assert self.state(id) is State.RUNNING
        past = (Attempt(1, 1, NOW, NOW, Outcome.FAILED, "w", "no", b"r"),)
        dead = Job(0, "t", b"b", NOW, NOW, State.DEAD, claims=1, attempt=1)
        self.refused(Import((Imported(dead, past),)), BadJob)

    def test_states_come_in_the_order_of_their_ids(self) -> None:
        done, cancelled, dead, running, delayed = (self.put() for _ in range(5))
        self.apply(Cancel(cancelled))
        jobs = {job.id: job for job in self.reserve()}
        self.apply(Ack(done, jobs[done].claims, b"r"))
        self.apply(Nack(dead, jobs[dead].claims, None))
        self.apply(Nack(delayed, jobs[delayed].claims, 5))
        asked = [delayed, running, 10**12, dead, cancelled, done, delayed]
        delayed_state, *others = State.DELAYED, State.RUNNING, None, State.DEAD, State.CANCELLED, State.DONE
        assert self.ask(GetStates(asked)) == [delayed_state, *others, delayed_state]
        assert self.ask(GetStates([])) == []

    def test_a_state_is_that_of_a_lease_that_is_over(self) -> None:
        again, spent = self.put(), self.put(max_attempts=1)
        self.reserve()
        assert self.ask(GetStates([again, spent])) == [State.RUNNING, State.RUNNING]
        self.pass_time(1_000)
        assert self.ask(GetStates([again, spent])) == [State.DELAYED, State.DEAD]


class DedupeTests(StoreTests):
    """Keys that stay taken for a while after their job has ended."""

    def tried(self, dedupe_for: int | None = 100, key: str = "k", **more: Any) -> int | JobExists:
        """Put a job with a key; return its id, or the refusal."""
        [outcome] = self.store.apply([Put((NewJob("t", b"b", NOW, key, dedupe_for=dedupe_for, **more),))])
        return outcome if isinstance(outcome, JobExists) else outcome[0]

    def taken_by(self, key: str = "k", **more: Any) -> int:
        """Return which job refuses a put its key."""
        return self.refused(Put((NewJob("t", b"b", NOW, key, dedupe_for=100, **more),)), JobExists).id

    def test_a_key_stays_taken_for_so_long_after_its_job_was_done(self) -> None:
        id = self.put(key="k")
        job = self.one()
        self.pass_time(50)
        self.apply(Ack(id, job.claims))
        self.pass_time(99)
        assert self.taken_by() == id
        assert self.counts() == Counts(done=1)
        self.pass_time(1)
        assert isinstance(self.tried(), int)

    def test_the_latest_of_several_is_named(self) -> None:
        first = self.tried()
        assert isinstance(first, int)
        self.apply(Cancel(first))
        second = self.put(key="k")
        self.apply(Cancel(second))
        assert self.taken_by() == second != first

    def test_it_does_so_after_a_cancel_and_a_death_too(self) -> None:
        self.apply(Cancel(self.put(key="cancelled")))
        self.put(key="dead")
        job = self.one()
        self.apply(Nack(job.id, job.claims, None))
        for key in ("cancelled", "dead"):
            self.taken_by(key)

    def test_it_does_so_from_the_end_of_the_lease_of_a_job_that_died_by_it(self) -> None:
        id = self.put(key="k", max_attempts=1)
        self.reserve()
        self.pass_time(1_099)
        assert self.taken_by() == id
        self.pass_time(1)
        assert isinstance(self.tried(), int)

    def test_it_does_so_too_if_that_job_had_handed_its_key_on(self) -> None:
        id = self.put(key="k", max_attempts=1)
        job = self.one()
        [later] = self.apply(Put((NewJob("t", b"", FAR, "k", parent=(id, job.claims)),)))
        self.apply(Cancel(later))
        self.pass_time(1_000)
        assert self.taken_by() == id
        self.pass_time(100)
        assert isinstance(self.tried(), int)

    def test_a_put_without_it_takes_the_key_at_once(self) -> None:
        self.apply(Cancel(self.put(key="k", dedupe_for=100)))
        assert isinstance(self.tried(None), int)

    def test_a_live_job_has_its_key_for_as_long_as_it_lives(self) -> None:
        id = self.put(key="k", due=FAR)
        assert self.taken_by() == id

    def test_replace_changes_a_delayed_job_and_no_finished_one(self) -> None:
        id = self.put(key="k", due=FAR)
        assert self.tried(replace=True) == id
        self.apply(Cancel(id))
        self.taken_by(replace=True)

    def test_a_successor_takes_the_key_of_the_running_job(self) -> None:
        self.put(key="k")
        self.apply(Cancel(("t", "k")))
        self.put(key="k")
        parent = self.one()
        assert isinstance(self.tried(parent=(parent.id, parent.claims)), int)

    def test_a_purged_job_leaves_its_key(self) -> None:
        self.apply(Cancel(self.put(key="k")))
        self.apply(Purge(State.CANCELLED, 0, None, 10))
        assert isinstance(self.tried(), int)

    def test_keys_of_other_topics_and_other_keys_do_not_matter(self) -> None:
        self.apply(Cancel(self.put(key="other")))
        self.apply(Cancel(self.put("u", key="k")))
        assert isinstance(self.tried(), int)

    def test_of_many_jobs_all_or_none_are_stored(self) -> None:
        self.apply(Cancel(self.put(key="k")))
        jobs = (NewJob("t", b"", NOW, "a", dedupe_for=100), NewJob("t", b"", NOW, "k", dedupe_for=100))
        self.refused(Put(jobs), JobExists)
        assert self.counts() == Counts(cancelled=1)

    def test_in_one_transaction_each_put_sees_what_came_before(self) -> None:
        id = self.put(key="k")
        new = NewJob("t", b"", NOW, "k", dedupe_for=100)
        cancelled, refused = self.store.apply([Cancel(id), Put((new,))])
        assert cancelled
        assert isinstance(refused, JobExists)
        self.pass_time(100)
        [first], cancelled, refused = self.store.apply([Put((new,)), Cancel(("t", "k")), Put((new,))])
        assert cancelled
        assert isinstance(refused, JobExists)
        assert refused.id == first

    def test_of_many_that_put_at_the_same_time_and_end_their_jobs_one_is_stored(self) -> None:
        outcomes: list[int | JobExists] = []
        barrier = Barrier(4)

        def put_and_end() -> None:
            barrier.wait()
            for _ in range(5):
                outcome = self.tried(10**9)
                outcomes.append(outcome)
                if isinstance(outcome, int):
                    self.store.apply([Cancel(outcome)])

        threads = [Thread(target=put_and_end) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        assert all(isinstance(outcome, int | JobExists) for outcome in outcomes)

    def test_it_needs_a_key_and_a_time(self) -> None:
        for bad in (NewJob("t", b"", NOW, dedupe_for=5), NewJob("t", b"", NOW, "k", dedupe_for=0)):
            self.refused(Put((bad,)), BadJob)
