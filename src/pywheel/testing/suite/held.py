"""Claims that are held until they begin, and what becomes of suspects."""

from __future__ import annotations

from typing import Any

from ...jobs.commands import Ack, Begin, ClaimPolicy, Expire, Nack, Release, Retry, Touch
from ...jobs.job import Attempt, Counts, Due, Outcome, State
from ...jobs.lifecycle import LOST_BEGUN, LOST_HELD, NEVER_LOST
from ...jobs.queries import GetJob
from .base import NOW, TERMS, StoreTests

__all__ = ["HeldTests"]

BACKOFF = TERMS._replace(backoff=(50, 70))


class HeldTests(StoreTests):
    """Claims that are held until they begin, and what becomes of suspects."""

    def lose_held(self, **more: Any) -> int:
        """Return a job whose last claim was lost before it began."""
        id = self.put(**more)
        self.held(id)
        self.pass_time(200)
        return id

    def lose_begun(self) -> int:
        """Return a job whose last claim was lost while it ran."""
        id = self.put()
        assert self.claim(id, begin=1).begun == 1
        self.pass_time(1_000)
        return id

    # ---- held -------------------------------------------------------------------------------------------------------

    def test_the_first_begin_at_once_and_the_others_are_held(self) -> None:
        ids = [self.put(ttr=None if n else 90) for n in range(4)]
        claimed = self.claim(*ids, begin=2, policy=TERMS._replace(slack=5))
        assert [job.lease_until for job in claimed.jobs] == [NOW + 95, NOW + 1_005, NOW + 200, NOW + 200]
        assert [job.attempt for job in claimed.jobs] == [1, 1, 1, 1]
        assert [job.state for job in claimed.jobs] == [State.RUNNING] * 4
        assert claimed.begun == 2
        assert [self.ask(GetJob(job.id)) for job in claimed.jobs] == claimed.jobs
        assert self.counts() == Counts(running=4)

    def test_a_held_claim_that_is_lost_has_spent_nothing(self) -> None:
        id = self.put(due=NOW - 7)
        assert self.held(id, policy=BACKOFF).attempt == 1
        self.pass_time(200)
        seen = self.job(id)
        assert (seen.state, seen.due, seen.attempt, seen.lost) == (State.DELAYED, NOW - 7, 0, LOST_HELD)
        assert self.apply(Expire(10)).ended == 1
        assert self.job(id) == seen
        again = self.one()
        assert (again.attempt, again.claims) == (1, 2)

    def test_a_held_claim_of_the_last_attempt_that_is_lost_is_not_dead(self) -> None:
        id = self.put(max_attempts=1)
        self.held(id)
        self.pass_time(200)
        assert self.counts() == Counts(delayed=1)
        assert self.apply(Expire(10)).ended == 1
        assert self.state(id) is State.DELAYED

    def test_a_begin_counts_the_attempt_and_leases_for_the_ttr(self) -> None:
        id = self.put()
        job = self.held(id)
        self.pass_time(199)
        assert self.apply(Begin(id, job.claims, 700)) is True
        assert self.job(id).lease_until == NOW + 899
        self.pass_time(700)
        assert (self.job(id).attempt, self.job(id).lost) == (1, LOST_BEGUN)
        assert self.apply(Begin(id, job.claims, 700)) is False

    def test_a_claim_that_is_not_held_does_not_begin(self) -> None:
        id = self.put()
        assert self.apply(Begin(id, 0, 9)) is False
        job = self.held(id)
        for receipt in ((id, 2), (id, 0), (id + 1, 1), (2**70, 1)):
            assert self.apply(Begin(*receipt, 9)) is False
        self.pass_time(200)
        assert self.apply(Begin(id, job.claims, 9)) is False

    def test_a_begin_leaves_a_longer_lease_as_it_was_touched(self) -> None:
        id = self.put()
        job = self.held(id)
        assert self.apply(Touch(id, job.claims, 9_000)) is True
        self.pass_time(50)
        for _ in range(2):
            assert self.apply(Begin(id, job.claims, 700)) is True
            assert self.job(id).lease_until == NOW + 9_000
        self.pass_time(8_500)
        assert self.apply(Begin(id, job.claims, 700)) is True
        assert self.job(id).lease_until == NOW + 9_250

    def test_a_begin_of_what_has_begun_prolongs_it(self) -> None:
        id = self.put()
        assert self.claim(id, begin=1).begun == 1
        self.pass_time(10)
        assert self.apply(Begin(id, 1, 4_000)) is True
        assert self.job(id).lease_until == NOW + 4_010

    def test_many_begin_in_one_call(self) -> None:
        ids = [self.put() for _ in range(30)]
        self.claim(*ids)
        assert self.store.apply([Begin(id, 1, 300 + n) for n, id in enumerate(ids)]) == [True] * 30
        assert [self.job(id).lease_until for id in ids] == [NOW + 300 + n for n in range(30)]
        self.pass_time(1_000)
        assert [self.job(id).lost for id in ids] == [LOST_BEGUN] * 30

    def test_what_begins_after_a_touch_and_is_lost_has_spent_one(self) -> None:
        id = self.put()
        self.held(id)
        assert self.store.apply([Touch(id, 1, 500), Begin(id, 1, 900), Touch(id, 1, 20)]) == [True] * 3
        self.pass_time(20)
        assert (self.job(id).attempt, self.job(id).lost) == (1, LOST_BEGUN)

    def test_a_touched_hold_is_still_held(self) -> None:
        id = self.put()
        self.held(id)
        assert self.apply(Touch(id, 1, 500)) is True
        self.pass_time(500)
        assert (self.job(id).attempt, self.job(id).lost) == (0, LOST_HELD)

    def test_a_held_claim_may_be_acked_nacked_and_released(self) -> None:
        acked, nacked, last, released = self.put(), self.put(), self.put(max_attempts=1), self.put()
        self.claim(acked, nacked, last, released)
        assert self.apply(Ack(acked, 1)) is True
        assert self.apply(Nack(nacked, 1, 0)) is State.DELAYED
        assert self.apply(Nack(last, 1, 0)) is State.DEAD
        assert self.apply(Release(released, 1)) is True
        attempts = [self.job(id).attempt for id in (acked, nacked, last, released)]
        assert attempts == [1, 1, 1, 0]
        assert {self.job(id).lost for id in (acked, nacked, last, released)} == {NEVER_LOST}

    def test_the_history_shows_a_hold_that_was_lost(self) -> None:
        id = self.lose_held()
        expected = [Attempt(1, 1, NOW, NOW + 200, Outcome.LOST, "w", None)]
        assert self.history(id) == expected
        self.pass_time(5)
        self.apply(Expire(10))
        assert self.history(id) == expected

    # ---- bytes ------------------------------------------------------------------------------------------------------

    def test_bodies_are_claimed_up_to_so_many_bytes(self) -> None:
        ids = [self.put(body=b"x" * size) for size in (10, 30, 60, 1, 0)]
        claimed = self.claim(*ids, begin=1, bytes=99)
        assert [job.id for job in claimed.jobs] == ids[:2]
        assert (claimed.begun, [due.id for due in claimed.left]) == (1, ids[2:])
        claimed = self.claim(*ids, bytes=61)
        assert [job.body for job in claimed.jobs] == [b"x" * 60, b"x", b""]
        assert claimed.left == []

    def test_one_is_claimed_whatever_its_size(self) -> None:
        ids = [self.put(body=b"x" * 100_000) for _ in range(3)]
        for most in (99_999, 0, -1):
            claimed = self.claim(*ids, bytes=most)
            assert [len(job.body) for job in claimed.jobs] == [100_000]
            ids = [due.id for due in claimed.left]
        assert ids == []

    def test_large_and_small_bodies_come_as_they_were_put(self) -> None:
        bodies = [bytes([n]) * (200_000 if n == 7 else 50_000 if n % 3 else n) for n in range(12)]
        ids = [self.put(body=body) for body in bodies]
        claimed = self.claim(*ids, bytes=1_000_000).jobs
        assert [job.body for job in claimed] == bodies
        assert all(self.store.apply([Release(job.id, job.claims) for job in claimed]))
        assert [job.body for job in self.reserve()] == bodies

    # ---- suspects ---------------------------------------------------------------------------------------------------

    def test_what_was_lost_begins_at_once_or_is_left(self) -> None:
        lost, fresh = self.lose_held(due=NOW - 5), self.put(due=NOW - 9)
        claimed = self.claim(lost, fresh, begin=1)
        assert [job.id for job in claimed.jobs] == [fresh]
        assert claimed[1:4] == (1, [Due(NOW - 5, lost, "t")], False)
        claimed = self.claim(lost, begin=1)
        assert ([job.id for job in claimed.jobs], claimed.begun) == ([lost], 1)
        assert claimed.jobs[0].lost == LOST_HELD

    def test_what_comes_after_one_that_was_left_is_held(self) -> None:
        lost = self.lose_held(due=NOW - 5)
        first, last = self.put(due=NOW - 9), self.put(due=NOW)
        claimed = self.claim(lost, first, last, begin=1)
        assert [job.id for job in claimed.jobs] == [first, last]
        assert (claimed.begun, [due.id for due in claimed.left]) == (1, [lost])

    def test_of_those_that_were_lost_running_so_many_are_claimed_as_asked(self) -> None:
        ids = [self.put() for _ in range(3)]
        self.claim(*ids, begin=3)
        self.pass_time(1_000)
        fresh = self.put()
        claimed = self.claim(*ids, fresh, begin=9, suspects=1)
        assert {job.lost for job in claimed.jobs} == {NEVER_LOST, LOST_BEGUN}
        assert [job.id for job in claimed.jobs] == [fresh, ids[0]]
        assert [due.id for due in claimed.left] == ids[1:]
        assert self.claim(*ids, begin=9, suspects=0).jobs == []
        assert len(self.claim(*ids, begin=9, suspects=5).jobs) == 2

    def test_a_lost_running_job_waits_for_its_backoff_before_a_claim(self) -> None:
        id = self.put()
        self.claim(id, begin=1, policy=BACKOFF)
        self.pass_time(1_000)
        assert self.claim(id, begin=1).left == [Due(NOW + 1_050, id, "t")]

    def test_a_job_that_ended_otherwise_is_no_suspect(self) -> None:
        id = self.lose_begun()
        job = self.one()
        assert job.lost == LOST_BEGUN
        self.apply(Nack(id, job.claims, 0))
        assert self.job(id).lost == NEVER_LOST
        assert self.claim(id, begin=0).begun == 0

    def test_a_retry_clears_a_suspect(self) -> None:
        id = self.put(max_attempts=1)
        self.claim(id, begin=1)
        self.pass_time(1_000)
        assert (self.state(id), self.job(id).lost) == (State.DEAD, LOST_BEGUN)
        assert self.apply(Retry(id, NOW))
        assert self.job(id).lost == NEVER_LOST
        assert len(self.claim(id).jobs) == 1

    # ---- backoff ----------------------------------------------------------------------------------------------------

    def test_jitter_is_drawn_for_each_job_within_its_bounds(self) -> None:
        ids = [self.put() for _ in range(100)]
        policy = ClaimPolicy(1_000, 3, (1_000,), jitter=0.5)
        self.claim(*ids, begin=100, policy=policy)
        self.pass_time(1_000)
        waits = [self.job(id).due - (NOW + 1_000) for id in ids]
        assert all(500 <= wait <= 1_500 for wait in waits)
        assert len(set(waits)) > 20
        assert min(waits) < 750
        assert max(waits) > 1_250
        self.apply(Expire(1_000))
        assert [self.job(id).due - (NOW + 1_000) for id in ids] == waits

    def test_the_backoff_goes_by_the_attempt(self) -> None:
        id = self.put()
        waits = []
        for _ in range(4):
            job = self.one(policy=ClaimPolicy(10, 9, (3, 5, 7)))
            self.pass_time(10)
            waits.append(self.job(id).due - (job.lease_until or 0))
            self.pass_time(waits[-1])
        assert waits == [3, 5, 7, 7]
