"""Queries: jobs, lists and numbers; and the jobs that are due next, or have just ended."""

from __future__ import annotations

from functools import partial
from typing import Any

from ..._errors import BadJob, StoreClosed
from ...jobs import queries as q
from ...jobs.commands import Ack, Begin, Cancel, Delete, Edit, Expire, Nack, Pause, Put, Release, Reserve, Retry
from ...jobs.job import Attempt, Counts, Job, NewJob, Outcome, State, Topic
from .base import FAR, NOW, TERMS, StoreTests

BEYOND = (2**63 - 1, 2**63, 2**100)


class ViewTests(StoreTests):
    """Queries of jobs, lists and numbers."""

    # ---- one job ----------------------------------------------------------------------------------------------------

    def test_history_has_one_row_for_each_attempt(self) -> None:
        id = self.put()
        for number in range(2):
            job = self.one()
            self.pass_time(5)
            self.apply(Nack(id, job.claims, 0, f"error {number}"))
        self.reserve()
        self.pass_time(1_000)
        assert self.history(id) == [
            Attempt(1, 1, NOW, NOW + 5, Outcome.FAILED, "w", "error 0"),
            Attempt(2, 2, NOW + 5, NOW + 10, Outcome.FAILED, "w", "error 1"),
            Attempt(3, 3, NOW + 10, NOW + 1_010, Outcome.LOST, "w", None),
        ]

    def test_history_shows_the_attempt_under_way_and_a_cancellation(self) -> None:
        job = self.begun()
        assert self.history(job.id) == [Attempt(1, 1, NOW, None, None, "w", None)]
        self.apply(Release(job.id, job.claims))
        self.apply(Cancel(job.id))
        outcomes = [attempt.outcome for attempt in self.history(job.id)]
        assert outcomes == [Outcome.RELEASED, Outcome.CANCELLED]

    # ---- lists ------------------------------------------------------------------------------------------------------

    def test_lists_go_by_id_in_pages(self) -> None:
        ids = [self.put(topic) for topic in ("a", "b", "a", "b", "a")]
        assert self.listed(limit=2) == ids[:2]
        assert self.listed(after=ids[1]) == ids[2:]
        assert self.listed(after=ids[0], topic="a", state=State.DELAYED) == [ids[2], ids[4]]
        assert self.listed(topic="a", state=State.DONE) == []
        assert self.listed(topic="nowhere") == []
        assert self.listed(topic="a", limit=1, after=ids[0]) == [ids[2]]
        assert self.listed(limit=0) == []

    def test_lists_page_through_every_state_of_many_topics(self) -> None:
        ids = self.apply(Put(tuple(NewJob(f"t{n % 7}", b"", FAR) for n in range(100))))
        for id in ids[::2]:
            self.apply(Cancel(id))
        for state, expected in ((State.CANCELLED, ids[::2]), (State.DELAYED, ids[1::2]), (None, ids)):
            found: list[int] = []
            while page := self.listed(after=found[-1] if found else 0, limit=9, state=state):
                found += page
            assert found == sorted(expected)

    def test_ids_and_limits_out_of_range_clamp(self) -> None:
        id = self.put()
        for huge in BEYOND:
            assert self.listed(after=huge) == []
            assert self.listed(after=-huge, limit=huge) == [id]
            assert self.listed(topic="t", state=State.DELAYED, after=-huge, limit=huge) == [id]
            assert self.listed(due_from=-huge, due_until=huge) == [id]
            assert self.listed(due_from=huge) == []
        assert self.listed(limit=-1) == []

    # ---- numbers ----------------------------------------------------------------------------------------------------

    def test_counts_know_every_state_of_every_topic(self) -> None:
        assert self.ask(q.CountJobs()) == {}
        ids = {state: self.put() for state in State}
        self.reserve()
        self.store.apply([Nack(ids[State.DELAYED], 1, 10), Ack(ids[State.DONE], 1), Nack(ids[State.DEAD], 1, None)])
        self.store.apply([Release(ids[State.CANCELLED], 1), Cancel(ids[State.CANCELLED])])
        self.put("other")
        self.apply(Pause("paused", paused=True))
        assert self.ask(q.CountJobs()) == {"other": Counts(1), "paused": Counts(), "t": Counts(1, 1, 1, 1, 1)}
        assert self.ask(q.ListTopics()) == [Topic("other", False), Topic("paused", True), Topic("t", False)]

    # ---- life -------------------------------------------------------------------------------------------------------

    def test_a_call_of_many_commands_applies_them_in_order(self) -> None:
        id = self.put()
        outcomes = self.store.apply([Reserve("t", 1, TERMS, "w"), Ack(id, 1), Cancel(id), Retry(id, FAR), Cancel(id)])
        assert list(map(bool, outcomes[1:])) == [True, False, True, True]

    def test_a_call_without_commands_has_no_outcome(self) -> None:
        assert self.store.apply([]) == []

    def test_a_closed_store_says_so(self) -> None:
        notifier = self.notifier("t")
        self.store.close()
        self.store.close()
        jobs = q.GetJob(1), q.ListJobs(q.Filter(), 0, 1), q.CountJobs(), q.ListTopics(), q.GetHistories([1])
        pages = q.GetPage(q.Filter()), q.GetPage(q.Filter("nowhere")), q.GetForecast([0, FAR]), q.ListEnded(None, 0, 1)
        for query in (*jobs, *pages, q.GetNextDues(["t"]), q.ListClaims("w"), q.GetNextLease(), q.ListWorkers()):
            self.raises(StoreClosed, partial(self.ask, query))
        self.raises(StoreClosed, lambda: self.store.apply([Cancel(1)]), lambda: self.store.quiet("t", 0))
        self.raises(StoreClosed, lambda: self.store.notifier("w"), notifier.members, notifier.hints)
        notifier.wait(60)
        notifier.wake()
        notifier.quiet()
        notifier.publish(1)
        notifier.beat(0)
        notifier.close()


