"""The store contract as tests, for any store, named after what they show.

With pytest:

class TestMyStore(StoreSuite):
    def make_store(self, clock):
        return MyStore(..., clock=clock)  # empty, and judging time by this clock
"""

from __future__ import annotations

import threading
from typing import Any

from .._errors import JobExists, StoreError
from ..stores import SHARDS, Attempt, Clock, Counts, Due, Job, NewJob, Outcome, State, Store, Terms, Topic
from ..stores.ops import (
    Ack,
    Cancel,
    Claim,
    Expire,
    Hold,
    Leave,
    Nack,
    Op,
    Pause,
    Purge,
    Put,
    Release,
    Reschedule,
    Reserve,
    Retry,
    Touch,
)
from .clock import SettableClock

__all__ = ["StoreSuite"]

NOW = 1_700_000_000_000
FAR = NOW + 10**9
TERMS = Terms(ttr=1_000, max_attempts=3)
ALL = frozenset(range(SHARDS))
START = (-1, 0)


class StoreSuite:
    """Each test gets a new, empty store and a clock that stands still."""

    clock: SettableClock
    store: Store

    def make_store(self, clock: Clock) -> Store:
        """Return a new, empty store whose clock is this one."""
        raise NotImplementedError("give a store to test")

    def reopen(self) -> None:
        """Called between operations; a durable store may be closed and opened here. `self.store` is used after it."""

    def setup_method(self) -> None:
        """Prepare for a test."""
        self.clock = SettableClock(NOW)
        self.store = self.make_store(self.clock)

    def teardown_method(self) -> None:
        """Clean up after a test."""
        self.store.close()

    # ---- shorthand --------------------------------------------------------------------------------------------------

    def apply(self, op: Op) -> Any:
        """Apply one command; raise its outcome if it is an error."""
        [outcome] = self.store.apply([op])
        self.reopen()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def put(self, topic: str = "t", body: bytes = b"b", due: int = NOW, **more: Any) -> int:
        """Put one job; return its id."""
        [id] = self.apply(Put((NewJob(topic, body, due, **more),)))
        return int(id)

    def reserve(self, limit: int = 100, topic: str = "t", terms: Terms = TERMS) -> list[Job]:
        """Reserve jobs of a topic."""
        jobs: list[Job] = self.apply(Reserve(topic, limit, terms, "w"))
        return jobs

    def one(self, **more: Any) -> Job:
        """Reserve the only job that is due."""
        [job] = self.reserve(**more)
        return job

    def job(self, id: int) -> Job:
        """Return a job that exists."""
        job = self.store.get(id)
        assert job is not None
        return job

    def counts(self, topic: str = "t") -> Counts:
        """Return the counts of a topic."""
        return self.store.counts()[topic]

    def refused(self, op: Op) -> Exception:
        """Apply a command that must be refused; return how."""
        [outcome] = self.store.apply([op])
        assert isinstance(outcome, Exception)
        return outcome

    # ---- put --------------------------------------------------------------------------------------------------------

    def test_a_job_is_stored_as_it_was_put(self) -> None:
        new = NewJob("t", b"\x00\xff", FAR, "k", 5_000, 7, {"a": "b"})
        [[id]] = self.store.apply([Put((new,))])
        self.reopen()
        assert self.store.get(id) == Job(
            id, "t", b"\x00\xff", FAR, NOW, State.DELAYED, "k", 5_000, 7, {"a": "b"}, 0, 0, None, None
        )

    def test_ids_grow_in_the_order_of_puts(self) -> None:
        ids = [self.put() for _ in range(3)] + self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(300))))
        assert ids == sorted(set(ids))

    def test_an_id_is_not_used_again_after_its_job_was_purged(self) -> None:
        id = self.put()
        self.apply(Cancel(id))
        self.apply(Purge(State.CANCELLED, NOW, None, 10))
        assert self.put() > id

    def test_an_empty_put_stores_nothing(self) -> None:
        assert self.apply(Put(())) == []

    def test_names_of_any_text_stay_apart(self) -> None:
        names = ["'; DROP TABLE job; --", '"', "{}", "%s", "a\0b", "a", "\N{GRINNING FACE}", "x" * 10_000, " a", "A"]
        ids = {name: self.put(name, key=name, body=name.encode()) for name in names}
        for name, id in ids.items():
            found = self.store.get((name, name))
            assert found is not None
            assert (found.id, found.topic, found.key, found.body) == (id, name, name, name.encode())
            assert [job.id for job in self.reserve(topic=name)] == [id]
        assert set(self.store.counts()) == set(names)

    def test_bodies_of_any_bytes_and_a_mebibyte_come_back(self) -> None:
        for body in (b"", bytes(range(256)), b"\0" * (1 << 20)):
            assert self.job(self.put(body=body)).body == body

    # ---- keys -------------------------------------------------------------------------------------------------------

    def test_a_live_key_is_refused_and_nothing_changes(self) -> None:
        id = self.put(key="k")
        error = self.refused(Put((NewJob("t", b"other", FAR), NewJob("t", b"new", FAR, "k"))))
        assert isinstance(error, JobExists)
        assert error.id == id
        assert self.job(id).body == b"b"
        assert self.counts() == Counts(delayed=1)

    def test_one_refused_put_does_not_hinder_the_others_of_the_call(self) -> None:
        self.put(key="k")
        good, bad, last = self.store.apply([Put((NewJob("t", b"", NOW, key),)) for key in ("a", "k", "b")])
        assert isinstance(bad, JobExists)
        assert len(good) == len(last) == 1
        assert self.counts() == Counts(delayed=3)

    def test_two_jobs_of_one_put_cannot_share_a_key(self) -> None:
        assert isinstance(self.refused(Put((NewJob("t", b"", NOW, "k"), NewJob("t", b"", NOW, "k")))), JobExists)
        assert self.store.get(("t", "k")) is None

    def test_a_key_belongs_to_its_topic(self) -> None:
        assert self.put("a", key="k") != self.put("b", key="k")

    def test_a_finished_job_leaves_its_key_to_others(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        found = self.store.get(("t", "k"))
        assert found is not None
        assert found.id == second != first

    def test_a_key_of_finished_jobs_finds_the_latest(self) -> None:
        ids = []
        for _ in range(2):
            ids.append(self.put(key="k"))
            self.apply(Cancel(("t", "k")))
        found = self.store.get(("t", "k"))
        assert found is not None
        assert found.id == ids[-1]

    def test_replace_takes_the_new_values_and_keeps_id_and_age(self) -> None:
        id = self.put(key="k", due=FAR)
        self.clock.pass_time(10)
        assert (
            self.put(key="k", body=b"new", due=FAR + 5, ttr=9, max_attempts=2, headers={"h": "1"}, replace=True) == id
        )
        assert self.job(id) == Job(
            id, "t", b"new", FAR + 5, NOW, State.DELAYED, "k", 9, 2, {"h": "1"}, 0, 0, None, None
        )
        assert self.counts() == Counts(delayed=1)

    def test_replace_of_a_running_job_is_refused(self) -> None:
        self.put(key="k")
        self.reserve()
        assert isinstance(self.refused(Put((NewJob("t", b"new", NOW, "k", replace=True),))), JobExists)

    def test_replace_stores_a_job_whose_key_is_free(self) -> None:
        assert self.job(self.put(key="k", replace=True)).state is State.DELAYED

    # ---- claims -----------------------------------------------------------------------------------------------------

    def test_nothing_is_delivered_early(self) -> None:
        self.put(due=NOW + 1)
        assert self.reserve() == []
        self.clock.pass_time(1)
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
        self.clock.pass_time(70)
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
        self.clock.pass_time(999)
        assert self.apply(Touch(job.id, job.claims, 5_000)) is True
        self.clock.pass_time(4_999)
        assert self.reserve() == []
        assert self.apply(Ack(job.id, job.claims)) is True

    # ---- leases that are over ---------------------------------------------------------------------------------------

    def test_a_settlement_after_the_lease_is_refused(self) -> None:
        self.put()
        job = self.one()
        self.clock.pass_time(1_000)
        assert self.apply(Touch(job.id, job.claims, 9)) is False
        assert self.apply(Nack(job.id, job.claims, 0)) is None
        assert self.apply(Release(job.id, job.claims)) is False
        assert self.apply(Ack(job.id, job.claims)) is False

    def test_a_lost_lease_is_delivered_again_and_the_winner_stands(self) -> None:
        self.put()
        first = self.one()
        self.clock.pass_time(1_000)
        second = self.one()
        assert (second.attempt, second.due) == (2, NOW + 1_000)
        assert self.apply(Ack(first.id, first.claims)) is False
        assert self.apply(Ack(second.id, second.claims)) is True

    def test_readers_see_a_lease_that_is_over_as_over(self) -> None:
        id = self.put()
        self.reserve()
        self.clock.pass_time(1_000)
        assert self.job(id).state is State.DELAYED
        assert self.job(id).due == NOW + 1_000
        assert self.counts() == Counts(delayed=1)
        assert [job.id for job in self.store.jobs(None, State.DELAYED, 0, 9)] == [id]
        assert self.store.jobs(None, State.RUNNING, 0, 9) == []

    def test_a_lost_lease_can_be_cancelled(self) -> None:
        id = self.put()
        self.reserve()
        assert self.apply(Cancel(id)) is False
        self.clock.pass_time(1_000)
        assert self.apply(Cancel(id)) is True

    def test_lost_leases_spend_attempts(self) -> None:
        id = self.put()
        for _ in range(3):
            self.reserve()
            self.clock.pass_time(1_000)
        assert self.job(id).state is State.DEAD
        assert self.counts() == Counts(dead=1)
        assert [job.id for job in self.store.jobs("t", State.DEAD, 0, 9)] == [id]
        assert self.reserve() == []

    def test_a_lost_lease_waits_for_its_backoff(self) -> None:
        self.put()
        job = self.one(terms=Terms(1_000, 3, (50, 70)))
        self.clock.pass_time(1_000)
        expired = self.apply(Expire(10))
        assert expired.lost == [(job.id, "t", State.DELAYED)]
        assert self.job(job.id).due == NOW + 1_050
        assert self.reserve() == []
        self.clock.pass_time(50)
        assert len(self.reserve()) == 1

    def test_expire_says_when_the_next_lease_ends(self) -> None:
        assert self.apply(Expire(10)).next_lease is None
        self.put()
        self.reserve()
        assert self.apply(Expire(10)) == ([], NOW + 1_000)

    # ---- by hand ----------------------------------------------------------------------------------------------------

    def test_a_cancelled_job_is_never_delivered(self) -> None:
        id = self.put(due=NOW + 5)
        assert self.apply(Cancel(id)) is True
        assert self.apply(Cancel(id)) is False
        self.clock.pass_time(5)
        assert self.reserve() == []
        assert self.counts() == Counts(cancelled=1)

    def test_what_is_unknown_running_or_finished_is_not_cancelled_or_rescheduled(self) -> None:
        self.put()
        job = self.one()
        for ref in (job.id, 10**12, ("t", "nobody"), ("nowhere", "k")):
            assert self.apply(Cancel(ref)) is False
            assert self.apply(Reschedule(ref, FAR)) is False
        self.apply(Ack(job.id, job.claims))
        assert self.apply(Cancel(job.id)) is False

    def test_a_reschedule_moves_it_either_way_and_keeps_its_age(self) -> None:
        id = self.put(due=FAR, key="k")
        assert self.apply(Reschedule(("t", "k"), NOW)) is True
        assert (self.job(id).due, self.job(id).created) == (NOW, NOW)
        assert self.apply(Reschedule(id, FAR)) is True
        assert self.reserve() == []

    def test_a_retry_gives_a_finished_job_all_its_attempts_again(self) -> None:
        id = self.put()
        assert self.apply(Retry(id, NOW)) is False
        for _ in range(3):
            job = self.one()
            self.apply(Nack(job.id, job.claims, 0))
        assert self.apply(Retry(id, NOW + 5)) is True
        assert (self.job(id).state, self.job(id).due) == (State.DELAYED, NOW + 5)
        self.clock.pass_time(5)
        again = self.one()
        assert (again.attempt, again.claims) == (1, 4)
        assert self.apply(Ack(again.id, 1)) is False
        assert self.apply(Ack(again.id, 4)) is True
        assert self.apply(Retry(id, NOW)) is True

    def test_a_retry_is_refused_if_the_key_is_taken_by_now(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        error = self.refused(Retry(first, NOW))
        assert isinstance(error, JobExists)
        assert error.id == second

    def test_a_paused_topic_gives_nothing_until_it_is_resumed(self) -> None:
        id = self.put()
        epochs = self.apply(Hold("w", 1_000))
        assert self.apply(Pause("t", paused=True)) is True
        assert self.apply(Pause("t", paused=True)) is False
        assert self.store.topics() == [Topic("t", paused=True)]
        assert self.reserve() == []
        assert self.apply(Claim((id,), "t", TERMS, "w", epochs)) == []
        assert self.store.window(["t"], ALL, START, FAR, 10) == []
        assert self.apply(Pause("t", paused=False)) is True
        assert len(self.reserve()) == 1

    def test_a_purge_forgets_what_ended_long_enough_ago(self) -> None:
        done, dead, cancelled = (self.put() for _ in range(3))
        for job in self.reserve(limit=2):
            self.apply(Ack(job.id, job.claims) if job.id == done else Nack(job.id, job.claims, None))
        self.apply(Cancel(cancelled))
        assert self.apply(Purge(State.DONE, NOW - 1, None, 10)) == 0
        assert self.apply(Purge(State.DONE, NOW, "other", 10)) == 0
        assert self.apply(Purge(State.DONE, NOW, "t", 10)) == 1
        assert self.store.get(done) is None
        assert self.store.history(done) == []
        assert self.counts() == Counts(dead=1, cancelled=1)
        assert self.apply(Purge(State.DELAYED, FAR, None, 10)) == 0
        assert dead != cancelled

    # ---- reading ----------------------------------------------------------------------------------------------------

    def test_history_has_one_row_for_each_attempt(self) -> None:
        id = self.put()
        for number in range(2):
            job = self.one()
            self.clock.pass_time(5)
            self.apply(Nack(id, job.claims, 0, f"error {number}"))
        self.reserve()
        self.clock.pass_time(1_000)
        self.apply(Expire(10))
        assert self.store.history(id) == [
            Attempt(1, 1, NOW, NOW + 5, Outcome.FAILED, "w", "error 0"),
            Attempt(2, 2, NOW + 5, NOW + 10, Outcome.FAILED, "w", "error 1"),
            Attempt(3, 3, NOW + 10, NOW + 1_010, Outcome.LOST, "w", None),
        ]

    def test_history_shows_the_attempt_under_way_and_a_cancellation(self) -> None:
        id = self.put()
        job = self.one()
        assert self.store.history(id) == [Attempt(1, 1, NOW, None, None, "w", None)]
        self.apply(Release(id, job.claims))
        self.apply(Cancel(id))
        outcomes = [attempt.outcome for attempt in self.store.history(id)]
        assert outcomes == [Outcome.RELEASED, Outcome.CANCELLED]

    def test_lists_go_by_id_in_pages(self) -> None:
        ids = [self.put(topic) for topic in ("a", "b", "a", "b", "a")]
        assert [job.id for job in self.store.jobs(None, None, 0, 2)] == ids[:2]
        assert [job.id for job in self.store.jobs(None, None, ids[1], 9)] == ids[2:]
        assert [job.id for job in self.store.jobs("a", State.DELAYED, ids[0], 9)] == [ids[2], ids[4]]
        assert self.store.jobs("a", State.DONE, 0, 9) == []
        assert self.store.jobs("nowhere", None, 0, 9) == []

    def test_next_due_is_the_earliest_that_may_be_claimed(self) -> None:
        assert self.store.next_due() is None
        self.put(due=FAR)
        self.put(due=NOW)
        assert self.store.next_due() == NOW
        self.reserve()
        assert self.store.next_due() == NOW + 1_000
        self.put(due=NOW + 10)
        assert self.store.next_due() == NOW + 10

    def test_a_window_goes_by_due_time_in_pages_of_ones_shards(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"", NOW + n // 2) for n in range(40))))
        expected = [Due(NOW + n // 2, id, "t") for n, id in enumerate(ids)]
        assert self.store.window(["t", "u"], ALL, START, FAR, 100) == expected
        assert self.store.window(["t"], ALL, START, FAR, 7) == expected[:7]
        assert self.store.window(["t"], ALL, expected[6][:2], FAR, 7) == expected[7:14]
        assert self.store.window(["t"], ALL, START, NOW + 3, 100) == expected[:8]
        assert self.store.window(["u"], ALL, START, FAR, 100) == []
        parts = [self.store.window(["t"], {shard}, START, FAR, 100) for shard in range(SHARDS)]
        assert sorted(due for part in parts for due in part) == expected
        assert max(map(len, parts)) <= 3

    def test_a_window_leaves_out_what_is_running_or_finished(self) -> None:
        self.put()
        self.reserve()
        self.apply(Cancel(self.put()))
        assert self.store.window(["t"], ALL, START, FAR, 10) == []

    def test_first_due_is_the_earliest_after_a_time(self) -> None:
        for due in (NOW, NOW + 5, NOW + 9):
            self.put(due=due)
        assert [self.store.first_due(["t"], after) for after in (NOW - 1, NOW, NOW + 5, NOW + 9)] == [
            NOW,
            NOW + 5,
            NOW + 9,
            None,
        ]
        assert self.store.first_due(["u"], 0) is None

    # ---- shards and hints -------------------------------------------------------------------------------------------

    def test_one_worker_holds_all_shards_and_two_share_them(self) -> None:
        assert set(self.apply(Hold("a", 1_000))) == ALL
        assert self.apply(Hold("b", 1_000)) == {}
        first = self.apply(Hold("a", 1_000))
        second = self.apply(Hold("b", 1_000))
        assert set(first) | set(second) == ALL
        assert not set(first) & set(second)
        assert abs(len(first) - len(second)) <= 1

    def test_shards_change_hands_with_a_greater_epoch(self) -> None:
        before = self.apply(Hold("a", 1_000))
        assert self.apply(Hold("a", 1_000)) == before
        self.clock.pass_time(1_000)
        after = self.apply(Hold("b", 1_000))
        assert set(after) == ALL
        assert all(after[shard] > before[shard] for shard in ALL)
        self.apply(Leave("b"))
        assert all(epoch > after[shard] for shard, epoch in self.apply(Hold("c", 1_000)).items())

    def test_changes_within_a_horizon_are_hinted_and_ring(self) -> None:
        with_listener = self.store.listen("w")
        cursor = self.store.hints(-1).cursor
        with_listener.publish(NOW + 100)
        near, far = self.put(due=NOW + 100), self.put(due=NOW + 101)
        assert with_listener.wait(5)
        hints = self.store.hints(cursor)
        assert hints.due == [Due(NOW + 100, near, "t")]
        assert not hints.reload
        self.apply(Reschedule(far, NOW + 50))
        self.apply(Reschedule(near, FAR))
        hints = self.store.hints(hints.cursor)
        assert hints.due == [Due(NOW + 50, far, "t"), Due(FAR, near, "t")]
        assert self.store.hints(hints.cursor).due == []
        with_listener.close()

    def test_what_comes_back_is_hinted(self) -> None:
        ids = [self.put() for _ in range(3)]
        listener = self.store.listen("w")
        listener.publish(FAR)
        cursor = self.store.hints(-1).cursor
        jobs = self.reserve()
        self.apply(Nack(jobs[0].id, 1, 5))
        self.apply(Release(jobs[1].id, 1))
        self.clock.pass_time(1_000)
        self.apply(Expire(10))
        assert [due.id for due in self.store.hints(cursor).due] == ids
        listener.close()

    def test_a_pause_makes_listeners_read_again(self) -> None:
        self.put()
        listener = self.store.listen("w")
        listener.publish(NOW)
        cursor = self.store.hints(-1).cursor
        self.apply(Pause("t", paused=True))
        assert listener.wait(5)
        assert self.store.hints(cursor).reload
        listener.close()

    def test_a_wake_ends_a_wait_without_a_ring(self) -> None:
        listener = self.store.listen("w")
        listener.wake()
        assert not listener.wait(60)
        listener.close()
        listener.close()

    def test_listeners_have_names_of_their_own(self) -> None:
        listeners = [self.store.listen("w") for _ in range(3)]
        assert len({listener.worker for listener in listeners}) == 3
        for listener in listeners:
            listener.close()

    # ---- life -------------------------------------------------------------------------------------------------------

    def test_a_call_of_many_commands_applies_them_in_order(self) -> None:
        id = self.put()
        outcomes = self.store.apply([Reserve("t", 1, TERMS, "w"), Ack(id, 1), Cancel(id), Retry(id, FAR), Cancel(id)])
        assert outcomes[1:] == [True, False, True, True]

    def test_a_closed_store_says_so(self) -> None:
        self.store.close()
        self.store.close()
        for call in (lambda: self.store.apply([Cancel(1)]), lambda: self.store.get(1), lambda: self.store.counts()):
            try:
                call()
            except StoreError:
                continue
            raise AssertionError("a closed store answered")
