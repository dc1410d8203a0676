"""One reader for all viewers: the contents of a snapshot, and how it reaches many."""

import asyncio
import contextlib
import gc
import re
import threading
import tracemalloc
import zlib
from collections import deque
from itertools import pairwise
from types import SimpleNamespace

import httpx
import pytest
from starlette.requests import ClientDisconnect

from pywheel import JobQueue, StoreAway
from pywheel.jobs.commands import Announce
from pywheel.jobs.job import Attempt, Job, Outcome, State
from pywheel.jobs.queries import CountJobs, Member
from pywheel.server import app, sse
from pywheel.server.access import EVERYTHING
from pywheel.server.coming import HORIZONS, Forecaster, Part
from pywheel.server.live import Live, Reader
from pywheel.server.page import feed, words
from pywheel.server.page.drawings import histogram, timeline
from pywheel.server.page.words import NOTHING, ago, error_group, first_line, late, length, number, stamp
from tests.asked import when_asked
from tests.jobs.waiting import until
from tests.server.client import Exchange, scope

from .site import tokens


@pytest.fixture
def manual(clock):
    with JobQueue("memory:", clock=clock) as queue:
        yield queue


@pytest.fixture
def look(manual):
    """Return what takes a snapshot, with one reader."""
    reader = Reader(lambda: manual.store)
    return lambda *wanted: reader.look(set(wanted))


def work(queue, topic, number):
    for job in queue.reserve(topic, number):
        queue.ack(job)


# ---- snapshots -------------------------------------------------------------------------------------------------------


def test_throughput_and_lateness_are_those_of_what_ended(manual, clock, look):
    manual.put_many([manual.job("mail", b"", delay=1) for _ in range(20)])
    look()
    clock.advance(1.05)
    work(manual, "mail", 20)
    clock.advance(0.95)
    mail = look().topics["mail"]
    assert mail.rate == pytest.approx(10)
    assert (mail.late_p50, mail.late_p99) == (50, 50)
    assert mail.trend == (20,)
    clock.advance(11)
    mail = look().topics["mail"]
    assert mail.rate == 0
    assert mail.late_p50 == 50
    clock.advance(61)
    assert look().topics["mail"].late_p50 is None


def test_what_ended_while_nobody_looked_is_no_throughput_of_now(manual, clock, look):
    manual.put_many([manual.job("mail", b"") for _ in range(30)])
    look()
    for ended, later in ((25, 25), (5, 12)):
        work(manual, "mail", ended)
        for seconds in (later, 1):
            clock.advance(seconds)
            assert look().topics["mail"].rate == 0


def test_of_very_many_topics_it_is_not_seen_what_is_coming_of_all(manual, monkeypatch, look):
    """It would cost as many looks as there are topics, for each bar."""
    monkeypatch.setattr("pywheel.server.live._WIDE", 2)
    for topic in ("a", "b"):
        manual.put(topic, b"", delay=5)
    assert look(None).coming[None].parts[0].total == 2
    manual.put("c", b"", delay=5)
    snapshot = look(None, "c")
    assert snapshot.coming[None] is None
    assert snapshot.coming["c"].parts[0].total == 1


def test_a_snapshot_costs_so_many_queries_however_many_topics_there_are(manual, clock, monkeypatch, look):
    asked, counts = [], []
    when_asked(monkeypatch, manual.store, object, asked.append)
    for turn in range(3):
        manual.put_many([manual.job(f"{turn}.{topic}", b"") for topic in range(50)])
        for topic in range(50):
            work(manual, f"{turn}.{topic}", 1)
        clock.advance(1)
        asked.clear()
        snapshot = look()
        counts.append(len(asked))
        assert {one.topic for one in snapshot.ended} == {f"{turn}.{topic}" for topic in range(50)}
    assert counts == [5, 5, 5]


def test_nothing_is_counted_twice_and_purging_is_no_negative_throughput(manual, clock, look):
    manual.put_many([manual.job("mail", b"") for _ in range(10)])
    look()
    for act in (lambda: work(manual, "mail", 4), lambda: work(manual, "mail", 3), manual.jobs.purge):
        act()
        clock.advance(1)
        trend = look().topics["mail"].trend
    assert trend == (4, 3, 0)


def test_the_oldest_due_is_that_of_delayed_jobs_paused_or_not(manual, clock, look):
    for delay in (5, 50):
        manual.put("mail", b"", delay=delay)
    manual.topics.pause("mail")
    clock.advance(10)
    snapshot = look()
    assert snapshot.at - snapshot.topics["mail"].first_due == 5_000


