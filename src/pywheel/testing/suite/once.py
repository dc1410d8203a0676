"""Puts that happen once, however often they are sent."""

from __future__ import annotations

from ..._errors import JobExists, NonceTaken
from ...jobs.commands import NONCES_KEPT, Ack, Cancel, Delete, Purge, Put
from ...jobs.job import Counts, NewJob, State
from .base import FAR, NOW, StoreTests

__all__ = ["OnceTests"]

JOB = NewJob("t", b"b", NOW)
KEYED = NewJob("t", b"b", NOW, "k")


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

    def test_a_refused_put_leaves_no_nonce(self) -> None:
        holder = self.put(key="k")
        self.refused(Put((JOB, KEYED), "n"), JobExists)
        self.apply(Cancel(holder))
        ids = self.apply(Put((JOB, KEYED), "n"))
        assert self.apply(Put((JOB, KEYED), "n")) == ids
        assert self.counts() == Counts(delayed=2, cancelled=1)

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
        others = sent(*map(str, range(64)))  # of several stores each forgets its own
        last = sent("c", "d")
        assert not {*early, *late, *again, *others} & {*last}
