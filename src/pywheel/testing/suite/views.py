"""What can be read."""

from __future__ import annotations

from ..._errors import StoreClosed
from ...jobs.commands import Ack, Cancel, Nack, Pause, Put, Release, Reserve, Retry
from ...jobs.job import SHARDS, Attempt, Counts, Due, NewJob, Outcome, State, Topic, shard_of
from ...stores.contract import Filter, Span
from .base import ALL, FAR, NOW, START, TERMS, StoreTests

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
        assert self.store.history(id) == [
            Attempt(1, 1, NOW, NOW + 5, Outcome.FAILED, "w", "error 0"),
            Attempt(2, 2, NOW + 5, NOW + 10, Outcome.FAILED, "w", "error 1"),
            Attempt(3, 3, NOW + 10, NOW + 1_010, Outcome.LOST, "w", None),
        ]

    def test_history_shows_the_attempt_under_way_and_a_cancellation(self) -> None:
        id = self.put()
        job = self.one()
        assert self.store.history(id) == [Attempt(1, 1, NOW, None, None, "w", None)]
        self.apply(Release(id, job.claims))
        self.apply(Cancel(id))
        outcomes = [attempt.outcome for attempt in self.store.history(id)]
        assert outcomes == [Outcome.RELEASED, Outcome.CANCELLED]

    def test_an_unknown_job_has_no_history(self) -> None:
        for id in (1, 0, -1, *BEYOND):
            assert self.store.get(id) is None
            assert self.store.history(id) == []

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
        assert self.store.counts() == {}
        self.one_of_each()
        self.put("other")
        self.apply(Pause("paused", paused=True))
        assert self.store.counts() == {"other": Counts(1), "paused": Counts(), "t": Counts(1, 1, 1, 1, 1)}
        assert self.store.topics() == [Topic("other", False), Topic("paused", True), Topic("t", False)]

    # ---- windows ----------------------------------------------------------------------------------------------------

    def test_a_window_goes_by_due_time_in_pages_of_ones_shards(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"", NOW + n // 2) for n in range(80))))
        expected = [Due(NOW + n // 2, id, "t") for n, id in enumerate(ids)]
        assert self.window() == expected
        assert self.window(limit=7) == expected[:7]
        assert self.store.windows([Span("t", ALL, expected[6][:2], FAR)], 7) == expected[7:14]
        assert self.window(until=NOW + 3) == expected[:8]
        assert self.window("u") == self.window(limit=0) == self.window(shards=0) == []
        for shard in range(SHARDS):
            assert self.window(shards=1 << shard) == [due for due in expected if shard_of(due.id) == shard]

    def test_windows_of_many_topics_come_span_by_span_up_to_the_limit(self) -> None:
        ids = {topic: [self.put(topic, due=NOW + n) for n in range(4)] for topic in ("b", "a", "c")}
        spans = [Span("c", ALL, START, FAR), Span("x", ALL, START, FAR), Span("a", ALL, (NOW, ids["a"][0]), NOW + 2)]
        expected = [Due(NOW + n, ids["c"][n], "c") for n in range(4)] + [Due(NOW + n, ids["a"][n], "a") for n in (1, 2)]
        assert self.store.windows(spans, 100) == expected
        for limit in range(8):
            assert self.store.windows(spans, limit) == expected[:limit]
        assert self.store.windows([spans[0], spans[0]], 6) == expected[:4] + expected[:2]
        assert self.store.windows([], 5) == []

    def test_a_window_leaves_out_what_is_running_finished_or_paused(self) -> None:
        self.put()
        self.reserve()
        self.apply(Cancel(self.put()))
        self.put("paused")
        self.apply(Pause("paused", paused=True))
        spans = [Span(topic, ALL, START, FAR) for topic in ("t", "paused")]
        assert self.store.windows(spans, 10) == []

    def test_first_dues_are_the_earliest_of_each_topic_after_a_time(self) -> None:
        for due in (NOW, NOW + 5, NOW + 9):
            self.put(due=due)
        self.put("u", due=NOW + 6)
        found = [
            self.store.first_dues([Span(topic, ALL, START, after) for topic in ("t", "x", "u", "t")])
            for after in (NOW - 1, NOW, NOW + 5, NOW + 9)
        ]
        assert found == [
            [NOW, None, NOW + 6, NOW],
            [NOW + 5, None, NOW + 6, NOW + 5],
            [NOW + 9, None, NOW + 6, NOW + 9],
            [None, None, None, None],
        ]
        self.reserve()
        assert self.first_due(0) == NOW + 5
        assert self.store.first_dues([]) == []

    def test_first_dues_are_those_of_the_shards(self) -> None:
        ids = [self.put(due=NOW + n) for n in range(200)]
        for shard in range(SHARDS):
            mine = [NOW + n for n, id in enumerate(ids) if shard_of(id) == shard]
            assert [self.first_due(after, shards=1 << shard) for after in (NOW - 1, mine[0])] == mine[:2]
        assert self.first_due(NOW - 1, shards=0) is None

    def test_first_dues_behind_many_of_other_shards_are_never_too_late(self) -> None:
        first = self.put(due=FAR)
        self.apply(Put(tuple(NewJob("t", b"", NOW + 2 * n) for n in range(4_000))))
        mine = 1 << shard_of(first)
        theirs = [id for id in range(1, 4_001) if shard_of(id) != shard_of(first)]
        due = self.first_due(NOW + 100, shards=mine)
        assert due is not None
        assert theirs
        assert NOW + 100 < due <= min(job.due for job in self.window(shards=mine, limit=9_999) if job.due > NOW + 100)

    # ---- life -------------------------------------------------------------------------------------------------------

    def test_a_call_of_many_commands_applies_them_in_order(self) -> None:
        id = self.put()
        outcomes = self.store.apply([Reserve("t", 1, TERMS, "w"), Ack(id, 1), Cancel(id), Retry(id, FAR), Cancel(id)])
        assert outcomes[1:] == [True, False, True, True]

    def test_a_call_without_commands_has_no_outcome(self) -> None:
        assert self.store.apply([]) == []

    def test_a_closed_store_says_so(self) -> None:
        notifier = self.notifier("t")
        self.store.close()
        self.store.close()
        for call in (
            lambda: self.store.apply([Cancel(1)]),
            lambda: self.store.get(1),
            lambda: self.store.jobs(Filter(), 0, 1),
            lambda: self.store.counts(),
            lambda: self.store.topics(),
            lambda: self.store.history(1),
            lambda: self.store.windows([], 1),
            lambda: self.store.first_dues([]),
            lambda: self.store.next_lease(),
            lambda: self.store.notifier("w"),
            lambda: self.store.workers(),
            lambda: self.store.quiet("t", 0),
            notifier.members,
            notifier.hints,
        ):
            try:
                call()
            except StoreClosed:
                continue
            raise AssertionError("a closed store answered")
        notifier.wait(60)
        notifier.wake()
        notifier.quiet()
        notifier.publish(1)
        notifier.beat(0)
        notifier.close()