def test_a_topic_that_is_new_has_what_ended_in_it_since(manual, clock, look):
    look()
    manual.put_many([manual.job("mail", b"") for _ in range(20)])
    work(manual, "mail", 20)
    clock.advance(2)
    assert look().topics["mail"].rate == 10


def test_of_topics_in_which_nothing_ends_the_counts_alone_are_kept(manual, clock, look):
    manual.put_many([manual.job(f"quiet.{topic}", b"", delay=600) for topic in range(60)])
    manual.put_many([manual.job("busy", b"") for _ in range(61)])
    look()
    tracemalloc.start()
    try:
        for _ in range(61):
            work(manual, "busy", 1)
            clock.advance(1)
            snapshot = look()
        gc.collect()
        own = [tracemalloc.Filter(inclusive=True, filename_pattern="*/live.py")]
        kept = tracemalloc.take_snapshot().filter_traces(own)
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in kept.traces) < 12_000
    assert (snapshot.topics["quiet.7"].trend, snapshot.topics["busy"].trend) == ((0,) * 60, (1,) * 60)


def test_what_ended_is_remembered_of_so_many_topics_the_last_ones(manual, clock, monkeypatch, look):
    monkeypatch.setattr("pywheel.server.live._PASTS", 3)
    manual.put_many([manual.job(f"t{topic}", b"") for topic in range(5)])
    look()
    for topic in range(5):
        work(manual, f"t{topic}", 1)
        clock.advance(1)
        topics = look().topics
    assert [sum(topics[name].trend) for name in topics] == [0, 0, 1, 1, 1]


def test_a_row_with_a_form_has_the_id_of_its_topic_or_worker_wherever_it_stands(manual, look):
    """By its id a browser finds the row again, and the focus with it: by its place that would be another one's."""

    def rows():
        snapshot = look()
        for view, part, kind in (("overview", "topics", "topic"), ("workers", "workers", "worker")):
            text = feed.fragments_of(view, snapshot, EVERYTHING, "", None)[part]
            yield dict(re.findall(rf'<tr id="([^"]+)".*?name="{kind}" value="([^"]+)"', text, re.DOTALL))

    with contextlib.ExitStack() as stack:

        def works(worker):
            ear = stack.enter_context(contextlib.closing(manual.store.notifier(worker)))
            manual.store.apply([Announce(ear.worker, ("zeta",))])

        manual.put("zeta", b"")
        works("zeta:1")
        before = [*rows()]
        manual.put("alpha <1>", b"")
        works("alpha:1")
        after = [*rows()]
    for one, two in zip(before, after, strict=True):
        assert (len(one), len(two)) == (1, 2)
        assert one.items() < two.items()


def test_of_many_workers_with_many_topics_the_page_shows_some_those_that_need_somebody_first(look, monkeypatch):
    def shown(number, topics):
        members = [
            Member(f"w{n:04}", frozenset(f"t{topic:03}" for topic in range(topics)), 9.0 * (n == 300), 5 * (n == 200))
            for n in range(number)
        ]
        return feed.fragments_of("workers", look()._replace(members=tuple(members)), EVERYTHING, "", None)["workers"]

    asked, original = [], feed.owners
    monkeypatch.setattr(feed, "owners", lambda topic, names: asked.append(topic) or original(topic, names))
    text = shown(400, 90)
    names = re.findall(r'name="worker" value="(\w+)"', text)
    assert names == [*(f"w{n:04}" for n in range(98)), "w0200", "w0300"]
    assert text.count("topic=t019") == 100
    assert text.count("topic=t020") == 0
    assert text.count("and 70 more") == 100
    assert "There are 400 workers." in text
    assert asked == [f"t{topic:03}" for topic in range(20)]
    assert sum(map(int, re.findall(r'class="faint">(\d+)</span></span>', text))) <= 32 * 20
    text = shown(100, 20)
    assert sum(map(int, re.findall(r'class="faint">(\d+)</span></span>', text))) == 32 * 20
    assert " more" not in text
    assert "There are" not in text


