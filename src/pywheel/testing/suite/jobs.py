"""Puts, and changes by hand."""

from __future__ import annotations

from ...jobs.commands import Ack, Cancel, Change, Claimed, Delete, Edit, Nack, Pause, Purge, Put, Ref, Retry
from ...jobs.job import Counts, Job, NewJob, Outcome, State, Topic
from ...jobs.queries import CountJobs, GetJob, GetNextDues, ListTopics
from .base import FAR, NOW, StoreTests


class JobTests(StoreTests):
    """Puts, and changes by hand."""

    # ---- put --------------------------------------------------------------------------------------------------------

    def test_a_job_is_stored_as_it_was_put(self) -> None:
        new = NewJob("t", b"\x00\xff", FAR, "k", 5_000, 7, {"a": "b"})
        [id] = self.apply(Put((new,)))
        expected = Job(id, "t", b"\x00\xff", FAR, NOW, State.DELAYED, "k", 5_000, 7, {"a": "b"})
        assert self.ask(GetJob(id)) == expected

    def test_a_delay_counts_from_the_stores_clock(self) -> None:
        self.pass_time(7)
        assert self.job(self.put(due=FAR, delay=50)).due == NOW + 57
        assert self.job(self.put(due=FAR, delay=0, key="k")).due == NOW + 7
        ids = self.apply(Put(tuple(NewJob("t", b"", FAR, delay=n) for n in range(60))))
        assert [self.job(id).due for id in ids] == [NOW + 7 + n for n in range(60)]

    def test_ids_grow_in_the_order_of_puts(self) -> None:
        ids = [self.put() for _ in range(3)]
        many = self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(300))))
        assert ids + many == sorted({*ids, *many})

    def test_an_id_is_not_used_again_after_its_job_was_forgotten(self) -> None:
        ids = [self.put() for _ in range(3)]
        self.apply(Cancel(ids[2]))
        assert self.apply(Purge(State.CANCELLED, 0, None, 10)) == 1
        assert self.apply(Delete(ids[1]))
        ids.append(self.put())
        assert self.apply(Delete(ids[-1]))
        more = self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(2))))
        ids += more
        for id in more:
            assert self.apply(Delete(id))
        ids.append(self.put(key="k"))
        assert len(set(ids)) == len(ids)
        assert self.listed() == sorted((ids[0], ids[-1]))

    def test_an_empty_put_stores_nothing(self) -> None:
        assert self.apply(Put(())) == []

    def test_names_of_any_text_stay_apart(self) -> None:
        names = ["'; DROP TABLE job; --", '"', "{}", "%s", "a\1b", "a", "\N{GRINNING FACE}", "x" * 10_000, " a", "A"]
        ids = {name: self.put(name, key=name, body=name.encode()) for name in names}
        for name, id in ids.items():
            found = self.ask(GetJob((name, name)))
            assert found is not None
            assert (found.id, found.topic, found.key, found.body) == (id, name, name, name.encode())
            assert [due.id for due in self.waiting(name)] == [id]
            assert self.listed(topic=name, key=name) == [id]
            assert [job.id for job in self.reserve(topic=name)] == [id]
        assert set(self.ask(CountJobs())) == set(names)

    def test_bodies_of_any_bytes_and_a_mebibyte_come_back(self) -> None:
        for body in (b"", bytes(range(256)), b"\0" * (1 << 20)):
            assert self.job(self.put(body=body)).body == body

    # ---- by hand ----------------------------------------------------------------------------------------------------

    def test_a_cancelled_job_is_never_delivered(self) -> None:
        id = self.put(due=NOW + 5)
        assert self.apply(Cancel(id))
        assert self.apply(Cancel(id)) is Change.CANCELLED
        self.pass_time(5)
        assert self.reserve() == []
        assert self.claim(id, begin=1) == Claimed([], 0, [], paused=False)
        assert self.counts() == Counts(cancelled=1)

    def test_cancels_that_come_together_end_as_one_by_one(self) -> None:
        first, second, keyed = self.put(due=FAR), self.put(topic="u", due=FAR), self.put(due=FAR, key="k")
        refs = [first, 10**12, second, -1]
        made, missing, cancelled = Change.MADE, Change.NOT_FOUND, Change.CANCELLED
        assert self.store.apply([Cancel(ref) for ref in refs]) == [made, missing, made, missing]
        assert [row.outcome for id in (first, second) for row in self.history(id)] == [Outcome.CANCELLED] * 2
        again = self.put(due=FAR)
        refs_again: list[Ref] = [again, again, ("t", "k"), keyed, first]
        assert self.store.apply([Cancel(ref) for ref in refs_again]) == [made, cancelled, made, cancelled, cancelled]
        assert (self.counts(), self.counts("u")) == (Counts(cancelled=3), Counts(cancelled=1))

    def test_cancels_that_come_together_leave_what_runs_and_settle_what_is_lost(self) -> None:
        lost = self.lose()
        running = self.put()
        self.claim(running, begin=1)
        waiting = self.put(due=FAR)
        outcomes = self.store.apply([Cancel(id) for id in (running, lost, waiting)])
        assert outcomes == [Change.RUNNING, Change.MADE, Change.MADE]
        assert [row.outcome for row in self.history(lost)] == [Outcome.LOST, Outcome.CANCELLED]
        assert self.state(running) is State.RUNNING

    def test_a_change_that_is_not_made_says_what_stood_in_the_way(self) -> None:
        made = {state: self.put(state, due=FAR, key="k") for state in ("delayed", "cancelled")}
        made |= {state: self.put(state, key="k") for state in ("running", "done", "dead")}
        jobs = {state: self.one(topic=state) for state in ("running", "done", "dead")}
        self.apply(Cancel(made["cancelled"]))
        self.apply(Ack(made["done"], jobs["done"].claims))
        self.apply(Nack(made["dead"], jobs["dead"].claims, None))
        for state, id in made.items():
            for ref in (id, (state, "k")):
                before = self.job(id)
                if state != "delayed":
                    assert self.apply(Cancel(ref)) is self.apply(Edit(ref, FAR)) is Change(state)
                if state in ("delayed", "running"):
                    assert self.apply(Retry(ref, NOW)) is Change(state)
                if state == "running":
                    assert self.apply(Delete(ref)) is Change.RUNNING
                assert self.job(id) == before
        for ref in (10**12, 0, -1, ("delayed", "nobody"), ("nowhere", "k")):
            for command in (Cancel(ref), Edit(ref, FAR), Retry(ref, NOW), Delete(ref)):
                assert self.apply(command) is Change.NOT_FOUND

    def test_a_reschedule_moves_it_either_way_and_keeps_its_age(self) -> None:
        id = self.put(due=FAR, key="k")
        self.pass_time(3)
        assert self.apply(Edit(("t", "k"), NOW))
        assert (self.job(id).due, self.job(id).created) == (NOW, NOW)
        assert self.apply(Edit(id, FAR))
        assert self.reserve() == []
        assert self.apply(Edit(id, FAR, delay=10))
        assert (self.job(id).due, self.job(id).created) == (NOW + 13, NOW)

    def test_a_retry_gives_a_finished_job_all_its_attempts_again(self) -> None:
        id = self.put()
        assert not self.apply(Retry(id, NOW))
        for _ in range(3):
            job = self.one()
            assert not self.apply(Retry(id, NOW))
            self.apply(Nack(job.id, job.claims, 0))
        assert self.apply(Retry(id, FAR, delay=5))
        assert (self.state(id), self.job(id).due, self.job(id).attempt) == (State.DELAYED, NOW + 5, 0)
        self.pass_time(5)
        again = self.one()
        assert (again.attempt, again.claims) == (1, 4)
        assert self.apply(Ack(again.id, 1)) is False
        assert self.apply(Ack(again.id, 4)) is True
        assert self.apply(Retry(id, NOW))
        assert self.counts() == Counts(delayed=1)

    def test_a_paused_topic_gives_nothing_until_it_is_resumed(self) -> None:
        id = self.put()
        assert self.apply(Pause("t", paused=True)) is True
        assert self.apply(Pause("t", paused=True)) is False
        assert self.ask(ListTopics()) == [Topic("t", paused=True)]
        assert self.reserve() == []
        assert self.claim(id, begin=1) == Claimed([], 0, [], paused=True)
        assert self.ask(GetNextDues(["t"])) == {}
        assert self.apply(Pause("t", paused=False)) is True
        assert self.ask(GetNextDues(["t"])) == {"t": NOW}
        assert len(self.reserve()) == 1

    def test_a_topic_that_nobody_put_to_can_be_paused(self) -> None:
        assert self.apply(Pause("t", paused=False)) is False
        assert self.apply(Pause("t", paused=True)) is True
        self.put()
        assert self.reserve() == []

    # ---- forgetting -------------------------------------------------------------------------------------------------

    def test_a_deleted_job_is_forgotten_with_its_history(self) -> None:
        first, second = self.put(key="k"), self.put()
        self.apply(Cancel(second))
        for ref in (("t", "k"), second):
            assert self.apply(Delete(ref))
            assert not self.apply(Delete(ref))
        for id in (first, second):
            assert self.ask(GetJob(id)) is None
            assert self.history(id) == []
        assert self.ask(GetJob(("t", "k"))) is None
        assert (self.reserve(), self.waiting(), self.listed()) == ([], [], [])
        assert self.counts() == Counts()
        assert self.put(key="k") not in (first, second)

    def test_a_running_job_is_not_deleted(self) -> None:
        job = self.begun()
        assert not self.apply(Delete(job.id))
        assert self.apply(Ack(job.id, job.claims)) is True
        assert self.apply(Delete(job.id))

    def test_a_purge_forgets_what_ended_long_enough_ago(self) -> None:
        done, dead, cancelled = (self.put() for _ in range(3))
        for job in self.reserve(limit=2):
            self.store.apply([Ack(job.id, 1) if job.id == done else Nack(job.id, 1, None)])
        self.apply(Cancel(cancelled))
        self.pass_time(100)
        assert self.apply(Purge(State.DONE, 101, None, 10)) == 0
        assert self.apply(Purge(State.DONE, 100, "other", 10)) == 0
        assert self.apply(Purge(State.DONE, 100, "t", 0)) == 0
        assert self.apply(Purge(State.DONE, 100, "t", 10)) == 1
        assert self.ask(GetJob(done)) is None
        assert self.history(done) == []
        assert self.counts() == Counts(dead=1, cancelled=1)
        for state in (State.DELAYED, State.RUNNING):
            assert self.apply(Purge(state, 0, None, 10)) == 0
        assert self.apply(Purge(State.DEAD, 100, "t", 10)) == 1
        assert self.apply(Purge(State.CANCELLED, 100, None, 10)) == 1
        assert self.counts() == Counts()
        assert [self.ask(GetJob(id)) for id in (dead, cancelled)] == [None, None]

    def test_a_purge_takes_no_more_than_asked(self) -> None:
        for topic in ("a", "b", "a"):
            self.apply(Cancel(self.put(topic)))
        assert [self.apply(Purge(State.CANCELLED, 0, None, 2)) for _ in range(3)] == [2, 1, 0]

    def test_what_was_retried_since_is_not_purged(self) -> None:
        id = self.put()
        self.apply(Cancel(id))
        self.pass_time(10)
        self.apply(Retry(id, FAR))
        for state in State:
            assert self.apply(Purge(state, 0, None, 10)) == 0
        self.apply(Edit(id, NOW))
        assert self.apply(Ack(id, self.one().claims)) is True
        assert [row.outcome for row in self.history(id)] == [Outcome.CANCELLED, Outcome.DONE]
        assert self.apply(Purge(State.CANCELLED, 0, None, 10)) == 0
        assert self.apply(Purge(State.DONE, 1, None, 10)) == 0
        assert self.apply(Purge(State.DONE, 0, None, 10)) == 1
        assert self.ask(GetJob(id)) is None
