"""Claims, their ends, and leases that are over."""

from __future__ import annotations

import threading

from ...jobs.commands import Ack, Cancel, Claim, Expire, Hold, Nack, Put, Release, Reserve, Terms, Touch
from ...jobs.job import Counts, NewJob, State
from .base import NOW, TERMS, StoreTests

__all__ = ["ClaimTests"]


class ClaimTests(StoreTests):
    """Claims, their ends, and leases that are over."""

    # ---- claims -----------------------------------------------------------------------------------------------------

    def test_nothing_is_delivered_early(self) -> None:
        self.put(due=NOW + 1)
        assert self.reserve() == []
        self.pass_time(1)
        assert len(self.reserve()) == 1

    def test_jobs_come_by_due_time_then_by_id(self) -> None:
        dues = [NOW - 1, NOW - 5, NOW, NOW - 5, NOW - 9]
        ids = [self.put(due=due) for due in dues]
        assert [job.id for job in self.reserve()] == [ids[4], ids[1], ids[3], ids[0], ids[2]]

    def test_a_claim_is_running_and_has_its_lease(self) -> None:
        id = self.put()
        job = self.one()
        assert (job.id, job.state, job.attempt, job.claims, job.lease_until) == (id, State.RUNNING, 1, 1, NOW + 1_000)
        assert self.store.get(id) == job

    def test_the_jobs_own_ttr_and_max_attempts_come_first(self) -> None:
        self.put(ttr=50, max_attempts=1)
        job = self.one()
        assert job.lease_until == NOW + 50
        assert self.apply(Nack(job.id, job.claims, 0)) is State.DEAD

    def test_a_claimed_job_is_not_claimed_again(self) -> None:
        self.put()
        assert len(self.reserve()) == 1
        assert self.reserve() == []

    def test_a_reserve_takes_no_more_than_asked(self) -> None:
        for _ in range(5):
            self.put()
        assert [len(self.reserve(limit=2)) for _ in range(4)] == [2, 2, 1, 0]

    def test_topics_do_not_mix(self) -> None:
        self.put("a")
        assert self.reserve(topic="b") == []

    def test_of_many_threads_one_gets_each_job(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(60))))
        won: list[int] = []
        barrier = threading.Barrier(6)

        def claim() -> None:
            barrier.wait()
            for _ in range(20):
                [jobs] = self.store.apply([Reserve("t", 2, TERMS, threading.current_thread().name)])
                won.extend(job.id for job in jobs)

        threads = [threading.Thread(target=claim) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == ids

    def test_a_claim_by_id_leaves_out_what_it_may_not_have(self) -> None:
        epochs = self.apply(Hold("w", 10_000))
        good, early, cancelled, other = self.put(), self.put(due=NOW + 1), self.put(), self.put("other")
        self.apply(Cancel(cancelled))
        ids = (early, good, good, cancelled, other, 10**12)
        jobs = self.apply(Claim(ids, "t", TERMS, "w", epochs))
        assert [(job.id, job.attempt) for job in jobs] == [(good, 1)]
        assert self.apply(Claim(ids, "t", TERMS, "w", epochs)) == []

    def test_a_claim_needs_the_shard_at_its_present_epoch(self) -> None:
        epochs = self.apply(Hold("w", 1_000))
        id = self.put()
        assert self.apply(Claim((id,), "t", TERMS, "w", {shard: epoch + 1 for shard, epoch in epochs.items()})) == []
        assert self.apply(Claim((id,), "t", TERMS, "stranger", epochs)) == []
        assert len(self.apply(Claim((id,), "t", TERMS, "w", epochs))) == 1

    # ---- settling ---------------------------------------------------------------------------------------------------

    def test_an_ack_makes_it_done_once(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Ack(job.id, job.claims)) is True
        assert self.apply(Ack(job.id, job.claims)) is False
        assert self.job(job.id).state is State.DONE
        assert self.counts() == Counts(done=1)

    def test_the_same_ack_twice_in_one_call_counts_once(self) -> None:
        self.put()
        job = self.one()
        assert self.store.apply([Ack(job.id, job.claims)] * 2) == [True, False]

    def test_a_receipt_of_another_claim_is_refused(self) -> None:
        self.put()
        job = self.one()
        for op in (Ack(job.id, 2), Ack(job.id, 0), Release(job.id, 2), Touch(job.id, 2, 9)):
            assert self.apply(op) is False
        assert self.apply(Nack(job.id, 2, 0)) is None
        assert self.store.get(job.id) == job

    def test_a_nack_delays_and_the_next_attempt_counts(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Nack(job.id, job.claims, 70, "boom")) is State.DELAYED
        again = self.job(job.id)
        assert (again.state, again.due, again.attempt, again.last_error) == (State.DELAYED, NOW + 70, 1, "boom")
        assert self.reserve() == []
        self.pass_time(70)
        second = self.one()
        assert (second.attempt, second.last_error) == (2, "boom")

    def test_the_last_nack_makes_it_dead(self) -> None:
        id = self.put()
        states = []
        for _ in range(3):
            job = self.one()
            states.append(self.apply(Nack(job.id, job.claims, 0)))
        assert states == [State.DELAYED, State.DELAYED, State.DEAD]
        assert self.job(id).state is State.DEAD
        assert self.reserve() == []

    def test_a_nack_without_delay_makes_it_dead_at_once(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Nack(job.id, job.claims, None, "no use")) is State.DEAD

    def test_a_release_spends_no_attempt_and_its_receipt_is_void(self) -> None:
        self.put(due=NOW - 3)
        job = self.one()
        assert self.apply(Release(job.id, job.claims)) is True
        back = self.job(job.id)
        assert (back.state, back.due, back.attempt) == (State.DELAYED, NOW - 3, 0)
        again = self.one()
        assert again.attempt == 1
        assert self.apply(Ack(job.id, job.claims)) is False
        assert self.apply(Ack(again.id, again.claims)) is True

    def test_a_touch_moves_the_end_of_the_lease(self) -> None:
        self.put()
        job = self.one()
        self.pass_time(999)
        assert self.apply(Touch(job.id, job.claims, 5_000)) is True
        self.pass_time(4_999)
        assert self.reserve() == []
        assert self.apply(Ack(job.id, job.claims)) is True

    # ---- leases that are over ---------------------------------------------------------------------------------------

    def test_a_settlement_after_the_lease_is_refused(self) -> None:
        self.put()
        job = self.one()
        self.pass_time(1_000)
        assert self.apply(Touch(job.id, job.claims, 9)) is False
        assert self.apply(Nack(job.id, job.claims, 0)) is None
        assert self.apply(Release(job.id, job.claims)) is False
        assert self.apply(Ack(job.id, job.claims)) is False

    def test_a_lost_lease_is_delivered_again_and_the_winner_stands(self) -> None:
        self.put()
        first = self.one()
        self.pass_time(1_000)
        second = self.one()
        assert (second.attempt, second.due) == (2, NOW + 1_000)
        assert self.apply(Ack(first.id, first.claims)) is False
        assert self.apply(Ack(second.id, second.claims)) is True

    def test_readers_see_a_lease_that_is_over_as_over(self) -> None:
        id = self.put()
        self.reserve()
        self.pass_time(1_000)
        assert self.job(id).state is State.DELAYED
        assert self.job(id).due == NOW + 1_000
        assert self.counts() == Counts(delayed=1)
        assert [job.id for job in self.store.jobs(None, State.DELAYED, 0, 9)] == [id]
        assert self.store.jobs(None, State.RUNNING, 0, 9) == []

    def test_a_lost_lease_can_be_cancelled(self) -> None:
        id = self.put()
        self.reserve()
        assert self.apply(Cancel(id)) is False
        self.pass_time(1_000)
        assert self.apply(Cancel(id)) is True

    def test_lost_leases_spend_attempts(self) -> None:
        id = self.put()
        for _ in range(3):
            self.reserve()
            self.pass_time(1_000)
        assert self.job(id).state is State.DEAD
        assert self.counts() == Counts(dead=1)
        assert [job.id for job in self.store.jobs("t", State.DEAD, 0, 9)] == [id]
        assert self.reserve() == []

    def test_a_lost_lease_waits_for_its_backoff(self) -> None:
        self.put()
        job = self.one(terms=Terms(1_000, 3, (50, 70)))
        self.pass_time(1_000)
        expired = self.apply(Expire(10))
        assert expired.lost == [(job.id, "t", State.DELAYED)]
        assert self.job(job.id).due == NOW + 1_050
        assert self.reserve() == []
        self.pass_time(50)
        assert len(self.reserve()) == 1

    def test_expire_says_when_the_next_lease_ends(self) -> None:
        assert self.apply(Expire(10)).next_lease is None
        self.put()
        self.reserve()
        assert self.apply(Expire(10)) == ([], NOW + 1_000)