class ReadingTests(StoreTests):
    """Queries for people: the jobs that are due next, that have just ended, that wait longest."""

    # ---- due next ---------------------------------------------------------------------------------------------------

    def test_a_forecast_counts_delayed_jobs_between_edges(self) -> None:
        for due in (NOW - 5, NOW, NOW, NOW + 9, NOW + 10, NOW + 25, FAR):
            self.put(due=due)
        self.put("u", due=NOW + 9)
        edges = [0, NOW, NOW + 10, NOW + 20, NOW + 30]
        assert self.ask(q.GetForecast(edges, "t")) == [1, 3, 1, 1]
        assert self.ask(q.GetForecast(edges)) == [1, 4, 1, 1]
        assert self.ask(q.GetForecast(edges, most=2)) == [1, 2, 1, 1]
        assert self.ask(q.GetForecast(edges, "nowhere")) == [0, 0, 0, 0]
        assert self.ask(q.GetForecast([NOW, NOW + 1], "t")) == [2]
        assert self.ask(q.GetForecast([NOW])) == self.ask(q.GetForecast([])) == []
        assert self.ask(q.GetForecast([-(2**62), 2**62])) == [8]

    def test_a_forecast_counts_what_waits_alone(self) -> None:
        self.put(due=NOW + 1)
        self.apply(Cancel(self.put(due=NOW + 1)))
        moved = self.put(due=NOW + 1)
        self.apply(Edit(moved, NOW + 50))
        self.apply(Ack(self.running().id, 1))
        running = self.running()
        edges = [0, NOW + 10, NOW + 60]
        assert self.ask(q.GetForecast(edges)) == self.ask(q.GetForecast(edges, "t")) == [1, 1]
        self.apply(Nack(running.id, 1, 20))
        assert self.ask(q.GetForecast(edges)) == self.ask(q.GetForecast(edges, "t")) == [1, 2]
        self.apply(Pause("t", paused=True))
        assert self.ask(q.GetForecast(edges)) == [1, 2]

    def running(self) -> Job:
        """Return a running job."""
        self.put()
        return self.one()

    def test_a_forecast_says_so_many_at_least_where_it_stops_counting(self) -> None:
        self.apply(Put(tuple(NewJob(f"t{n % 30}", b"", NOW + n % 2) for n in range(3_000))))
        edges = [NOW, NOW + 1, NOW + 2, *range(NOW + 3, NOW + 900)]
        for topic, there in ((None, 1_500), ("t1", 0)):
            found = self.ask(q.GetForecast(edges, topic))
            assert min(there, 30_000 // 899) <= found[0] <= there
            assert found[2:] == [0] * 897
        assert self.ask(q.GetForecast(edges[:3])) == [1_500, 1_500]

    def test_a_forecast_has_all_topics_beside_what_has_enough(self) -> None:
        places, edges = range(9), [NOW + 10 * place for place in range(10)]
        for number in range(12):
            for place in places:
                self.put(f"t{number}", due=edges[place] + number % 10)
        for crowded in ({4}, {1, 3, 5, 7}):  # the second time, the jobs of the first are still there
            for place in crowded:
                for _ in range(20):
                    self.put("big", due=edges[place])
            enough = {4} | crowded
            assert self.ask(q.GetForecast(edges, most=15)) == [15 if place in enough else 12 for place in places]

    def test_a_forecast_without_order_is_refused(self) -> None:
        wrongs: tuple[Any, ...] = ([2, 1], [1, 1], [1, 2.0], [1, "2"], [None, 1], [1, 2**70], [True, 2], range(2_000))
        self.raises(BadJob, *(partial(q.GetForecast, wrong) for wrong in wrongs))

    def test_of_all_topics_the_first_due_times_are_those_of_paused_ones_too(self) -> None:
        assert self.ask(q.GetNextDues()) == {}
        self.put(due=NOW - 9)
        self.one()
        for due in (NOW + 5, NOW - 3, NOW + 7):
            self.put(due=due)
        self.put("u", due=FAR)
        self.apply(Cancel(self.put("v")))
        self.apply(Pause("u", paused=True))
        assert self.ask(q.GetNextDues()) == {"t": NOW - 3, "u": FAR}

    # ---- just ended -------------------------------------------------------------------------------------------------

    def test_recent_are_the_latest_that_ended_with_how_they_did(self) -> None:
        done, dead, cancelled = self.put(key="k", due=NOW - 7), self.put(due=NOW - 6), self.put(due=NOW - 5)
        self.apply(Cancel(cancelled))
        self.reserve()
        self.pass_time(5)
        self.apply(Ack(done, 1))
        self.pass_time(5)
        self.apply(Nack(dead, 1, None, "wrong"))
        self.put("u")
        self.apply(Ack(self.one(topic="u").id, 1))
        found = self.ask(q.ListEnded("t", 0, 10))
        assert found == [
            q.Ended(dead, "t", None, State.DEAD, NOW - 6, NOW, NOW + 10, 1, "w", "wrong"),
            q.Ended(done, "t", "k", State.DONE, NOW - 7, NOW, NOW + 5, 1, "w", None),
            q.Ended(cancelled, "t", None, State.CANCELLED, NOW - 5, None, NOW, 0, None, None),
        ]
        assert [ended.lateness for ended in found] == [6, 7, None]
        assert self.ask(q.ListEnded("t", NOW + 5, 10)) == found[:2]
        assert self.ask(q.ListEnded("t", 0, 10, NOW + 9)) == found[1:]
        assert self.ask(q.ListEnded("t", 0, 1, NOW + 5)) == found[1:2]
        assert self.ask(q.ListEnded("t", NOW + 1, 9, NOW + 5)) == found[1:2]
        assert self.ask(q.ListEnded(None, 0, 10, NOW - 1)) == []
        assert self.ask(q.ListEnded("t", 0, 1)) == found[:1]
        assert self.ask(q.ListEnded("t", NOW + 11, 10)) == self.ask(q.ListEnded("nowhere", 0, 10)) == []
        assert self.ask(q.ListEnded("t", 0, 0)) == []
        for one in found:
            assert self.ask(q.ListEnded("t", 0, 10, state=one.state)) == [one]
        assert self.ask(q.ListEnded(None, 0, 10, NOW, State.DEAD)) == []
        self.raises(BadJob, partial(q.ListEnded, "t", 0, 10, state=State.DELAYED))
        assert [ended.topic for ended in self.ask(q.ListEnded(None, 0, 2))] == ["u", "t"]
        assert len(self.ask(q.ListEnded(None, 0, 1_000))) == 4

    def test_a_job_that_was_lost_has_ended_with_its_lease(self) -> None:
        self.put()
        self.one(policy=TERMS._replace(max_attempts=1))
        self.pass_time(1_500)
        self.apply(Expire(10))
        [ended] = self.ask(q.ListEnded(None, 0, 10))
        assert (ended.state, ended.ended, ended.error) == (State.DEAD, NOW + 1_000, None)

    def test_an_error_of_an_earlier_attempt_is_none_of_the_last(self) -> None:
        id = self.put()
        self.apply(Nack(id, self.one().claims, 0, "wrong"))
        self.apply(Ack(id, self.one().claims))
        [ended] = self.ask(q.ListEnded("t", 0, 10))
        assert (ended.attempt, ended.error) == (2, None)

    def test_what_was_retried_or_forgotten_is_not_recent(self) -> None:
        for done in (False, True):
            for after in (lambda id: Retry(id, FAR), Delete):
                id = self.put()
                claims = self.one().claims
                end: Any = Ack(id, claims) if done else Nack(id, claims, None, "wrong")
                self.apply(end)
                assert [ended.id for ended in self.ask(q.ListEnded(None, 0, 10))] == [id]
                self.apply(after(id))
                assert self.ask(q.ListEnded(None, 0, 10)) == self.ask(q.ListEnded("t", 0, 10)) == []

    def test_recent_of_many_topics_are_the_latest_of_all(self) -> None:
        ids = []
        for n in range(60):
            ids.append(self.put(f"t{n % 7}"))
            [job] = self.reserve(topic=f"t{n % 7}")
            self.apply(Begin(job.id, 1, 1_000))
            end: Any = Ack(job.id, 1) if n % 3 else Nack(job.id, 1, None)
            self.apply(end)
            self.pass_time(1)
        assert [ended.id for ended in self.ask(q.ListEnded(None, 0, 25))] == ids[:-26:-1]
        assert [ended.id for ended in self.ask(q.ListEnded("t1", NOW + 30, 25))] == ids[57:29:-7]
        assert [ended.id for ended in self.ask(q.ListEnded(None, 0, 25, NOW + 30))] == ids[30:5:-1]
