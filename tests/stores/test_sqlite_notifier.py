"""Wake-ups and presence of the SQLite store, by the workers' page: rings, hints, members, its files, leases, pauses."""

import itertools
import math
import multiprocessing
import threading
import time
from concurrent.futures import wait
from contextlib import closing, suppress

import pytest

from pywheel import StoreError
from pywheel.jobs import NewJob
from pywheel.jobs import commands as ops
from pywheel.jobs.job import SHARDS, SLICE, Due
from pywheel.jobs.queries import GetNextLease
from pywheel.stores import open
from pywheel.stores.notifier import SILENT
from pywheel.stores.sqlite import page
from pywheel.stores.sqlite.page import GONE, HEARTBEAT, SLOTS
from pywheel.stores.sqlite.presence import Telling
from tests.jobs.waiting import LIMIT, until
from tests.stores import calls
from tests.stores.files import interrupted, put
from tests.stores.notifying import FAR, Host, by_owner, ids, settle, settled, workers_of


def hearing(*hosts, horizon=FAR):
    """Return a worker of each of these that is to hear of all jobs up to a horizon, and has heard all until now."""
    workers = [host.notifier("t") for host in hosts]
    for worker in workers:
        worker.publish(horizon)
    settled(*workers)
    return workers


def is_to_read_again(worker):
    """Whether it is rung, and told that its hints are not complete."""
    return worker.wait(0) and worker.hints().reload


# ---- rings and hints ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [3, 200])
def test_only_the_owner_is_rung_and_gets_the_hint(host, other, count):
    workers = hearing(*itertools.islice(itertools.cycle((host, other)), count))
    assert len({worker.worker for worker in workers}) == len(workers[0].members()) == count
    put = other.put_all_over()
    for worker, mine in zip(workers, by_owner(put, workers), strict=True):
        worker.beat(0)
        assert worker.wait(0) is bool(mine)
        assert ids(worker.hints()) == mine
        assert worker.wait(0) is False
        assert worker.hints() == ([], False)


def test_a_put_whose_writer_died_before_it_rang_is_found_by_the_next_looks(host, other):
    workers = hearing(host, other)
    with other.begun() as turn:
        turn.put(10)
    for worker in workers:
        look(worker)
        assert worker.wait(0) is False  # it may ring yet
        look(worker)
        assert worker.wait(0) is True
        assert worker.hints() == ([], True)
        look(worker)
        look(worker)
        assert worker.wait(0) is True  # again, as nobody has told yet
    turn.tell()
    settled(*workers)
    for worker in workers:
        look(worker)
        look(worker)
        assert worker.wait(0) is False


def test_a_put_whose_writer_died_in_its_turn_is_told_by_the_next_writer(host, other, monkeypatch):
    [worker] = hearing(host)
    with monkeypatch.context() as patch:
        patch.setattr(Telling, "tell", lambda _: None)
        other.put(10)
    assert worker.wait(0) is False
    host.put(FAR + 1)
    assert is_to_read_again(worker)


def look(worker):
    worker._look_at = 0
    worker.beat(0)


def test_a_horizon_that_moves_during_the_commit_causes_a_reload(host):
    [worker] = hearing(host, horizon=100)
    with host.begun() as turn:
        turn.put(200)
        worker.publish(300)
    assert worker.wait(0) is False
    turn.tell()
    assert worker.wait(0) is True
    assert worker.hints() == ([], True)
    assert worker.hints() == ([], False)


def test_a_worker_that_comes_while_a_put_commits_reads_again(host, other):
    """It may have read its shards before the commit; the putter knew only the owner before it."""
    [first] = hearing(host)
    host.put(1)
    settle(first)
    with host.begun() as turn:
        turn.put(*range(10, SHARDS * SLICE, SLICE))
        late = other.presence.notifier("w")
        late.publish(FAR)
        # The same as its Announce, except the row: the lock is taken.
        turn.execute("INSERT INTO member (worker, topics) VALUES (?, ?)", (late.worker, '["t"]'))
        late.hints()
    late.wait(0)
    other.presence.stir()
    late.wait(0)
    turn.tell()
    assert is_to_read_again(late)


