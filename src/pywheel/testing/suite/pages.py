"""Pages of lists."""

from __future__ import annotations

from typing import Any

from ..._errors import BadJob
from ...jobs.commands import Ack, Cancel, Delete, Nack, Put
from ...jobs.job import Job, NewJob, State
from ...jobs.queries import Filter, GetForecast, GetPage
from .base import FAR, NOW, TERMS, StoreTests


class PageTests(StoreTests):
    """Pages of lists."""

    def pages(self, limit: int = 3, *, newest: bool = False, by_id: bool = False, **filter: Any) -> list[Job]:
        """Return the jobs of all pages, one after the other."""
        found: list[Job] = []
        after = ""
        for _ in range(1_000):
            page = self.ask(GetPage(Filter(**filter), after, limit, newest=newest, by_id=by_id))
            assert len(page.jobs) <= limit
            assert [len(job.body) for job in page.jobs] == list(page.sizes)
            found += page.jobs
            if page.next is None:
                return found
            after = page.next
        raise AssertionError("the pages do not end")

    def paged(self, limit: int = 3, **more: Any) -> list[int]:
        """Return the ids of the jobs of all pages."""
        return [job.id for job in self.pages(limit, **more)]

    def both_ways(self, expected: list[int], **filter: Any) -> None:
        """Check the pages of a filter, upwards and downwards, and its list."""
        assert self.listed(**filter) == sorted(expected)
        for limit in (2, 1_000):
            assert self.paged(limit, **filter) == expected
            assert self.paged(limit, newest=True, **filter) == expected[::-1]

    def crowd(self) -> dict[int, Job]:
        """Put jobs of several topics, keys and due times, and bring them into all states; return them by id."""
        self.apply(
            Put(tuple(NewJob(f"t{n % 3}", b"b%d" % n, NOW + n // 4, f"k{n}" if n % 5 else None) for n in range(48)))
        )
        for n in range(3):
            for job in self.reserve(10, f"t{n}", TERMS._replace(max_attempts=9)):
                match job.id % 4:
                    case 0:
                        self.apply(Ack(job.id, 1))
                    case 1:
                        self.apply(Nack(job.id, 1, None, f"error {job.id % 3}"))
                    case 2:
                        self.apply(Nack(job.id, 1, 5, f"error {job.id % 3}"))
            self.pass_time(1)
        delayed = [id for id in self.listed() if self.state(id) is State.DELAYED]
        self.store.apply([Cancel(id) for id in delayed[::4]])
        return {id: self.job(id) for id in self.listed()}

    def test_pages_by_any_combination_hold_what_a_filter_means_in_both_directions(self) -> None:
        jobs = self.crowd()
        assert {job.state for job in jobs.values()} == set(State)
        assert self.pages() == [jobs[id] for id in sorted(jobs)]
        for topic in (None, "t0", "t1", "nowhere"):
            for state in (None, *State):
                for error in (None, "error 1"):
                    filter = Filter(topic, state, error=error)
                    expected = [id for id in sorted(jobs) if filter.fits(jobs[id])]
                    self.both_ways(expected, topic=topic, state=state, error=error)

    def test_pages_of_many_topics_are_one_list(self) -> None:
        ids = self.apply(Put(tuple(NewJob(f"t{n % 80}", b"", NOW + n % 7) for n in range(320))))
        due = {id: NOW + n % 7 for n, id in enumerate(ids)}
        ids.sort()
        dead = [job.id for n in range(0, 80, 9) for job in self.reserve(2, f"t{n}")]
        self.store.apply([Nack(id, 1, None) for id in dead])
        cancelled = [id for id in ids[::5] if id not in dead]
        self.store.apply([Cancel(id) for id in cancelled])
        rest = [id for id in ids if id not in {*dead, *cancelled}]
        all_of = {State.DEAD: sorted(dead), State.CANCELLED: cancelled, State.DELAYED: rest, None: ids}
        for state, expected in all_of.items():
            assert self.paged(25, state=state) == expected
            assert self.paged(25, state=state, newest=True) == expected[::-1]
        by_due = sorted(rest, key=lambda id: (due[id], id))
        assert self.paged(25, state=State.DELAYED, due_from=NOW) == by_due
        assert self.paged(25, state=State.DELAYED, due_from=NOW, newest=True) == by_due[::-1]
        early = sum(due[id] < NOW + 3 for id in rest)
        assert self.ask(GetForecast([NOW, NOW + 3, NOW + 7])) == [early, len(rest) - early]

    def test_a_key_may_be_in_many_topics(self) -> None:
        ids = sorted(self.put(f"t{number}", key="k") for number in range(70))
        self.both_ways(ids, key="k")
        self.both_ways(ids, key="k", state=State.DELAYED)

    def test_pages_of_a_key_hold_whoever_had_it(self) -> None:
        old = []
        for _ in range(5):
            old.append(self.put(key="k"))
            self.apply(Cancel(old[-1]))
        other = self.put("other", key="k")
        self.put(key="another")
        live = self.put(key="k", due=FAR)
        self.both_ways([*sorted(old), live], topic="t", key="k")
        self.both_ways(sorted([*old, other, live]), key="k")
        self.both_ways(sorted([other, live]), key="k", state=State.DELAYED)
        self.both_ways([live], key="k", due_from=NOW + 1)
        self.both_ways([], key="nobody's")

    def test_pages_of_a_due_range_go_by_due_time(self) -> None:
        jobs = self.crowd()
        delayed = {id: job for id, job in jobs.items() if job.state is State.DELAYED}
        at: dict[int, int | None] = {0: None, 3: NOW + 3, 7: NOW + 7, 9: NOW + 9}
        for topic in (None, "t0", "t1", "nowhere"):
            for first, last in ((at[one], at[other]) for one, other in ((0, 9), (3, 0), (3, 9), (9, 3), (7, 7))):
                filter = Filter(topic, State.DELAYED, None, first, last)
                expected = sorted((job.due, id) for id, job in delayed.items() if filter.fits(job))
                self.both_ways(
                    [id for _, id in expected], topic=topic, state=State.DELAYED, due_from=first, due_until=last
                )
                ids = sorted(id for id, job in jobs.items() if filter._replace(state=None).fits(job))
                self.both_ways(ids, topic=topic, due_from=first, due_until=last)

    def test_pages_of_a_due_range_go_by_id_if_that_is_asked(self) -> None:
        jobs = self.crowd()
        for topic in (None, "t1"):
            for first, last in ((None, NOW + 9), (NOW + 3, NOW + 9), (NOW + 9, None)):
                filter = Filter(topic, State.DELAYED, None, first, last)
                expected = [id for id in sorted(jobs) if filter.fits(jobs[id])]
                for newest in (False, True):
                    assert self.paged(4, by_id=True, newest=newest, **filter._asdict()) == expected[:: 1 - 2 * newest]

    def test_pages_pass_over_nothing_that_is_due_at_the_same_time(self) -> None:
        ids = self.apply(Put(tuple(NewJob("t", b"", NOW) for _ in range(50))))
        ids.sort()
        later = self.put(due=NOW + 1)
        assert self.paged(7, state=State.DELAYED, due_from=NOW) == [*ids, later]
        assert self.paged(7, state=State.DELAYED, due_until=NOW, newest=True) == ids[::-1]

    def test_a_page_knows_jobs_whose_lease_is_over(self) -> None:
        lost, spent = self.put(), self.put()
        self.reserve(1, policy=TERMS)
        self.reserve(1, policy=TERMS._replace(max_attempts=1))
        self.both_ways(sorted([lost, spent]), state=State.RUNNING)
        self.pass_time(1_000)
        self.both_ways([], state=State.RUNNING)
        self.both_ways([lost], state=State.DELAYED)
        self.both_ways([spent], state=State.DEAD)
        self.both_ways([spent], state=State.DEAD, topic="t")

    def test_a_page_goes_on_where_it_ended_while_jobs_come_and_go(self) -> None:
        ids = [self.put() for _ in range(9)]
        page = self.ask(GetPage(Filter("t"), limit=3))
        expected = sorted(ids)
        assert [job.id for job in page.jobs] == expected[:3]
        for id in (*expected[:4], expected[5]):
            self.apply(Delete(id))
        assert page.next is not None
        rest = self.ask(GetPage(Filter("t"), page.next, 100))
        assert [job.id for job in rest.jobs] == [expected[4], *expected[6:]]
        assert rest.next is None

    def test_an_empty_list_is_one_page(self) -> None:
        for filter in (Filter(), Filter("t"), Filter(state=State.DEAD), Filter("t", State.DELAYED, due_from=0)):
            for newest in (False, True):
                assert self.ask(GetPage(filter, newest=newest))[:2] == ([], None)

    def test_a_preview_has_the_beginning_of_each_body_and_the_size_of_all(self) -> None:
        bodies = (b"", b"0123456789", bytes(range(256)) * 400)
        for body in bodies:
            self.put(body=body)
        for preview in (None, 0, 4, 1_000, 10**9):
            page = self.ask(GetPage(Filter("t"), preview=preview))
            assert sorted(job.body for job in page.jobs) == sorted(body[:preview] for body in bodies)
            sizes = {job.id: size for job, size in zip(page.jobs, page.sizes, strict=True)}
            assert all(len(self.job(id).body) == size for id, size in sizes.items())

    def test_a_page_holds_a_bounded_number_of_bytes(self) -> None:
        for n in range(6):
            self.put(body=bytes([n]) * 1_500_000)
        page = self.ask(GetPage(Filter("t")))
        assert 1 <= len(page.jobs) < 6
        assert page.next is not None
        assert [job.body[0] for job in sorted(self.pages(100))] == list(range(6))
        assert len(self.ask(GetPage(Filter("t"), preview=10)).jobs) == 6

    def test_a_page_looks_at_a_bounded_number_of_jobs(self) -> None:
        dead = self.put()
        self.apply(Nack(dead, self.one().claims, None, "wrong"))
        self.apply(Put(tuple(NewJob(f"t{n % 2}", b"", FAR) for n in range(3_000))))
        assert self.paged(100, due_until=NOW, newest=True) == [dead]
        assert self.paged(error="wrong") == [dead]
        assert self.paged(state=State.DEAD, error="wrong", newest=True) == [dead]

    def test_a_cursor_of_another_list_is_refused(self) -> None:
        for n in range(5):
            self.put(due=NOW + n)
        by_id, by_due = Filter("t"), Filter("t", State.DELAYED, due_from=NOW)
        cursors = {}
        for filter in (by_id, by_due):
            for newest in (False, True):
                cursors[filter, newest] = self.ask(GetPage(filter, limit=2, newest=newest)).next
        for (filter, newest), cursor in cursors.items():
            for (other, way), wrong in cursors.items():
                if (filter, newest) == (other, way):
                    assert cursor is not None
                    assert len(self.ask(GetPage(filter, cursor, newest=newest)).jobs) == 3
                else:
                    self.no_page(filter, wrong, newest=newest)
        others: list[Any] = ["x", "i", "i-1", "i1.1", "1", "i" + "9" * 40, "i\u0661", " i1", "i1\n", "i1\0", 1, None]
        for wrong in (*others, b"i1"):
            self.no_page(by_id, wrong)
            self.no_page(by_due, wrong)

    def test_a_page_of_no_number_is_refused(self) -> None:
        for wrong in (0, -1, 1.5, "1", None, True):
            self.no_page(Filter(), limit=wrong)
        for wrong in (-1, 1.5, "1", True):
            self.no_page(Filter(), preview=wrong)

    def test_a_filter_of_any_text_means_what_has_it(self) -> None:
        for text in ("a\1b", "%", "_", "\\", "'", "\u00e9", "\U0001f4a5", "e"):
            id = self.put(text, key=text)
            [job] = self.reserve(topic=text)
            self.apply(Nack(id, job.claims, None, text))
            self.both_ways([id], topic=text, error=text, state=State.DEAD)
            self.both_ways([id], topic=text, key=text)
            assert id in self.paged(error=text)
        assert self.paged(error="\0") == []
        for filter in (Filter("\ud800"), Filter(key="\ud800"), Filter(error="\ud800")):
            self.no_page(filter)

    def no_page(self, *asked: Any, **more: Any) -> None:
        """Check that there is no such page."""
        self.raises(BadJob, lambda: self.ask(GetPage(*asked, **more)))