@pytest.mark.parametrize("name", ["a\u2028b", "a\x85b", "a\x0bb", "a\x1cb"])
def test_a_live_view_names_a_topic_as_it_is_whatever_is_a_line_end_elsewhere(manual, look, name):
    """Otherwise its button would pause a topic of another name."""
    manual.put(name, b"")
    part = feed.fragments_of("overview", look(), EVERYTHING, "", None)
    lines = re.split("\r\n|\r|\n", feed._event(part)[0].decode())  # as browsers read events
    text = "\n".join(line.removeprefix("data: ") for line in lines)
    assert re.findall('name="topic" value="([^"]*)"', text) == [name]


def test_a_store_that_fails_leaves_the_figures_of_before_and_says_why(manual, look):
    manual.put("mail", b"", delay=5)
    before = look()
    manual.close()
    after = look()
    assert after.topics == before.topics
    assert after.number == before.number + 1
    assert after.error.startswith("StoreClosed")


def test_what_is_coming_lies_in_its_part(manual, clock):
    clock.advance(0.3)
    at = manual.store.clock.wall()
    manual.put("shop", b"", delay=2.5)
    for delay, times in ((2.5, 3), (59, 1), (90, 2), (86_000, 4)):
        manual.put_many([manual.job("mail", b"", delay=delay) for _ in range(times)])
    minute, hour, day = Forecaster().look(manual.store, "mail", at).parts
    assert (minute.total, hour.total, day.total) == (4, 6, 10)
    assert minute.counts[(at + 2_500 - minute.start) // 1000] == 3
    assert Forecaster().look(manual.store, None, at).parts[0].total == 5


def test_what_is_due_already_is_not_coming_and_farther_horizons_are_looked_at_less_often(manual, clock):
    forecaster = Forecaster()

    def totals():
        coming = forecaster.look(manual.store, None, manual.store.clock.wall())
        return coming.overdue, [part.total for part in coming.parts]

    manual.put("mail", b"")
    clock.advance(0.25)
    assert totals() == (1, [0, 0, 0])
    manual.put("mail", b"", delay=30)
    clock.advance(1)
    assert totals() == (1, [1, 0, 0])
    clock.advance(10)
    assert totals() == (1, [1, 1, 0])


def test_a_part_that_is_capped_is_drawn_as_such_and_has_no_fewer_than_a_nearer_one(manual):
    minute, day = HORIZONS[0], HORIZONS[2]
    manual.put_many([manual.job("mail", b"", delay=3.5) for _ in range(minute.most + 500)])
    manual.put("mail", b"", delay=9)
    drawn = histogram(Forecaster().look(manual.store, None, manual.store.clock.wall()).parts[0])
    assert (drawn.capped.count("M"), drawn.bars.count("M")) == (1, 1)
    assert (drawn.total[-1], drawn.peak[-1]) == ("+", "+")
    part = Part(day, 0, (day.most, 7))
    for least, total in ((90_000, 90_000), (3, day.most + 7)):
        assert histogram(part, least=least).total.replace(GAP, "") == f"{total}+"


# ---- many who look ---------------------------------------------------------------------------------------------------


@pytest.fixture
def counted(queue, monkeypatch):
    """The questions for the counts of a store from now on."""
    queue.put("mail", b"", delay=600)
    asked = []
    when_asked(monkeypatch, queue.store, CountJobs, asked.append)
    return asked


def events(site, view="view=overview", token=None, **headers):
    """Return a generator of the events of a stream."""
    client = site.client(token)
    with client, client.stream("GET", f"/live?{view}", headers={"accept-encoding": "identity", **headers}) as answer:
        assert answer.status_code == 200, answer.read()
        text = ""
        for chunk in answer.iter_text():
            text += chunk
            while "\n\n" in text:
                event, _, text = text.partition("\n\n")
                yield event


def test_the_first_event_has_all_and_the_next_what_is_new(queue, sites):
    queue.put("mail", b"", delay=600)
    site = sites(queue)
    stream = events(site)
    first = next(stream)
    assert "#topics" in first
    assert "mail" in first
    assert "#as-of" in next(stream)
    queue.put("shop.new", b"", delay=600)
    assert any("shop.new" in next(stream) for _ in range(5))
    stream.close()
    with site.client() as client, client.stream("GET", "/live?view=overview") as answer:  # a browser's is compressed
        assert answer.headers["content-encoding"] == "gzip"
        text = map(zlib.decompressobj(31).decompress, answer.iter_raw())
        assert any(b"mail" in part for part in text)


def test_however_many_look_the_store_is_read_once_a_snapshot_and_rendered_once_for_the_same_rights(
    queue, sites, counted, monkeypatch
):
    rendered, original = [], feed.fragments_of
    monkeypatch.setattr(feed, "fragments_of", lambda *words: rendered.append(words[0]) or original(*words))
    site = sites(queue, known=tokens())
    site.context.live.every = 0.1
    streams = [events(site, token=token) for token in ("viewer", "viewer", "admin", "viewer")]
    seen = []
    for _ in range(6):
        for stream in streams:
            next(stream)
        seen.append((site.context.live._latest.number, len(counted)))
    for stream in streams:
        stream.close()
    (first, before), *_, (last, after) = seen
    assert after - before <= last - first + 1
    assert len(rendered) <= 2 * site.context.live._latest.number


def test_all_looks_are_made_by_one_thread_until_it_is_let_go(manual, monkeypatch):
    """Each thread that has looked at very many topics would keep the room for them."""
    live, threads, held = Live(lambda: manual.store), [], threading.Event()
    when_asked(monkeypatch, manual.store, CountJobs, lambda _: threads.append(threading.current_thread()))

    async def main():
        await live.now(["mail"])
        waiting = asyncio.get_running_loop().run_in_executor(None, held.wait)
        await live.now(["shop"])
        held.set()
        await waiting
        assert threads[0] is threads[1]
        live.close()
        await live.now(["bank"])

    asyncio.run(main())
    live.close()
    for thread in threads:
        thread.join(60)
    assert len(set(threads)) == 2
    assert not any(thread.is_alive() for thread in threads)


def test_who_watches_is_told_what_ended_whoever_asked_for_the_snapshot(manual, clock):
    """A page that wants something else to be looked at makes one between two; what ended is in no other one."""
    live = Live(lambda: manual.store, every=0.05)
    manual.put_many([manual.job("mail", b"") for _ in range(3)])
    ended = []

    async def watch():
        async with contextlib.aclosing(live.watch()) as snapshots:
            async for snapshot in snapshots:
                ended.extend(one.id for one in snapshot.ended)
                if len(ended) == 3:
                    return

    async def main():
        await live.now()
        watching = asyncio.create_task(watch())
        for topic in ("mail", "shop", "bank"):
            work(manual, "mail", 1)
            clock.advance(0.01)
            await live.now([topic])
        await asyncio.wait_for(watching, 60)

    asyncio.run(main())
    assert sorted(ended) == sorted(job.id for job in manual.jobs.list("mail"))


def test_what_ended_is_told_though_the_caller_that_had_it_looked_for_was_cancelled(manual, monkeypatch):
    """The reader gives each ended job once, and a page may be closed during its look."""
    live, begun, held = Live(lambda: manual.store), threading.Event(), threading.Event()
    id = manual.put("mail", b"")
    work(manual, "mail", 1)

    def slowly(_):
        begun.set()
        held.wait(60)

    when_asked(monkeypatch, manual.store, CountJobs, slowly)

    async def main():
        page = asyncio.create_task(live.now())
        await asyncio.to_thread(begun.wait, 60)
        async with contextlib.aclosing(live.watch()) as snapshots:
            page.cancel()
            await asyncio.wait([page])
            held.set()
            return page.cancelled(), [one.id for one in (await anext(snapshots)).ended]

    assert asyncio.run(main()) == (True, [id])
    live.close()


@pytest.fixture
def slow(manual, clock, monkeypatch):
    """Return what says of a look to come how many seconds it takes, and whether it fails."""
    monkeypatch.setattr("pywheel.server.live.time", SimpleNamespace(monotonic=clock.time, time=clock.wall))
    coming = deque()

    def slowly(_):
        seconds, fails = coming.popleft() if coming else (0, False)
        clock.advance(seconds)
        if fails:
            raise StoreAway("gone")

    when_asked(monkeypatch, manual.store, CountJobs, slowly)
    return coming.append


@pytest.mark.parametrize(("seconds", "looks"), [((0, 3, 0), 3), ((0, 3, 3, 0), 3)], ids=["one", "two"])
def test_the_store_rests_after_slow_looks_and_not_after_a_single_one(manual, slow, seconds, looks):
    """That says nothing of the next one, and what it saw would be shown for that long."""
    live = Live(lambda: manual.store, every=0.0)
    for each in seconds:
        slow((each, False))

    async def main():
        return [(await live.now()).number for _ in seconds]

    assert asyncio.run(main()) == [min(number, looks) for number in range(1, len(seconds) + 1)]
    live.close()


@pytest.mark.parametrize("away", [False, True])
def test_who_watches_gets_the_next_snapshot_soon_after_a_bad_look(manual, slow, away):
    live = Live(lambda: manual.store, every=0.0)
    slow((0, False))
    slow((10, away))

    async def main():
        async with contextlib.aclosing(live.watch(kept=9)) as snapshots:
            return [(await asyncio.wait_for(anext(snapshots), 20)).error for _ in range(3)]

    assert asyncio.run(main()) == [None, "StoreAway" if away else None, None]
    live.close()


def test_what_is_shown_is_rendered_beside_the_loop(queue, sites, monkeypatch):
    """Of very many topics that takes a while, and others have requests."""
    threads, original, site = [], feed.fragments_of, sites(queue)

    def fragments_of(*words):
        threads.append(threading.current_thread())
        return original(*words)

    monkeypatch.setattr(feed, "fragments_of", fragments_of)
    with site.client() as client:
        assert client.get("/").status_code == 200
    [thread] = threads
    assert thread is not site.thread


def test_a_reader_that_fails_ends_the_streams_so_that_they_ask_anew(queue, sites, monkeypatch):
    site = sites(queue)
    site.context.live.every = 0.05
    stream = events(site)
    next(stream)
    with monkeypatch.context() as patch:
        patch.setattr(site.context.live._reader, "look", lambda wanted: 1 / 0)
        assert len(list(stream)) < 10
    again = events(site)
    assert "#topics" in next(again)
    again.close()


def test_when_nobody_looks_nothing_is_read(queue, sites, counted, monkeypatch):
    monkeypatch.setattr("pywheel.server.live._LINGER", 0.0)
    site = sites(queue)
    site.context.live.every = 0.02
    stream = events(site)
    next(stream)
    next(stream)
    stream.close()
    until(lambda: not site.context.live._watches and site.context.live._task.done())
    before = len(counted)
    threading.Event().wait(0.2)
    assert len(counted) == before


def test_first_views_at_once_are_one_look(queue, counted):
    live = Live(lambda: queue.store)

    async def main():
        return await asyncio.gather(*(live.now([None]) for _ in range(20)))

    assert len(set(map(id, asyncio.run(main())))) == 1
    assert len(counted) == 1


def test_a_server_that_stops_ends_its_streams(site):
    stream = events(site)
    next(stream)
    site.stop()
    with contextlib.suppress(httpx.RemoteProtocolError):
        assert len(list(stream)) < 5


def test_a_reader_that_takes_nothing_is_let_go(queue, monkeypatch):
    monkeypatch.setattr(sse, "_SLOW", 0.05)
    queue.put("mail", b"", delay=60)

    async def main():
        reader = Exchange(app(queue, access="open"), scope("/live", query=b"view=overview"), takes=2)
        await asyncio.wait_for(reader.request, 60)
        return len(reader.sent)

    assert asyncio.run(main()) == 3


# ---- words and drawings ----------------------------------------------------------------------------------------------

GAP = "\u202f"


def test_durations_numbers_and_times_are_short():
    texts = {
        0: "0 ms", 999: "999 ms", 1_500: "1.5 s", 9_000: "9 s", 61_000: "1 min 1 s", 3_600_000: "1 h",
        3_661_000: "1 h 1 min", 90_000_000: "1 d 1 h", 400 * 86_400_000: "400 d",
    }  # fmt: skip
    assert {value: length(value).replace(GAP, " ") for value in texts} == texts
    assert number(1234567).replace(GAP, " ") == "1 234 567"
    assert late(None) == NOTHING
    told = [ago(*times).replace(GAP, " ") for times in ((1_000, 1_500), (61_000, 0), (0, 7_200_000))]
    assert told == ["now", "in 1 min 1 s", "2 h ago"]
    assert stamp(1_927_857_906_007) == "2031-02-03 04:05:06.007 UTC"
    assert stamp(2**62).startswith("9999-")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("timeout after 3.5 s", "timeout after 30 s"),
        ("order 8f14e45fceea167a not found", "order 0f14e45fceea1670 not found"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 923e4567-e89b-12d3-a456-426614174009"),
        ("at 0x7f3a", "at 0xdeadbeef"),
        (
            "Traceback (most recent call last):\n  File 1\nKeyError: 1",
            "Traceback (most recent call last):\n\nKeyError: 22",
        ),
    ],
)
def test_errors_of_one_kind_are_one_group_and_those_of_others_are_not(one, other):
    assert error_group(one) == error_group(other)
    assert len({error_group(text) for text in (one, "refused", None, "KeyError: 'a'", "KeyError: 'b'")}) == 5
    assert first_line("") == first_line(None) == ""
    assert len(first_line("x" * 1000)) == 160


