"""Claims, and how they end."""

from __future__ import annotations

import threading
from typing import Any

from ...jobs import commands as c
from ...jobs import queries as q
from ...jobs.job import Counts, Due, NewJob, State
from .base import NOW, TERMS, StoreTests


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
            self.apply(c.Release(job.id, job.claims))
        assert [job.id for job in self.reserve()] == expected

    def test_a_reserved_job_has_begun_and_has_its_lease(self) -> None:
        id = self.put()
        job = self.one(policy=TERMS._replace(slack=30))
        assert (job.id, job.state, job.attempt, job.claims, job.lease_until) == (id, State.RUNNING, 1, 1, NOW + 1_030)
        assert self.ask(q.GetJob(id)) == job

    def test_the_jobs_own_ttr_and_max_attempts_come_first(self) -> None:
        self.put(ttr=50, max_attempts=1)
        job = self.one(policy=TERMS._replace(slack=7))
        assert job.lease_until == NOW + 57
        assert self.apply(c.Nack(job.id, job.claims, 0)) is State.DEAD

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
        while jobs := self.apply(c.Reserve("t", 9, TERMS, "w", bytes=30)):
            got.append([len(job.body) for job in jobs])
            rest = self.ask(q.GetPage(q.Filter("t", State.DELAYED))).jobs
            assert [(job.attempt, job.claims) for job in rest] == [(0, 0)] * len(rest)
        assert sorted(size for some in got for size in some) == sorted(sizes)
        assert all(sum(some) <= 30 or len(some) == 1 for some in got)
        if self.store.keeps_limits:  # one store, which has them in order
            assert got == [[10, 20], [5], [40], [1]]

    def test_a_reserve_takes_a_long_body_alone_unless_told(self) -> None:
        self.put(body=b"x" * 40)
        assert self.apply(c.Reserve("t", 9, TERMS, "w", bytes=30, least=0)) == []
        [job] = self.ask(q.GetPage(q.Filter("t"))).jobs
        assert (job.state, job.attempt, job.claims) == (State.DELAYED, 0, 0)
        assert len(self.apply(c.Reserve("t", 9, TERMS, "w", bytes=0))) == 1

    def test_a_reserve_of_some_bytes_goes_by_priority(self) -> None:
        ids = [self.put(body=b"x" * 20, priority=priority) for priority in (0, -3, 5, 0)]
        order = [ids[2], *sorted((ids[0], ids[3])), ids[1]]
        got = [[job.id for job in self.apply(c.Reserve("t", 9, TERMS, "w", bytes=40))] for _ in range(2)]
        assert got == [order[:2], order[2:]] or not self.store.keeps_limits

    def test_of_many_threads_one_gets_each_job(self) -> None:
        ids = self.apply(c.Put(tuple(NewJob("t", b"", NOW) for _ in range(60))))
        won: list[int] = []

        def reserve() -> None:
            for _ in range(20):
                [jobs] = self.store.apply([c.Reserve("t", 2, TERMS, threading.current_thread().name)])
                won.extend(job.id for job in jobs)

        def claim() -> None:
            for id in ids:
                [claimed] = self.store.apply([c.Claim("t", (id,), TERMS, threading.current_thread().name, 1)])
                won.extend(job.id for job in claimed.jobs)

        self.at_once(*(reserve, claim) * 3)
        assert sorted(won) == ids

    def test_a_claim_takes_what_is_due_and_says_what_is_left(self) -> None:
        good, early, earlier, cancelled = (self.put(due=NOW + after) for after in (0, 2, 1, 0))
        other = self.put("other")
        self.apply(c.Cancel(cancelled))
        ids = (early, good, good, earlier, cancelled, other, 10**12, 0, -1, 2**70)
        left = [Due(NOW + 1, earlier, "t"), Due(NOW + 2, early, "t")]
        claimed = self.claim(*ids, begin=9)
        assert [(job.id, job.attempt) for job in claimed.jobs] == [(good, 1)]
        assert claimed[1:4] == (1, left, False)
        assert self.claim(*ids, begin=9) == c.Claimed([], 0, left, paused=False)
        assert self.apply(c.Claim("nowhere", ids, TERMS, "w", 9)) == c.Claimed([], 0, [], paused=False)
        assert self.claim() == c.Claimed([], 0, [], paused=False)

    # ---- the first that are due -------------------------------------------------------------------------------------

    def first(self, limit: int, begin: int = 99, policy: c.ClaimPolicy = TERMS, **more: Any) -> c.Claimed:
        """Claim the first due jobs of the topic t."""
        return self.apply(c.Claim("t", (), policy, "w", begin, limit=limit, **more))

    def test_a_claim_takes_the_first_that_are_due_and_says_when_the_next_is(self) -> None:
        ids = [self.put(due=NOW - 9 + n) for n in range(4)]
        later = [self.put(due=NOW + n) for n in (50, 20)]
        self.put("other")
        claimed = self.first(3)
        assert ([job.id for job in claimed.jobs], claimed.begun, claimed.left) == (ids[:3], 3, [])
        assert claimed.next is not None
        assert claimed.next <= NOW  # there may be more
        claimed = self.first(3)
        assert ([job.id for job in claimed.jobs], claimed.next) == (ids[3:], NOW + 20)
        assert self.first(3) == c.Claimed([], 0, [], paused=False, next=NOW + 20)
        self.apply(c.Cancel(later[1]))
        assert self.first(1).next == NOW + 50
        self.apply(c.Cancel(later[0]))
        assert self.first(1) == c.Claimed([], 0, [], paused=False)

    def test_a_claim_of_the_first_goes_by_priority(self) -> None:
        ids = [self.put(due=NOW - 9 + n, priority=priority) for n, priority in enumerate((0, -2, 5, 0, 5))]
        self.put(due=NOW + 7, priority=-2)
        self.put(due=NOW + 9, priority=5)
        order = [ids[2], ids[4], ids[0], ids[3], ids[1]]
        got = [self.first(3), self.first(3)]
        assert [[job.id for job in claimed.jobs] for claimed in got] == [order[:3], order[3:]]
        assert got[1].next == NOW + 7

    def test_a_claim_of_the_first_of_a_paused_topic_takes_nothing(self) -> None:
        self.put()
        self.apply(c.Pause("t", paused=True))
        assert self.first(1) == c.Claimed([], 0, [], paused=True)
        assert self.ask(q.GetNextDues(["t"])) == {}

    def test_a_claim_of_the_first_holds_what_does_not_begin(self) -> None:
        ids = [self.put(due=NOW - 9 + n) for n in range(4)]
        claimed = self.first(4, begin=1)
        assert ([job.id for job in claimed.jobs], claimed.begun) == (ids, 1)
        assert [job.attempt for job in claimed.jobs] == [1, 1, 1, 1]
        self.pass_time(TERMS.hold)
        assert self.apply(c.Expire(9)).ended == 3

    def test_a_claim_of_the_first_looks_behind_a_position_and_past_some_jobs(self) -> None:
        ids = [self.put(due=NOW - 5, priority=priority) for priority in (1, 1, 0, 0, 0)]
        claimed = self.first(2, after=(1, NOW - 5, ids[0]), without=(ids[2],))
        assert [job.id for job in claimed.jobs] == [ids[1], ids[3]]
        assert [job.id for job in self.first(9, after=(0, NOW - 6, ids[4])).jobs] == [ids[2], ids[4]]
        assert [job.id for job in self.first(9).jobs] == [ids[0]]

    def test_a_position_without_a_priority_holds_in_each_of_them(self) -> None:
        ids = [self.put(due=NOW - due, priority=priority) for due, priority in ((9, 2), (5, 2), (9, 0), (4, 0))]
        assert [job.id for job in self.first(9, after=(None, NOW - 5, 0)).jobs] == [ids[1], ids[3]]

    def test_a_claim_behind_a_position_tells_of_what_is_due_next_before_it(self) -> None:
        id = self.put(due=NOW - 5)
        self.put(due=NOW + 7, priority=3)
        claimed = self.first(9, after=(0, NOW - 6, 0))
        assert ([job.id for job in claimed.jobs], claimed.next) == ([id], NOW + 7)
        assert self.first(9, after=(0, NOW - 6, 0)).next == NOW + 7

    def test_suspects_hold_up_nobody_who_is_due_behind_them(self) -> None:
        lost = [self.put(due=NOW - 50 + n) for n in range(6)]
        self.reserve(policy=TERMS._replace(ttr=10))
        self.pass_time(10)
        self.apply(c.Expire(9))
        plain = [self.put(due=NOW + 11 + n) for n in range(4)]
        self.pass_time(9)
        claimed = self.first(3, suspects=1)
        taken = [job.id for job in claimed.jobs]
        assert len([id for id in taken if id in lost]) == 1
        assert [id for id in taken if id in plain] == plain[:2]
        assert {due.id for due in claimed.left} <= {*lost}
        assert claimed.left
        assert [job.id for job in self.first(9, suspects=0).jobs] == plain[2:]

    def test_the_first_due_times_of_topics(self) -> None:
        assert self.ask(q.GetNextDues(["t", "u"])) == {}
        self.put(due=NOW + 5)
        self.put(due=NOW + 3, priority=-1)
        self.put("u", due=NOW - 4)
        self.put("v")
        assert self.ask(q.GetNextDues(["u", "t", "w"])) == {"t": NOW + 3, "u": NOW - 4}
        self.reserve(topic="u")
        assert self.ask(q.GetNextDues(["u", "t"])) == {"t": NOW + 3}
        assert self.ask(q.GetNextDues([])) == {}

    def test_the_first_that_are_due_are_told_in_the_order_in_which_they_are_claimed(self) -> None:
        ids = [self.put(due=NOW - 9 + n, priority=n % 3 - 1) for n in range(9)]
        self.put(due=NOW + 1, priority=1)
        self.put("other")
        expected = [job.id for job in self.reserve()]
        for id in expected:
            self.apply(c.Release(id, 1))
        assert sorted(expected) == ids
        assert [due.id for due in self.ask(q.ListFirstDue("t", 99))] == expected
        assert [due.id for due in self.ask(q.ListFirstDue("t", 4))] == expected[:4]
        assert self.ask(q.ListFirstDue("t", 1))[0] == Due(NOW - 7, ids[2], "t", 1)
        assert self.ask(q.ListFirstDue("t", 0)) == self.ask(q.ListFirstDue("nowhere", 9)) == []
        self.apply(c.Pause("t", paused=True))
        assert self.ask(q.ListFirstDue("t", 9)) == []

    def test_the_receipts_of_what_runs_for_a_worker(self) -> None:
        ids = [self.put() for _ in range(3)]
        mine = self.apply(c.Reserve("t", 2, TERMS, "me"))
        self.apply(c.Reserve("t", 2, TERMS, "other"))
        assert sorted(self.ask(q.ListClaims("me"))) == sorted((job.id, job.claims) for job in mine)
        self.apply(c.Ack(ids[0], 1))
        assert len(self.ask(q.ListClaims("me"))) + len(self.ask(q.ListClaims("other"))) == 2
        assert self.ask(q.ListClaims("nobody")) == []

    def test_two_claims_in_one_call_do_not_share_a_job(self) -> None:
        ids = (self.put(), self.put())
        first, second = self.store.apply([c.Claim("t", ids, TERMS, "w", 1), c.Claim("t", ids, TERMS, "w", 1)])
        assert len(first.jobs) == 2
        assert second.jobs == []

    def test_a_claim_of_many_takes_all(self) -> None:
        ids = self.apply(c.Put(tuple(NewJob("t", b"%d" % n, NOW, max_attempts=n + 1) for n in range(400))))
        claimed = self.claim(*reversed(ids), begin=150)
        assert [(job.id, job.body) for job in claimed.jobs] == [(id, b"%d" % n) for n, id in enumerate(ids)]
        assert claimed.begun == 150
        leases = [NOW + 1_000] * 150 + [NOW + 200] * 250
        assert [job.lease_until for job in claimed.jobs] == leases
        assert self.store.apply([c.Ack(job.id, job.claims) for job in claimed.jobs]) == [True] * 400
        assert self.counts() == Counts(done=400)

    def test_jobs_claimed_together_keep_what_is_their_own(self) -> None:
        new = [
            NewJob("t", b"", NOW),
            NewJob("t", bytes(range(256)), NOW, key="k\1\U0001f600", headers={"a": "\1'\\", "b": "[1]"}),
            NewJob("t", b"\0", NOW - 1, ttr=50),
            NewJob("t", b"\xff" * 5_000, NOW, max_attempts=3),
            NewJob("t", b"\0\xff\0", NOW, key="[]"),
        ]
        ids = self.apply(c.Put(tuple(new)))
        first = self.claim(ids[1]).jobs[0]
        self.apply(c.Nack(first.id, first.claims, 0, "no \0 \ud800"))
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
        job = self.begun()
        assert self.apply(c.Ack(job.id, job.claims)) is True
        assert self.apply(c.Ack(job.id, job.claims)) is False
        assert self.state(job.id) is State.DONE
        assert self.counts() == Counts(done=1)

    def test_a_receipt_of_another_claim_is_refused(self) -> None:
        job = self.begun()
        for receipt in ((job.id, 2), (job.id, 0), (job.id + 1, 1), (2**70, 1), (job.id, 2**70), (-1, 1)):
            assert self.apply(c.Ack(*receipt)) is False
            assert self.apply(c.Release(*receipt)) is False
            assert self.apply(c.Touch(*receipt, 9)) is False
            assert self.apply(c.Nack(*receipt, 0)) is None
        assert self.ask(q.GetJob(job.id)) == job

    def test_a_nack_delays_and_the_next_attempt_counts(self) -> None:
        job = self.begun()
        self.pass_time(3)
        assert self.apply(c.Nack(job.id, job.claims, 70, "boom")) is State.DELAYED
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
            states.append(self.apply(c.Nack(job.id, job.claims, 0)))
        assert states == [State.DELAYED, State.DELAYED, State.DEAD]
        assert self.state(id) is State.DEAD
        assert self.reserve() == []

    def test_a_nack_without_delay_makes_it_dead_at_once(self) -> None:
        job = self.begun()
        assert self.apply(c.Nack(job.id, job.claims, None, "no use")) is State.DEAD

    def test_an_error_that_utf8_cannot_hold_is_kept_all_the_same(self) -> None:
        job = self.begun()
        assert self.apply(c.Nack(job.id, job.claims, 0, "no file \udcff\N{SNOWMAN}")) is State.DELAYED
        assert self.job(job.id).last_error == "no file \\udcff\N{SNOWMAN}"

    def test_an_attempt_without_an_error_does_not_show_that_of_the_one_before(self) -> None:
        id = self.put()
        for delay, error in ((0, "boom"), (None, None)):
            job = self.one()
            self.apply(c.Nack(job.id, job.claims, delay, error))
        assert (self.state(id), self.job(id).last_error) == (State.DEAD, "boom")
        assert [row.error for row in self.history(id)] == ["boom", None]
        assert [ended.error for ended in self.ask(q.ListEnded("t", 0, 9))] == [None]
        assert self.apply(c.Retry(id, NOW))
        assert [row.error for row in self.history(id)] == ["boom", None]

    def test_a_release_spends_no_attempt_and_its_receipt_is_void(self) -> None:
        job = self.begun(due=NOW - 3)
        assert self.apply(c.Release(job.id, job.claims)) is True
        back = self.job(job.id)
        assert (back.state, back.due, back.attempt, back.claims, back.lost) == (State.DELAYED, NOW - 3, 0, 1, 0)
        again = self.one()
        assert (again.attempt, again.claims) == (1, 2)
        assert self.apply(c.Ack(job.id, job.claims)) is False
        assert self.apply(c.Ack(again.id, again.claims)) is True

    def test_what_is_given_back_may_be_due_later_by_the_next_command_of_the_same_call(self) -> None:
        job = self.begun(due=NOW - 3)
        move = c.Edit(job.id, delay=500, expect=(job.due, job.claims))
        assert all(self.store.apply([c.Release(job.id, job.claims), move]))
        back = self.job(job.id)
        assert (back.state, back.due, back.attempt) == (State.DELAYED, NOW + 500, 0)
        assert self.reserve() == []
        self.pass_time(500)
        assert self.one().attempt == 1

    def test_a_touch_moves_the_end_of_the_lease(self) -> None:
        job = self.begun()
        self.pass_time(999)
        assert self.apply(c.Touch(job.id, job.claims, 5_000)) is True
        assert self.job(job.id).lease_until == NOW + 5_999
        self.pass_time(4_999)
        assert self.reserve() == []
        assert self.apply(c.Ack(job.id, job.claims)) is True

    # ---- mixed ------------------------------------------------------------------------------------------------------

    def test_a_settlement_of_all_kinds_in_one_call_ends_each_claim_as_by_itself(self) -> None:
        for number in range(35):
            self.put(body=b"%d" % number, max_attempts=1 if number % 7 == 6 else None)
        jobs = sorted(self.reserve(), key=lambda job: int(job.body))
        commands: list[c.Command[Any]] = []
        for place, job in enumerate(jobs):
            kinds: list[c.Command[Any]] = [
                c.Ack(job.id, job.claims),
                c.Nack(job.id, job.claims, 100 + job.id, f"e{job.id}'\u2028"),
                c.Nack(job.id, job.claims, None, "dead"),
                c.Release(job.id, job.claims),
                c.Touch(job.id, job.claims, 5_000 + job.id),
                c.Ack(job.id, job.claims + 1),
                c.Nack(job.id, job.claims, 100, "the last"),
            ]
            commands.append(kinds[place % 7])
        expected = [True, State.DELAYED, State.DEAD, True, True, False, State.DEAD]
        assert self.store.apply(commands) == expected * 5
        for place, job in enumerate(jobs):
            found = self.job(job.id)
            assert (found.state, found.due, found.last_error, found.attempt, found.lease_until) == [
                (State.DONE, NOW, None, 1, None),
                (State.DELAYED, NOW + 100 + job.id, f"e{job.id}'\u2028", 1, None),
                (State.DEAD, NOW, "dead", 1, None),
                (State.DELAYED, NOW, None, 0, None),
                (State.RUNNING, NOW, None, 1, NOW + 5_000 + job.id),
                (State.RUNNING, NOW, None, 1, NOW + 1_000),
                (State.DEAD, NOW, "the last", 1, None),
            ][place % 7]
        assert self.counts() == Counts(delayed=10, running=10, done=5, dead=10)

    def test_of_two_commands_of_one_call_for_a_claim_the_second_finds_what_the_first_left(self) -> None:
        a, b, d, e, f, g, h, i = (self.put(due=NOW - 9 + n) for n in range(8))
        assert len(self.reserve()) == 8
        done, delayed, dead, running = State.DONE, State.DELAYED, State.DEAD, State.RUNNING
        pairs: list[tuple[c.Command[Any], c.Command[Any], list[Any], State]] = [
            (c.Ack(a, 1), c.Ack(a, 1), [True, False], done),
            (c.Touch(b, 1, 5_000), c.Ack(b, 1), [True, True], done),
            (c.Release(d, 1), c.Ack(d, 1), [True, False], delayed),
            (c.Nack(e, 1, 50), c.Nack(e, 1, None), [delayed, None], delayed),
            (c.Ack(f, 2), c.Ack(f, 1), [False, True], done),
            (c.Nack(g, 1, None), c.Touch(g, 1, 9), [dead, False], dead),
            (c.Touch(h, 1, 60), c.Touch(h, 1, 70), [True, True], running),
            (c.Nack(i, 1, 5), c.Release(i, 1), [delayed, False], delayed),
        ]
        outcomes = self.store.apply([command for one, other, *_ in pairs for command in (one, other)])
        assert outcomes == [outcome for *_, both, _ in pairs for outcome in both]
        ids = (a, b, d, e, f, g, h, i)
        assert [self.state(id) for id in ids] == [state for *_, state in pairs]
        assert (self.job(e).due, self.job(h).lease_until) == (NOW + 50, NOW + 70)
        assert [len(self.history(id)) for id in ids] == [1] * 8

    def test_a_claim_finds_what_the_settlement_before_it_in_the_same_call_left(self) -> None:
        for _ in range(2):
            self.put()
        a, b = self.reserve()
        claim = c.Claim("t", (a.id, b.id), TERMS, "w", 2)
        settlement: list[c.Command[Any]] = [c.Ack(a.id, 1, b"1"), c.Touch(b.id, 1, 5_000), c.Release(b.id, 1), claim]
        *outcomes, claimed = self.store.apply(settlement)
        assert outcomes == [True, True, True]
        assert [(job.id, job.claims) for job in claimed.jobs] == [(b.id, 2)]
