"""The presence of workers, their wakes and hints, and when a paused topic is quiet."""

from __future__ import annotations

import threading

from ...jobs.commands import Announce, Cancel, Edit, Expire, Nack, Pause, Release, Retry
from ...jobs.job import SHARDS, SLICE, Due, slice_of
from ...jobs.queries import ListWorkers
from ...stores.ownership import owners
from .base import FAR, NOW, StoreTests


class WorkerTests(StoreTests):
    """The presence of workers, their wakes and hints, and when a paused topic is quiet."""

    # ---- presence ---------------------------------------------------------------------------------------------------

    def test_workers_have_ids_of_their_own_that_begin_with_their_name(self) -> None:
        notifiers = [self.notifier(name="w") for _ in range(3)]
        assert len({notifier.worker for notifier in notifiers}) == 3
        assert all(notifier.worker.startswith("w") for notifier in notifiers)

    def test_members_are_those_that_have_announced_topics(self) -> None:
        first, second, mute = self.notifier("a", "b"), self.notifier("b"), self.notifier()
        found = {member.worker: member.topics for member in mute.members()}
        assert found == {first.worker: frozenset("ab"), second.worker: frozenset("b")}
        assert [member.worker for member in first.members()] == sorted(found)
        self.apply(Announce(first.worker, ("c",)))
        self.apply(Announce(second.worker, ()))
        assert [(member.worker, member.topics) for member in second.members()] == [(first.worker, frozenset("c"))]

    def test_a_store_says_who_works_on_it_to_one_who_does_not(self) -> None:
        assert self.ask(ListWorkers()) == []
        first, second, mute = self.notifier("a", "b"), self.notifier("b"), self.notifier()
        first.beat(NOW - 7)
        second.beat(0)
        found = self.ask(ListWorkers())
        assert [one._replace(silent=0) for one in found] == [one._replace(silent=0) for one in mute.members()]
        assert {one.worker: one.behind for one in found} == {first.worker: NOW - 7, second.worker: 0}
        first.close()
        assert [one.worker for one in self.ask(ListWorkers())] == [second.worker]

    def test_who_closes_is_gone(self) -> None:
        first, second = self.notifier("t"), self.notifier("t")
        second.wait(0)
        first.close()
        first.close()
        assert second.wait(5)
        assert [member.worker for member in second.members()] == [second.worker]

    def test_an_announcement_wakes_the_others(self) -> None:
        first = self.notifier("t")
        first.wait(0)
        self.notifier("u")
        assert first.wait(5)

    def test_a_beat_tells_the_others_whether_one_is_behind(self) -> None:
        first, second = self.notifier("t"), self.notifier("t")
        first.beat(NOW - 7)
        second.beat(0)
        assert {member.worker: member.behind for member in first.members()} == {first.worker: NOW - 7, second.worker: 0}
        assert all(member.silent < 5 for member in first.members())

    # ---- waking -----------------------------------------------------------------------------------------------------

    def test_a_wake_ends_a_wait_without_a_ring(self) -> None:
        notifier = self.notifier()
        notifier.wake()
        assert not notifier.wait(60)

    def test_one_worker_may_ring_another(self) -> None:
        first, second = self.notifier("t"), self.notifier("t")
        first.wait(0)
        second.ring(first.worker)
        assert first.wait(60)
        second.ring("nobody")

    # ---- hints ------------------------------------------------------------------------------------------------------

    def test_changes_within_a_horizon_are_hinted_and_ring(self) -> None:
        notifier = self.notifier("t", horizon=NOW + 100)
        notifier.hints()
        near, far = self.put(due=NOW + 100), self.put(due=NOW + 101)
        assert notifier.wait(5)
        assert notifier.hints() == ([Due(NOW + 100, near, "t")], False)
        self.apply(Edit(far, NOW + 50))
        assert notifier.hints() == ([Due(NOW + 50, far, "t")], False)
        assert notifier.hints() == ([], False)
        assert near != far

    def test_a_job_that_is_moved_is_told_to_the_owner_of_its_new_time(self) -> None:
        workers = [self.notifier("t", horizon=FAR) for _ in range(2)]
        for notifier in workers:
            notifier.beat(0)
            notifier.hints()
        table = owners("t", [notifier.worker for notifier in workers])
        dues = [NOW + n * SLICE for n in range(2 * SHARDS)]
        first, then = ([due for due in dues if table[slice_of(due)] == one.worker] for one in workers)
        for old, new in ((first[0], then[-1]), (first[-1], then[0])):
            id = self.put(due=old)
            workers[0].hints()
            self.apply(Edit(id, new))
            assert Due(new, id, "t") in workers[1].hints().due
            self.put(key="k", due=old)
            self.put(key="k", due=new, replace=True)
            assert self.job(id).due == new
            assert [due.due for due in workers[1].hints().due] == [new]
            self.apply(Cancel(("t", "k")))

    def test_nothing_is_hinted_before_a_horizon_is_published(self) -> None:
        notifier = self.notifier("t")
        notifier.hints()
        self.put()
        assert notifier.hints() == ([], False)

    def test_what_comes_back_is_hinted(self) -> None:
        ids = [self.put() for _ in range(4)]
        notifier = self.notifier("t", horizon=FAR)
        jobs = self.reserve()
        notifier.hints()
        self.apply(Nack(jobs[0].id, 1, 5))
        self.apply(Nack(jobs[1].id, 1, None))
        self.apply(Release(jobs[2].id, 1))
        self.apply(Retry(jobs[1].id, NOW + 5))
        self.pass_time(1_000)
        self.apply(Expire(10))
        hints = notifier.hints()
        assert {due.id for due in hints.due} == set(ids)
        assert not hints.reload

    def test_what_was_deferred_or_taken_meanwhile_is_not_hinted_as_it_was(self) -> None:
        notifier = self.notifier("t", horizon=FAR)
        notifier.hints()
        gone, moved = self.put(), self.put(due=FAR)
        self.reserve()
        self.apply(Edit(moved, FAR - 1))
        assert set(notifier.hints().due) == {Due(FAR - 1, moved, "t")}
        assert gone != moved

    def test_each_worker_hears_of_what_is_due_in_the_slices_that_it_owns(self) -> None:
        workers = [self.notifier("t", horizon=FAR) for _ in range(2)]
        other = self.notifier("u", horizon=FAR)
        for notifier in self.notifiers:
            notifier.beat(0)
            notifier.hints()
        dues = {self.put(due=NOW + n * SLICE): NOW + n * SLICE for n in range(2 * SHARDS)}
        table = owners("t", [notifier.worker for notifier in workers])
        for notifier in workers:
            mine = [id for id, due in dues.items() if table[slice_of(due)] == notifier.worker]
            assert [due.id for due in notifier.hints().due] == mine
        assert other.hints().due == []

    def test_who_is_silent_owns_nothing_and_reads_all_again_when_it_goes_on(self) -> None:
        first, second = self.notifier("t", horizon=FAR), self.notifier("t", horizon=FAR)
        self.pass_time(round(1_000 * first.silent) + 500)
        second.beat(0)
        assert second.hints().reload
        ids = [self.put() for _ in range(64)]
        assert [due.id for due in second.hints().due] == ids
        assert [member.silent > first.silent for member in second.members()] == [
            member.worker == first.worker for member in second.members()
        ]
        first.hints()
        while first.wait(0):
            first.hints()
        first.beat(0)
        assert first.wait(0)
        assert first.hints().reload

    def test_who_died_before_the_wall_clock_was_set_back_owns_nothing(self) -> None:
        first, second = self.notifier("t", horizon=FAR), self.notifier("t", horizon=FAR)
        first.beat(0)
        self.clock.step(-3_600)
        self.pass_time(round(1_000 * first.silent) + 500)
        second.beat(0)
        second.hints()
        ids = [self.put() for _ in range(64)]
        assert [due.id for due in second.hints().due] == ids

    def test_a_beat_says_when_the_first_job_of_topics_is_due_whosoever_it_is_or_nothing(self) -> None:
        notifier, _ = self.notifier("t", "u"), self.notifier("t")
        for due in range(NOW + 9_000, NOW + 9_064):
            self.put(due=due)
        found = []
        for topics in ((), ("u", "never put"), ("t", "u")):
            self.pass_time(2_000)
            found.append(notifier.beat(0, lambda topics=topics: topics))  # type: ignore[misc]
        self.apply(Pause("t", paused=True))
        self.pass_time(2_000)
        found.append(notifier.beat(0, lambda: ("t", "u")))
        assert found in ([None, None, NOW + 9_000, None], [None] * 4)

    def test_a_pause_and_a_resumption_make_workers_read_again(self) -> None:
        self.put()
        notifier = self.notifier("t", horizon=NOW)
        for paused in (True, False):
            notifier.wait(0)
            notifier.hints()
            self.apply(Pause("t", paused))
            assert notifier.wait(5)
            assert notifier.hints().reload
            assert not notifier.hints().reload
            self.apply(Pause("t", paused))
            assert not notifier.hints().reload

    # ---- quiet ------------------------------------------------------------------------------------------------------

    def test_a_paused_topic_is_quiet_once_all_its_workers_say_so(self) -> None:
        first, second, other = self.notifier("t"), self.notifier("t", "u"), self.notifier("u")
        for notifier in self.notifiers:
            notifier.beat(0)
        self.apply(Pause("t", paused=True))
        assert not self.store.quiet("t", 0)
        for notifier in (first, second):
            assert not self.store.quiet("t", 0.01)
            notifier.beat(0)
            assert notifier.hints().reload
            notifier.quiet()
        assert self.store.quiet("t", 0)
        assert other.hints().reload

    def test_what_was_said_before_a_pause_does_not_count(self) -> None:
        notifier = self.notifier("t")
        notifier.beat(0)
        notifier.hints()
        self.apply(Pause("t", paused=True))
        notifier.quiet()
        assert not self.store.quiet("t", 0)

    def test_a_topic_without_workers_is_quiet_at_once(self) -> None:
        self.apply(Pause("t", paused=True))
        assert self.store.quiet("t", 0)

    def test_who_waits_for_quiet_is_told_as_soon_as_it_is(self) -> None:
        notifier = self.notifier("t")
        notifier.beat(0)
        self.apply(Pause("t", paused=True))
        results: list[bool] = []
        thread = threading.Thread(target=lambda: results.append(self.store.quiet("t", 60)))
        thread.start()
        notifier.hints()
        notifier.quiet()
        thread.join(30)
        assert results == [True]
