"""Leases that are over, and claims that are held until they begin."""

from __future__ import annotations

from typing import Any

from ...jobs import commands as c
from ...jobs.job import Attempt, Counts, Due, Outcome, State
from ...jobs.lifecycle import LOST_BEGUN, LOST_HELD, NEVER_LOST
from ...jobs.queries import GetJob, GetNextDues, GetNextLease
from .base import FAR, NOW, TERMS, StoreTests

BACKOFF = TERMS._replace(backoff=(50, 70))


class LeaseTests(StoreTests):
    """Leases that are over: their jobs are in the new state at once, whether or not a command has noticed it."""

    def test_a_settlement_after_the_lease_is_refused(self) -> None:
        id = self.lose()
        assert self.apply(c.Touch(id, 1, 9)) is False
        assert self.apply(c.Begin(id, 1, 9)) is False
        assert self.apply(c.Nack(id, 1, 0)) is None
        assert self.apply(c.Release(id, 1)) is False
        assert self.apply(c.Ack(id, 1)) is False

    def test_a_lost_lease_is_delivered_again_and_the_winner_stands(self) -> None:
        id = self.lose()
        second = self.one()
        assert (second.attempt, second.due, second.claims) == (2, NOW + 1_000, 2)
        assert self.apply(c.Ack(id, 1)) is False
        assert self.apply(c.Ack(second.id, second.claims)) is True

    def test_readers_see_a_lease_that_is_over_as_over(self) -> None:
        id = self.lose()
        assert self.state(id) is State.DELAYED
        assert self.job(id).due == NOW + 1_000
        assert self.counts() == Counts(delayed=1)
        assert self.listed(state=State.DELAYED) == [id]
        assert self.listed(topic="t", state=State.DELAYED) == [id]
        assert self.listed(state=State.RUNNING) == []
        assert self.history(id) == [Attempt(1, 1, NOW, NOW + 1_000, Outcome.LOST, "w", None)]

    def test_a_lost_lease_is_the_next_that_is_due_once_it_was_expired(self) -> None:
        id = self.lose()
        assert self.waiting() == [Due(NOW + 1_000, id, "t")]
        assert self.apply(c.Expire(10)) == c.Expired(1, None)
        assert self.ask(GetNextDues(["t"])) == {"t": NOW + 1_000}

    def test_a_lost_lease_can_be_cancelled(self) -> None:
        id = self.put()
        self.reserve()
        assert not self.apply(c.Cancel(id))
        self.pass_time(1_000)
        assert self.apply(c.Cancel(id))
        assert [row.outcome for row in self.history(id)] == [Outcome.LOST, Outcome.CANCELLED]

    def test_a_lost_lease_can_be_rescheduled_deleted_and_retried(self) -> None:
        assert self.apply(c.Edit(self.lose(), FAR))
        assert self.apply(c.Delete(self.lose()))
        dead = self.lose(max_attempts=1)
        assert self.apply(c.Retry(dead, FAR))
        assert self.counts() == Counts(delayed=2)

    def test_lost_leases_spend_attempts(self) -> None:
        id = self.put()
        for _ in range(3):
            self.reserve()
            self.pass_time(1_000)
        assert self.state(id) is State.DEAD
        assert self.counts() == Counts(dead=1)
        assert self.listed(topic="t", state=State.DEAD) == self.listed(state=State.DEAD) == [id]
        assert self.listed(topic="t", state=State.DELAYED) == []
        assert self.ask(GetNextDues(["t"])) == {}
        assert self.reserve() == []

    def test_a_purge_forgets_one_that_is_dead_by_its_lease(self) -> None:
        id = self.lose(max_attempts=1)
        self.pass_time(10)
        assert self.apply(c.Purge(State.DEAD, 11, None, 10)) == 0
        assert self.apply(c.Purge(State.DEAD, 10, None, 10)) == 1
        assert self.ask(GetJob(id)) is None

    def test_an_expiry_leaves_what_readers_saw(self) -> None:
        ids = [self.put(max_attempts=1 + n % 3) for n in range(6)]
        self.claim(*ids, begin=4, policy=TERMS._replace(backoff=(70,)))
        self.pass_time(1_500)
        before = [(self.job(id), self.history(id)) for id in ids], self.counts()
        assert self.apply(c.Expire(100)).ended == 6
        assert ([(self.job(id), self.history(id)) for id in ids], self.counts()) == before

    def test_an_expiry_names_the_jobs_that_are_dead_by_it(self) -> None:
        ids = [self.put(max_attempts=1 + n % 2) for n in range(4)]
        held = self.put(max_attempts=1)
        self.claim(*ids, held, begin=4)
        self.pass_time(60_000)
        ended, _, dead = self.apply(c.Expire(100))
        assert (ended, dead) == (5, tuple(sorted(ids[::2])))
        assert {self.state(id) for id in dead} == {State.DEAD}
        assert self.apply(c.Expire(100)) == c.Expired(0, None)

    def test_of_a_job_that_dies_with_its_lease_one_worker_of_its_topic_is_told(self) -> None:
        ends: list[Any] = [c.Expire(10), c.Purge(State.DEAD, 60_000, None, 1), c.Reserve("t", 10, TERMS, "w")]
        for end in ends:
            id = self.lose(max_attempts=1)
            self.apply(end)
            assert self.store.died(["u"]) == []
            assert self.store.died(["t", "u"]) == [id]
            assert self.store.died(["t"]) == []
        for by_id in (c.Cancel, c.Delete, lambda id: c.Edit(id, FAR), lambda id: c.Retry(id, FAR)):
            id = self.lose(max_attempts=1)
            self.apply(by_id(id))
            assert self.store.died(["t"]) == [id]
        id = self.lose(max_attempts=1, key="k")
        self.put(key="k")
        assert self.store.died(["t"]) == [id]

    def test_of_a_job_that_is_not_dead_by_its_lease_nobody_is_told(self) -> None:
        self.lose(max_attempts=2)
        self.claim(self.put(max_attempts=1), begin=0)
        failed = self.put(max_attempts=1)
        self.claim(failed, begin=1)
        assert self.apply(c.Nack(failed, 1, None)) is State.DEAD
        self.pass_time(60_000)
        self.apply(c.Expire(10))
        assert self.store.died(["t"]) == []

    def test_of_a_job_that_dies_twice_a_worker_is_told_twice(self) -> None:
        id = self.lose(max_attempts=1)
        for _ in range(2):
            assert self.apply(c.Retry(id, 0))
            self.reserve()
            self.pass_time(1_000)
        self.apply(c.Expire(10))
        assert self.store.died(["t"]) == [id] * 3

    def test_expire_ends_no_more_than_asked(self) -> None:
        for _ in range(4):
            self.put()
        self.lose()
        assert [self.apply(c.Expire(2)).ended for _ in range(4)] == [2, 2, 1, 0]
        assert len(self.waiting()) == 5

    def test_a_touch_without_a_ttr_gives_the_lease_of_the_jobs_own_ttr(self) -> None:
        own, none = self.put(ttr=90_000), self.put()
        self.reserve(limit=2)
        self.pass_time(500)
        assert self.store.apply([c.Touch(own, 1), c.Touch(none, 1)]) == [True, True]
        assert [self.job(id).lease_until for id in (own, none)] == [NOW + 500 + ttr for ttr in (90_000, c.TOUCHED)]

    def test_expire_says_when_the_next_lease_ends(self) -> None:
        assert self.apply(c.Expire(10)) == c.Expired(0, None)
        first, second = self.put(ttr=300), self.put(ttr=500)
        self.claim(first, second, begin=2)
        assert self.apply(c.Expire(10)) == c.Expired(0, NOW + 300)
        self.pass_time(300)
        assert self.apply(c.Expire(10)) == c.Expired(1, NOW + 500)
        assert self.apply(c.Touch(second, 1, 1_000)) is True
        assert self.apply(c.Expire(10)) == c.Expired(0, NOW + 1_300)

    def test_the_next_lease_is_never_later_than_the_truth(self) -> None:
        first, second, third = self.put(ttr=300), self.put(ttr=500), self.put()
        for begin, id in ((1, first), (1, second), (0, third)):
            self.apply(c.Claim("t", (id,), TERMS, "w", begin))
            lease = min(job.lease_until or FAR for job in map(self.job, (first, second, third)))
            assert (self.ask(GetNextLease()) or FAR) <= lease
        self.apply(c.Touch(third, 1, 5))
        assert (self.ask(GetNextLease()) or FAR) <= NOW + 5
        self.pass_time(5)
        self.apply(c.Expire(10))
        assert (self.ask(GetNextLease()) or FAR) <= NOW + 300

    def test_the_next_lease_comes_closer_to_the_truth_by_an_expiry(self) -> None:
        assert self.ask(GetNextLease()) is None
        id = self.put()
        self.reserve()
        self.apply(c.Touch(id, 1, 5_000))
        self.pass_time(1_500)
        assert self.apply(c.Expire(10)) == c.Expired(0, NOW + 5_000)
        assert self.ask(GetNextLease()) == NOW + 5_000
        self.apply(c.Ack(id, 1))
        self.pass_time(4_000)
        assert self.apply(c.Expire(10)) == c.Expired(0, None)
        assert self.ask(GetNextLease()) is None


