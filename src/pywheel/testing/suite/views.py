"""What can be read, who holds which shard, and who is told what."""

from __future__ import annotations

from ..._errors import StoreError
from ...jobs.commands import Ack, Cancel, Expire, Hold, Leave, Nack, Pause, Put, Release, Reschedule, Reserve, Retry
from ...jobs.job import SHARDS, Attempt, Due, NewJob, Outcome, State
from .base import ALL, FAR, NOW, START, TERMS, StoreTests

__all__ = ["ViewTests"]


class ViewTests(StoreTests):
    """What can be read, who holds which shard, and who is told what."""

    # ---- reading ----------------------------------------------------------------------------------------------------

    def test_history_has_one_row_for_each_attempt(self) -> None:
        id = self.put()
        for number in range(2):
            job = self.one()
            self.pass_time(5)
            self.apply(Nack(id, job.claims, 0, f"error {number}"))
        self.reserve()
        self.pass_time(1_000)
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
        self.pass_time(1_000)
        after = self.apply(Hold("b", 1_000))
        assert set(after) == ALL
        assert all(after[shard] > before[shard] for shard in ALL)
        self.apply(Leave("b"))
        assert all(epoch > after[shard] for shard, epoch in self.apply(Hold("c", 1_000)).items())

    def test_a_worker_that_comes_or_goes_makes_the_others_hold_anew(self) -> None:
        listener = self.store.listen("w")
        listener.publish(0)
        self.apply(Hold("a", 1_000))
        for op, expected in ((Hold("a", 1_000), False), (Hold("b", 1_000), True), (Hold("a", 1_000), True)):
            cursor = self.store.hints(-1).cursor
            self.apply(op)
            assert self.store.hints(cursor).reload is expected
        cursor = self.store.hints(-1).cursor
        self.apply(Leave("a"))
        assert listener.wait(5)
        assert self.store.hints(cursor).reload
        listener.close()

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
        self.pass_time(1_000)
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
