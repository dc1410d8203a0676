"""Rewrites: another body for the one that a job has, whatever its state."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs.commands import Ack, Cancel, Delete, Put, Rewrite
from ...jobs.job import NewJob, State
from ...jobs.queries import GetJob
from .base import FAR, StoreTests

__all__ = ["RewriteTests"]


class RewriteTests(StoreTests):
    """Rewrites: another body for the one that a job has."""

    def test_a_rewrite_changes_the_body_and_nothing_else(self) -> None:
        more: dict[str, Any] = {"ttr": 7_000, "max_attempts": 3, "headers": {"a": "ä"}}
        [id] = self.apply(Put((NewJob("t", b"old", FAR, "k", **more),)))
        before = self.job(id)
        assert self.apply(Rewrite(id, b"old", b"the new one")) is True
        assert self.job(id) == before._replace(body=b"the new one")
        assert self.ask(GetJob(("t", "k"))) == self.job(id)

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

    def test_the_next_claim_gets_the_new_body(self) -> None:
        id = self.put()
        self.apply(Rewrite(id, b"b", b"new"))
        [job] = self.reserve()
        assert (job.id, job.body) == (id, b"new")

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
        assert self.store.apply([Rewrite(id, b"b", b"1"), Rewrite(id, b"b", b"2"), Rewrite(id, b"1", b"3")]) == [
            True,
            False,
            True,
        ]
        assert self.job(id).body == b"3"

    def test_a_body_is_bytes(self) -> None:
        id: Any = self.put()
        for wrong in (Rewrite(id, "b", b"new"), Rewrite(id, b"b", None)):  # type: ignore[arg-type]
            self.refused(wrong, BadJob)
        assert self.job(id).body == b"b"
