"""Schedules: each tick is put once, and ticks run one at a time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...client.queue import JobQueue
from ...jobs.commands import Ack, Reserve
from ...jobs.job import Job, State
from ...jobs.schedule import TICK
from ...stores.schedule_notes import PLAN, ScheduleNotes
from ..due import run_due
from .base import NOW, TERMS, StoreTests


class ScheduleTests(StoreTests):
    """Ticks of schedules: each is put once, however often it is planned, and ticks of one schedule give way."""

    def test_a_tick_is_put_once_however_often_it_is_planned(self) -> None:
        queue, ran = self._working()
        queue.schedules.set("s", "work", b"x", every="10s")
        queue.schedules.set("other", "work", every="1d")
        for _ in range(3):
            queue.reschedule(PLAN, 0)
            run_due(queue)
        for _ in range(4):
            self.pass_time(10_000)
            run_due(queue)
        assert ran == ["22:13:30", "22:13:40", "22:13:50", "22:14:00"]
        schedule = queue.schedules.get("s")
        assert (schedule.last, schedule.next, schedule.outcome) == (NOW + 40_000, NOW + 50_000, "done")

    def test_what_changes_takes_effect_at_once_and_leaves_nothing_of_what_was(self) -> None:
        queue, ran = self._working()
        queue.schedules.set("s", "work", every="10s")
        run_due(queue)
        queue.schedules.set("s", "work", every="15s")
        run_due(queue)
        self.pass_time(11_000)
        run_due(queue)
        assert ran == ["22:13:30"]  # a multiple of both; 15 s have none before
        assert queue.schedules.pause("s")
        self.pass_time(20_000)
        run_due(queue)
        assert queue.schedules.resume("s")
        self.pass_time(15_000)
        run_due(queue)
        self.pass_time(15_000)
        assert queue.schedules.delete("s")
        run_due(queue)
        assert ran == ["22:13:30", "22:14:00"]

    def test_no_change_is_lost_of_several_who_change_one_schedule_at_once(self) -> None:
        JobQueue(self.store).schedules.set("s", "work", b"0", every="1h")

        def add() -> None:
            notes = ScheduleNotes(self.store)
            for _ in range(10):
                notes.change("s", lambda before: before and replace(before, body=b"%d" % (int(before.body) + 1)))

        self.at_once(*[add] * 4)
        found = ScheduleNotes(self.store).get("s")
        assert found is not None
        assert found.body == b"40"

    def test_what_came_before_a_change_is_neither_lost_nor_repeated(self) -> None:
        queue, ran = self._working()
        queue.schedules.set("s", "work", every="10s", overlap="overlap")
        run_due(queue)
        self.pass_time(10_000)
        run_due(queue)
        self.pass_time(11_000)  # one tick is due and has not begun
        queue.schedules.set("s", "work", every="15s", overlap="overlap")
        self.pass_time(400_000)  # the time of all ticks that were put ahead is over
        queue.schedules.set("s", "work", every="1m", catch_up="all", overlap="overlap")
        run_due(queue)
        self.pass_time(40_000)
        run_due(queue)
        fifteens = [f"22:{s // 60:02}:{s % 60:02}" for s in range(13 * 60 + 45, 20 * 60 + 16, 15)]
        assert sorted(ran) == ["22:13:30", "22:13:40", *fifteens, "22:21:00"]

    def test_a_tick_gives_way_to_one_that_runs(self) -> None:
        queue, ran = self._working()
        for overlap in ("skip", "queue", "overlap"):
            queue.schedules.set(overlap, "work", every="10s", overlap=overlap)
        run_due(queue)
        self.pass_time(10_000)
        running: list[Job] = queue.calls.apply(Reserve("work", 3, TERMS._replace(ttr=60_000), "w"))
        assert len(running) == 3
        self.pass_time(10_000)
        run_due(queue)
        assert ran == ["22:13:40"]
        assert queue.get(("work", "skip@2023-11-14T22:13:40Z")).state is State.CANCELLED
        for job in running:
            queue.calls.apply(Ack(job.id, job.claims))
        self.pass_time(2_000)
        run_due(queue)
        assert ran == ["22:13:40", "22:13:40"]

    def _working(self) -> tuple[JobQueue, list[str]]:
        queue = JobQueue(self.store)
        ran: list[str] = []

        @queue.handler("work")
        def work(job: Any) -> None:
            ran.append(job.headers[TICK][11:19])

        return queue, ran
