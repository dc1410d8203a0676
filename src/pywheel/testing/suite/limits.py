"""Priorities of due jobs, and limits of running and starting jobs."""

from __future__ import annotations

from unittest import SkipTest

from ...jobs import commands as c
from ...jobs.job import Due, NewJob
from ...jobs.limits import Limit, Limits, Rate, limits_of
from ...jobs.queries import Filter, GetPage, ListFirstDue, ListNotes, ListTopics
from .base import NOW, TERMS, StoreTests


class PriorityTests(StoreTests):
    """The due jobs of a topic come by priority."""

    def lane(self, priority: int) -> list[Due]:
        """Return the delayed jobs with a priority."""
        return [due for due in self.waiting() if due.priority == priority]

    def test_what_is_due_comes_by_priority_then_by_due_time_then_by_id(self) -> None:
        plain, low = self.put(due=NOW - 9), self.put(due=NOW - 20, priority=-3)
        high, early, late = (self.put(due=NOW + after, priority=9) for after in (0, -1, 1))
        second = self.put(due=NOW - 9)
        expected = [early, high, plain, second, low]
        claimed = self.claim(plain, low, high, early, late, second, begin=2)
        assert [job.id for job in claimed.jobs] == expected
        assert claimed.begun == 2
        assert claimed.left == [Due(NOW + 1, late, "t", 9)]
        for job in claimed.jobs:
            self.apply(c.Release(job.id, job.claims))
        assert [job.id for job in self.reserve(3)] == expected[:3]
        assert [job.id for job in self.reserve()] == expected[3:]

    def test_one_of_higher_priority_overtakes_a_backlog(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW - 1_000) for _ in range(300))))
        id = self.put(due=NOW, priority=1)
        assert self.lane(1) == [Due(NOW, id, "t", 1)]
        assert self.one(limit=1).id == id

    def test_a_job_says_its_priority_wherever_it_is(self) -> None:
        id = self.put(priority=4)
        assert self.job(id).priority == 4
        job = self.one()
        assert (job.id, job.priority, self.job(id).priority) == (id, 4, 4)
        self.apply(c.Ack(id, job.claims))
        assert self.job(id).priority == 4
        [listed] = self.ask(GetPage(Filter())).jobs
        assert listed.priority == 4

    def test_it_keeps_it_through_nack_retry_and_reschedule(self) -> None:
        id = self.put(priority=-2)
        assert self.apply(c.Edit(id, NOW - 5))
        assert self.lane(-2) == [Due(NOW - 5, id, "t", -2)]
        job = self.one()
        assert self.lane(-2) == []
        self.apply(c.Nack(id, job.claims, 10))
        assert self.lane(-2) == [Due(NOW + 10, id, "t", -2)]
        assert self.apply(c.Cancel(id))
        assert self.lane(-2) == []
        assert self.apply(c.Retry(id, NOW))
        assert self.lane(-2) == [Due(NOW, id, "t", -2)]
        self.one(policy=TERMS._replace(ttr=5))
        self.pass_time(10)
        assert self.one().priority == -2
        self.pass_time(10_000)
        assert self.apply(c.Delete(id))
        assert self.lane(-2) == self.lane(0) == []

    def test_a_topic_says_which_priorities_its_jobs_had(self) -> None:
        self.put("plain")
        self.put()
        assert [topic.priorities for topic in self.ask(ListTopics())] == [(), ()]
        self.apply(c.Delete(self.put(priority=2)))
        self.put(priority=-7)
        assert {topic.name: topic.priorities for topic in self.ask(ListTopics())} == {"plain": (), "t": (2, -7)}

    def test_a_hint_says_the_priority(self) -> None:
        notifier = self.notifier("t", horizon=NOW + 100)
        id = self.put(due=NOW + 50, priority=6)
        assert notifier.hints().due == [Due(NOW + 50, id, "t", 6)]

    def test_a_replaced_job_has_the_priority_of_its_successor(self) -> None:
        id = self.put(key="k", priority=1)
        assert self.put(key="k", replace=True, priority=8) == id
        assert (self.job(id).priority, self.lane(1), len(self.lane(8))) == (8, [], 1)
        assert self.put(key="k", replace=True) == id
        assert (self.job(id).priority, self.lane(8)) == (0, [])
        assert [due.id for due in self.waiting()] == [id]

    def test_the_priority_of_a_suspect_is_one_of_its_topic(self) -> None:
        id = self.put(key="k")
        self.reserve()
        self.pass_time(TERMS.ttr + TERMS.slack)
        self.apply(c.Expire(9))
        assert self.put(key="k", replace=True, priority=3) == id
        assert (self.job(id).lost, self.job(id).priority) == (2, 3)
        assert [topic.priorities for topic in self.ask(ListTopics())] == [(3,)]

    def test_a_pause_holds_all_priorities(self) -> None:
        id = self.put(priority=1)
        self.apply(c.Pause("t", paused=True))
        assert self.ask(ListFirstDue("t", 9)) == []
        assert self.reserve() == []
        assert self.claim(id, begin=1).paused


