"""Keys, and puts that happen once: by a nonce, or as the key stays taken for a while after its job has ended."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob, JobExists, NonceTaken
from ...jobs.commands import NONCES_KEPT, Ack, Cancel, Delete, Nack, Purge, Put, Retry
from ...jobs.job import Counts, Job, NewJob, State
from ...jobs.queries import GetJob
from .base import FAR, NOW, StoreTests

JOB = NewJob("t", b"b", NOW)
KEYED = NewJob("t", b"b", NOW, "k")


class KeyTests(StoreTests):
    """Keys: which job has one, which job takes it over, and which job it finds."""

    def found(self, key: str = "k") -> int | None:
        """Return the id of the job that is found by a key."""
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
        first = self.lose(key="k", max_attempts=1)
        assert self.found() == first
        second = self.put(key="k")
        assert self.found() == second
        assert self.state(first) is State.DEAD

    # ---- successors -------------------------------------------------------------------------------------------------

    def test_a_running_job_may_hand_its_key_to_a_successor(self) -> None:
        parent = self.begun(key="k")
        id = self.successor(parent)
        assert id != parent.id
        assert self.found() == id
        assert (self.job(parent.id).key, self.job(id).key) == ("k", "k")
        assert self.apply(Ack(parent.id, parent.claims)) is True
        assert self.found() == id
        self.refused(Put((NewJob("t", b"", FAR, "k"),)), JobExists)
        assert self.counts() == Counts(delayed=1, done=1)

    def test_a_key_is_handed_on_by_its_very_claim_alone(self) -> None:
        parent = self.begun(key="k")
        for receipt in ((parent.id, 2), (parent.id + 1, 1)):
            assert self.refused(Put((NewJob("t", b"", FAR, "k", parent=receipt),)), JobExists).id == parent.id
        self.pass_time(1_000)
        self.refused(Put((NewJob("t", b"", FAR, "k", parent=(parent.id, 1)),)), JobExists)

    def test_a_second_attempt_that_puts_its_successor_again_is_told(self) -> None:
        parent = self.begun(key="k")
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
        parent = self.begun(key="k")
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
        parent = self.begun(key="k")
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


class OnceTests(StoreTests):
    """Puts that happen once, however often they are sent."""

    def test_a_put_that_is_sent_again_changes_nothing_and_has_the_ids_of_then(self) -> None:
        ids = self.apply(Put((JOB, KEYED), "n"))
        assert self.apply(Put((JOB, KEYED), "n")) == ids
        assert self.apply(Put((JOB,), "other")) != ids[:1]
        assert self.counts() == Counts(delayed=3)
        assert self.apply(Put((), "none")) == []
        assert self.apply(Put((JOB,), "none")) == []

    def test_a_put_without_a_nonce_happens_each_time(self) -> None:
        assert self.apply(Put((JOB,))) != self.apply(Put((JOB,)))

    def test_a_put_happens_once_whatever_became_of_its_jobs(self) -> None:
        [[done], [gone], [cancelled]] = self.store.apply([Put((JOB,), nonce) for nonce in "abc"])
        self.apply(Delete(gone))
        self.apply(Cancel(cancelled))
        job = self.one()
        self.apply(Ack(job.id, job.claims))
        for nonce, id in (("a", done), ("b", gone), ("c", cancelled)):
            assert self.apply(Put((JOB,), nonce)) == [id]
        assert self.counts() == Counts(done=1, cancelled=1)

    def test_a_replacement_that_is_sent_again_does_not_take_back_a_later_one(self) -> None:
        first = Put((KEYED._replace(body=b"1", replace=True),), "1")
        second = Put((KEYED._replace(body=b"2", due=FAR, replace=True),), "2")
        [id] = self.apply(first)
        assert self.apply(second) == self.apply(first) == [id]
        assert (self.job(id).body, self.job(id).due) == (b"2", FAR)

    def test_a_put_with_another_mark_is_refused_its_nonce(self) -> None:
        for nonce, jobs in (("a", (JOB, JOB)), ("b", (KEYED,)), ("c", ())):
            ids = self.apply(Put(jobs, nonce, "1"))
            assert self.apply(Put(jobs, nonce, "1")) == self.apply(Put((JOB,), nonce)) == ids
            self.refused(Put((JOB,), nonce, "2"), NonceTaken)
            self.refused(Put((JOB._replace(key="k2"),), nonce, "2"), NonceTaken)
        assert self.counts() == Counts(delayed=3)
        without = self.apply(Put((JOB,), "d"))
        assert self.apply(Put((JOB,), "d", "1")) == without

    def test_a_put_that_was_refused_leaves_no_mark(self) -> None:
        holder = self.put(key="k")
        self.refused(Put((KEYED,), "n", "1"), JobExists)
        self.apply(Cancel(holder))
        [id] = self.apply(Put((KEYED,), "n", "2"))
        refused, same = self.store.apply([Put((KEYED,), "n", "1"), Put((KEYED,), "n", "2")])
        assert (type(refused), same) == (NonceTaken, [id])

    def test_puts_with_one_nonce_that_come_together_happen_once(self) -> None:
        puts = [Put((JOB,), "a"), Put((JOB, JOB)), Put((KEYED,), "a"), Put((KEYED,), "b"), Put((KEYED,), "c")]
        first, plain, again, keyed, refused = self.store.apply(puts)
        assert again == first
        assert isinstance(refused, JobExists)
        assert len({*first, *plain, *keyed}) == 4
        assert self.counts() == Counts(delayed=4)
        assert self.store.apply(puts[:1] + puts[2:4]) == [first, first, keyed]
        self.apply(Cancel(("t", "k")))
        refused_once, *rest = self.store.apply([Put((KEYED, KEYED), "d"), Put((KEYED,), "d"), Put((KEYED,), "d")])
        assert isinstance(refused_once, JobExists)
        assert rest[0] == rest[1]

    def test_an_outcome_belongs_to_its_caller(self) -> None:
        ids = self.apply(Put((JOB,), "n"))
        kept = list(ids)
        ids.clear()
        self.apply(Put((JOB,), "n")).clear()
        assert self.apply(Put((JOB,), "n")) == kept

    def test_nonces_of_any_text_stay_apart(self) -> None:
        nonces = ["'; DROP TABLE job; --", "a", "A", "a\1b", " a", "a ", "%s", "\N{GRINNING FACE}" * 200, "x" * 200]
        ids = [self.apply(Put((JOB,), nonce)) for nonce in nonces]
        assert len({id for [id] in ids}) == len(nonces)
        assert [self.apply(Put((JOB,), nonce)) for nonce in nonces] == ids

    def test_a_nonce_is_known_for_31_days_and_forgotten_by_later_puts_and_purges(self) -> None:
        def sent(*nonces: str) -> list[int]:
            return [id for nonce in nonces for id in self.apply(Put((JOB,), nonce))]

        early = sent("a", "b")
        self.pass_time(5)
        late = sent("c", "d")
        self.pass_time(NONCES_KEPT - 6)
        assert self.apply(Purge(State.DONE, 0, None, 100)) == 0
        assert sent("a", "b", "c", "d") == early + late
        self.pass_time(1)
        assert self.apply(Purge(State.DONE, 0, None, 0)) == 0
        assert sent("a", "b", "c", "d") == early + late
        assert self.apply(Purge(State.DONE, 0, None, 100)) == 0
        assert sent("c", "d") == late
        again = sent("a", "b")
        assert not {*early, *late} & {*again}
        self.pass_time(5)
        others = sent(*map(str, range(64)))  # each of several stores forgets its own
        last = sent("c", "d")
        assert not {*early, *late, *again, *others} & {*last}


class DedupeTests(StoreTests):
    """Keys that stay taken for a while after their job has ended."""

    def tried(self, dedupe_for: int | None = 100, key: str = "k", **more: Any) -> int | JobExists:
        """Put a job with a key; return its id, or the refusal."""
        [outcome] = self.store.apply([Put((NewJob("t", b"b", NOW, key, dedupe_for=dedupe_for, **more),))])
        return outcome if isinstance(outcome, JobExists) else outcome[0]

    def taken_by(self, key: str = "k", **more: Any) -> int:
        """Return the id of the job because of which a put with its key is refused."""
        return self.refused(Put((NewJob("t", b"b", NOW, key, dedupe_for=100, **more),)), JobExists).id

    def test_a_key_stays_taken_for_so_long_after_its_job_was_done(self) -> None:
        job = self.begun(key="k")
        self.pass_time(50)
        self.apply(Ack(job.id, job.claims))
        self.pass_time(99)
        assert self.taken_by() == job.id
        assert self.counts() == Counts(done=1)
        self.pass_time(1)
        assert isinstance(self.tried(), int)

    def test_the_latest_of_several_is_named(self) -> None:
        first = self.tried()
        assert isinstance(first, int)
        self.apply(Cancel(first))
        second = self.put(key="k")
        self.apply(Cancel(second))
        assert self.taken_by() == second != first

    def test_it_does_so_after_a_cancel_and_a_death_too(self) -> None:
        self.apply(Cancel(self.put(key="cancelled")))
        job = self.begun(key="dead")
        self.apply(Nack(job.id, job.claims, None))
        for key in ("cancelled", "dead"):
            self.taken_by(key)

    def test_it_does_so_from_the_end_of_the_lease_of_a_job_that_died_by_it(self) -> None:
        id = self.put(key="k", max_attempts=1)
        self.reserve()
        self.pass_time(1_099)
        assert self.taken_by() == id
        self.pass_time(1)
        assert isinstance(self.tried(), int)

    def test_it_does_so_too_if_that_job_had_handed_its_key_on(self) -> None:
        job = self.begun(key="k", max_attempts=1)
        [later] = self.apply(Put((NewJob("t", b"", FAR, "k", parent=(job.id, job.claims)),)))
        self.apply(Cancel(later))
        self.pass_time(1_000)
        assert self.taken_by() == job.id
        self.pass_time(100)
        assert isinstance(self.tried(), int)

    def test_a_put_without_it_takes_the_key_at_once(self) -> None:
        self.apply(Cancel(self.put(key="k", dedupe_for=100)))
        assert isinstance(self.tried(None), int)

    def test_a_live_job_has_its_key_for_as_long_as_it_lives(self) -> None:
        id = self.put(key="k", due=FAR)
        assert self.taken_by() == id

    def test_replace_changes_a_delayed_job_and_no_finished_one(self) -> None:
        id = self.put(key="k", due=FAR)
        assert self.tried(replace=True) == id
        self.apply(Cancel(id))
        self.taken_by(replace=True)

    def test_a_successor_takes_the_key_of_the_running_job(self) -> None:
        self.put(key="k")
        self.apply(Cancel(("t", "k")))
        parent = self.begun(key="k")
        assert isinstance(self.tried(parent=(parent.id, parent.claims)), int)

    def test_a_purged_job_leaves_its_key(self) -> None:
        self.apply(Cancel(self.put(key="k")))
        self.apply(Purge(State.CANCELLED, 0, None, 10))
        assert isinstance(self.tried(), int)

    def test_keys_of_other_topics_and_other_keys_do_not_matter(self) -> None:
        self.apply(Cancel(self.put(key="other")))
        self.apply(Cancel(self.put("u", key="k")))
        assert isinstance(self.tried(), int)

    def test_of_many_jobs_all_or_none_are_stored(self) -> None:
        self.apply(Cancel(self.put(key="k")))
        jobs = (NewJob("t", b"", NOW, "a", dedupe_for=100), NewJob("t", b"", NOW, "k", dedupe_for=100))
        self.refused(Put(jobs), JobExists)
        assert self.counts() == Counts(cancelled=1)

    def test_in_one_transaction_each_put_sees_what_came_before(self) -> None:
        id = self.put(key="k")
        new = NewJob("t", b"", NOW, "k", dedupe_for=100)
        cancelled, refused = self.store.apply([Cancel(id), Put((new,))])
        assert cancelled
        assert isinstance(refused, JobExists)
        self.pass_time(100)
        [first], cancelled, refused = self.store.apply([Put((new,)), Cancel(("t", "k")), Put((new,))])
        assert cancelled
        assert isinstance(refused, JobExists)
        assert refused.id == first

    def test_of_many_that_put_at_the_same_time_and_end_their_jobs_one_is_stored(self) -> None:
        outcomes: list[int | JobExists] = []

        def put_and_end() -> None:
            for _ in range(5):
                outcome = self.tried(10**9)
                outcomes.append(outcome)
                if isinstance(outcome, int):
                    self.store.apply([Cancel(outcome)])

        self.at_once(*[put_and_end] * 4)
        assert sum(isinstance(outcome, int) for outcome in outcomes) == 1
        assert all(isinstance(outcome, int | JobExists) for outcome in outcomes)

    def test_it_needs_a_key_and_a_time(self) -> None:
        for bad in (NewJob("t", b"", NOW, dedupe_for=5), NewJob("t", b"", NOW, "k", dedupe_for=0)):
            self.refused(Put((bad,)), BadJob)