class HeldTests(StoreTests):
    """Claims that are held until they begin, and claims of suspects."""

    def lose_held(self, **more: Any) -> int:
        """Return the id of a job whose last claim was lost before it began."""
        id = self.put(**more)
        self.held(id)
        self.pass_time(200)
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
        assert self.apply(c.Expire(10)).ended == 1
        assert self.job(id) == seen
        again = self.one()
        assert (again.attempt, again.claims) == (1, 2)

    def test_a_held_claim_of_the_last_attempt_that_is_lost_is_not_dead(self) -> None:
        id = self.put(max_attempts=1)
        self.held(id)
        self.pass_time(200)
        assert self.counts() == Counts(delayed=1)
        assert self.apply(c.Expire(10)).ended == 1
        assert self.state(id) is State.DELAYED

    def test_a_begin_counts_the_attempt_and_leases_for_the_ttr(self) -> None:
        id = self.put()
        job = self.held(id)
        self.pass_time(199)
        assert self.apply(c.Begin(id, job.claims, 700)) is True
        assert self.job(id).lease_until == NOW + 899
        self.pass_time(700)
        assert (self.job(id).attempt, self.job(id).lost) == (1, LOST_BEGUN)
        assert self.apply(c.Begin(id, job.claims, 700)) is False

    def test_a_claim_that_is_not_held_does_not_begin(self) -> None:
        id = self.put()
        assert self.apply(c.Begin(id, 0, 9)) is False
        job = self.held(id)
        for receipt in ((id, 2), (id, 0), (id + 1, 1), (2**70, 1)):
            assert self.apply(c.Begin(*receipt, 9)) is False
        self.pass_time(200)
        assert self.apply(c.Begin(id, job.claims, 9)) is False

    def test_a_begin_leaves_a_longer_lease_as_it_was_touched(self) -> None:
        id = self.put()
        job = self.held(id)
        assert self.apply(c.Touch(id, job.claims, 9_000)) is True
        self.pass_time(50)
        for _ in range(2):
            assert self.apply(c.Begin(id, job.claims, 700)) is True
            assert self.job(id).lease_until == NOW + 9_000
        self.pass_time(8_500)
        assert self.apply(c.Begin(id, job.claims, 700)) is True
        assert self.job(id).lease_until == NOW + 9_250

    def test_a_begin_of_what_has_begun_prolongs_it(self) -> None:
        id = self.put()
        assert self.claim(id, begin=1).begun == 1
        self.pass_time(10)
        assert self.apply(c.Begin(id, 1, 4_000)) is True
        assert self.job(id).lease_until == NOW + 4_010

    def test_many_begin_in_one_call(self) -> None:
        ids = [self.put() for _ in range(30)]
        self.claim(*ids)
        assert self.store.apply([c.Begin(id, 1, 300 + n) for n, id in enumerate(ids)]) == [True] * 30
        assert [self.job(id).lease_until for id in ids] == [NOW + 300 + n for n in range(30)]
        self.pass_time(1_000)
        assert [self.job(id).lost for id in ids] == [LOST_BEGUN] * 30

    def test_what_begins_after_a_touch_and_is_lost_has_spent_one(self) -> None:
        id = self.put()
        self.held(id)
        assert self.store.apply([c.Touch(id, 1, 500), c.Begin(id, 1, 900), c.Touch(id, 1, 20)]) == [True] * 3
        self.pass_time(20)
        assert (self.job(id).attempt, self.job(id).lost) == (1, LOST_BEGUN)

    def test_a_touched_hold_is_still_held(self) -> None:
        id = self.put()
        self.held(id)
        assert self.apply(c.Touch(id, 1, 500)) is True
        self.pass_time(500)
        assert (self.job(id).attempt, self.job(id).lost) == (0, LOST_HELD)

    def test_a_command_sees_the_effect_of_all_receipts_before_it(self) -> None:
        job = self.begun()
        releases = c.Release(job.id, job.claims + 1), c.Release(job.id, job.claims)
        assert self.store.apply([*releases, c.Cancel(job.id)]) == [False, True, c.Change.MADE]
        assert self.state(job.id) is State.CANCELLED

    def test_a_held_claim_may_be_acked_nacked_and_released(self) -> None:
        acked, nacked, last, released = self.put(), self.put(), self.put(max_attempts=1), self.put()
        self.claim(acked, nacked, last, released)
        assert self.apply(c.Ack(acked, 1, b"r")) is True
        assert self.last(acked).result == b"r"
        assert self.apply(c.Nack(nacked, 1, 0)) is State.DELAYED
        assert self.apply(c.Nack(last, 1, 0)) is State.DEAD
        assert self.apply(c.Release(released, 1)) is True
        attempts = [self.job(id).attempt for id in (acked, nacked, last, released)]
        assert attempts == [1, 1, 1, 0]
        assert {self.job(id).lost for id in (acked, nacked, last, released)} == {NEVER_LOST}

    def test_the_history_shows_a_hold_that_was_lost(self) -> None:
        id = self.lose_held()
        expected = [Attempt(1, 1, NOW, NOW + 200, Outcome.LOST, "w", None)]
        assert self.history(id) == expected
        self.pass_time(5)
        self.apply(c.Expire(10))
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
        assert all(self.store.apply([c.Release(job.id, job.claims) for job in claimed]))
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
        id = self.lose()
        job = self.one()
        assert job.lost == LOST_BEGUN
        self.apply(c.Nack(id, job.claims, 0))
        assert self.job(id).lost == NEVER_LOST
        assert self.claim(id, begin=0).begun == 0

    def test_a_retry_clears_a_suspect(self) -> None:
        id = self.put(max_attempts=1)
        self.claim(id, begin=1)
        self.pass_time(1_000)
        assert (self.state(id), self.job(id).lost) == (State.DEAD, LOST_BEGUN)
        assert self.apply(c.Retry(id, NOW))
        assert self.job(id).lost == NEVER_LOST
        assert len(self.claim(id).jobs) == 1

    # ---- backoff ----------------------------------------------------------------------------------------------------

    def test_jitter_is_drawn_for_each_job_within_its_bounds(self) -> None:
        ids = [self.put() for _ in range(100)]
        policy = c.ClaimPolicy(1_000, 3, (1_000,), jitter=0.5)
        self.claim(*ids, begin=100, policy=policy)
        self.pass_time(1_000)
        waits = [self.job(id).due - (NOW + 1_000) for id in ids]
        assert all(500 <= wait <= 1_500 for wait in waits)
        assert len(set(waits)) > 20
        assert min(waits) < 750
        assert max(waits) > 1_250
        self.apply(c.Expire(1_000))
        assert [self.job(id).due - (NOW + 1_000) for id in ids] == waits

    def test_the_backoff_goes_by_the_attempt(self) -> None:
        id = self.put()
        waits = []
        for _ in range(4):
            job = self.one(policy=c.ClaimPolicy(10, 9, (3, 5, 7)))
            self.pass_time(10)
            waits.append(self.job(id).due - (job.lease_until or 0))
            self.pass_time(waits[-1])
        assert waits == [3, 5, 7, 7]
