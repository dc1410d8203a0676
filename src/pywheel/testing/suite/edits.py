"""Changes of jobs: edits of a waiting job, and rewrites, which replace the body of any job."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs.commands import Ack, Begin, Cancel, Change, Delete, Edit, Nack, Put, Release, Retry, Rewrite
from ...jobs.job import NewJob, State, Topic
from ...jobs.queries import GetJob, GetNextDues, ListFirstDue, ListTopics
from .base import FAR, NOW, StoreTests

_FIELDS: dict[str, Any] = {"ttr": 7_000, "max_attempts": 3, "headers": {"a": 'ä"/\\'}, "priority": 2, "expires": 90_000}


class EditTests(StoreTests):
    """Edits of jobs that wait."""

    def test_an_edit_changes_what_it_names_and_nothing_else(self) -> None:
        [id] = self.apply(Put((NewJob("t", b"old", FAR, "k/1", **_FIELDS),)))
        job = self.job(id)
        changes: list[dict[str, Any]] = [
            {"body": b"the new \xff one"},
            {"body": b""},
            {"fields": {"priority": -9}},
            {"fields": {"priority": 0, "ttr": None}},
            {"fields": {"headers": {"to": "https://b", "\n": "\x7f"}, "max_attempts": None}},
            {"fields": {"headers": None}, "body": b"b"},
            {"fields": {"headers": {"a": "1"}, "ttr": 2**52 - 1, "max_attempts": 1}, "due": NOW},
            {"fields": {"priority": 9}, "delay": 5},
        ]
        for place, change in enumerate(changes, 1):
            assert self.apply(Edit(("t", "k/1") if place % 2 else id, **change))
            fields = {name: {} if value is None and name == "headers" else value
                      for name, value in change.get("fields", {}).items()}  # fmt: skip
            due = NOW + change["delay"] if "delay" in change else change.get("due", job.due)
            job = job._replace(body=change.get("body", job.body), due=due, claims=place, **fields)
            assert self.job(id) == job
        assert self.listed(topic="t") == [id]
        self.pass_time(5)
        [taken] = self.reserve()
        assert taken._replace(state=State.DELAYED, lease_until=None) == job._replace(claims=9, attempt=1)
        assert [(row.claim, row.attempt) for row in self.history(id)] == [(9, 1)]

    def test_a_job_is_claimed_in_the_order_of_its_new_priority(self) -> None:
        first, second, third = (self.put(body=b"%d" % n, due=NOW + n) for n in range(3))
        self.pass_time(10)
        assert self.apply(Edit(third, body=b"new", fields={"priority": 5}))
        assert self.apply(Edit(first, fields={"priority": -1}))
        assert [due.id for due in self.ask(ListFirstDue("t", 9))] == [third, second, first]
        assert self.ask(ListTopics()) == [Topic("t", paused=False, priorities=(5, -1))]
        claimed = [job for _ in range(3) for job in self.claim(begin=1, limit=1).jobs]
        assert [(job.id, job.body, job.priority) for job in claimed] == [
            (third, b"new", 5), (second, b"1", 0), (first, b"0", -1)
        ]  # fmt: skip

    def test_a_job_that_is_claimed_by_its_id_has_the_new_body(self) -> None:
        id = self.put()
        assert self.apply(Edit(id, body=b"new", fields={"priority": 3}))
        [job] = self.claim(id, begin=1).jobs
        assert (job.body, job.priority, job.attempt) == (b"new", 3, 1)
        assert self.apply(Ack(id, job.claims)) is True
        assert (self.job(id).body, self.state(id)) == (b"new", State.DONE)

    def test_a_job_that_does_not_wait_is_not_edited(self) -> None:
        held, begun, done = (self.put() for _ in range(3))
        claims = {id: self.held(id).claims for id in (held, begun, done)}
        self.apply(Begin(begun, claims[begun], 1_000))
        self.apply(Ack(done, claims[done]))
        before = [self.job(id) for id in claims]
        for id, state in ((held, Change.RUNNING), (begun, Change.RUNNING), (done, Change.DONE), (10**12, "not found")):
            assert self.apply(Edit(id, FAR, body=b"new", fields={"priority": 1})) == state
        assert [self.job(id) for id in claims] == before
        assert self.apply(Release(held, claims[held])) is True
        assert self.apply(Edit(held, body=b"new"))
        assert self.one().body == b"new"

    def test_a_job_that_comes_back_has_what_the_edit_left(self) -> None:
        id = self.put()
        for change in ({"fields": {"priority": 2}}, {"body": b"n1"}):
            self.apply(Edit(id, **change))
        job = self.one()
        self.apply(Nack(id, job.claims, 0, "e"))
        assert self.apply(Edit(id, body=b"n2", fields={"priority": -2}))
        job = self.one()
        assert (job.body, job.priority, job.attempt, job.last_error) == (b"n2", -2, 2, "e")
        self.apply(Nack(id, job.claims, None))
        self.apply(Retry(id, FAR))
        assert self.apply(Edit(id, NOW, fields={"priority": 1}))
        job = self.one()
        assert (job.body, job.priority, job.attempt) == (b"n2", 1, 1)
        assert [row.attempt for row in self.history(id)] == [1, 2, 1]

    def test_a_job_whose_lease_is_over_is_edited_and_stays_a_suspect(self) -> None:
        late = self.begun()
        self.pass_time(1_000)
        assert self.apply(Edit(late.id, body=b"new", fields={"priority": 4}))
        assert self.apply(Ack(late.id, late.claims)) is False
        assert self.claim(late.id, begin=1, suspects=0).jobs == []
        [job] = self.claim(late.id, begin=1).jobs
        assert (job.body, job.priority, job.lost, job.attempt) == (b"new", 4, 2, 2)

    def test_of_two_who_have_seen_a_job_the_second_edit_is_refused(self) -> None:
        id = self.put(due=FAR)
        seen = (FAR, 0)
        assert self.apply(Edit(id, expect=seen, body=b"one"))
        for change in ({"body": b"two"}, {"fields": {"priority": 1}}, {"due": NOW}):
            assert self.apply(Edit(id, expect=seen, **change)) is Change.CHANGED
        assert self.apply(Cancel(id, seen)) is Change.CHANGED
        job = self.job(id)
        assert (job.body, job.priority, job.due) == (b"one", 0, FAR)
        assert self.apply(Edit(id, expect=(job.due, job.claims), fields={"priority": 1}))

    def test_many_are_each_edited_in_their_own_way(self) -> None:
        ids = [self.put(due=FAR) for _ in range(5)]
        edits = [
            Edit(ids[0], body=b"0"),
            Edit(ids[1], NOW, fields={"priority": 1}),
            Edit(10**12, body=b"no"),
            Edit(ids[2], delay=5),
            Edit(ids[3], body=b"3", fields={"headers": {"a": "b"}}),
            Edit(ids[4], expect=(FAR, 7), body=b"no"),
            Edit(ids[0], body=b"00"),
            Edit(ids[1], body=b"1"),
        ]
        made = Change.MADE
        assert self.store.apply(edits) == [made, made, Change.NOT_FOUND, made, made, Change.CHANGED, made, made]
        jobs = [self.job(id) for id in ids]
        assert [job.body for job in jobs] == [b"00", b"1", b"b", b"3", b"b"]
        assert [job.due for job in jobs] == [FAR, NOW, NOW + 5, FAR, FAR]
        assert [(job.priority, dict(job.headers), job.claims) for job in jobs[1:4]] == [
            (1, {}, 2), (0, {}, 0), (0, {"a": "b"}, 1)
        ]  # fmt: skip

    def test_an_edit_of_nothing_changes_nothing(self) -> None:
        id = self.put(due=FAR)
        before = self.job(id)
        assert self.apply(Edit(id))
        assert self.job(id) == before

    def test_an_edited_job_can_be_replaced_cancelled_and_retried(self) -> None:
        id = self.put(key="k", due=FAR)
        self.apply(Edit(id, body=b"1", fields={"priority": 3}))
        assert self.put(key="k", body=b"2", replace=True) == id
        assert (self.job(id).body, self.job(id).priority, self.job(id).claims) == (b"2", 0, 2)
        self.apply(Edit(id, body=b"3"))
        assert self.apply(Cancel(id))
        assert self.apply(Retry(id, NOW))
        assert self.one().body == b"3"
        assert self.store.verify() == []

    def test_a_put_that_replaces_a_job_is_a_change_for_who_has_seen_it(self) -> None:
        new, edited, released = (self.put(key=key, due=FAR) for key in ("new", "edited", "released"))
        self.apply(Edit(edited, body=b"1"))
        self.apply(Edit(released, NOW))
        assert self.apply(Release(released, self.held(released).claims))
        self.apply(Edit(released, FAR))
        for id in (new, edited, released):
            seen = self.job(id)
            assert self.put(key=seen.key, due=FAR, body=b"2", replace=True) == id
            for command in (Edit(id, body=b"3", expect=(FAR, seen.claims)), Cancel(id, expect=(FAR, seen.claims))):
                assert self.apply(command) is Change.CHANGED
            assert self.job(id) == seen._replace(body=b"2", claims=seen.claims + 1)
            assert self.apply(Edit(id, NOW, expect=(FAR, seen.claims + 1)))
            [job] = self.claim(id, begin=1).jobs
            assert (job.body, job.attempt, job.claims) == (b"2", 1, seen.claims + 2)
        assert self.store.verify() == []

    def test_of_two_jobs_of_one_put_the_second_is_no_change_of_the_first(self) -> None:
        """No command has seen the first one."""
        first, second = self.apply(Put(tuple(NewJob("t", body, FAR, "k", replace=True) for body in (b"1", b"2"))))
        assert (first, self.job(first).claims) == (second, 0)
        self.apply(Put(tuple(NewJob("t", body, FAR, "k", replace=True) for body in (b"3", b"4"))))
        assert (self.job(first).body, self.job(first).claims) == (b"4", 1)

    def test_a_worker_is_told_of_a_job_that_is_due_sooner_by_an_edit(self) -> None:
        id = self.put(due=FAR)
        notifier = self.notifier("t", horizon=NOW + 100)
        notifier.hints()
        self.apply(Edit(id, NOW + 50, body=b"new", fields={"priority": 1}))
        assert notifier.wait(5)
        assert [(due.due, due.id) for due in notifier.hints().due] == [(NOW + 50, id)]
        assert self.ask(GetNextDues(["t"])) == {"t": NOW + 50}

    def test_what_no_job_can_have_is_refused(self) -> None:
        id = self.put(due=FAR)
        before = self.job(id)
        wrong: list[dict[str, Any]] = [{"priority": 10}, {"priority": None}, {"priority": 1.0}, {"headers": {"a": 1}}]
        wrong += [{"headers": "a"}, {"ttr": 1.5}, {"max_attempts": "3"}, {"key": "k"}, {"id": 7}, {"due": 5}]
        for fields in wrong:
            self.refused(Edit(id, NOW, fields=fields), BadJob)
        for body in ("text", 7, bytearray(b"b")):
            self.refused(Edit(id, NOW, body=body), BadJob)  # type: ignore[arg-type]
        assert self.job(id) == before


class RewriteTests(StoreTests):
    """Rewrites: a new body for a job that still has a certain one."""

    def test_a_rewrite_changes_the_body_and_nothing_else(self) -> None:
        more: dict[str, Any] = {"ttr": 7_000, "max_attempts": 3, "headers": {"a": "ä"}}
        [id] = self.apply(Put((NewJob("t", b"old", NOW, "k", **more),)))
        before = self.job(id)
        assert self.apply(Rewrite(id, b"old", b"the new one")) is True
        assert self.job(id) == before._replace(body=b"the new one")
        assert self.ask(GetJob(("t", "k"))) == self.job(id)
        assert self.one().body == b"the new one"

    def test_a_job_with_another_body_is_left_as_it_is(self) -> None:
        id = self.put()
        for other in (b"", b"c", b"bb", b"B"):
            assert self.apply(Rewrite(id, other, b"new")) is False
        assert self.job(id).body == b"b"

    def test_a_job_that_is_not_there_is_not_rewritten(self) -> None:
        id = self.put()
        self.apply(Delete(id))
        assert [self.apply(Rewrite(other, b"b", b"new")) for other in (id, id + 1, 0, -1, 2**63, 2**70)] == [False] * 6

    def test_a_running_job_goes_on_with_its_claim(self) -> None:
        id = self.put()
        [job] = self.reserve()
        assert self.apply(Rewrite(id, b"b", b"new")) is True
        assert self.job(id) == job._replace(body=b"new")
        assert self.apply(Ack(id, job.claims)) is True
        assert self.job(id).body == b"new"

    def test_a_finished_job_is_rewritten_and_stays_finished(self) -> None:
        id = self.put()
        self.apply(Cancel(id))
        before, history = self.job(id), self.history(id)
        assert self.apply(Rewrite(id, b"b", b"new")) is True
        assert self.job(id) == before._replace(body=b"new")
        assert self.job(id).state is State.CANCELLED
        assert self.history(id) == history

    def test_any_bytes_come_back_as_they_are(self) -> None:
        id = self.put()
        for new in (b"", b"\0\xff" * 100, b"x" * 200_000):
            assert self.apply(Rewrite(id, b"b", new)) is True
            assert self.job(id).body == new
            assert self.apply(Rewrite(id, new, b"b")) is True
            assert self.job(id).body == b"b"

    def test_many_jobs_are_rewritten_in_one_transaction(self) -> None:
        ids = [self.put() for _ in range(20)]
        rewrites = [Rewrite(id, b"b" if place % 2 else b"other", b"%d" % place) for place, id in enumerate(ids)]
        assert self.store.apply(rewrites) == [place % 2 == 1 for place in range(20)]
        assert [self.job(id).body for id in ids] == [b"%d" % n if n % 2 else b"b" for n in range(20)]

    def test_a_rewrite_after_a_rewrite_sees_it(self) -> None:
        id = self.put()
        rewrites = [Rewrite(id, old, new) for old, new in ((b"b", b"1"), (b"b", b"2"), (b"1", b"3"))]
        assert self.store.apply(rewrites) == [True, False, True]
        assert self.job(id).body == b"3"

    def test_a_body_is_bytes(self) -> None:
        id: Any = self.put()
        for wrong in (Rewrite(id, "b", b"new"), Rewrite(id, b"b", None)):  # type: ignore[arg-type]
            self.refused(wrong, BadJob)
        assert self.job(id).body == b"b"