class LimitTests(StoreTests):
    """Limits of how many jobs run, and of how many begin in a span of time."""

    def limited(self, limit: int | Limit | None = None, rate: str | Rate | None = None) -> c.ClaimPolicy:
        """Return a claim policy with limits. Skip the test if the store refuses limits."""
        if not self.store.keeps_limits:
            raise SkipTest("this store keeps no limits")
        return TERMS._replace(limits=limits_of(limit, rate))

    def test_no_more_than_the_limit_run(self) -> None:
        ids = [self.put(due=NOW - 9 + n) for n in range(5)]
        claimed = self.claim(*ids, begin=4, policy=self.limited(2))
        assert [job.id for job in claimed.jobs] == ids[:2]
        assert claimed.begun == 2
        assert [due.id for due in claimed.left] == ids[2:]
        assert claimed.again is not None
        assert claimed.again > NOW
        assert self.claim(*ids[2:], begin=4, policy=self.limited(2)).jobs == []
        assert self.reserve(policy=self.limited(2)) == []
        self.apply(c.Ack(ids[0], claimed.jobs[0].claims))
        assert [job.id for job in self.reserve(policy=self.limited(2))] == [ids[2]]

    def test_what_a_limit_lets_through_says_no_more(self) -> None:
        ids = [self.put() for _ in range(2)]
        claimed = self.claim(*ids, begin=2, policy=self.limited(2, "100/s"))
        assert (len(claimed.jobs), claimed.begun, claimed.left, claimed.again) == (2, 2, [], None)

    def test_a_slot_is_free_in_the_transaction_that_ends_its_job(self) -> None:
        ids = [self.put(due=NOW - 2 + n) for n in range(3)]
        job = self.one(limit=1, policy=self.limited(1))
        ack, claimed = self.store.apply(
            [c.Ack(job.id, job.claims), c.Claim("t", tuple(ids[1:]), self.limited(1), "w", 2)]
        )
        assert (ack, [job.id for job in claimed.jobs]) == (True, [ids[1]])

    def test_a_slot_is_free_when_its_lease_is_over(self) -> None:
        self.put()
        id = self.put()
        self.one(limit=1, policy=self.limited(1)._replace(backoff=(60_000,)))
        assert self.reserve(policy=self.limited(1)) == []
        self.pass_time(1_000)
        assert self.one(policy=self.limited(1)).id == id

    def test_nothing_is_held_under_a_limit(self) -> None:
        ids = [self.put(due=NOW - 5 + n) for n in range(4)]
        claimed = self.claim(*ids, begin=1, policy=self.limited(3))
        assert ([job.id for job in claimed.jobs], claimed.begun) == (ids[:1], 1)
        assert [due.id for due in claimed.left] == ids[1:]
        assert claimed.again is None

    def test_a_limit_counts_one_topic(self) -> None:
        self.put("other")
        self.one(topic="other", policy=self.limited(1))
        self.put()
        assert self.one(policy=self.limited(1)).topic == "t"

    def test_a_limit_by_key_counts_each_group(self) -> None:
        keys = ["a:1", "a:2", "a:3", "b:1", "c", None, None]
        ids = [self.put(due=NOW - 9 + n, key=key) for n, key in enumerate(keys)]
        policy = self.limited(Limit(1, per=":"))
        claimed = self.claim(*ids, begin=9, policy=policy)
        assert [job.key for job in claimed.jobs] == ["a:1", "b:1", "c", None, None]
        assert [due.id for due in claimed.left] == ids[1:3]
        assert claimed.full == ((ids[1], "a"), (ids[2], "a"))
        self.apply(c.Ack(ids[0], claimed.jobs[0].claims))
        assert [job.key for job in self.reserve(policy=policy)] == ["a:2"]

    def test_of_what_is_left_it_says_whose_group_is_full(self) -> None:
        keys = ["a:1", ":1", "a:2", ":2", "b:1", "c:1"]
        ids = [self.put(due=NOW - 9 + n, key=key) for n, key in enumerate(keys)]
        claimed = self.claim(*ids, begin=3, policy=self.limited(Limit(1, per=":")))
        assert [job.id for job in claimed.jobs] == [ids[0], ids[1], ids[4]]
        assert [due.id for due in claimed.left] == [ids[2], ids[3], ids[5]]
        assert claimed.full == ((ids[2], "a"), (ids[3], ""))  # and the last one only had no room
        assert self.claim(ids[5], begin=3, policy=self.limited(1)).full == ()

    def test_a_reserve_looks_past_what_a_group_holds_back(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW - 9, f"a:{n}") for n in range(30))))
        ids = [self.put(key="b:1"), self.put(key="c:1")]
        policy = self.limited(Limit(2, per=":"))
        assert [job.key for job in self.reserve(3, policy=policy)] == ["a:0", "a:1", "b:1"]
        assert [self.job(id).state for id in ids] == ["running", "delayed"]  # no more than are wanted

    def test_a_rate_spaces_what_begins(self) -> None:
        ids = [self.put(due=NOW - 9 + n) for n in range(3)]
        policy = self.limited(rate=Rate(10, "1s", burst=1))
        claimed = self.claim(*ids, begin=3, policy=policy)
        assert ([job.id for job in claimed.jobs], claimed.again) == (ids[:1], NOW + 100)
        self.pass_time(99)
        assert self.reserve(policy=policy) == []
        self.pass_time(1)
        assert [job.id for job in self.reserve(policy=policy)] == [ids[1]]
        self.pass_time(10_000)
        assert [job.id for job in self.reserve(policy=policy)] == [ids[2]]

    def test_a_burst_begins_at_once_and_then_the_rate_holds(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW) for _ in range(20))))
        policy = self.limited(rate=Rate(10, "1s", burst=3))
        begun = []
        for _ in range(10):
            begun.append(len(self.reserve(policy=policy)))
            self.pass_time(50)
        assert begun == [3, 0, 1, 0, 1, 0, 1, 0, 1, 0]

    def test_a_rate_is_not_held_up_by_what_a_slower_one_has_noted(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW) for _ in range(3))))
        assert len(self.reserve(policy=self.limited(rate="1/d"))) == 1
        policy = self.limited(rate=Rate(10, "1s", burst=1))
        assert self.reserve(policy=policy) == []
        self.pass_time(100)
        assert len(self.reserve(policy=policy)) == 1

    def test_a_rate_goes_on_at_once_after_the_wall_clock_was_set_back(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW - 3_600_000) for _ in range(5))))
        policy = self.limited(rate=Rate(10, "1s", burst=1))
        assert len(self.reserve(policy=policy)) == 1
        self.clock.step(-600)
        assert self.reserve(policy=policy) == []  # that start counts, and no more than that
        self.pass_time(100)
        assert len(self.reserve(policy=policy)) == 1
        self.pass_time(99)
        assert self.reserve(policy=policy) == []
        self.pass_time(1)
        assert len(self.reserve(policy=policy)) == 1

    def test_of_two_rates_at_once_each_keeps_its_own_over_all_that_begins(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW) for _ in range(200))))
        slow = self.limited(rate=Rate(5, "1s", burst=3))
        quick = self.limited(rate=Rate(20, "1s", burst=2))
        begun = {slow: 0, quick: 0}
        for _ in range(100):  # 5 s
            for policy in (slow, quick):
                begun[policy] += len(self.reserve(policy=policy))
            self.pass_time(50)
        assert sum(begun.values()) <= 3 + 2 + 100
        assert begun[quick] >= 95
        assert begun[slow] <= 3 + 25
        self.pass_time(600)  # without the quick rate, the slow one goes on as soon as it may
        assert len(self.reserve(policy=slow)) == 3
        self.pass_time(200)
        assert len(self.reserve(policy=slow)) == 1

    def test_a_rate_counts_what_begins_from_its_first_claim_on_though_nothing_was_due_then(self) -> None:
        quick, slow = self.limited(rate="1/s"), self.limited(rate=Rate(1, "10s", burst=1))
        self.put()
        assert len(self.reserve(policy=quick)) == 1
        assert self.reserve(policy=slow) == []
        self.pass_time(1_000)
        self.put()
        assert len(self.reserve(policy=quick)) == 1
        self.pass_time(1_000)
        self.put()
        assert self.reserve(policy=slow) == []
        self.pass_time(9_000)
        assert len(self.reserve(policy=slow)) == 1

    def test_who_asks_for_no_job_gets_none_and_notes_no_rate(self) -> None:
        slow, quick = self.limited(rate="1/m"), self.limited(rate="5/s")
        self.put()
        self.one(policy=slow)
        [before] = self.ask(ListNotes("limit:"))
        self.put()
        for none in (quick, self.limited(Limit(1, ":"))):
            assert self.reserve(0, policy=none) == []
        assert self.ask(ListNotes("limit:")) == [before]

    def test_what_is_held_back_is_tried_again_when_the_first_of_it_may_begin(self) -> None:
        ids = [self.put(due=NOW - 3 + n, key=key) for n, key in enumerate(("a:1", "b:1", "a:2"))]
        claimed = self.claim(*ids, begin=3, policy=self.limited(Limit(1, per=":"), "1/m"))
        assert [job.id for job in claimed.jobs] == ids[:1]
        assert claimed.again is not None
        assert NOW < claimed.again < NOW + 60_000  # the rate lets the second one begin then

    def test_a_limit_beside_a_rate_leaves_what_that_has_noted(self) -> None:
        self.apply(c.Put(tuple(NewJob("t", b"", NOW) for _ in range(9))))
        rate = self.limited(rate="1/s")
        assert len(self.reserve(policy=rate)) == 1
        assert len(self.reserve(3, policy=self.limited(5))) == 3
        assert self.reserve(policy=rate) == []
        self.pass_time(1_000)
        assert len(self.reserve(policy=rate)) == 1

    def test_a_rate_counts_what_was_given_back(self) -> None:
        self.put()
        policy = self.limited(rate="1/s")
        job = self.one(policy=policy)
        self.apply(c.Release(job.id, job.claims))
        assert self.reserve(policy=policy) == []

    def test_a_limit_goes_with_priorities(self) -> None:
        self.put()
        id = self.put(priority=1)
        assert [job.id for job in self.reserve(policy=self.limited(1))] == [id]

    def test_limits_that_are_off_cost_no_claim(self) -> None:
        assert limits_of(None, None) is None
        self.put()
        assert len(self.reserve(policy=self.limited(1)._replace(limits=Limits()))) == 1