@pytest.mark.parametrize(("transactions", "jobs"), [(1, 300), (30, 100)])
def test_hints_that_are_too_many_cause_a_reload(host, transactions, jobs):
    [worker] = hearing(host)
    for _ in range(transactions):
        calls.put(host.store, *[NewJob("t", b"", 1)] * jobs)
    assert worker.hints().reload
    assert worker.hints() == ([], False)
    host.put(1)
    assert not worker.hints().reload


# ---- who is there ---------------------------------------------------------------------------------------------------


def test_members_and_looks_for_untold_puts_cost_no_query_unless_one_came_or_went(host, other):
    [worker] = hearing(host)
    host.put(10)
    settle(worker)
    worker.members()
    before = host.queries
    for _ in range(10):
        look(worker)
        assert worker.wait(0) is False
        worker.members()
    assert host.queries == before
    other.notifier("t")
    assert len(worker.members()) == 2
    assert host.queries == before + 1


def test_a_silent_worker_owns_nothing_until_it_speaks_again(host, other, clock):
    """SIGSTOP looks like this: the beats end, the bell and the slot stay."""
    a, b = hearing(host, other)
    clock.advance(1.1)
    a.beat(0)
    assert a.hints().reload  # it was silent itself: another might have owned its shards
    assert {*host.put_all_over()} == ids(a.hints())
    b.beat(0)
    assert is_to_read_again(b)
    put = host.put_all_over()
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])


def test_an_owner_that_falls_silent_during_the_commit_is_replaced(host, other, clock):
    a, b = hearing(host, other)
    host.put(1)
    clock.advance(SILENT - 0.1)
    settled(a, b)
    _, [due, *_] = by_owner({due: due for due in range(1, SHARDS * SLICE, SLICE)}, [a, b])
    with host.begun() as turn:
        turn.put(due)  # of b's
        clock.advance(0.05)
        a.beat(0)
        clock.advance(0.1)
    assert a.wait(0) is False
    turn.tell()
    assert is_to_read_again(a)


def test_a_worker_that_others_took_for_silent_while_it_beat_reads_all_again(host, other, clock, monkeypatch):
    """It was held up between its look at the time and its heartbeat: what was put meanwhile was told to others."""
    a, b = hearing(host, other)
    clock.advance(SILENT)
    b.beat(0)
    settled(a, b)
    now, put = host.presence.now, []

    def held_up():
        seen = now()
        if not put:
            clock.advance(0.001)
            put.extend(other.put(1) for _ in range(SHARDS))
        return seen

    monkeypatch.setattr(host.presence, "now", held_up)
    a.beat(0)
    assert is_to_read_again(a)


def test_a_worker_alone_is_the_owner_however_rarely_it_beats(host, clock):
    [worker] = hearing(host)
    host.put(1)
    settle(worker)
    for _ in range(3):
        clock.advance(1.5)
        id = host.put(1)
        assert worker.hints() == ([Due(1, id, "t")], False)
        worker.beat(0)
        assert worker.wait(0) is True  # of the put
        assert worker.wait(0) is False


def test_the_next_announce_forgets_those_that_are_long_gone(host, other, clock):
    gone, here = host.notifier("t"), other.notifier("t")
    clock.advance(61)
    here.beat(0)
    assert gone.worker in host.members()
    other.announce(here.worker, "t", "u")
    assert gone.worker not in host.members()
    assert here.worker in host.members()


def test_a_foreign_worker_does_no_harm(host, clock):
    with host.begun() as turn:
        turn.execute("INSERT INTO member (worker, topics) VALUES (?, ?)", ("somebody", '["t"]'))
    worker = host.notifier("t")
    assert [member.worker for member in worker.members()] == [worker.worker]
    worker.ring("somebody")
    worker.ring("x@y.z")


def test_puts_of_one_program_out_of_turn_alarm_nobody_who_is_not_concerned(host, other):
    mine, theirs = host.notifier("t"), host.notifier("u")
    settled(mine, theirs)
    mine.publish(FAR)
    with other.begun() as first:
        first.put(10)
    with other.begun() as second:
        second.put(11)
    assert theirs.wait(0) is False
    with host.begun() as third:  # another program: the first one may be dead
        third.put(12)
    assert theirs.wait(0) is True
    for turn in (first, second, third):
        turn.tell()


