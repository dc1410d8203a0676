"""Wake-ups and presence of workers in several processes on a store."""

import contextlib
import os
import resource
import signal
import threading
import time
from pathlib import Path

import pytest

from pywheel import StoreAway
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.job import SHARDS, SLICE, slice_of
from pywheel.jobs.queries import GetJob, ListWorkers
from pywheel.stores import open
from pywheel.stores.ownership import owners
from tests.jobs.waiting import LIMIT, until
from tests.stores.calls import listening, settle
from tests.stores.network import Proxy
from tests.stores.notifying import child

NEVER_SILENT = """
from pywheel.stores import presence
from pywheel.stores.sqlite import page
presence.SILENT, page.SILENT = 3_600, 3_600_000
"""
WORKER = """
import sys
from pywheel.stores import open
from tests.stores.calls import listening
worker = listening(open(sys.argv[1]))
print(worker.worker, flush=True)
while True:
    worker.wait(0.1)
    hints = worker.hints()
    for due in hints.due:
        print(due.id, flush=True)
    if hints.reload:
        print("reload", flush=True)
        worker.quiet()
    worker.beat(0)
"""


@pytest.fixture
def store(shared_url):
    with open(shared_url) as store:
        yield store


def put(store, count=1, due=1):
    """Put jobs, one in each slice of time; return their ids."""
    [ids] = store.apply([ops.Put(tuple(NewJob("t", b"x", due + n * SLICE) for n in range(count)))])
    return ids


