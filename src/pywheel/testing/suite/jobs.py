"""What is put, its keys, and what is changed by hand."""

from __future__ import annotations

from ..._errors import JobExists
from ...jobs.commands import Ack, Cancel, Claim, Hold, Nack, Pause, Purge, Put, Reschedule, Retry
from ...jobs.job import Counts, Job, NewJob, State, Topic
from .base import ALL, FAR, NOW, START, TERMS, StoreTests

__all__ = ["JobTests"]


class JobTests(StoreTests):
    """What is put, its keys, and what is changed by hand."""

    # ---- put --------------------------------------------------------------------------------------------------------

    def test_a_job_is_stored_as_it_was_put(self) -> None:
        new = NewJob("t", b"\x00\xff", FAR, "k", 5_000, 7, {"a": "b"})
        [[id]] = self.store.apply([Put((new,))])
        self.reopen()
        assert self.store.get(id) == Job(
            id, "t", b"\x00\xff", FAR, NOW, State.DELAYED, "k", 5_000, 7, {"a": "b"}, 0, 0, None, None
        )

    def test_ids_grow_in_the_order_of_puts(self) -> None:
        ids = [self.put() for _ in range(3)] + self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(300))))
        assert ids == sorted(set(ids))

    def test_an_id_is_not_used_again_after_its_job_was_purged(self) -> None:
        id = self.put()
        self.apply(Cancel(id))
        self.apply(Purge(State.CANCELLED, NOW, None, 10))
        assert self.put() > id

    def test_an_empty_put_stores_nothing(self) -> None:
        assert self.apply(Put(())) == []

    def test_names_of_any_text_stay_apart(self) -> None:
        names = ["'; DROP TABLE job; --", '"', "{}", "%s", "a\0b", "a", "\N{GRINNING FACE}", "x" * 10_000, " a", "A"]
        ids = {name: self.put(name, key=name, body=name.encode()) for name in names}
        for name, id in ids.items():
            found = self.store.get((name, name))
            assert found is not None
            assert (found.id, found.topic, found.key, found.body) == (id, name, name, name.encode())
            assert [job.id for job in self.reserve(topic=name)] == [id]
        assert set(self.store.counts()) == set(names)

    def test_bodies_of_any_bytes_and_a_mebibyte_come_back(self) -> None:
        for body in (b"", bytes(range(256)), b"\0" * (1 << 20)):
            assert self.job(self.put(body=body)).body == body

    # ---- keys -------------------------------------------------------------------------------------------------------

    def test_a_live_key_is_refused_and_nothing_changes(self) -> None:
        id = self.put(key="k")
        error = self.refused(Put((NewJob("t", b"other", FAR), NewJob("t", b"new", FAR, "k"))))
        assert isinstance(error, JobExists)
        assert error.id == id
        assert self.job(id).body == b"b"
        assert self.counts() == Counts(delayed=1)

    def test_one_refused_put_does_not_hinder_the_others_of_the_call(self) -> None:
        self.put(key="k")
        good, bad, last = self.store.apply([Put((NewJob("t", b"", NOW, key),)) for key in ("a", "k", "b")])
        assert isinstance(bad, JobExists)
        assert len(good) == len(last) == 1
        assert self.counts() == Counts(delayed=3)

    def test_two_jobs_of_one_put_cannot_share_a_key(self) -> None:
        assert isinstance(self.refused(Put((NewJob("t", b"", NOW, "k"), NewJob("t", b"", NOW, "k")))), JobExists)
        assert self.store.get(("t", "k")) is None

    def test_a_key_belongs_to_its_topic(self) -> None:
        assert self.put("a", key="k") != self.put("b", key="k")

    def test_a_finished_job_leaves_its_key_to_others(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        found = self.store.get(("t", "k"))
        assert found is not None
        assert found.id == second != first

    def test_a_key_of_finished_jobs_finds_the_latest(self) -> None:
        ids = []
        for _ in range(2):
            ids.append(self.put(key="k"))
            self.apply(Cancel(("t", "k")))
        found = self.store.get(("t", "k"))
        assert found is not None
        assert found.id == ids[-1]

    def test_replace_takes_the_new_values_and_keeps_id_and_age(self) -> None:
        id = self.put(key="k", due=FAR)
        self.pass_time(10)
        assert (
            self.put(key="k", body=b"new", due=FAR + 5, ttr=9, max_attempts=2, headers={"h": "1"}, replace=True) == id
        )
        assert self.job(id) == Job(
            id, "t", b"new", FAR + 5, NOW, State.DELAYED, "k", 9, 2, {"h": "1"}, 0, 0, None, None
        )
        assert self.counts() == Counts(delayed=1)

    def test_replace_of_a_running_job_is_refused(self) -> None:
        self.put(key="k")
        self.reserve()
        assert isinstance(self.refused(Put((NewJob("t", b"new", NOW, "k", replace=True),))), JobExists)

    def test_replace_stores_a_job_whose_key_is_free(self) -> None:
        assert self.job(self.put(key="k", replace=True)).state is State.DELAYED

    # ---- by hand ----------------------------------------------------------------------------------------------------

    def test_a_cancelled_job_is_never_delivered(self) -> None:
        id = self.put(due=NOW + 5)
        assert self.apply(Cancel(id)) is True
        assert self.apply(Cancel(id)) is False
        self.pass_time(5)
        assert self.reserve() == []
        assert self.counts() == Counts(cancelled=1)

    def test_what_is_unknown_running_or_finished_is_not_cancelled_or_rescheduled(self) -> None:
        self.put()
        job = self.one()
        for ref in (job.id, 10**12, ("t", "nobody"), ("nowhere", "k")):
            assert self.apply(Cancel(ref)) is False
            assert self.apply(Reschedule(ref, FAR)) is False
        self.apply(Ack(job.id, job.claims))
        assert self.apply(Cancel(job.id)) is False

    def test_a_reschedule_moves_it_either_way_and_keeps_its_age(self) -> None:
        id = self.put(due=FAR, key="k")
        assert self.apply(Reschedule(("t", "k"), NOW)) is True
        assert (self.job(id).due, self.job(id).created) == (NOW, NOW)
        assert self.apply(Reschedule(id, FAR)) is True
        assert self.reserve() == []

    def test_a_retry_gives_a_finished_job_all_its_attempts_again(self) -> None:
        id = self.put()
        assert self.apply(Retry(id, NOW)) is False
        for _ in range(3):
            job = self.one()
            self.apply(Nack(job.id, job.claims, 0))
        assert self.apply(Retry(id, NOW + 5)) is True
        assert (self.job(id).state, self.job(id).due) == (State.DELAYED, NOW + 5)
        self.pass_time(5)
        again = self.one()
        assert (again.attempt, again.claims) == (1, 4)
        assert self.apply(Ack(again.id, 1)) is False
        assert self.apply(Ack(again.id, 4)) is True
        assert self.apply(Retry(id, NOW)) is True

    def test_a_retry_is_refused_if_the_key_is_taken_by_now(self) -> None:
        first = self.put(key="k")
        self.apply(Cancel(first))
        second = self.put(key="k")
        error = self.refused(Retry(first, NOW))
        assert isinstance(error, JobExists)
        assert error.id == second

    def test_a_paused_topic_gives_nothing_until_it_is_resumed(self) -> None:
        id = self.put()
        epochs = self.apply(Hold("w", 1_000))
        assert self.apply(Pause("t", paused=True)) is True
        assert self.apply(Pause("t", paused=True)) is False
        assert self.store.topics() == [Topic("t", paused=True)]
        assert self.reserve() == []
        assert self.apply(Claim((id,), "t", TERMS, "w", epochs)) == []
        assert self.store.window(["t"], ALL, START, FAR, 10) == []
        assert self.apply(Pause("t", paused=False)) is True
        assert len(self.reserve()) == 1

    def test_a_purge_forgets_what_ended_long_enough_ago(self) -> None:
        done, dead, cancelled = (self.put() for _ in range(3))
        for job in self.reserve(limit=2):
            self.apply(Ack(job.id, job.claims) if job.id == done else Nack(job.id, job.claims, None))
        self.apply(Cancel(cancelled))
        assert self.apply(Purge(State.DONE, NOW - 1, None, 10)) == 0
        assert self.apply(Purge(State.DONE, NOW, "other", 10)) == 0
        assert self.apply(Purge(State.DONE, NOW, "t", 10)) == 1
        assert self.store.get(done) is None
        assert self.store.history(done) == []
        assert self.counts() == Counts(dead=1, cancelled=1)
        assert self.apply(Purge(State.DELAYED, FAR, None, 10)) == 0
        assert dead != cancelled
