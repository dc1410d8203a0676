"""What can be read."""

from __future__ import annotations

from functools import partial

from ..._errors import StoreClosed
from ...jobs import queries as q
from ...jobs.commands import Ack, Cancel, Nack, Pause, Release, Reserve, Retry
from ...jobs.job import Attempt, Counts, Outcome, State, Topic
from .base import FAR, NOW, TERMS, StoreTests

__all__ = ["ViewTests"]

BEYOND = (2**63 - 1, 2**63, 2**100)


class ViewTests(StoreTests):
    """What can be read."""

    def one_of_each(self) -> dict[State, int]:
        """Put five jobs of one topic and bring each into another state."""
        ids = {state: self.put(key=state.value) for state in State}
        for job in self.reserve():
            match job.id:
                case id if id == ids[State.DELAYED]:
                    self.apply(Nack(id, 1, 10, "some error"))
                case id if id == ids[State.DONE]:
                    self.apply(Ack(id, 1))
                case id if id == ids[State.DEAD]:
                    self.apply(Nack(id, 1, None, "100% wrong"))
                case id if id == ids[State.CANCELLED]:
                    self.apply(Release(id, 1))
                    self.apply(Cancel(id))
        return ids

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
        id = self.put()
        job = self.one()
        assert self.history(id) == [Attempt(1, 1, NOW, None, None, "w", None)]
        self.apply(Release(id, job.claims))
        self.apply(Cancel(id))
        outcomes = [attempt.outcome for attempt in self.history(id)]
        assert outcomes == [Outcome.RELEASED, Outcome.CANCELLED]

    def test_an_unknown_job_has_no_history(self) -> None:
        for id in (1, 0, -1, *BEYOND):
            assert self.ask(q.GetJob(id)) is None
            assert self.history(id) == []

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

    def test_lists_by_any_combination(self) -> None:
        ids = self.one_of_each()
        other = self.put("other", key="done", due=FAR)
        for state, id in ids.items():
            assert self.listed(topic="t", state=state) == [id]
            assert self.listed(topic="t", state=state, key=state.value) == [id]
            assert self.listed(topic="t", key=state.value) == [id]
            assert self.listed(state=state, topic="nowhere") == []
            if state is not State.DELAYED:
                assert self.listed(state=state) == [id]
        assert self.listed(state=State.DELAYED) == [ids[State.DELAYED], other]
        assert self.listed(key="done") == [ids[State.DONE], other]
        assert self.listed(key="done", state=State.DONE) == [ids[State.DONE]]
        assert self.listed(topic="t", state=State.DEAD, key="done") == []
        assert self.listed(due_from=NOW + 1) == [ids[State.DELAYED], other]
        assert self.listed(due_until=NOW + 10, due_from=NOW + 10) == [ids[State.DELAYED]]
        assert self.listed(error="error") == [ids[State.DELAYED]]
        assert self.listed(error="0% wr") == [ids[State.DEAD]]
        assert self.listed(error="0_ wr") == []
        assert self.listed(error="", topic="other") == [other]

    def test_lists_page_through_every_state_of_many_topics(self) -> None:
        ids = [self.put(f"t{n % 7}", due=FAR) for n in range(100)]
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
        self.one_of_each()
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
        for query in (*jobs, q.GetNextDues(["t"]), q.ListClaims("w"), q.GetNextLease(), q.ListWorkers()):
            self.raises(StoreClosed, partial(self.ask, query))
        self.raises(StoreClosed, lambda: self.store.apply([Cancel(1)]), lambda: self.store.quiet("t", 0))
        self.raises(StoreClosed, lambda: self.store.notifier("w"), notifier.members, notifier.hints)
        notifier.wait(60)
        notifier.wake()
        notifier.quiet()
        notifier.publish(1)
        notifier.beat(0)
        notifier.close()