def test_a_timeline_has_its_stretches_in_order_and_within_its_width():
    rows = [
        Attempt(1, 1, 1_000, 1_500, Outcome.FAILED, "w", "no"),
        Attempt(2, 2, 61_500, 61_600, Outcome.LOST, "w", None),
        Attempt(3, 3, 90_000_000, None, None, "w", None),
    ]
    job = Job(1, "mail", b"", 90_000_000, 0, State.RUNNING, claims=3, attempt=3, lease_until=90_060_000)
    parts = timeline(job, rows, 90_010_000)
    assert [part.kind for part in parts] == ["waited", "failed", "waited", "lost", "waited", "running"]
    assert all(part.width > 0 for part in parts)
    assert all(before.x + before.width <= after.x for before, after in pairwise(parts))
    assert parts[-1].x + parts[-1].width <= 1000


def test_a_stream_that_is_behind_changes_no_news_of_the_others(manual, clock, look):
    """It may wait for the store, to ask for its rights, with a snapshot that is old by then."""
    shown = feed.Feed(Live(lambda: manual.store))
    view = feed.View("overview", None, "", EVERYTHING)
    snapshots = [look()]
    for change in (lambda: manual.put("mail", b"", delay=60), lambda: manual.jobs.delete(1)):
        change()
        snapshots.append(look())

    async def main():
        first = await shown.frame(view, snapshots[0])
        second = await shown.frame(view, snapshots[1])
        assert (await shown.frame(view, snapshots[0])).number in (1, 2)
        third = await shown.frame(view, snapshots[2])
        assert first.parts["totals"] == third.parts["totals"] != second.parts["totals"]
        assert b"#totals" in third.news[0]

    asyncio.run(main())