def test_a_transaction_that_was_undone_is_looked_for_ever_more_seldom(host, other):
    worker = host.notifier("t")
    settle(worker)
    with other.begun() as turn:
        turn.put(10)
    reads = 0
    for _ in range(65):
        look(worker)
        reads += worker.hints().reload
    assert reads == 7


# ---- many, and processes --------------------------------------------------------------------------------------------


def test_a_killed_worker_leaves_its_slot_and_its_row_to_the_next(host, other):
    killed = other.notifier("t").worker
    words = host.presence.page.words
    words[page._BORN] -= 60_000  # all have come over to it long since
    words[HEARTBEAT] -= GONE + 1
    worker = host.notifier("t")
    assert worker.worker.startswith("w@0.")
    assert killed not in host.members()
    assert [member.worker for member in worker.members()] == [worker.worker]


def test_more_workers_than_slots_are_told_so(host):
    words = host.presence.page.words
    for slot in range(SLOTS):
        words[page.NONCE + slot] = 1
        words[HEARTBEAT + slot] = host.presence.now()
    words[page.USED] = SLOTS
    with pytest.raises(StoreError, match=f"{SLOTS} workers"):
        host.presence.notifier("w")
    words[page.NONCE + 300] = 0
    assert host.presence.notifier("w").worker.startswith("w@300.")


def start(path, barrier, results):
    host = Host(path)
    barrier.wait(LIMIT)
    workers = [host.notifier("t") for _ in range(10)]
    barrier.wait(LIMIT)
    results.put(([worker.worker for worker in workers], [member.worker for member in workers[0].members()]))
    barrier.wait(LIMIT)
    host.close()


@pytest.mark.stress
def test_processes_that_start_at_once_get_slots_of_their_own(path):
    Host(path).close()
    workers_of(path).unlink()
    spawn = multiprocessing.get_context("spawn")
    barrier, results = spawn.Barrier(4), spawn.Queue()
    children = [spawn.Process(target=start, args=(path, barrier, results)) for _ in range(4)]
    for one in children:
        one.start()
    found = [results.get(timeout=LIMIT) for _ in children]
    for one in children:
        one.join(LIMIT)
        assert one.exitcode == 0
    workers = sorted(name for names, _ in found for name in names)
    assert len({name.partition(".")[0] for name in workers}) == 40
    assert [members for _, members in found] == [workers] * 4


# ---- files ----------------------------------------------------------------------------------------------------------


def soon(host, monkeypatch):
    """Look for the files at every turn, not four times a second."""
    monkeypatch.setattr("pywheel.stores.sqlite.presence._LOOK", 0)
    host.presence._look_at = 0


def test_a_deleted_page_is_made_anew_and_all_come_together_again(path, host, other, monkeypatch):
    a, b = hearing(host, other)
    host.put(1)
    soon(host, monkeypatch)
    workers_of(path).unlink()
    a.beat(0)  # makes it anew, and marks the old one
    assert workers_of(path).exists()
    assert host.presence.page.words[page.LEASE] == page.UNKNOWN
    b.beat(0)  # sees the mark, though it is not yet time to look
    assert host.presence.page._identity == other.presence.page._identity
    for worker in (a, b):
        assert is_to_read_again(worker)
        assert {member.worker for member in worker.members()} == {a.worker, b.worker}
    settled(a, b)
    put = other.put_all_over()
    assert [ids(worker.hints()) for worker in (a, b)] == by_owner(put, [a, b])


def test_a_putter_that_still_has_the_deleted_page_tells_who_has_left_it(path, host, other, monkeypatch):
    [worker] = hearing(host, horizon=100)
    other.put(1)
    settle(worker)
    with other.begun() as turn:
        turn.put(200)
        soon(host, monkeypatch)
        workers_of(path).unlink()
        worker.beat(0)
        settle(worker)
        worker.publish(300)
    turn.tell()
    assert is_to_read_again(worker)