class Beating:
    """A notifier of this process, at work as a worker's is."""

    def __init__(self, store):
        self.notifier = listening(store)
        self.heard, self.reloads = set(), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self):
        while not self._over.is_set():
            with contextlib.suppress(StoreAway):  # it tries again
                self._turn()

    def _turn(self):
        self.notifier.wait(0.05)
        hints = self.notifier.hints()
        self.heard.update(due.id for due in hints.due)
        self.reloads += hints.reload
        self.notifier.beat(0)

    def silence(self, worker):
        """Return for how many seconds a worker has been silent: a minute if it is gone."""
        return {member.worker: member.silent for member in self.notifier.members()}.get(worker, 60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join(60)
        self.notifier.close()


def mine(store, ids, me, *others):
    table = owners("t", sorted([me, *others]))
    return {id for id in ids if table[slice_of(store.ask(GetJob(id)).due)] == me}


def name_of(process):
    return process.stdout.readline().strip()


def said(process, count):
    """Return so many jobs of which a process was told."""
    found = set()
    while len(found) < count:
        line = process.stdout.readline().strip()
        assert line, "the process ended"
        if line != "reload":
            found.add(int(line))
    return found


@pytest.mark.stress
def test_each_process_is_told_of_the_jobs_in_its_own_shards(store, shared_url, monkeypatch):
    monkeypatch.setattr("pywheel.stores.presence.SILENT", 3_600)
    monkeypatch.setattr("pywheel.stores.sqlite.page.SILENT", 3_600_000)
    worker = NEVER_SILENT + WORKER  # a slow one would lose its shards
    with child("-c", worker, shared_url) as one, child("-c", worker, shared_url) as other:
        names = name_of(one), name_of(other)
        until(lambda: {member.worker for member in store.ask(ListWorkers())} == {*names})
        ids = [*put(store, 2 * SHARDS), *(id for _ in range(5) for id in put(store))]
        for process, who in ((one, names), (other, names[::-1])):
            expected = mine(store, ids, *who)
            assert said(process, len(expected)) == expected


@pytest.mark.stress
def test_one_that_is_killed_is_gone_at_once_and_one_that_leaves_too(store, shared_url):
    with Beating(store) as me, child("-c", WORKER, shared_url) as process:
        other = name_of(process)
        until(lambda: me.silence(other) < 60)
        process.kill()
        until(lambda: me.silence(other) > 3.4)
        ids = put(store, SHARDS)
        until(lambda: me.heard >= set(ids))
        with Beating(store) as next_one:
            until(lambda: me.silence(next_one.notifier.worker) < 60)
        until(lambda: next_one.notifier.worker not in {member.worker for member in me.notifier.members()})


@pytest.mark.stress
def test_one_that_is_stopped_is_passed_by_and_reads_all_again_when_it_goes_on(store, shared_url):
    with Beating(store) as me, child("-c", WORKER, shared_url) as process:
        other = name_of(process)
        until(lambda: me.silence(other) < 60)
        os.kill(process.pid, signal.SIGSTOP)
        until(lambda: me.silence(other) > me.notifier.silent)

        def all_shards_are_mine():
            ids = put(store, SHARDS)
            time.sleep(0.2)
            return me.heard >= set(ids)

        until(all_shards_are_mine)
        os.kill(process.pid, signal.SIGCONT)
        while (line := process.stdout.readline().strip()) != "reload":
            assert line, "the process ended"
        until(lambda: me.silence(other) < 2)


@pytest.mark.stress
def test_a_pause_is_quiet_once_all_have_said_so_and_a_stopped_one_is_waited_for(store, shared_url):
    with child("-c", WORKER, shared_url) as process:
        name_of(process)
        put(store)
        store.apply([ops.Pause("t", True)])
        assert store.quiet("t", 30)
        assert store.quiet("new", 0) is False
        store.apply([ops.Pause("t", False)])
        assert store.quiet("t", 30) is False
        os.kill(process.pid, signal.SIGSTOP)
        store.apply([ops.Pause("t", True)])
        assert store.quiet("t", 0.5) is False
        process.kill()
        assert store.quiet("t", 30)


def test_hints_that_were_lost_with_the_connection_are_made_up_for(server):
    url = server.url()
    with Proxy(server) as proxy, open(url) as store, open(server.again(url, via=proxy)) as cut, Beating(cut) as me:
        until(lambda: me.notifier.worker in {member.worker for member in store.ask(ListWorkers())})
        first = put(store, 3)
        until(lambda: me.heard >= set(first))
        before = me.reloads
        proxy.cut_once()
        lost = put(store, 3)
        until(lambda: me.reloads > before or me.heard >= set(lost))
        again = me.reloads
        later = put(store, 3)
        until(lambda: me.reloads > again or me.heard >= set(later))


def test_a_hint_that_was_read_with_an_answer_is_not_waited_for(postgres_server, monkeypatch):
    """The server may send both at once: then nothing more comes that could be waited for."""
    url = postgres_server.url()
    with open(url) as store, open(url) as other:
        ears = listening(store)
        [id] = put(other)
        answers = ears._session.pgconn
        until(lambda: answers.socket in ears._select(0, answers.socket))
        answers.consume_input()
        assert not answers.is_busy()  # which has parsed all that came
        monkeypatch.setattr(ears, "_select", None)  # it would wait by this
        assert ears.wait(LIMIT)
        assert [due.id for due in ears.hints().due] == [id]


def test_a_worker_of_a_program_with_thousands_of_open_files_is_woken(store, shared_url):
    """`select` knows files up to 1 023."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(4_096, limits[0]), limits[1]))
    try:
        with contextlib.ExitStack() as files, open(shared_url) as other:
            for _ in range(1_024):
                files.enter_context(Path(os.devnull).open())
            ears = listening(store)
            ears.beat(0)
            settle(ears)
            assert not ears.wait(0.1)
            ids = put(other)
            until(lambda: ears.wait(1))
            hints = ears.hints()
            assert ([due.id for due in hints.due], hints.reload) == (ids, False)
            ears.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_what_a_process_put_is_told_of_by_the_time_its_notifier_is_closed(sql_server, monkeypatch):
    """A child that was forked ends without any further word."""
    url = sql_server.url()
    with open(url) as store, open(url) as other:
        listening(store)
        mine = other.notifier("other")
        ringer = other._presence._ringer
        sent, send = [], ringer._send

        def slowly(hints):
            time.sleep(0.1)
            send(hints)
            sent.append(hints)

        ringer._send = slowly
        monkeypatch.setattr(other._presence, "flush", lambda: ringer.flush(LIMIT))  # not for a second alone
        [id] = put(other)
        mine.close()
        assert any(id in (ids or ()) for hints in sent for ids in hints.values())


def entered_anew(ears):
    """Break the session of a notifier, and have it make its row anew."""
    ears._deaf()
    ears._behind = None
    ears.beat(0)


def test_one_whose_session_broke_is_told_of_puts_before_it_publishes_its_horizon_again(sql_server):
    url = sql_server.url()
    with open(url) as store, open(url) as other:
        ears = listening(store)
        entered_anew(ears)
        settle(ears)
        put(other)
        other._presence.flush()
        until(lambda: ears.wait(0.1), 20)
        assert ears.hints().due


def test_a_pause_waits_for_one_whose_session_broke_until_it_says_that_nothing_starts(sql_server):
    with open(sql_server.url()) as store:
        ears = listening(store)
        put(store)
        store.apply([ops.Pause("t", True)])
        entered_anew(ears)
        assert not store.quiet("t", 0)
        assert ears.hints().reload
        assert not store.quiet("t", 0)
        ears.quiet()
        assert store.quiet("t", 0)


def test_a_job_that_is_put_while_its_worker_takes_its_hints_comes_with_the_next_ones(sql_server):
    with open(sql_server.url()) as store:
        ears = listening(store)

        class Taken(dict):
            """Hints that the worker's thread takes as another one adds to them."""

            def update(self, jobs):
                ears.hints()
                super().update(jobs)

        ears._noted = Taken()
        [id] = put(store)
        hints = ears.hints()
        assert hints.reload or [due.id for due in hints.due] == [id]
