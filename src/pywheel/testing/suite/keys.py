"""Keys: who has one, who takes it over, and whom it finds."""

from __future__ import annotations

from typing import Any

from ..._errors import JobExists
from ...jobs.commands import Ack, Cancel, Nack, Put, Retry
from ...jobs.job import Counts, Job, NewJob, State
from ...jobs.queries import GetJob
from .base import FAR, NOW, StoreTests

__all__ = ["KeyTests"]


class KeyTests(StoreTests):
    """Keys: who has one, who takes it over, and whom it finds."""

    def found(self, key: str = "k") -> int | None:
        """Return the id of the job that a key finds."""
        job = self.ask(GetJob(("t", key)))
        return job.id if job else None

    def successor(self, parent: Job, **more: Any) -> int:
        """Put a job under the key of a running one, as its handler would."""
        [id] = self.apply(
            Put((NewJob("t", b"next", FAR, parent.key, parent=(parent.id, parent.claims))._replace(**more),))
        )
        return id

    def test_a_live_key_is_refused_and_nothing_changes(self) -> None:
        id = self.put(key="k")
        assert self.refused(Put((NewJob("t", b"other", FAR), NewJob("t", b"new", FAR, "k"))), JobExists).id == id
        assert self.job(id).body == b"b"
        assert self.counts() == Counts(delayed=1)

    def test_one_refused_put_does_not_hinder_the_others_of_the_call(self) -> None:
        self.put(key="k")
        good, bad, last = self.store.apply([Put((NewJob("t", b"", NOW, key),)) for key in ("a", "k", "b")])
        assert isinstance(bad, JobExists)
        assert len(good) == len(last) == 1
        assert self.counts() == Counts(delayed=3)

    def test_two_jobs_of_one_put_cannot_share_a_key(self) -> None:
        self.refused(Put((NewJob("t", b"", NOW, "k"), NewJob("t", b"", NOW, "k"))), JobExists)
        assert self.ask(GetJob(("t", "k"))) is None

    def test_of_two_jobs_of_one_put_the_second_replaces_the_first(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", body, NOW, "k", replace=True) for body in (b"1", b"2"))))
        assert ids[0] == ids[1]
        assert self.job(ids[0]).body == b"2"
        assert self.counts() == Counts(delayed=1)

    def test_a_key_belongs_to_its_topic(self) -> None:
        assert self.put("a", key="k") != self.put("b", key="k")

    def test_a_finished_job_leaves_its_key_to_others(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        assert self.found() == second != first

    def test_a_key_of_finished_jobs_finds_the_latest(self) -> None:
        ids = []
        for _ in range(2):
            ids.append(self.put(key="k"))
            self.apply(Cancel(("t", "k")))
        assert self.found() == ids[-1]
        assert self.listed(topic="t", key="k") == self.listed(key="k") == ids

    def test_replace_takes_the_new_values_and_keeps_id_and_age(self) -> None:
        id = self.put(key="k", due=FAR)
        self.pass_time(10)
        more: dict[str, Any] = {"body": b"new", "ttr": 9, "max_attempts": 2, "headers": {"h": "1"}, "replace": True}
        assert self.put(key="k", due=FAR + 5, **more) == id
        new = Job(id, "t", b"new", FAR + 5, NOW, State.DELAYED, "k", 9, 2, {"h": "1"}, claims=1)
        assert self.job(id) == new
        assert self.put(key="k", delay=5, **more) == id
        assert self.job(id).due == NOW + 15
        assert self.counts() == Counts(delayed=1)

    def test_replace_of_a_running_job_is_refused(self) -> None:
        self.put(key="k")
        self.reserve()
        self.refused(Put((NewJob("t", b"new", NOW, "k", replace=True),)), JobExists)

    def test_replace_stores_a_job_whose_key_is_free(self) -> None:
        assert self.state(self.put(key="k", replace=True)) is State.DELAYED

    def test_a_retry_is_refused_if_the_key_is_taken_by_now(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        assert self.refused(Retry(first, NOW), JobExists).id == second

    def test_a_job_that_is_dead_by_its_lease_has_left_its_key(self) -> None:
        first = self.put(key="k", max_attempts=1)
        self.reserve()
        self.pass_time(1_000)
        assert self.found() == first
        second = self.put(key="k")
        assert self.found() == second
        assert self.state(first) is State.DEAD

    # ---- successors -------------------------------------------------------------------------------------------------

    def test_a_running_job_may_hand_its_key_to_a_successor(self) -> None:
        self.put(key="k")
        parent = self.one()
        id = self.successor(parent)
        assert id != parent.id
        assert self.found() == id
        assert (self.job(parent.id).key, self.job(id).key) == ("k", "k")
        assert self.apply(Ack(parent.id, parent.claims)) is True
        assert self.found() == id
        self.refused(Put((NewJob("t", b"", FAR, "k"),)), JobExists)
        assert self.counts() == Counts(delayed=1, done=1)

    def test_a_key_is_handed_on_by_its_very_claim_alone(self) -> None:
        self.put(key="k")
        parent = self.one()
        for receipt in ((parent.id, 2), (parent.id + 1, 1)):
            assert self.refused(Put((NewJob("t", b"", FAR, "k", parent=receipt),)), JobExists).id == parent.id
        self.pass_time(1_000)
        self.refused(Put((NewJob("t", b"", FAR, "k", parent=(parent.id, 1)),)), JobExists)

    def test_a_second_attempt_that_puts_its_successor_again_is_told(self) -> None:
        self.put(key="k")
        parent = self.one()
        id = self.successor(parent)
        self.apply(Nack(parent.id, parent.claims, 0))
        again = self.one()
        put = Put((NewJob("t", b"", FAR, "k", parent=(again.id, again.claims)),))
        assert self.refused(put, JobExists).id == id
        assert self.successor(again, body=b"newer", replace=True) == id
        assert self.job(id).body == b"newer"
        assert self.apply(Ack(again.id, again.claims)) is True
        assert self.found() == id

    def test_a_parent_that_failed_does_not_take_its_key_back(self) -> None:
        self.put(key="k")
        parent = self.one()
        id = self.successor(parent)
        self.apply(Nack(parent.id, parent.claims, 0))
        assert self.found() == id
        assert self.apply(Cancel(("t", "k")))
        assert self.state(id) is State.CANCELLED
        assert self.state(parent.id) is State.DELAYED
        assert self.found() == id
        third = self.put(key="k")
        assert self.found() == third

    def test_a_parent_that_is_retried_has_its_key_again(self) -> None:
        self.put(key="k")
        parent = self.one()
        id = self.successor(parent)
        self.apply(Ack(parent.id, parent.claims))
        self.refused(Retry(parent.id, FAR), JobExists)
        self.apply(Cancel(id))
        assert self.apply(Retry(parent.id, FAR))
        assert self.found() == parent.id

    def test_a_key_goes_from_successor_to_successor(self) -> None:
        ids = [self.put(key="k")]
        for _ in range(3):
            parent = self.one()
            ids.append(self.successor(parent, due=NOW))
            self.apply(Ack(parent.id, parent.claims))
        assert self.found() == ids[-1]
        assert self.counts() == Counts(delayed=1, done=3)