def test_a_worker_that_began_with_a_new_page_learns_what_was_told_to_the_old_one(path, host, other, clock, monkeypatch):
    """Whoever leaves the old page says so: until then its putters knew of nobody else."""
    [old] = hearing(host)
    other.put(1)
    other.presence._look_at = math.inf  # as if all that follows took less than a quarter of a second
    workers_of(path).unlink()
    with closing(Host(path, clock)) as third:
        [new] = hearing(third)  # it has read all that there is
        other.put(1)
        assert new.wait(0) is False
        soon(host, monkeypatch)
        old.beat(0)
        assert is_to_read_again(new)


def test_without_futexes_a_worker_looks_from_time_to_time(host, monkeypatch):
    monkeypatch.setattr(page, "_SYSCALL", None)
    [worker] = hearing(host)
    thread = threading.Timer(0.05, host.put, (1,))
    thread.start()
    until(lambda: worker.wait(LIMIT))
    thread.join()
    assert len(worker.hints().due) == 1


def test_a_page_of_another_version_is_refused(path, host):
    host.presence.page.words[page._FORMAT] = 7
    with pytest.raises(StoreError, match="another version"):
        Host(path)
    host.presence.page.words[page._FORMAT] = page._THIS_FORMAT


# ---- leases ---------------------------------------------------------------------------------------------------------


def reserve(host, ttr):
    [[job]] = host.store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(ttr, 3), "w")])
    return job


def test_the_next_lease_is_read_once_for_a_new_page(host, other):
    for _ in range(2):
        host.put(1)
    lease = reserve(host, 500).lease_until
    host.presence.page.words[page.LEASE] = page.UNKNOWN
    assert host.presence.next_lease() == lease
    reserve(host, 700)
    before = host.queries + other.queries
    assert host.presence.next_lease() == other.presence.next_lease() == lease
    assert host.queries + other.queries == before


def test_an_expiry_that_was_rolled_back_raises_nothing(host, clock):
    host.put(1)
    lease = reserve(host, 700).lease_until
    clock.advance(1)
    with interrupted(ops.Expire):
        host.store.apply([ops.Expire(9)])
    assert host.presence.next_lease() == lease


class Stopped(BaseException):
    """A process was stopped, and then killed."""


class Stopping:
    """The words of a page, at whose so many-th look at LEASE something happens, and the process ends after it."""

    def __init__(self, words, at, meanwhile):
        self.words, self.left, self.meanwhile = words, at, meanwhile

    def __getitem__(self, place):
        return self.pass_by(place, lambda: self.words[place])

    def __setitem__(self, place, value):
        self.pass_by(place, lambda: self.words.__setitem__(place, value))

    def pass_by(self, place, look):
        self.left -= place == page.LEASE
        if place != page.LEASE or self.left:
            return look()
        self.meanwhile()
        look()
        raise Stopped


@pytest.mark.parametrize("at", range(1, 4))
def test_no_lease_is_forgotten_where_a_process_is_stopped_and_then_killed(path, pool, at):
    """While it stands, another one gives a lease, if it is not kept from committing."""
    with open(f"sqlite:///{path}") as store, open(f"sqlite:///{path}") as other:
        put(store)
        [[job]] = store.apply([ops.Reserve("t", 1, ops.ClaimPolicy(1, 3), "w")])
        put(other)
        until(lambda: time.time() * 1_000 > job.lease_until)
        given = []

        def give():
            given.append(pool.submit(other.apply, [ops.Reserve("t", 1, ops.ClaimPolicy(60_000, 3), "w")]))
            wait(given, 0.2)

        words = store._presence.page.words
        store._presence.page.words = Stopping(words, at, give)
        with suppress(Stopped):
            store.apply([ops.Expire(9)])
        store._presence.page.words = words
        if not given:
            give()
        given[0].result(60)
        assert other.ask(GetNextLease()) is not None


# ---- pauses ---------------------------------------------------------------------------------------------------------


def test_quiet_does_not_wait_for_who_came_after_the_pause_nor_for_who_is_gone(host, other, clock):
    gone = host.notifier("t")
    host.store.apply([ops.Pause("t", True)])
    clock.advance(4)
    late = other.notifier("t")
    late.beat(0)
    assert gone.worker in host.members()
    assert host.presence.quiet("t", 0) is True


def test_quiet_is_false_for_a_topic_that_is_not_paused(host):
    host.put(1)
    assert host.presence.quiet("t", 0) is False
    assert host.presence.quiet("unheard of", 0) is False
