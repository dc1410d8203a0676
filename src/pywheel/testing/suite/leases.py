"""Leases that are over: what became of their jobs is so at once, whether or not anybody has looked."""

from __future__ import annotations

from typing import Any

from ...jobs import commands as c
from ...jobs.job import Attempt, Counts, Due, Outcome, State
from ...jobs.queries import GetJob, GetNextDues, GetNextLease
from .base import FAR, NOW, TERMS, StoreTests

__all__ = ["LeaseTests"]


class LeaseTests(StoreTests):
    """Leases that are over: what became of their jobs is so at once, whether or not anybody has looked."""

    def lose(self, **more: Any) -> int:
        """Return a job whose lease is over, with nobody having looked."""
        id = self.put(**more)
        self.reserve()
        self.pass_time(1_000)
        return id

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

    def test_a_claim_takes_a_lost_lease(self) -> None:
        id = self.lose()
        claimed = self.claim(id, begin=1)
        assert [(job.id, job.attempt, job.claims) for job in claimed.jobs] == [(id, 2, 2)]

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
        for _ in range(5):
            self.put()
        self.reserve()
        self.pass_time(1_000)
        assert [self.apply(c.Expire(2)).ended for _ in range(4)] == [2, 2, 1, 0]
        assert len(self.waiting()) == 5

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
