"""Results of handlers."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs.commands import RESULT_MOST, Ack, Cancel, Delete, Import, Nack, Purge, Retry, Rewrite
from ...jobs.job import Attempt, Counts, Imported, Job, Outcome, State
from ...jobs.queries import GetHistories, GetJob, GetStates
from .base import NOW, StoreTests


class ResultTests(StoreTests):
    """Results of handlers, which are kept with the attempt that made a job done."""

    def done(self, result: bytes | None, **more: Any) -> int:
        """Put a job and make it done with a result; return its id."""
        job = self.begun(**more)
        assert self.apply(Ack(job.id, job.claims, result)) is True
        return job.id

    def test_a_result_stands_with_the_attempt_that_made_the_job_done(self) -> None:
        first = self.begun()
        self.apply(Nack(first.id, first.claims, 0, "no"))
        self.pass_time(5)
        again = self.one()
        assert self.apply(Ack(first.id, again.claims, b'{"a":1}')) is True
        assert self.history(first.id) == [
            Attempt(1, 1, NOW, NOW, Outcome.FAILED, "w", "no"),
            Attempt(2, 2, NOW + 5, NOW + 5, Outcome.DONE, "w", None, b'{"a":1}'),
        ]

    def test_a_result_may_be_any_bytes_none_of_them_too(self) -> None:
        for result in (b"", bytes(range(256)), b"x" * RESULT_MOST, None):
            assert self.last(self.done(result)).result == result

    def test_of_many_acks_each_keeps_its_own_result(self) -> None:
        ids = [self.put(key=f"k{n}" if n % 2 else None) for n in range(40)]
        jobs = {job.id: job for job in self.reserve()}
        results = [None if n % 3 == 0 else b"%d" % n for n in range(40)]
        results[4], results[20], results[22] = bytes(range(256)) * 256, b"", b"x" * RESULT_MOST
        acks = [Ack(id, jobs[id].claims, result) for id, result in zip(ids, results, strict=True)]
        assert self.store.apply(acks) == [True] * 40
        assert [self.last(id).result for id in ids] == results
        assert [rows[-1].result for rows in self.ask(GetHistories(ids))] == results
        assert self.counts() == Counts(done=40)

    def test_a_command_sees_the_result_of_an_ack_before_it(self) -> None:
        job = self.begun()
        rewrite = Rewrite(job.id, b"r", b"new", job.claims)
        assert self.store.apply([Ack(job.id, job.claims, b"r"), rewrite]) == [True, True]
        assert self.last(job.id).result == b"new"

    def test_an_ack_that_comes_too_late_leaves_no_result(self) -> None:
        job = self.begun()
        assert self.apply(Ack(job.id, job.claims)) is True
        assert self.apply(Ack(job.id, job.claims, b"late")) is False
        assert self.last(job.id).result is None
        other = self.begun()
        self.pass_time(1_000)
        assert self.apply(Ack(other.id, other.claims, b"late")) is False
        assert self.last(other.id).result is None

    def test_of_two_acks_of_one_claim_the_first_one_counts(self) -> None:
        job = self.begun()
        assert self.store.apply([Ack(job.id, job.claims, b"1"), Ack(job.id, job.claims, b"2")]) == [True, False]
        assert self.last(job.id).result == b"1"

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
        job = self.begun()
        for bad in ("text", b"x" * (RESULT_MOST + 2_000)):
            self.refused(Ack(job.id, job.claims, bad), BadJob)  # type: ignore[arg-type]
        assert self.state(job.id) is State.RUNNING
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

    def test_an_id_that_no_job_has_has_no_job_no_state_and_no_history(self) -> None:
        unknown = (2**63 - 1, 2**63, -(2**70), 10**12, 0, -1, 2**100)
        ids = (*unknown[:3], self.put(), *unknown[3:])
        assert self.ask(GetStates(ids)) == [*[None] * 3, State.DELAYED, *[None] * 4]
        assert self.ask(GetHistories(ids)) == [[]] * 8
        for id in unknown:
            assert (self.ask(GetJob(id)), self.history(id)) == (None, [])

    def test_a_state_is_that_of_a_lease_that_is_over(self) -> None:
        again, spent = self.put(), self.put(max_attempts=1)
        self.reserve()
        assert self.ask(GetStates([again, spent])) == [State.RUNNING, State.RUNNING]
        self.pass_time(1_000)
        assert self.ask(GetStates([again, spent])) == [State.DELAYED, State.DEAD]
