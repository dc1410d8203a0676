"""Claims, and how they end."""

from __future__ import annotations

import threading

from ...jobs.commands import Ack, Cancel, Claim, Claimed, Nack, Put, Release, Reschedule, Reserve, Retry, Terms, Touch
from ...jobs.job import Counts, Due, NewJob, State
from ...stores.contract import Filter
from .base import NOW, TERMS, StoreTests

__all__ = ["ClaimTests"]


class ClaimTests(StoreTests):
    """Claims, and how they end."""

    # ---- claims -----------------------------------------------------------------------------------------------------

    def test_nothing_is_delivered_early(self) -> None:
        self.put(due=NOW + 1)
        assert self.reserve() == []
        self.pass_time(1)
        assert len(self.reserve()) == 1

    def test_jobs_come_by_due_time_then_by_id(self) -> None:
        dues = [NOW - 1, NOW - 5, NOW, NOW - 5, NOW - 9]
        ids = [self.put(due=due) for due in dues]
        expected = [ids[4], ids[1], ids[3], ids[0], ids[2]]
        claimed = self.claim(*ids, begin=2)
        assert [job.id for job in claimed.jobs] == expected
        for job in claimed.jobs:
            self.apply(Release(job.id, job.claims))
        assert [job.id for job in self.reserve()] == expected

    def test_a_reserved_job_has_begun_and_has_its_lease(self) -> None:
        id = self.put()
        job = self.one(terms=TERMS._replace(slack=30))
        assert (job.id, job.state, job.attempt, job.claims, job.lease_until) == (id, State.RUNNING, 1, 1, NOW + 1_030)
        assert self.store.get(id) == job

    def test_the_jobs_own_ttr_and_max_attempts_come_first(self) -> None:
        self.put(ttr=50, max_attempts=1)
        job = self.one(terms=TERMS._replace(slack=7))
        assert job.lease_until == NOW + 57
        assert self.apply(Nack(job.id, job.claims, 0)) is State.DEAD

    def test_a_claimed_job_is_not_claimed_again(self) -> None:
        id = self.put()
        assert len(self.reserve()) == 1
        assert self.reserve() == []
        assert self.claim(id, begin=1) == Claimed([], 0, [], paused=False)

    def test_a_reserve_takes_no_more_than_asked(self) -> None:
        for _ in range(5):
            self.put()
        assert [len(self.reserve(limit=2)) for _ in range(4)] == [2, 2, 1, 0]
        assert self.reserve(limit=0) == []

    def test_a_reserve_takes_no_more_bytes_than_asked(self) -> None:
        sizes = (10, 20, 5, 40, 1)
        for number, size in enumerate(sizes):
            self.put(body=b"x" * size, due=NOW - 10 + number)
        got: list[list[int]] = []
        while jobs := self.apply(Reserve("t", 9, TERMS, "w", bytes=30)):
            got.append([len(job.body) for job in jobs])
            rest = self.store.page(Filter("t", State.DELAYED)).jobs
            assert [(job.attempt, job.claims) for job in rest] == [(0, 0)] * len(rest)
        assert sorted(size for some in got for size in some) == sorted(sizes)
        assert all(sum(some) <= 30 or len(some) == 1 for some in got)
        if self.store.keeps_limits:  # one store, which has them in order
            assert got == [[10, 20], [5], [40], [1]]

    def test_a_reserve_takes_a_long_body_alone_unless_told(self) -> None:
        self.put(body=b"x" * 40)
        assert self.apply(Reserve("t", 9, TERMS, "w", bytes=30, least=0)) == []
        [job] = self.store.page(Filter("t")).jobs
        assert (job.state, job.attempt, job.claims) == (State.DELAYED, 0, 0)
        assert len(self.apply(Reserve("t", 9, TERMS, "w", bytes=0))) == 1

    def test_a_reserve_of_some_bytes_goes_by_priority(self) -> None:
        ids = [self.put(body=b"x" * 20, priority=priority) for priority in (0, -3, 5, 0)]
        order = [ids[2], *sorted((ids[0], ids[3])), ids[1]]
        got = [[job.id for job in self.apply(Reserve("t", 9, TERMS, "w", bytes=40))] for _ in range(2)]
        assert got == [order[:2], order[2:]] or not self.store.keeps_limits

    def test_topics_do_not_mix(self) -> None:
        self.put("a")
        assert self.reserve(topic="b") == []

    def test_of_many_threads_one_gets_each_job(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(60))))
        won: list[int] = []
        barrier = threading.Barrier(6)

        def reserve() -> None:
            barrier.wait()
            for _ in range(20):
                [jobs] = self.store.apply([Reserve("t", 2, TERMS, threading.current_thread().name)])
                won.extend(job.id for job in jobs)

        def claim() -> None:
            barrier.wait()
            for id in ids:
                [claimed] = self.store.apply([Claim("t", (id,), TERMS, threading.current_thread().name, 1)])
                won.extend(job.id for job in claimed.jobs)

        threads = [threading.Thread(target=target) for target in (reserve, claim) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == ids

    def test_a_claim_takes_what_is_due_and_says_what_is_left(self) -> None:
        good, early, earlier, cancelled, other = (
            self.put(),
            self.put(due=NOW + 2),
            self.put(due=NOW + 1),
            self.put(),
            self.put("other"),
        )
        self.apply(Cancel(cancelled))
        ids = (early, good, good, earlier, cancelled, other, 10**12, 0, -1, 2**70)
        left = [Due(NOW + 1, earlier, "t"), Due(NOW + 2, early, "t")]
        claimed = self.claim(*ids, begin=9)
        assert [(job.id, job.attempt) for job in claimed.jobs] == [(good, 1)]
        assert claimed[1:4] == (1, left, False)
        assert self.claim(*ids, begin=9) == Claimed([], 0, left, paused=False)
        assert self.apply(Claim("nowhere", ids, TERMS, "w", 9)) == Claimed([], 0, [], paused=False)
        assert self.claim() == Claimed([], 0, [], paused=False)

    def test_large_bodies_come_whole(self) -> None:
        bodies = [b"a" * 200_000, b"b", b"c" * 100_000]
        ids = [self.put(body=body) for body in bodies]
        assert [job.body for job in self.claim(*ids[:2], begin=1).jobs] == bodies[:2]
        assert [job.body for job in self.reserve()] == bodies[2:]

    def test_two_claims_in_one_call_do_not_share_a_job(self) -> None:
        ids = (self.put(), self.put())
        first, second = self.store.apply([Claim("t", ids, TERMS, "w", 1), Claim("t", ids, TERMS, "w", 1)])
        assert len(first.jobs) == 2
        assert second.jobs == []

    def test_a_claim_of_many_takes_all(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"%d" % n, NOW, max_attempts=n + 1) for n in range(400))))
        claimed = self.claim(*reversed(ids), begin=150)
        assert [(job.id, job.body) for job in claimed.jobs] == [(id, b"%d" % n) for n, id in enumerate(ids)]
        assert claimed.begun == 150
        leases = [NOW + 1_000] * 150 + [NOW + 200] * 250
        assert [job.lease_until for job in claimed.jobs] == leases
        assert self.store.apply([Ack(job.id, job.claims) for job in claimed.jobs]) == [True] * 400
        assert self.counts() == Counts(done=400)

    def test_jobs_claimed_together_keep_what_is_their_own(self) -> None:
        new = [
            NewJob("t", b"", NOW),
            NewJob("t", bytes(range(256)), NOW, key="k\0\U0001f600", headers={"a": "\0'\\", "b": "[1]"}),
            NewJob("t", b"\0", NOW - 1, ttr=50),
            NewJob("t", b"\xff" * 5_000, NOW, max_attempts=3),
            NewJob("t", b"\0\xff\0", NOW, key="[]"),
        ]
        ids = self.apply(Put(tuple(new)))
        first = self.claim(ids[1]).jobs[0]
        self.apply(Nack(first.id, first.claims, 0, "no \0 \ud800"))
        stored = {id: self.job(id) for id in ids}
        groups = self.together(ids)
        # An equal share of the bytes is less than the longest body.
        claimed = [job for some in groups for job in self.claim(*some, begin=9, bytes=5_400).jobs]
        in_order = (ids[2], *sorted((ids[0], ids[1], ids[3], ids[4])))
        assert [job.id for job in claimed] == [id for some in groups for id in in_order if id in some]
        for job in claimed:
            assert job == self.job(job.id)
            assert job._replace(state=State.DELAYED, claims=0, attempt=0, lease_until=None) == stored[job.id]._replace(
                claims=0, attempt=0
            )

    # ---- settling ---------------------------------------------------------------------------------------------------

    def test_an_ack_makes_it_done_once(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Ack(job.id, job.claims)) is True
        assert self.apply(Ack(job.id, job.claims)) is False
        assert self.state(job.id) is State.DONE
        assert self.counts() == Counts(done=1)

    def test_the_same_ack_twice_in_one_call_counts_once(self) -> None:
        self.put()
        job = self.one()
        assert self.store.apply([Ack(job.id, job.claims)] * 2) == [True, False]

    def test_of_an_ack_and_a_nack_in_one_call_the_first_counts(self) -> None:
        self.put()
        job = self.one()
        assert self.store.apply([Nack(job.id, 1, 5), Ack(job.id, 1), Release(job.id, 1)]) == [
            State.DELAYED,
            False,
            False,
        ]

    def test_a_receipt_of_another_claim_is_refused(self) -> None:
        self.put()
        job = self.one()
        for receipt in ((job.id, 2), (job.id, 0), (job.id + 1, 1), (2**70, 1), (job.id, 2**70), (-1, 1)):
            assert self.apply(Ack(*receipt)) is False
            assert self.apply(Release(*receipt)) is False
            assert self.apply(Touch(*receipt, 9)) is False
            assert self.apply(Nack(*receipt, 0)) is None
        assert self.store.get(job.id) == job

    def test_a_nack_delays_and_the_next_attempt_counts(self) -> None:
        self.put()
        job = self.one()
        self.pass_time(3)
        assert self.apply(Nack(job.id, job.claims, 70, "boom")) is State.DELAYED
        again = self.job(job.id)
        assert (again.state, again.due, again.attempt, again.last_error) == (State.DELAYED, NOW + 73, 1, "boom")
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
        assert self.state(id) is State.DEAD
        assert self.reserve() == []

    def test_a_nack_without_delay_makes_it_dead_at_once(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Nack(job.id, job.claims, None, "no use")) is State.DEAD

    def test_an_error_that_utf8_cannot_hold_is_kept_all_the_same(self) -> None:
        self.put()
        job = self.one()
        assert self.apply(Nack(job.id, job.claims, 0, "no file \udcff\N{SNOWMAN}")) is State.DELAYED
        assert self.job(job.id).last_error == "no file \\udcff\N{SNOWMAN}"

    def test_an_attempt_without_an_error_does_not_show_that_of_the_one_before(self) -> None:
        id = self.put()
        for delay, error in ((0, "boom"), (None, None)):
            job = self.one()
            self.apply(Nack(job.id, job.claims, delay, error))
        assert (self.state(id), self.job(id).last_error) == (State.DEAD, "boom")
        assert [row.error for row in self.store.history(id)] == ["boom", None]
        assert [ended.error for ended in self.store.recent("t", 0, 9)] == [None]
        assert self.apply(Retry(id, NOW)) is True
        assert [row.error for row in self.store.history(id)] == ["boom", None]

    def test_many_nacks_in_one_call_end_as_one_by_one(self) -> None:
        ids = [self.put(max_attempts=1 + n % 2) for n in range(30)]
        jobs = self.reserve()
        commands = [Nack(job.id, job.claims, None if n % 3 == 0 else n, f"e{n}") for n, job in enumerate(jobs)]
        states = self.store.apply(commands)
        assert states == [State.DEAD if n % 3 == 0 or n % 2 == 0 else State.DELAYED for n in range(30)]
        assert [self.state(id) for id in ids] == states
        assert [self.job(id).last_error for id in ids] == [f"e{n}" for n in range(30)]
        assert self.counts() == Counts(delayed=states.count(State.DELAYED), dead=states.count(State.DEAD))

    def test_a_release_spends_no_attempt_and_its_receipt_is_void(self) -> None:
        self.put(due=NOW - 3)
        job = self.one()
        assert self.apply(Release(job.id, job.claims)) is True
        back = self.job(job.id)
        assert (back.state, back.due, back.attempt, back.claims, back.lost) == (State.DELAYED, NOW - 3, 0, 1, 0)
        again = self.one()
        assert (again.attempt, again.claims) == (1, 2)
        assert self.apply(Ack(job.id, job.claims)) is False
        assert self.apply(Ack(again.id, again.claims)) is True

    def test_many_releases_in_one_call_give_all_back(self) -> None:
        ids = [self.put(due=NOW - n) for n in range(30)]
        jobs = self.reserve()
        assert self.store.apply([Release(job.id, job.claims) for job in jobs]) == [True] * 30
        assert [(due.id, due.due) for due in self.window()] == [(ids[n], NOW - n) for n in reversed(range(30))]

    def test_what_is_given_back_may_be_due_later_by_the_next_command_of_the_same_call(self) -> None:
        self.put(due=NOW - 3)
        job = self.one()
        move = Reschedule(job.id, delay=500, expect=(job.due, job.claims))
        assert self.store.apply([Release(job.id, job.claims), move]) == [True, True]
        back = self.job(job.id)
        assert (back.state, back.due, back.attempt) == (State.DELAYED, NOW + 500, 0)
        assert self.reserve() == []
        self.pass_time(500)
        assert self.one().attempt == 1

    def test_a_touch_moves_the_end_of_the_lease(self) -> None:
        self.put()
        job = self.one()
        self.pass_time(999)
        assert self.apply(Touch(job.id, job.claims, 5_000)) is True
        assert self.job(job.id).lease_until == NOW + 5_999
        self.pass_time(4_999)
        assert self.reserve() == []
        assert self.apply(Ack(job.id, job.claims)) is True

    def test_many_touches_in_one_call_move_all_and_the_last_of_one_counts(self) -> None:
        for _ in range(20):
            self.put()
        jobs = self.reserve()
        touches = [Touch(job.id, job.claims, ttr) for ttr in (50, 70) for job in jobs]
        assert self.store.apply([*touches, Touch(jobs[0].id, 2, 9)]) == [True] * 40 + [False]
        assert {self.job(job.id).lease_until for job in jobs} == {NOW + 70}

    def test_terms_without_backoff_are_due_at_the_leases_end(self) -> None:
        self.put()
        job = self.one(terms=Terms(1_000, 3))
        self.pass_time(1_000)
        assert self.job(job.id).due == NOW + 1_000