def test_a_clock_that_is_set_back_leaves_throughput_and_lateness_of_now(manual, clock, look):
    """Not those of before, and none, until the clock is where it was."""

    def working(number):
        manual.put_many([manual.job("mail", b"", delay=1) for _ in range(number)])
        clock.advance(1)
        work(manual, "mail", number)
        return look().topics["mail"]

    look()
    working(1)
    clock.step(-86_400)
    working(1)
    clock.advance(20)
    look()
    mail = working(20)
    assert (mail.rate, mail.late_p50) == (pytest.approx(2), 0)
    assert max(mail.trend) == 20


def test_a_clock_that_is_set_back_leaves_what_ends_now_however_much_has_ended_in_times_to_come(
    manual, clock, look, monkeypatch
):
    monkeypatch.setattr("pywheel.server.live._NEWEST", 10)

    def working(number):
        ids = manual.put_many([manual.job("mail", b"") for _ in range(number)])
        work(manual, "mail", number)
        clock.advance(6)
        return ids

    look()
    told = working(10)
    assert [one.id for one in look().ended] == told
    unseen = working(1)
    clock.step(-3_600)
    for left in (unseen, *[[]] * 60):
        snapshot = look()
        assert [one.id for one in snapshot.ended] == left
        told = working(2)
        snapshot = look()
        assert ([one.id for one in snapshot.ended], snapshot.cut) == (told, False)
        assert snapshot.topics["mail"].late_p99 == 0


@pytest.mark.parametrize("asked", ["GET", "HEAD"])
def test_a_stream_whose_end_fails_has_left(asked):
    """Otherwise its token would have a place less, for good."""
    left = []

    async def told():
        try:
            yield b"data: 1\n\n"
            await asyncio.sleep(60)
        finally:
            raise MemoryError

    async def taken(message):
        if message.get("body"):
            raise OSError("gone")

    async def main():
        stopping = sse.Stopping()
        stream = sse.EventStream(told(), stopping, lambda: left.append(True))
        with contextlib.suppress(MemoryError, ClientDisconnect):
            await stream(scope("/live", asked), asyncio.Event().wait, taken)

    asyncio.run(main())
    assert left == [True]


def test_errors_of_long_words_with_hyphens_are_grouped_without_looking_at_them_again_and_again():
    """Otherwise this would take hours, and a thousand dead jobs with the longest errors minutes."""
    for shape, instead in words._SHAPES:
        assert shape.sub(instead, "a-" * 300_000) == "a-" * 300_000
